"""Parameters are declared and described once, in the class that they belong to, and every estimator takes its own."""

import inspect
import re
from dataclasses import field

import pytest
from sklearn.base import clone

from dualfl import estimators as est
from dualfl.estimators.parameters import descriptions, estimator
from dualfl.estimators.regressors import FederatedRegressor


@estimator
class Own(FederatedRegressor):
    """Of its own.

    Parameters
    ----------
    strength : float, default 2.0
        How strong.
    tol : float, default 0.5
        How exactly.

    Examples
    --------
    >>> 1
    1
    """

    strength: float = field(default=2.0, kw_only=False)
    tol: float = 0.5

    def _cost(self, mass):
        raise NotImplementedError


@estimator
class Less(Own):
    """Without a strength."""

    strength: float = field(init=False)


def test_arguments_of_its_own_come_first():
    names = list(inspect.signature(Own).parameters)
    assert names[:4] == ["strength", "tol", "fit_intercept", "penalize_intercept"]
    assert sorted(names) == sorted(Own().get_params()) and Own(3.0).strength == 3.0
    assert list(inspect.signature(est.HuberRegressorCV).parameters)[:5] == ["alphas", "cv", "rule", "epsilon", "scale"]
    with pytest.raises(TypeError, match=r"Own\.__init__\(\) got an unexpected keyword argument 'alpha'"):
        Own(alpha=1)


def test_a_default_is_of_the_constructor_and_not_of_the_class():
    assert not hasattr(Own, "strength") and Own().tol == 0.5 and clone(Own(tol=0.1)).tol == 0.1


def test_a_parameter_can_be_taken_away():
    assert "strength" not in Less().get_params() and not hasattr(Less(), "strength") and Less().tol == 0.5
    assert not hasattr(est.RidgeCV(), "alpha") and "class_weight" not in est.LinearSVCCV().get_params()
    with pytest.raises(TypeError, match="strength"):
        Less(strength=1.0)


def test_inherited_parameters_are_described_before_the_next_section():
    doc = Own.__doc__
    order = [
        doc.index(one) for one in ("strength : ", "tol : ", "fit_intercept : ", "verbose : ", "Examples\n---", ">>> 1")
    ]
    assert order == sorted(order) and doc.count("tol : ") == 1 and doc.count("Parameters\n---") == 1


def test_a_class_that_describes_nothing_itself_gets_the_section():
    assert Less.__doc__.startswith("Without a strength.\n\nParameters\n----------\n") and "tol : " in Less.__doc__
    assert "strength : " not in Less.__doc__


@pytest.mark.parametrize("name", [name for name in est.__all__ if hasattr(getattr(est, name), "fit_silos")])
def test_a_description_has_the_default_that_the_constructor_has(name):
    """One that is inherited could have another."""
    made = getattr(est, name)
    given = inspect.signature(made).parameters
    for parameter, text in descriptions(made).items():
        told = re.search(r"default (.+)", text.splitlines()[0])
        assert (told[1] if told else "None") == repr(given[parameter].default), text
    assert descriptions(made).keys() == given.keys()
