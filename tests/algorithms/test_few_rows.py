"""Clients with few rows send gradients, the others Hessians: what is sent, how many exchanges, and what is proven."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualfl.algorithms import Auto, FedIPM, ProxNewton, SketchedNewton
from dualfl.algorithms.contract import Place
from dualfl.algorithms.few_exchanges.smooth_sums import SCALES
from dualfl.engines import run
from dualfl.objectives import (
    L1,
    EpsilonInsensitive,
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
from dualfl.optimum import reference
from dualfl.problem import Problem

LOSSES = [Logistic(), Softmax(3), Poisson(), Huber(0.5), SquaredHinge(), Squared()]


def problem(loss: Any, ridge: float, far: float = 1.0, tiny: int = 3) -> Problem:
    """Two large clients, and two tiny ones whose rows may be far out, or have a column that nobody else has."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 5))
    X[:, 4] *= 0.01
    X[-2 * tiny :] *= far
    X[-tiny:, 4] = 1.0
    z = X @ np.array([1.0, -1.0, 0.5, 0.0, 0.3]) + rng.standard_normal(160)
    y: Any = z
    if isinstance(loss, Logistic | SquaredHinge):
        y = np.where(z > 0, 1.0, -1.0)
    elif isinstance(loss, Softmax):
        y = np.digitize(z, [-1, 1])
    elif isinstance(loss, Poisson):
        y = rng.poisson(np.exp(np.clip(z, -2, 2))).astype(float)
    ends = np.cumsum([90, 70 - 2 * tiny, tiny])
    parts = np.split(np.arange(160), ends)
    return Problem([LinearModel(X[p], y[p], loss, ridge, intercept="free") for p in parts])


@pytest.mark.parametrize("far", [1.0, 30.0])
@pytest.mark.parametrize("ridge", [1e-4, 0.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_bounds_hold_and_the_minimum_is_found(loss: Any, ridge: float, far: float) -> None:
    if isinstance(loss, Poisson):
        far = min(far, 2.0)
    here = problem(loss, ridge, far=far)
    star = reference(here)
    result = run(here, Auto(), rounds=60, tol=1e-8, threads=1)
    assert result.algorithm.name == "sketched-newton" and "send gradients only" in str(result.choice)
    best = np.inf
    for row in result.history:
        assert row.energy is not None
        best = min(best, row.energy)
        assert row.certificate is None or best - row.certificate <= star + 1e-12 * abs(star)
    assert result.energy - star <= 1e-7 * abs(star)
    if ridge:
        assert result.stopped == "tol" and len(result.history) <= 25


@pytest.mark.parametrize("far", [1.0, 30.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_with_l1_newton_learns_what_it_lacks(loss: Any, far: float) -> None:
    """Few exchanges more than with all Hessians, the same minimum, and no bound above it."""
    if isinstance(loss, Poisson):
        far = min(far, 2.0)
    for ridge, alpha in [(1e-4, 0.1), (0.0, 0.01)]:
        here = Problem(problem(loss, ridge, far=far).clients, penalty=L1(alpha))
        whole = run(here, Auto(least_rows=1), rounds=60, tol=1e-12, threads=1)
        star = min(row.energy for row in whole.history if row.energy is not None)
        result = run(here, Auto(), rounds=60, tol=1e-8, threads=1)
        assert result.algorithm.name == "prox-newton" and "send gradients only" in str(result.choice)
        assert result.stopped == "tol" and len(result.history) <= (12 if far == 1 else 30)
        check_bounds(result, star)


@pytest.mark.parametrize(
    "loss", [Hinge(), Quantile(0.8), EpsilonInsensitive(0.3)], ids=lambda loss: type(loss).__name__
)
def test_with_kinks_interior_points_go_on(loss: Any) -> None:
    """Rows of tiny clients that weigh little change nothing; those that end on their kinks are learnt."""
    for rows_like, most in [(0.001, 25), (1.0, 120)]:
        base = problem(Logistic() if isinstance(loss, Hinge) else Huber(0.5), 1e-2)
        clients = [LinearModel(f.design.X, f.y, loss, 1e-2, intercept="free") for f in base.clients]
        weights = np.array([f.n * (rows_like if f.n < 5 else 1.0) for f in clients])
        here = Problem(clients, sizes=weights.tolist())
        whole = run(here, FedIPM(least_rows=1), rounds=100, tol=1e-10, threads=1)
        star = min(row.energy for row in whole.history if row.energy is not None)
        result = run(here, Auto(), rounds=most, tol=1e-4, threads=1)
        assert result.algorithm.name == "fedipm" and result.stopped == "tol"
        check_bounds(result, star)


def check_bounds(result: Any, star: float) -> None:
    best = np.inf
    for row in result.history:
        best = min(best, row.energy)
        assert row.certificate is None or best - row.certificate <= star + 1e-11 * abs(star)
    assert best - star <= 1e-4 * abs(star)


PLAIN = (
    "g",
    "v",
    "M",
    "tilt",
    "S",
    "sizes2",
    "E",
    "off",
    "off_g",
    "ray",
    "unlike",
    "conj",
    "r0",
    "base_v",
    "end_v",
    "local_v",
)


@pytest.mark.parametrize(
    ("loss", "algorithm", "second"),
    [(Logistic(), SketchedNewton(), "C"), (Logistic(), ProxNewton(), "h"), (Hinge(), FedIPM(patience=1), "h")],
)
def test_no_second_order_sum_of_few_rows_leaves(
    loss: Any, algorithm: Any, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, dict[str, Any]]] = []
    send = Place.send

    def noted(self: Place, **fields: Any) -> Any:
        sent.append((self.j, fields))
        return send(self, **fields)

    monkeypatch.setattr(Place, "send", noted)
    here = problem(Logistic(), 0.1)
    here = Problem([LinearModel(f.design.X, f.y, loss, 0.1, intercept="free") for f in here.clients])
    run(here, algorithm, rounds=12 if second == "h" else 4, threads=1)
    few = [fields for j, fields in sent if j >= 2]
    assert len(few) >= 8
    for fields in few:
        for name, x in fields.items():
            if name.removeprefix("rival_") in PLAIN or not np.shape(x):
                continue
            assert not np.any(x), name
        assert "sizes2" not in fields or np.ptp(fields["sizes2"]) == 0
        assert fields.get("M") is None or set(np.unique(fields["M"])) <= {0.0, 0.1}  # the ridge
        if "r0" in fields:  # one slope, under three names
            assert np.array_equal(fields["r0"], fields["v"]) and np.array_equal(
                fields.get("end_v", fields["v"]), fields["v"]
            )
        if "conj" in fields:  # a chord: no more than its ends
            assert np.ptp(np.diff(fields["conj"]) / np.diff(SCALES)) <= 1e-6 * np.abs(fields["conj"]).max()
    assert any(np.any(fields[second]) for j, fields in sent if j < 2 and second in fields)


def test_where_all_have_few_rows_gradients_alone_do() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((12, 2)), rng.choice([-1.0, 1.0], 12)
    here = Problem([LinearModel(X[p], y[p], Logistic(), 0.1) for p in np.split(np.arange(12), 4)])
    assert run(here, Auto(), rounds=2, threads=1).algorithm.name == "lbfgs"
