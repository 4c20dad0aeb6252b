"""What a summed Hessian proves of E*: never more than is true, and near the minimiser nearly all of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expm1

from dualfl.estimators.curvature_proof import CurvatureProof, psi
from dualfl.kernels import twin_losses
from dualfl.objectives import CLogLog, CoxPartialLikelihood, LinearModel
from dualfl.problem import Problem
from dualfl.solvers import DampedNewton, minimise
from dualfl.solvers.stopping import GradientNorm
from survival_cases import drawn


def problem(kind: str, rng: np.random.Generator) -> Problem:
    if kind == "cox":
        parts = [drawn(rng, n=int(rng.integers(30, 60))) for _ in range(3)]
        return Problem(
            [
                CoxPartialLikelihood(p.X, p.time, p.event, entry=p.entry, strata=p.strata, ties=p.ties)  # type: ignore[arg-type]
                for p in parts
            ]
        )
    clients = []
    for _ in range(3):
        X = rng.normal(size=(60, 3)) * [1.0, 0.3, 2.0] + [0.0, 3.0, 0.0]
        y = np.where(rng.random(60) < -expm1(-np.exp(X @ [0.5, 0.2, -0.4] - 1)), 1.0, -1.0)
        clients.append(LinearModel(X, y, CLogLog(), intercept="free"))
    return Problem(clients)


@pytest.mark.parametrize("kind", ["cox", "cloglog"])
def test_bounds_are_valid_and_tight(kind):
    rng, tight, proven = np.random.default_rng(0), [], 0
    for _ in range(12):
        P = problem(kind, rng)
        best = minimise(P.pooled, solver=DampedNewton(), stop=GradientNorm(1e-11, cap=60)).x
        minimum = P.pooled.value(best)
        rounding = P.pooled.rounding(best).value
        H = P.pooled.hessian(best)
        for size in (1e-3, 1e-2, 0.1, 1.0):
            step = np.linalg.solve(np.linalg.cholesky(H).T, rng.normal(size=P.d)) * size * 0.1
            proof = CurvatureProof(P)
            bound, E = proof.bound(best + step), P.pooled.value(best + step)
            assert bound <= minimum + rounding
            if np.isfinite(bound):
                proven += 1
                tight.append((E - bound) / max(E - minimum, 1e-13))
                if proof.step is not None:
                    assert P.pooled.value(proof.refined(best + step)) <= E + rounding
    assert proven >= 20
    assert np.median(tight) < 1.5  # little more than there is to gain


def test_the_third_derivative_of_a_clog_log_loss():
    z, h = np.linspace(-20, 4, 400)[:, None], 1e-5

    def curvature(at, y):
        return twin_losses.curvature_times(CLogLog(), at, np.ones_like(at), np.full(len(at), y))[:, 0]

    for y, most in ((1.0, np.maximum(1, np.exp(z[:, 0]))), (-1.0, np.ones(400))):
        third = (curvature(z + h, y) - curvature(z - h, y)) / (2 * h)
        assert (np.abs(third) <= most * curvature(z, y) * (1 + 1e-6)).all()


def test_psi():
    assert psi(0.0) == 0.5
    for u in (0.0999, 0.1001, 0.5, 0.9):
        exact = float((np.longdouble(u) + (1 - np.longdouble(u)) * np.log1p(-np.longdouble(u))) / np.longdouble(u) ** 2)
        assert psi(u) == pytest.approx(exact, rel=1e-14)
