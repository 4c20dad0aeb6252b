"""Cross-validation of survival, ordered levels, offsets: the same losses as fits by hand."""

import numpy as np
import pytest

from dualfl.analysis.fitted import Counts
from dualfl.errors import InputError
from dualfl.estimators import CoxPH, CoxPHCV, OrdinalRegression, OrdinalRegressionCV, RidgeCV, survival_target
from dualfl.estimators.strongest_penalty import strongest_l1
from dualfl.objectives import CoxPartialLikelihood, Poisson
from dualfl.silos import ALL, Chamber, Sample, SilosHere, drive
from dualfl.silos.chamber import Dealing, SiloRows, dealt


def survival_rows():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(120, 3))
    time, left = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, 120)
    return X, survival_target(time <= left, np.minimum(time, left)), np.arange(120) % 2


def test_cox_is_judged_by_the_likelihood_of_all_less_that_of_those_fitted():
    """Verweij and van Houwelingen's: by brute force with one silo left out, and by fits of one's own for folds."""
    X, y, silo = survival_rows()
    chosen = CoxPHCV(alphas=[0.5, 5.0], cv="silo", tol=1e-10).fit(X, y, groups=silo)
    for j, left_out in enumerate((silo == 0, silo == 1)):
        for k, alpha in enumerate(chosen.path_.values):
            w = CoxPH(alpha=alpha, tol=1e-10).fit(X[~left_out], y[~left_out]).coef_
            own = CoxPartialLikelihood(X[left_out], y["time"][left_out], y["event"][left_out])
            held = own.mass * own.data_value(w) / y["event"][left_out].sum()
            assert chosen.path_.losses[j, k] == pytest.approx(held, rel=1e-6)
    folds = CoxPHCV(alphas=[0.5], cv=3, tol=1e-10).fit(X, y)
    inside = dealt(folds._rows[0], Dealing(0, 0, True), 3)
    whole = CoxPartialLikelihood(X, y["time"], y["event"])
    for i in range(3):
        rows = inside != i
        w = CoxPH(alpha=0.5, tol=1e-10).fit(X[rows], y[rows]).coef_
        part = CoxPartialLikelihood(X[rows], y["time"][rows], y["event"][rows])
        held = (whole.mass * whole.data_value(w) - part.mass * part.data_value(w)) / y["event"][~rows].sum()
        assert folds.path_.losses[i, 0] == pytest.approx(held, rel=1e-6)


def test_levels_are_judged_by_their_likelihood():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 3))
    y, silo = np.digitize(X[:, 0] + rng.logistic(size=150), [-1, 1]), np.arange(150) % 2
    chosen = OrdinalRegressionCV(alphas=[0.5, 5.0], cv="silo", tol=1e-10).fit(X, y, groups=silo)
    for j, left_out in enumerate((silo == 0, silo == 1)):
        for k, alpha in enumerate(chosen.path_.values):
            model = OrdinalRegression(alpha=alpha, tol=1e-10).fit(X[~left_out], y[~left_out])
            P = model.predict_proba(X[left_out])[np.arange(left_out.sum()), y[left_out]]
            assert chosen.path_.losses[j, k] == pytest.approx(-np.log(P).mean(), rel=1e-6)


@pytest.mark.parametrize("model", [CoxPHCV(alphas=4, l1_ratio=1.0), OrdinalRegressionCV(alphas=4, l1_ratio=1.0)])
def test_their_paths_begin_where_nothing_is_left(model):
    X, y, silo = survival_rows()
    target = y if isinstance(model, CoxPHCV) else np.digitize(X[:, 1], [-0.5, 0.5])
    values = model.fit(X, target, groups=silo).path_.values
    plain = CoxPH if isinstance(model, CoxPHCV) else OrdinalRegression
    for factor, left in ((1.001, 0), (0.99, 1)):
        found = plain(alpha=factor * values[0], l1_ratio=1.0).fit(X, target, groups=silo)
        assert np.count_nonzero(found.coef_) == left


def test_folds_without_events_are_told():
    X, y, silo = survival_rows()
    y["event"] = np.arange(120) < 3
    with pytest.raises(InputError, match="no event to test on; take fewer folds"):
        CoxPHCV(cv=10).fit(X, y, groups=silo)


def test_an_offset_moves_the_start_of_an_l1_path_of_counts():
    """The intercept of no columns has no formula then, and is searched."""
    rng = np.random.default_rng(10)
    X, silo = rng.normal(size=(150, 3)), np.arange(150) % 2
    time = rng.exponential(20.0, 150)
    y = rng.poisson(time * np.exp(0.3 * X[:, 0] - 1))
    rows = [SiloRows(str(j), X[silo == j], y[silo == j] * 1.0, None, np.log(time[silo == j])) for j in (0, 1)]
    here = SilosHere([Chamber(one) for one in rows])
    model = Counts(Poisson(), 0.0, 1.0)
    sample = Sample(ALL, 150.0, 150, float(y.sum()), 0.0)
    found = drive(strongest_l1(here, model, sample), here)
    b = np.log(y.sum() / time.sum())
    assert found == pytest.approx(np.abs(X.T @ (time * np.exp(b) - y)).max() / 150, rel=1e-6)


def test_squares_know_an_offset():
    rng = np.random.default_rng(11)
    X, silo, o = rng.normal(size=(90, 3)), np.arange(90) % 2, rng.normal(size=90) * 5
    y = X @ [1.0, 2.0, 0.0] + o + rng.normal(size=90)
    one = RidgeCV(alphas=[0.1, 1.0]).fit(X, y, groups=silo, offset=o)
    other = RidgeCV(alphas=[0.1, 1.0]).fit(X, y - o, groups=silo)
    np.testing.assert_allclose(one.path_.losses, other.path_.losses, rtol=1e-9)
