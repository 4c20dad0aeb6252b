"""Units and zeros of columns do not matter: on (X T, T'MT) `auto` takes as many exchanges as on (X, M), within one.

T is diagonal, from 1e-6 to 1e6, or shifts columns beside a free intercept; M is the ridge.
"""

import numpy as np
import pytest

from dualfl.algorithms.coordinates import Coordinates, chosen
from dualfl.algorithms.dual.bundle_units import Units, columns
from dualfl.algorithms.few_exchanges import SketchedNewton, fedipm, sketch_size, sketched_metric
from dualfl.algorithms.registry import make
from dualfl.engines import Problem, run
from dualfl.objectives import (
    Absolute,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)

pytestmark = pytest.mark.long

N, D, CLIENTS = 300, 8, 4
LOSSES = {
    "logistic": Logistic(),
    "softmax": Softmax(3),
    "squared hinge": SquaredHinge(),
    "huber": Huber(0.5),
    "poisson": Poisson(),
    "hinge": Hinge(),
    "absolute": Absolute(),
    "quantile": Quantile(0.7),
    "squared": Squared(),
}


def data(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) @ (np.eye(D) + 0.3 * rng.standard_normal((D, D)))
    z = X @ rng.standard_normal(D) / np.sqrt(D)
    if name in ("logistic", "squared hinge", "hinge"):
        return X, np.where(z + 0.5 * rng.logistic(size=N) > 0, 1.0, -1.0)
    if name == "softmax":
        return X, np.digitize(z + 0.3 * rng.standard_normal(N), [-0.5, 0.5]).astype(float)
    if name == "poisson":
        return X, rng.poisson(np.exp(np.clip(z, -4, 4))).astype(float)
    return X, z + 0.5 * rng.standard_normal(N) + 5 * (rng.random(N) < 0.05)


def problem(X, y, loss, ridge, intercept, order):
    """Every coefficient with a ridge of its own, and an intercept, if there is one, with none."""
    M = np.repeat(ridge, loss.outputs)
    M = np.append(M, np.zeros(loss.outputs)) if intercept else M
    parts = np.array_split(order, CLIENTS)
    return Problem([LinearModel(X[p], y[p], loss, intercept=intercept).tilted(M) for p in parts])


def exchanges(here, star):
    result = run(here, make("auto"), rounds=40, threads=1, stop=lambda row, _: row.energy - star <= 1e-6 * abs(star))
    assert result.stopped == "tol"
    return result.history[-1].exchanges


@pytest.mark.parametrize("mu", [1e-2, 1e-5, 0.0])
@pytest.mark.parametrize("name", LOSSES)
def test_exchanges_do_not_depend_on_units_or_on_zeros(name, mu):
    loss, (X, y) = LOSSES[name], data(name)
    rng, ridge = np.random.default_rng(1), np.full(D, mu)
    for order in (np.arange(N), np.argsort(y, kind="stable")):
        for intercept in (False, "free"):
            here = problem(X, y, loss, ridge, intercept, order)
            star = run(here, make("auto"), rounds=40, threads=1).energy
            right = exchanges(here, star)
            for _ in range(2):
                T = 10.0 ** rng.uniform(-6, 6, D)
                scaled = exchanges(problem(X * T, y, loss, ridge * T**2, intercept, order), star)
                assert abs(scaled - right) <= 1, (intercept, T)
            for shift in (1e2, 1e4, 1e6) if intercept else ():
                by = np.where(np.arange(D) == 0, shift, rng.uniform(-shift, shift, D) / 100)
                shifted = exchanges(problem(X + by, y, loss, ridge, intercept, order), star)
                assert abs(shifted - right) <= 1, shift


@pytest.mark.parametrize("ratio", [1e2, 1e3, 1e6])
def test_a_column_far_from_zero_is_not_lost(ratio):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((400, 2))
    y = np.where(x @ [0.8, -0.5] + rng.logistic(size=400) > 0, 1.0, -1.0)
    found = []
    for shift in (0.0, ratio):
        clients = [LinearModel(x[j::5] + [shift, 0.0], y[j::5], Logistic(), 1e-4, intercept="free") for j in range(5)]
        found.append(run(Problem(clients), make("auto"), rounds=8))
    assert found[1].theta[:2] == pytest.approx(found[0].theta[:2], rel=1e-5)


def test_coordinates_map_models_gradients_and_moments():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.standard_normal((50, 3)) * [1e-3, 1.0, 1e4] + [5.0, 1e3, -2.0], np.ones(50)])
    M = np.array([[1e-3], [1e-3], [1e-3], [0.0]])
    for whole in (True, False):
        at = chosen(X.T @ X / 50, M, 0.25, whole)
        F = at.pull(X.T).T  # the features in z
        theta, g = rng.standard_normal((4, 2)), rng.standard_normal((4, 2))
        np.testing.assert_allclose(F @ at.back(theta), X @ theta, rtol=1e-8)
        np.testing.assert_allclose(at.to(at.back(theta)), theta, rtol=1e-12)
        assert np.vdot(g, at.to(theta)) == pytest.approx(np.vdot(at.pull(g), theta), rel=1e-12)
        np.testing.assert_allclose(F[:, :3].mean(axis=0), 0.0, atol=1e-9 * np.abs(F).max())
        np.testing.assert_allclose(at.moment(X.T @ X / 50), F.T @ F / 50, atol=1e-8 * np.abs(F.T @ F / 50).max())
    same = Coordinates.plain(4)
    np.testing.assert_array_equal(same.pull(theta), theta)


def test_a_uniform_ridge_leaves_the_coordinates_of_a_sketch_alone():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((50, 4)) * [1e-2, 1.0, 10.0, 1e2]
    at = chosen(X.T @ X / 50, np.full((4, 1), 1e-6), 0.25, whole=False)
    np.testing.assert_array_equal(at.scale, np.ones(4))
    assert not at.centre.any()


@pytest.mark.parametrize("mu", [1e-2, 0.0])
@pytest.mark.parametrize("options", [{}, {"widest": 10, "columns": 8}], ids=["eigenvectors", "random sketch"])
def test_sketches_of_large_models_do_not_depend_on_units_either(options, mu, monkeypatch):
    """As if 60 features were too many for a whole Hessian, or for a second moment."""
    monkeypatch.setattr(sketched_metric, "EXACT", 0)
    monkeypatch.setattr(sketch_size, "EXACT", 0)
    rng, wide = np.random.default_rng(5), 60
    X = rng.standard_normal((900, wide)) * np.geomspace(3, 0.03, wide)
    X = X @ np.linalg.qr(rng.standard_normal((wide, wide)))[0]
    y = np.where(X @ rng.standard_normal(wide) + 0.5 * rng.logistic(size=900) > 0, 1.0, -1.0)
    method, ridge, order = SketchedNewton(far=60, near=120, **options), np.full(wide, mu), np.arange(900)

    def needed(X, ridge, star=None):
        here = problem(X, y, Logistic(), ridge, "free", order)
        stop = None if star is None else lambda row, _: row.energy - star <= 1e-6 * abs(star)
        result = run(here, method, rounds=40, threads=1, stop=stop)
        return result.energy if star is None else result.history[-1].exchanges

    star = needed(X, ridge)
    right = needed(X, ridge, star)
    T, shift = 10.0 ** rng.uniform(-6, 6, wide), np.where(np.arange(wide) == 0, 1e4, 0.0)
    assert abs(needed(X * T, ridge * T**2, star) - right) <= 1
    assert abs(needed(X + shift, ridge, star) - right) <= 1


@pytest.mark.parametrize(
    ("name", "mu", "intercept"),
    [("logistic", 1e-3, "free"), ("softmax", 1e-2, False), ("squared", 1e-4, "free")],
)
def test_more_than_4000_features_do_not_depend_on_units_either(name, mu, intercept):
    rng, wide, n = np.random.default_rng(8), 4050, 120
    X = rng.standard_normal((n, 30)) * np.geomspace(3, 0.1, 30) @ rng.standard_normal((30, wide)) / np.sqrt(wide)
    X += 1e-2 * rng.standard_normal(X.shape)
    z = X @ rng.standard_normal(wide) / np.sqrt(30)
    targets = {
        "logistic": np.where(z + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0),
        "softmax": np.digitize(z + 0.3 * rng.standard_normal(n), [-0.5, 0.5]).astype(float),
    }
    y, loss, ridge = targets.get(name, z + 0.5 * rng.standard_normal(n)), LOSSES[name], np.full(wide, mu)
    order = np.argsort(y, kind="stable")
    here = problem(X, y, loss, ridge, intercept, order)
    star = run(here, make("auto"), rounds=25, threads=1, tol=1e-9).energy
    right = exchanges(here, star)
    T = 10.0 ** rng.uniform(-6, 6, wide)
    assert abs(exchanges(problem(X * T, y, loss, ridge * T**2, intercept, order), star) - right) <= 1
    if intercept:
        by = np.where(np.arange(wide) == 0, 1e5, rng.uniform(-1e3, 1e3, wide))
        assert abs(exchanges(problem(X + by, y, loss, ridge, intercept, order), star) - right) <= 1


# -- losses with kinks, beyond the sizes for which whole Hessians are sent ------------------------------------------


def needed(X, y, loss, ridge, intercept, star):
    """The exchanges of `auto` where fedipm would be too large, and what it has proven then."""
    order = np.argsort(y, kind="stable")
    here = problem(X, y, loss, ridge, intercept, order)
    result = run(here, make("auto"), rounds=60, threads=1, stop=lambda row, _: row.energy - star <= 1e-6 * abs(star))
    assert result.stopped == "tol" and isinstance(result.state.units, Units)
    return result.history[-1].exchanges, result.certificate


@pytest.mark.parametrize(
    ("name", "intercept", "mu"),
    [("hinge", "free", 1e-2), ("absolute", False, 1e-2), ("quantile", False, 1e-2)],
)
def test_kinks_without_second_order_sums_do_not_depend_on_units(name, intercept, mu, monkeypatch):
    loss, (X, y) = LOSSES[name], data(name)
    ridge, rng = np.full(D, mu), np.random.default_rng(1)
    star = run(problem(X, y, loss, ridge, intercept, np.arange(N)), make("fedipm"), rounds=40, threads=1).energy
    monkeypatch.setattr(fedipm, "LARGEST", D - 1)
    right, proof = needed(X, y, loss, ridge, intercept, star)
    assert (proof is not None and proof <= 1e-3 * star) if mu else proof is None
    T = 10.0 ** rng.uniform(-6, 6, D)
    assert abs(needed(X * T, y, loss, ridge * T**2, intercept, star)[0] - right) <= 1
    for shift in (1e2, 1e5) if intercept else ():
        by = np.where(np.arange(D) == 0, shift, rng.uniform(-shift, shift, D) / 100)
        assert abs(needed(X + by, y, loss, ridge, intercept, star)[0] - right) <= 1


@pytest.mark.parametrize(("name", "mu", "intercept"), [("hinge", 0.1, "free"), ("absolute", 0.3, False)])
def test_kinks_with_more_than_2000_features_do_not_depend_on_units(name, mu, intercept):
    rng, wide, n = np.random.default_rng(8), 2100, 120
    X = rng.standard_normal((n, 30)) * np.geomspace(3, 0.1, 30) @ rng.standard_normal((30, wide)) / np.sqrt(wide)
    X += 1e-2 * rng.standard_normal(X.shape)
    z = X @ rng.standard_normal(wide) / np.sqrt(30)
    y = np.where(z + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0) if name == "hinge" else z + rng.standard_normal(n)
    loss, ridge = LOSSES[name], np.full(wide, mu)
    star = run(problem(X, y, loss, ridge, intercept, np.arange(n)), make("auto"), rounds=60, threads=1, tol=1e-8)
    assert star.stopped == "tol"  # proven, also beside a free intercept
    right, _ = needed(X, y, loss, ridge, intercept, star.energy)
    T = 10.0 ** rng.uniform(-6, 6, wide)
    assert abs(needed(X * T, y, loss, ridge * T**2, intercept, star.energy)[0] - right) <= 1
    if intercept:
        by = np.where(np.arange(wide) == 0, 1e5, rng.uniform(-1e3, 1e3, wide))
        assert abs(needed(X + by, y, loss, ridge, intercept, star.energy)[0] - right) <= 1


def test_clients_with_few_rows_have_their_slopes_stand_for_their_columns():
    """Two rows a client: neither second moments nor means of columns are told, and units do not matter either."""
    rng = np.random.default_rng(9)
    X, y = rng.standard_normal((16, 3)) + [0.0, 5.0, 0.0], np.where(np.arange(16) % 3 > 0, 1.0, -1.0)
    f = LinearModel(X[:2], y[:2], Hinge(), intercept="free")
    g = np.array([0.5, -2.0, 1.0, 0.25])
    own, cross = columns(f, g, least=5)
    np.testing.assert_array_equal(own, g * g)
    np.testing.assert_array_equal(cross, g * 0.25)
    np.testing.assert_allclose(columns(f, g, least=2)[1], [*X[:2].mean(axis=0), 1.0])
    found = []
    for T, by in ((1.0, 0.0), ([1e-5, 1.0, 1e5], 0.0), (1.0, [1e4, 0.0, -300.0])):
        M = np.append(0.05 * np.ones(3) * np.square(T), 0.0)
        rows = [slice(2 * j, 2 * j + 2) for j in range(8)]
        clients = [LinearModel(X[r] * T + by, y[r], Hinge(), intercept="free").tilted(M) for r in rows]
        found.append(run(Problem(clients), make("auto"), rounds=25, threads=1))
    for other in found[1:]:
        np.testing.assert_allclose(other.history.column("energy"), found[0].history.column("energy"), rtol=1e-6)


def test_a_sketch_that_leaves_something_out_is_not_taken_for_the_hessian():
    f = LinearModel(np.random.default_rng(6).standard_normal((90, 20)), np.ones(90), Logistic(), 1e-4)
    C, S = f.moment(np.zeros(20))
    Omega = np.random.default_rng(7).standard_normal((20, 4))
    basis = sketched_metric.nystroem(C @ Omega, Omega, np.diag(C), S, Coordinates.plain(20), np.full((20, 1), 1e-4))
    assert not sketched_metric.metric(basis, *f.metric(np.zeros(20), basis.U, basis.B, basis.q)).exact
    whole = sketched_metric.basis_of(C, S, np.full((20, 1), 1e-4))
    assert sketched_metric.metric(whole, *f.metric(np.zeros(20), whole.U, whole.B, whole.q)).exact
