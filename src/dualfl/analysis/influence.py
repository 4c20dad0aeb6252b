"""How much each silo moved the answer: the fit without it, started from the fit with it.

The penalty and the scaling stay what they are; only the rows of the silo are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dualfl.analysis.inference import check_determined, gram
from dualfl.analysis.models import Fitted
from dualfl.engines.progress import Bar
from dualfl.errors import DualflError, InputError
from dualfl.estimators.base import coefficients
from dualfl.silos.chamber import SiloRows
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Without:
    """The coefficients without one silo, features and the intercept by outputs, for scaled columns; or why there are
    none."""

    silo: str
    theta: Array | None = None
    exchanges: int = 0
    numbers: int = 0  # sent in them
    reason: str = ""


def drop_each(
    make: Callable[[], Fitted], fitted: Fitted, silos: Sequence[SiloRows], names: Sequence[str], progress: bool = False
) -> list[Without]:
    """One fit without each silo; nothing for a single one."""
    if len(silos) < 2:
        return []
    found = []
    with Bar("without each silo", len(silos), progress) as bar:
        for j, silo in enumerate(silos):
            others = [*silos[:j], *silos[j + 1 :]]
            try:
                found.append(Without(silo.name, *_refit(make(), fitted, others, names)))
            except DualflError as error:
                found.append(Without(silo.name, reason=str(error)))
            bar.step()
    return found


def _refit(model: Fitted, fitted: Fitted, silos: list[SiloRows], names: Sequence[str]) -> tuple[Array, int, int]:
    _check_enough(model, silos)
    if model.ridge == model.l1 == 0:
        check_determined(np.sum([gram(silo) for silo in silos], axis=0), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = model._solve(silos, [result.theta for result in fitted.results_])
    W, b = coefficients([result.theta for result in results], results[0].shape, True)
    model._keep(W, b)  # as the fit keeps them: those of classes around their mean
    return stacked(model), max(result.history[-1].exchanges for result in results), model.numbers_


def _check_enough(model: Fitted, silos: list[SiloRows]) -> None:
    if hasattr(model, "classes_"):
        left = set().union(*(set(np.unique(silo.y)) for silo in silos))
        if len(left) < len(model.classes_):
            raise InputError("no other silo has one of the classes")
    elif all((silo.y == silo.y[0]).all() for silo in silos) and len({float(silo.y[0]) for silo in silos}) == 1:
        raise InputError("the others have one value of the target only")


def stacked(model: Fitted) -> Array:
    """Coefficients and, last, intercepts; one column an output."""
    return np.vstack([np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)[None]])
