"""Clients with few rows send gradients, the others Hessians: what is sent, how many exchanges, and what is proven."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualfl.algorithms import Auto, SketchedNewton
from dualfl.algorithms.contract import Place
from dualfl.engines import run
from dualfl.objectives import Huber, LinearModel, Logistic, Poisson, Softmax, Squared, SquaredHinge
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


def test_no_second_order_sum_of_few_rows_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, dict[str, Any]]] = []
    send = Place.send

    def noted(self: Place, **fields: Any) -> Any:
        sent.append((self.j, fields))
        return send(self, **fields)

    monkeypatch.setattr(Place, "send", noted)
    here = problem(Logistic(), 0.1)
    run(here, SketchedNewton(), rounds=4, threads=1)
    few = [fields for j, fields in sent if j >= 2]
    assert len(few) >= 8
    for fields in few:
        for name, x in fields.items():
            if name in ("g", "M", "S", "sizes2", "E", "off", "off_g", "ray", "unlike") or not np.shape(x):
                continue
            assert not np.any(x), name
        assert "sizes2" not in fields or np.ptp(fields["sizes2"]) == 0
        assert fields.get("M") is None or set(np.unique(fields["M"])) <= {0.0, 0.1}  # the ridge
    assert any(np.any(fields["C"]) for j, fields in sent if j < 2 and "C" in fields)


def test_where_all_have_few_rows_gradients_alone_do() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((12, 2)), rng.choice([-1.0, 1.0], 12)
    here = Problem([LinearModel(X[p], y[p], Logistic(), 0.1) for p in np.split(np.arange(12), 4)])
    assert run(here, Auto(), rounds=2, threads=1).algorithm.name == "lbfgs"
