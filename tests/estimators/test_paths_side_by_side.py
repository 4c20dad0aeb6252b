"""Cross-validation by few exchanges: the moments of folds, and Newton's method for all penalties at once."""

import numpy as np
import pytest
import sklearn.linear_model as pooled
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import log_loss
from sklearn.preprocessing import scale

from dualfl.estimators import (
    ElasticNetCV,
    LassoCV,
    LinearSVCCV,
    LogisticRegressionCV,
    PoissonRegressorCV,
    RidgeCV,
    base,
    newton_path,
    squares,
)
from dualfl.objectives import LinearModel, Logistic, Softmax
from dualfl.silos.chamber import Dealing, SiloRows, dealt
from dualfl.silos.verbs import half, looked_at
from dualfl.solvers.coordinate_descent import quick_face_step
from oracles import l1_logistic

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some ask for all digits
X, Y = load_diabetes(return_X_y=True)
X = scale(X)
SILO = np.arange(len(Y)) % 3
A, B = load_breast_cancer(return_X_y=True)
A = scale(A)
HOME = np.arange(len(B)) % 3


@pytest.fixture
def spent(monkeypatch):
    """The exchanges of the last fit by purpose, once there was one."""
    made = []

    class Watched(base.SilosHere):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(base, "SilosHere", Watched)
    return lambda: {entry.what: entry.exchanges for entry in made[-1].ledger.entries}


def folds(y, silo, k, by_class):
    """The folds that silos deal, as (train, test)."""
    number = np.empty(len(y), dtype=int)
    for j in np.unique(silo):
        rows = np.flatnonzero(silo == j)
        number[rows] = dealt(SiloRows(str(j), np.zeros((len(rows), 1)), y[rows]), Dealing(0, int(j), by_class), k)
    return [(np.flatnonzero(number != i), np.flatnonzero(number == i)) for i in range(k)]


# -- least squares ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("options", [{}, {"penalize_intercept": True}, {"fit_intercept": False}])
@pytest.mark.parametrize("kind", [RidgeCV, LassoCV, ElasticNetCV])
def test_held_out_losses_are_those_of_pooled_fits(kind, options, offset, spent):
    """Each fit and each loss against an independent one; a mean of 1e4 costs a free intercept no digits."""
    if offset and options:
        pytest.skip("only a free intercept takes a large mean away")
    Z, y = X + offset, Y + offset
    alphas = [10.0, 1.0, 0.1]
    model = kind(alphas=alphas, cv=3, tol=1e-9, **options).fit(Z, y, groups=SILO)
    assert spent()["cross-validation"] <= (3 if offset else 2)
    for i, (train, test) in enumerate(folds(y, SILO, 3, False)):
        for j, alpha in enumerate(model.path_.values):
            single = (
                model._plain(float(alpha)).set_params(tol=1e-10, max_iter=3).fit(Z[train] - offset, y[train] - offset)
            )
            expected = ((y[test] - offset - single.predict(Z[test] - offset)) ** 2).mean() / 2
            np.testing.assert_allclose(model.path_.losses[i, j], expected, rtol=1e-5)


def test_ridge_chooses_what_scikit_learn_chooses():
    alphas = np.logspace(-3, 3, 13)
    model = RidgeCV(alphas=alphas, cv=3).fit(X, Y, groups=SILO)
    rival = pooled.RidgeCV(alphas=alphas, cv=folds(Y, SILO, 3, False), scoring="neg_mean_squared_error").fit(X, Y)
    assert model.alpha_ == rival.alpha_


def quadratic(rng, d=6, n=40):
    Z = np.column_stack([rng.standard_normal((n, d)), rng.standard_normal(n), np.ones(n)])
    return squares.Quadratic.of(squares.Moments(Z.T @ Z), "free"), Z


@pytest.mark.parametrize(("ridge", "l1"), [(0.3, 0.0), (0.0, 0.05), (0.2, 0.05)])
def test_the_gap_is_a_bound_and_is_small_at_the_minimiser(ridge, l1):
    rng = np.random.default_rng(1)
    found, _ = quadratic(rng)
    (best,) = found.ridges([ridge]) if l1 == 0 else found.sparse([(ridge, l1)], 1e-12)
    gap, least = found.gap(best, ridge, l1)
    assert gap <= 1e-10 * least
    for _ in range(20):
        w = best + rng.standard_normal(len(best)) * 10.0 ** rng.uniform(-6, 0)
        gap, E = found.gap(w, ridge, l1)
        assert E - least <= gap * (1 + 1e-9)


def test_a_newton_step_on_the_face_ends_the_sweeps():
    """Of columns that are nearly alike, where sweeps alone crawl; and it stops where a coefficient becomes zero."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((200, 1)) + 0.03 * rng.standard_normal((200, 12))
    Z = np.column_stack([Z, Z[:, :4] @ rng.standard_normal(4) + 0.1 * rng.standard_normal(200), np.ones(200)])
    found = squares.Quadratic.of(squares.Moments(Z.T @ Z), "free")
    path = [(0.0, float(l1)) for l1 in np.abs(found.r).max() * np.geomspace(1, 1e-3, 30)]
    for (ridge, l1), w in zip(path, found.sparse(path, 1e-6)):
        gap, least = found.gap(w, ridge, l1)
        assert gap <= 1e-9 * least  # sweeps would have stopped at 1e-6
        before = w + 0.3 * (w != 0) * rng.standard_normal(len(w))
        after = before.copy()
        quick_face_step(found.G, l1, after, found.G @ before - found.r)
        assert found.gap(after, ridge, l1)[1] <= found.gap(before, ridge, l1)[1] * (1 + 1e-12)


def test_dependent_columns_without_a_ridge_are_no_obstacle_for_the_lasso(spent):
    Z = np.column_stack([X, X[:, 0], np.zeros(len(X))])
    twice = LassoCV(alphas=[1.0, 0.1], cv=3).fit(Z, Y, groups=SILO)
    once = LassoCV(alphas=[1.0, 0.1], cv=3).fit(X, Y, groups=SILO)
    np.testing.assert_allclose(twice.path_.losses, once.path_.losses, rtol=1e-4)


def test_a_perfect_fit_is_judged_by_the_rows(spent):
    """Moments lose the digits of residuals that are nearly zero; silos are asked for these."""
    y = X @ np.arange(1.0, 11.0)
    model = RidgeCV(alphas=[1e-9, 1e-7], cv=3, tol=1e-6).fit(X, y, groups=SILO)
    assert spent()["cross-validation"] > 2
    for i, (train, test) in enumerate(folds(y, SILO, 3, False)):
        for j, alpha in enumerate(model.path_.values):
            single = pooled.Ridge(alpha * (len(train) if False else 1)).fit(X[train], y[train])
            assert model.path_.losses[i, j] >= 0
            assert np.isclose(
                model.path_.losses[i, j], ((y[test] - single.predict(X[test])) ** 2).mean() / 2, atol=1e-12
            )


# -- Newton's method for all penalties --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (LogisticRegressionCV(Cs=9, cv=3), 25),
        (LogisticRegressionCV(Cs=9, cv=3, l1_ratio=1.0), 14),
        (LogisticRegressionCV(Cs=9, cv=3, l1_ratio=0.5, penalize_intercept=True), 14),
        (LinearSVCCV(Cs=[1e-3, 0.1, 1.0, 30.0], cv=3), 25),
        (LinearSVCCV(Cs=[1e-2, 1.0], cv=3, penalty="l1"), 15),
    ],
)
def test_every_fit_of_the_path_is_that_of_the_estimator_alone(model, most, spent):
    model.fit(A, B, groups=HOME)
    assert spent()["cross-validation"] <= most
    train, test = folds(B, HOME, 3, True)[0]
    s = np.where(B[test] == 1, 1, -1)
    for j in (0, len(model.path_.values) // 2):
        z = model._plain(float(model.path_.values[j])).fit(A[train], B[train]).decision_function(A[test])
        loss = np.maximum(1 - s * z, 0) ** 2 if isinstance(model, LinearSVCCV) else np.logaddexp(0, -s * z)
        np.testing.assert_allclose(model.path_.losses[0, j], loss.mean(), rtol=2e-3)


def test_counts():
    y = np.random.default_rng(0).poisson(np.exp(scale(Y) / 2))
    model = PoissonRegressorCV(alphas=[1.0, 0.1], cv=3, tol=1e-7).fit(X, y, groups=SILO)
    for i, (train, test) in enumerate(folds(y.astype(float), SILO, 3, False)):
        for j, alpha in enumerate(model.path_.values):
            z = np.log(
                pooled.PoissonRegressor(alpha=alpha, tol=1e-10, max_iter=1000).fit(X[train], y[train]).predict(X[test])
            )
            np.testing.assert_allclose(model.path_.losses[i, j], (np.exp(z) - y[test] * z).mean(), rtol=1e-4)


@pytest.mark.parametrize("intercept", [{}, {"penalize_intercept": True}, {"fit_intercept": False}])
def test_means_of_hundreds_are_as_few_exchanges_away_as_small_ones(intercept, spent):
    """One long step would try means of e^70. How far a step goes is no matter of the units of the last column."""
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(600, 3)) * [1.0, 1.0, 1e-6]
    y = rng.poisson(np.exp(4.5 * bool(intercept.get("fit_intercept", True)) + Z @ [0.5, -0.3, 2e5]))
    PoissonRegressorCV(alphas=6, cv=2, **intercept).fit(Z, y, groups=np.arange(600) % 3)
    assert spent()["cross-validation"] <= 10


WINE, VINE = load_wine(return_X_y=True)
WINE = scale(WINE)


def test_what_is_sent_of_several_classes_is_all_that_there_is_to_know():
    """The blocks of the last class follow from the others; the model itself says what all of it is."""
    f = LinearModel(WINE, VINE, Softmax(3), intercept="free")
    points, mass = np.random.default_rng(0).standard_normal((3, f.d)) / 3, 7.0
    sums = looked_at(f, mass, points, np.array([0, 2]))
    blind = np.kron(np.eye(f.design.D)[-1], np.ones(3))  # all intercepts larger by one number
    for i, x in enumerate(points):
        np.testing.assert_allclose(sums["losses"][i], mass * f.value(x), rtol=1e-13)
        np.testing.assert_allclose(sums["gradients"][i], mass * f.gradient(x), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(looked_at(f, mass, points, False)["losses"], sums["losses"], rtol=1e-14)
    for sent, x in zip(sums["hessians"], points[[0, 2]]):
        H, G = newton_path.unfolded(sent / mass, f.d, 3), f.hessian(x)
        np.testing.assert_allclose(H, G, atol=1e-13)
        assert np.abs(H @ blind).max() < 1e-13


def test_a_penalty_on_the_intercept_or_none_at_all_costs_no_exchanges(spent):
    """What classes have in common is without curvature, and l1 alone says where it ends: on a kink, by one step."""
    rows = [(WINE[j::3], VINE[j::3]) for j in range(3)]
    for options in ({}, {"fit_intercept": False}, {"penalize_intercept": True}):
        LogisticRegressionCV(Cs=10, cv=3, l1_ratio=1.0, **options).fit_silos(rows)
        assert spent()["cross-validation"] <= 15, options


@pytest.mark.parametrize("size", [1.0, 1e8, 1e-8])
def test_several_classes_beside_columns_of_any_size(size):
    """Rounding of a large column must not make it wander where F is blind; the gap by a Newton decrement."""
    Z = np.column_stack([WINE[:, :4], size * np.random.default_rng(0).standard_normal(len(VINE))])
    f, tol = LinearModel(Z, VINE, Softmax(3), intercept="free"), 1e-8

    def look(x):
        blocks = f.hessian(x).reshape(f.design.D, 3, f.design.D, 3)
        halves = [half(blocks[:, a, :, b]) for a, b in zip(*np.triu_indices(2))]
        return newton_path.Point(x, f.value(x), np.array(f.gradient(x)), np.concatenate(halves), 3)

    costs, rounds = [newton_path.Cost(Softmax(3), ridge) for ridge in np.geomspace(10, 1e-5, 12)], 0
    fits = newton_path.Fits(costs, 1.0, look(np.zeros(f.d)), tol)
    while fits.live.any() and rounds < 30:
        fits.take([look(x) for x in fits.asked])
        rounds += 1
    assert rounds < 30
    for x, ridge in zip(fits.thetas, fits.ridge):
        H, g = f.hessian(x) + np.diag(ridge), np.array(f.gradient(x)) + ridge * x
        units = 1 / np.sqrt(np.diag(H))
        values, vectors = np.linalg.eigh(H * units * units[:, None])
        along = (vectors.T @ (g * units))[values > 1e-13]
        assert (along**2 / values[values > 1e-13]).sum() / 2 < 2 * tol * f.value(np.zeros(f.d))
        levels = x.reshape(-1, 3)
        assert np.abs(levels.sum(axis=1)).max() <= 1e-6 * np.abs(levels).max()
        assert np.abs(levels[-2].sum()) <= 1e-6 * np.abs(levels[-2]).max()


@pytest.mark.parametrize("blocks", [newton_path.BLOCKS, 3 * 2 * 315])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_several_classes(share, blocks, spent, monkeypatch):
    """With all Hessians, and with two of them in each fold, from which the other fits borrow."""
    monkeypatch.setattr(newton_path, "BLOCKS", blocks)
    rows = [(WINE[j::3], VINE[j::3]) for j in range(3)]
    model = LogisticRegressionCV(Cs=12, cv=3, l1_ratio=share, tol=1e-10).fit_silos(rows)
    assert spent()["cross-validation"] <= 25
    homes = np.concatenate([np.full(len(y), j) for j, (_, y) in enumerate(rows)])
    Z, y = np.vstack([Z for Z, _ in rows]), np.concatenate([y for _, y in rows])
    for i, (train, test) in enumerate(folds(y, homes, 3, True)):
        for j in (0, 5, 9):
            C = float(model.path_.values[j])
            options = {"C": C, "tol": 1e-8, "max_iter": 20_000, "random_state": 0}
            alone = l1_logistic(solver="saga", **options) if share else pooled.LogisticRegression(**options)
            p = alone.fit(Z[train], y[train]).predict_proba(Z[test])
            np.testing.assert_allclose(model.path_.losses[i, j], log_loss(y[test], p), rtol=2e-3)


def test_another_algorithm_takes_the_common_way(spent):
    slow = LogisticRegressionCV(Cs=[1e-3, 1e-2], cv=3, algorithm="lbfgs").fit(A, B, groups=HOME)
    quick = LogisticRegressionCV(Cs=[1e-3, 1e-2], cv=3).fit(A, B, groups=HOME)
    np.testing.assert_allclose(slow.path_.losses, quick.path_.losses, rtol=1e-3)


def test_fits_share_points():
    """A weak penalty begins where a stronger one has arrived; alone it takes more exchanges."""

    def taken(strengths):
        f = LinearModel(A, np.where(B == 1, 1.0, -1.0), Logistic(), intercept="free")

        def look(x):
            return newton_path.Point(x, f.value(x), np.array(f.gradient(x)), half(f.hessian(x)))

        costs = [newton_path.Cost(Logistic(), ridge) for ridge in strengths]
        fits, rounds = newton_path.Fits(costs, 1.0, look(np.zeros(f.d)), 1e-9), 0
        while fits.live.any():
            fits.take([look(x) for x in fits.asked])
            rounds += 1
        return rounds, fits

    alone, one = taken([1e-7])
    shared, many = taken([1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
    assert shared <= alone
    np.testing.assert_allclose(many.energies(many.at)[-1, -1], one.energies(one.at)[0, 0], rtol=1e-6)


def test_a_loss_that_is_not_finite_stalls():
    cost = newton_path.Cost(Logistic(), 0.1)
    with pytest.raises(newton_path.Stalled):
        newton_path.Fits([cost], 1.0, newton_path.Point(np.zeros(2), np.inf, np.zeros(2), np.eye(2)), 1e-6)
