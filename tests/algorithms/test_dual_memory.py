"""What clients of DualFL remember where they are many: the span of their rows."""

import numpy as np
import pytest

import dualfl
from dualfl.algorithms.dual import dual_memory
from dualfl.algorithms.dual.dual_memory import InSpan, Local
from dualfl.objectives import Hinge, LinearModel, Logistic, Softmax

rng = np.random.default_rng(1)


def many(loss, N=12, n=3, D=40, ridge=0.05, twice=False):
    clients = []
    for _ in range(N):
        X = rng.normal(size=(n, D))
        if twice:
            X[1] = X[0]
        y = rng.integers(0, 3, size=n) if isinstance(loss, Softmax) else rng.choice([-1.0, 1.0], size=n)
        clients.append(LinearModel(X, y, loss, ridge=ridge, intercept=True))
    return dualfl.Problem(clients)


def both(problem, monkeypatch, accuracy="theorems", **kwargs):
    method = dualfl.DualFL(accuracy=accuracy)
    dense = dualfl.run(problem, method, threads=1, **kwargs)
    monkeypatch.setattr(dual_memory, "WORTH", 0)
    return dense, dualfl.run(problem, method, threads=1, **kwargs)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Hinge()])
@pytest.mark.parametrize("start", [False, True])
def test_it_is_the_same_method(loss, start, monkeypatch):
    problem = many(loss, twice=True)
    at = {"start": 0.01 * rng.normal(size=problem.d)} if start else {}
    exact = "exact" if loss.smooth else "theorems"  # loose local solves depend on where they begin
    dense, compact = both(problem, monkeypatch, exact, rounds=25, **at)
    assert all(isinstance(silo.state, Local) for silo in dense.silos)
    assert all(isinstance(silo.state, InSpan) for silo in compact.silos)
    np.testing.assert_allclose(
        compact.theta, dense.theta, rtol=0, atol=(1e-9 if loss.smooth else 1e-2) * np.abs(dense.theta).max()
    )
    best = dualfl.reference(problem)
    assert compact.energy - best <= compact.certificate  # a proof still
    assert compact.certificate <= 1.01 * dense.certificate + 1e-9 * best


def test_it_is_smaller_and_goes_on_from_a_checkpoint(monkeypatch, tmp_path):
    problem = many(Softmax(3), n=2, D=200)
    dense, compact = both(problem, monkeypatch, rounds=6)
    silo = compact.silos[3].state
    assert silo.theta is compact.silos[4].state.theta  # one for all clients of a process
    own = silo.B.size + silo.B_before.size
    assert 100 * own < sum(v.size for v in (dense.silos[3].state.zeta,) * 4)
    dualfl.run(problem, dualfl.DualFL(), threads=1, rounds=3, checkpoint=tmp_path / "half")
    rest = dualfl.run(problem, dualfl.DualFL(), threads=1, rounds=6, checkpoint=tmp_path / "half", resume=True)
    assert np.array_equal(rest.theta, compact.theta) and rest.certificate == compact.certificate


def test_what_is_not_in_the_span_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(dual_memory, "WORTH", 0)
    problem = many(Logistic(), n=30, D=40)  # not few rows
    assert isinstance(dualfl.run(problem, dualfl.DualFL(), rounds=2, threads=1).silos[0].state, Local)
    smaller = dualfl.run(many(Logistic()), dualfl.DualFL(nu=0.01), rounds=2, threads=1)  # nu < mu
    assert isinstance(smaller.silos[0].state, Local)
