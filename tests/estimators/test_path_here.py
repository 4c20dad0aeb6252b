"""The penalty of a softmax in one process: the same losses and models as fits by hand, whichever way they go."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression as Pooled
from sklearn.metrics import log_loss

from dualfl.engines.progress import Bar
from dualfl.estimators import LogisticRegressionCV, all_rows, path_here
from dualfl.estimators.all_rows_softmax import ManyOutputs
from dualfl.estimators.solving import FitLimits
from dualfl.objectives import LinearModel, Softmax
from dualfl.silos.chamber import Dealing, SiloRows, dealt

Z, LABELS = load_digits(n_class=4, return_X_y=True)
Z, LABELS, SILO = Z[:240, 18:24], LABELS[:240], np.arange(240) % 3
CS = [0.001, 0.1]


def fitted(**options):
    return LogisticRegressionCV(Cs=CS, cv=2, **{"tol": 1e-10} | options).fit(Z, LABELS, groups=SILO)


def rows_of_folds():
    number = np.empty(len(Z), dtype=int)
    for j in range(3):
        rows = np.flatnonzero(SILO == j)
        number[rows] = dealt(SiloRows(str(j), Z[rows], LABELS[rows]), Dealing(0, j, True), 2)
    return [(number != i, number == i) for i in range(2)]


@pytest.mark.parametrize("small", [True, False])
def test_losses_and_model_are_those_of_pooled_fits(small, monkeypatch):
    """By Newton's method where Hessians are small, else by L-BFGS, there with columns in units of their own."""
    if not small:
        monkeypatch.setattr(all_rows, "is_small_softmax", lambda f: False)
    model = fitted()
    for (train, test), line in zip(rows_of_folds(), model.path_.losses, strict=True):
        for C, loss in zip(CS, line, strict=True):
            by_hand = Pooled(C=C, tol=1e-10, max_iter=10_000).fit(Z[train], LABELS[train])
            np.testing.assert_allclose(loss, log_loss(LABELS[test], by_hand.predict_proba(Z[test])), rtol=1e-4)
    whole = Pooled(C=model.C_, tol=1e-10, max_iter=10_000).fit(Z, LABELS)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-3 * np.abs(whole.coef_).max())
    assert model.certificate_ <= 1e-10 * model.objective_ and "in this process" in model.algorithm_


def test_a_fit_begins_where_the_one_before_it_ended(monkeypatch):
    begun, minimised = [], all_rows.minimised

    def watched(f, l1, limits, silos, begin=None):
        found = minimised(f, l1, limits, silos, begin)
        begun.append((begin, found.theta))
        return found

    monkeypatch.setattr(all_rows, "minimised", watched)
    monkeypatch.setattr(all_rows, "is_small_softmax", lambda f: False)
    fitted()
    assert [begin is None for begin, _ in begun] == [True, False] * 2 + [True]  # two folds, and the fit that follows
    assert begun[1][0] is begun[0][1] and begun[3][0] is begun[2][1]


@pytest.mark.parametrize("unit", [1e-3, 0.1, 1e3])
def test_a_start_is_taken_in_the_units_of_the_fit(unit):
    """Whoever begins at the end has nothing to do, in whatever units features are."""
    f = LinearModel(unit * Z, LABELS, Softmax(4), unit**2 * 0.01, intercept="free")
    result = all_rows.minimised(f, 0.0, FitLimits(1e-9, 200, 0, False), 3)
    fit = ManyOutputs(f, 0.0, FitLimits(1e-7, 200, 0, False), 3, Bar("", 200, False))
    fit.begin = result.theta
    found = fit.search()
    assert (fit.unit == 1.0) == (unit == 0.1) and fit.account.exchanges <= 1
    np.testing.assert_allclose(found.x, result.theta, rtol=1e-5, atol=1e-9 / unit)


def test_silos_are_asked_where_this_is_not_the_way(monkeypatch):
    by_passes = fitted(tol=1e-8)
    monkeypatch.setattr(all_rows, "minimised", lambda *given: None)
    asked = fitted(tol=1e-8)
    assert "in this process" not in asked.algorithm_
    np.testing.assert_allclose(asked.path_.losses, by_passes.path_.losses, rtol=1e-3)
    parts = [(Z[SILO == j], LABELS[SILO == j]) for j in range(3)]
    monkeypatch.setattr(path_here, "followed", None)  # nobody calls it for silos that are apart
    apart = LogisticRegressionCV(Cs=CS, cv=2, tol=1e-8).fit_silos(parts)
    np.testing.assert_allclose(apart.path_.losses, by_passes.path_.losses, rtol=1e-3)
