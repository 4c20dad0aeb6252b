"""Quantile problems with a tiny l1 penalty on which t once fell to 1e-8 while the iterates were 2e-5 and 3e-4 off."""

import numpy as np
import pytest
from scipy.optimize import linprog

from dualfl.algorithms.registry import make
from dualfl.engines import Problem, run
from dualfl.objectives import L1, LinearModel, Quantile

ALPHA = 1e-8


def drawn(seed, n, d, noise):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) > 1).astype(float)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = z @ rng.standard_normal(d) + (rng.standard_cauchy(n) if noise == "cauchy" else 1e3 * rng.standard_normal(n))
    return X, y, rng.integers(0, 4, n)


def linear_program(X, y, tau):
    n, d = X.shape
    ones, eye = np.ones((n, 1)), np.eye(n)
    cost = np.concatenate([np.full(2 * d, ALPHA), [0, 0], np.full(n, tau / n), np.full(n, (1 - tau) / n)])
    return linprog(cost, A_eq=np.hstack([X, -X, ones, -ones, eye, -eye]), b_eq=y, bounds=(0, None)).fun


@pytest.mark.parametrize(("seed", "n", "d", "noise", "tau"), [(8, 200, 3, "cauchy", 0.7), (55, 600, 20, "big", 0.99)])
def test_interior_points_do_not_stall(seed, n, d, noise, tau):
    X, y, silo = drawn(seed, n, d, noise)
    clients = [LinearModel(X[silo == j], y[silo == j], Quantile(tau), intercept="free") for j in range(4)]
    result = run(Problem(clients, penalty=L1(ALPHA)), make("auto", least_rows=1), rounds=120, threads=1)
    assert result.algorithm.name == "fedipm"
    assert result.energy == pytest.approx(linear_program(X, y, tau), rel=1e-7)
