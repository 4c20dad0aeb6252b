"""Sketched Newton: its sums, its metric, its safeguard and its bound, against closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dualfl.algorithms.coordinates import Coordinates
from dualfl.algorithms.cuts import Cut
from dualfl.algorithms.few_exchanges import ProxNewton, SketchedNewton
from dualfl.algorithms.few_exchanges import sketched_metric as sketch
from dualfl.algorithms.few_exchanges.bundle_bound import Parabolas
from dualfl.algorithms.few_exchanges.straight_pieces import kept_promise
from dualfl.engines import Problem, run
from dualfl.errors import NoMinimiser
from dualfl.objectives import Huber, LinearModel, Logistic, Loss, Poisson, Softmax, Squared, SquaredHinge
from dualfl.solvers import DampedNewton, GradientNorm, minimise
from dualfl.typing import Array

pytestmark = pytest.mark.long

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state


def targets(loss: Loss, z: Array) -> Array:
    noise = RNG.standard_normal(z.size)
    if isinstance(loss, Softmax):
        return np.digitize(z + noise, [-0.7, 0.7])
    if isinstance(loss, Poisson):
        return RNG.poisson(np.exp(np.clip(z, -4, 3))).astype(float)
    if isinstance(loss, Logistic | SquaredHinge):
        return np.where(z + noise > 0, 1.0, -1.0)
    return z + RNG.standard_t(2, z.size)


def problem(loss: Loss, mu: float, intercept: Any = True, D: int = 12, n: int = 240, kind: Any = np.float64) -> Problem:
    """Clients sorted by their targets, of unequal size, badly scaled features."""
    X = (RNG.standard_normal((n, D)) * np.geomspace(1, 0.05, D)).astype(kind)
    y = targets(loss, X @ RNG.standard_normal(D))
    cuts = np.cumsum([n // 12, n // 6, n // 4])
    return Problem(
        [LinearModel(X[p], y[p], loss, mu, intercept=intercept) for p in np.split(np.argsort(y, kind="stable"), cuts)]
    )


def minimum(here: Problem) -> float:
    return minimise(here.pooled, solver=DampedNewton(), stop=GradientNorm(1e-11, cap=200)).value


LOSSES = [Softmax(3), Logistic(), Squared(), Huber(0.5), SquaredHinge(), Poisson()]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("intercept", [True, "free", False])
def test_every_loss_reaches_the_pooled_minimum_in_few_exchanges(loss: Loss, intercept: Any) -> None:
    here = problem(loss, 1e-3, intercept)
    star = minimum(here)
    result = run(here, SketchedNewton(), rounds=14, threads=1)
    assert result.energy is not None
    assert result.energy - star <= 1e-9 * abs(star)


@pytest.mark.parametrize("method", [SketchedNewton(), ProxNewton()], ids=lambda method: method.name)
@pytest.mark.parametrize("mu", [1e-4, 1e-6])
def test_huber_with_most_residuals_beyond_delta(method: Any, mu: float) -> None:
    """Its second derivative is zero in nine rows of ten, and Newton steps would be a hundred times too long."""
    here = sorted_huber(1.0, mu)
    star = minimum(here)
    result = run(here, method, rounds=25, threads=1)
    assert result.energy is not None
    assert result.energy - star <= 1e-6 * abs(star)


@pytest.mark.parametrize("method", [SketchedNewton(), ProxNewton()], ids=lambda method: method.name)
def test_huber_ends_as_newton_does(method: Any) -> None:
    """Once steps keep their promises, l'' alone is exact; with a share of the parabola it takes four exchanges more."""
    result = run(sorted_huber(10.0, 1e-3), method, rounds=10, tol=1e-12, threads=1)
    assert result.stopped == "tol" and result.history[-1].exchanges <= 10


def sorted_huber(delta: float, mu: float) -> Problem:
    X = RNG.standard_normal((442, 10))
    y = 50 * X @ RNG.standard_normal(10) + 77 * RNG.standard_normal(442)
    parts = np.array_split(np.argsort(y), 8)
    return Problem([LinearModel(X[p], y[p], Huber(delta), mu, intercept=True) for p in parts])


def test_a_promise_is_half_the_decrement() -> None:
    assert kept_promise(0.5, 1.0) and kept_promise(0.3, 1.0) and kept_promise(0.7, 1.0)
    assert not kept_promise(0.2, 1.0) and not kept_promise(0.8, 1.0) and not kept_promise(-0.5, 1.0)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("near", [0, 40])
def test_the_bound_holds_at_every_exchange_and_closes(loss: Loss, near: int) -> None:
    here = problem(loss, 1e-2)
    star = minimum(here)
    result = run(here, SketchedNewton(far=near, near=near), rounds=30, threads=1)
    bounds = [row.energy - row.certificate for row in result.history if row.certificate is not None]
    best = np.minimum.accumulate(result.history.column("energy"))
    certificates = result.history.column("certificate")
    assert (certificates >= best - star - 1e-12 * abs(star)).all()
    assert (np.diff(certificates) <= 4 * result.rounding).all()
    assert bounds and certificates[-1] <= 1e-8 * abs(star)


def ridge_of(f: LinearModel) -> Any:
    return np.broadcast_to(f.convexity, (f.d,)).reshape(f.design.D, -1)


def rotated(f: LinearModel) -> sketch.Basis:
    """The basis of a model that is too large for all of its Hessian."""
    C, S = f.moment(np.zeros(f.d))
    return sketch.eigenbasis(C, sketch.outputs(S), S, Coordinates.plain(len(C)), ridge_of(f))


@pytest.mark.parametrize("kind", [np.float64, np.float32, "csr"])
@pytest.mark.parametrize("loss", [Softmax(3), Logistic()], ids=str)
def test_with_all_directions_the_metric_is_the_hessian(loss: Loss, kind: Any) -> None:
    X = RNG.standard_normal((60, 5)).astype(np.float64 if kind == "csr" else kind)
    y = targets(loss, X @ RNG.standard_normal(5))
    f = LinearModel(
        sp.csr_array(X) if kind == "csr" else X, y, loss, 0.1, weights=RNG.uniform(0.5, 2, 60), intercept=True
    )
    x = 0.3 * RNG.standard_normal(f.d)
    C, S = f.moment(np.zeros(f.d))
    basis = sketch.basis_of(C, S, ridge_of(f))
    M, T, W = f.metric(x, basis.U, basis.B, basis.q)
    g = RNG.standard_normal(f.d)
    solved = sketch.metric(basis, M, T, W).solve(basis, g)
    right = np.linalg.solve(f.hessian(x), g)
    assert np.abs(solved - right).max() <= (1e-5 if kind == np.float32 else 1e-10) * np.abs(right).max()
    first = sketch.first_metric(basis, C).solve(basis, g)
    right = np.linalg.solve(f.hessian(np.zeros(f.d)), g)
    assert np.abs(first - right).max() <= (1e-5 if kind == np.float32 else 1e-10) * np.abs(right).max()


def test_the_tail_is_the_doubled_diagonal_of_the_hessian() -> None:
    f = problem(Softmax(3), 0.1).clients[-1]
    assert isinstance(f, LinearModel)
    x = 0.2 * RNG.standard_normal(f.d)
    basis = rotated(f)
    r = 3
    H0 = sketch.metric(basis, *f.metric(x, basis.U, basis.B, r))
    V = np.kron(basis.V, basis.B)
    projected = V.T @ (f.hessian(x) - 0.1 * np.eye(f.d)) @ V
    m = basis.m
    for row in range(r, basis.q):
        block = projected[row * m : (row + 1) * m, row * m : (row + 1) * m]
        assert np.allclose(np.linalg.inv(H0.tail[row - r]), 2 * block + 0.1 * np.eye(m), rtol=1e-9)


def test_sums_over_clients_are_the_pooled_sums() -> None:
    here = problem(Softmax(3), 0.1)
    parts = [f for f in here.clients if isinstance(f, LinearModel)]
    pooled = LinearModel(
        np.concatenate([f.design.X for f in parts]),
        np.concatenate([f.y for f in parts]),
        Softmax(3),
        0.1,
        intercept=True,
    )
    zero = np.zeros(pooled.d)
    C = sum(w * f.moment(zero)[0] for w, f in zip(here.weights, parts))
    assert np.allclose(C, pooled.moment(zero)[0], rtol=1e-12)
    basis = rotated(pooled)
    x = RNG.standard_normal(pooled.d)
    for i, whole in enumerate(pooled.metric(x, basis.U, basis.B, 4)):
        assert np.allclose(sum(w * f.metric(x, basis.U, basis.B, 4)[i] for w, f in zip(here.weights, parts)), whole)


@pytest.mark.parametrize(("wrong", "exact"), [("tiny", True), ("tiny", False), ("huge", False), ("random", False)])
def test_a_wrong_metric_only_costs_exchanges(wrong: str, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    here = problem(Logistic(), 1e-2, D=6)
    if not exact:  # then secant pairs see how wrong it is
        monkeypatch.setattr(sketch, "EXACT", 0)
        monkeypatch.setattr(sketch, "EXACT", 0)
    star, right = minimum(here), sketch.metric
    scale = np.random.default_rng(0)

    def broken(*arguments: Any) -> sketch.Metric:
        H0 = right(*arguments)
        factor = {"tiny": 1e-2, "huge": 50.0, "random": float(np.exp(3 * scale.standard_normal()))}[wrong]
        return replace(H0, lead=H0.lead * factor)  # too long steps, too short ones, or both

    monkeypatch.setattr(sketch, "metric", broken)
    result = run(
        here,
        SketchedNewton(far=12, near=12, cuts=4),
        rounds=150,
        threads=1,
        stop=lambda row, _: row.energy - star <= 1e-6 * star,
    )
    assert result.stopped == "tol"


def test_the_server_never_goes_up() -> None:
    from instances import Walk

    walk = Walk(problem(Poisson(), 1e-3), SketchedNewton(far=20, near=20))
    energies = [state.E for state in walk.states(15)]
    assert (np.diff(energies) <= 1e-14 * np.abs(energies[0])).all()


@pytest.mark.parametrize("loss", [Softmax(3), Logistic()], ids=lambda loss: type(loss).__name__)
def test_a_constant_column_beside_a_free_intercept(loss: Loss) -> None:
    """Centred, it has nothing but its ridge, which in these coordinates is not that of other columns."""
    X, mu, rounds = RNG.standard_normal((240, 8)) * 10, 1e-3, 40
    y = targets(loss, X @ RNG.standard_normal(8) / 10)
    X[:, 3] = 0.0237
    parts = np.split(np.arange(240), [30, 90, 150])
    here = Problem([LinearModel(X[p], y[p], loss, mu, intercept="free") for p in parts])
    result = run(here, SketchedNewton(local=False), rounds=rounds)
    energies = np.array([row.energy for row in result.history])
    assert np.abs(energies[12:] / minimum(here) - 1).max() < 1e-9
    assert np.abs(result.theta.reshape(9, -1)[3]).max() < 1e-12


@pytest.mark.parametrize("columns", [4, 8])
def test_more_features_than_a_moment_may_have(columns: int) -> None:
    here = problem(Logistic(), 1e-2, D=40)
    star = minimum(here)
    lean = SketchedNewton(widest=10, columns=columns, far=30, near=30)
    result = run(here, lean, rounds=60, threads=1, stop=lambda row, _: row.energy - star <= 1e-8 * star)
    assert result.stopped == "tol"


def test_separable_classes_without_a_ridge_are_told_apart_from_a_solution() -> None:
    X = RNG.standard_normal((80, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    here = Problem([LinearModel(X[p], y[p], Logistic(), intercept=True) for p in np.array_split(np.arange(80), 4)])
    with pytest.raises(NoMinimiser):
        run(here, SketchedNewton(), rounds=80, threads=1)


def test_all_parabolas_prove_more_than_the_best_one_and_never_too_much() -> None:
    H = np.diag(np.geomspace(0.1, 3, 8))
    E = lambda x: float(x @ H @ x / 2)  # noqa: E731
    bounds = Parabolas()
    for x in RNG.standard_normal((12, 8)):
        bounds = bounds.with_point(0.1, Cut(x, E(x), H @ x, 1e-14, 1e-14), 10)
    tight = bounds.tightened(0.1)
    assert len(tight.cuts) == 10
    assert bounds.bound < tight.bound <= 0


def test_close_by_the_whole_hessian_is_bought_once_it_costs_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never before, only where it stays true for a while, and it pays."""
    monkeypatch.setattr("dualfl.algorithms.few_exchanges.sketch_size.EXACT", 0)
    here = problem(Softmax(3), 1e-6, D=40, n=1200)
    E = minimum(here)
    asked: list[tuple[int, bool]] = []
    due = SketchedNewton.due

    def watched(self: SketchedNewton, s: Any) -> tuple[int, ...]:
        ranks = due(self, s)
        if s.near and ranks and ranks[0] > self.budget(s).near_rank:
            assert s.since >= 3 and s.decrement <= 0.005 * max(abs(s.E), 0.01 * abs(s.E0))
            assert 0.64 * s.basis.floats(ranks[0]) <= s.spent
            asked.append((ranks[0], ranks[0] == s.basis.q))
        return ranks

    monkeypatch.setattr(SketchedNewton, "due", watched)
    small = SketchedNewton(far=100, near=200)

    def exchanges(method: SketchedNewton) -> int:
        result = run(here, method, rounds=80, stop=lambda row, _: row.energy <= E + 1e-9 * abs(E))
        return int(result.history[-1].exchanges)

    assert exchanges(replace(small, grow=0.0)) >= 1.25 * exchanges(small)
    assert asked and asked[-1][1]
    asked.clear()
    monkeypatch.setattr("dualfl.algorithms.few_exchanges.sketch_size.TOGETHER", 4 * 300)  # four clients
    exchanges(small)
    assert max((rank for rank, _ in asked), default=0) ** 2 * 3 / 2 <= 330


def test_what_was_spent_is_what_the_engine_counts() -> None:
    spent = []

    class Watched(SketchedNewton):
        def round(self, s: Any, at: Any) -> Any:
            spent.append(s.spent)
            return super().round(s, at)

    here = problem(Logistic(), 1e-4)
    result = run(here, Watched(), rounds=5)
    sent = [row.floats_up / here.N for row in result.history][1:]
    assert spent[1:] == pytest.approx(sent[: len(spent) - 1], abs=20)
