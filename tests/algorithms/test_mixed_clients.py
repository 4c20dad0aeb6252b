"""Clients of different kinds in one problem, and Hessians that are awkward to decompose."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dualfl.algorithms.registry import make
from dualfl.algorithms.second_order.fednl import largest_part
from dualfl.engines import Problem, run
from dualfl.errors import Diverged
from dualfl.objectives import L1, ElasticNetPenalty, LinearModel, Logistic, Poisson, Quadratic

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.where(RNG.random(60) > 0.5, 1.0, -1.0)
A = RNG.standard_normal((8, 4))


@pytest.mark.parametrize("penalty", [None, L1(0.01), ElasticNetPenalty(0.01, 0.1)])
@pytest.mark.parametrize("name", ["prox-newton", "auto"])
def test_quadratic_and_linear_clients_together(name, penalty):
    clients = [LinearModel(X, Y, Logistic(), 0.1), Quadratic(A.T @ A, np.ones(4))]
    here = Problem(clients, sizes=[60, 30], penalty=penalty)
    result = run(here, make(name), rounds=20)

    def energy(halves):  # x = p - q with p, q >= 0, so that |x|_1 is smooth
        x = halves[:4] - halves[4:]
        rest = 0.0 if penalty is None else penalty.alpha * halves.sum() + getattr(penalty, "beta", 0.0) / 2 * x @ x
        return (60 * clients[0].value(x) + 30 * clients[1].value(x)) / 90 + rest

    oracle = minimize(energy, np.full(8, 0.1), bounds=[(0, None)] * 8, options={"ftol": 1e-15, "gtol": 1e-10})
    assert result.energy == pytest.approx(oracle.fun, rel=1e-8)
    assert result.energy - result.certificate <= oracle.fun * (1 + 1e-9) and result.certificate < 1e-9


def test_the_largest_part_of_a_matrix_that_is_zero_at_lanczos_start():
    v = np.zeros(9)
    v[:2] = 1.0, -1.0
    np.testing.assert_allclose(largest_part(np.outer(v, v), 1).dense(), np.outer(v, v), atol=1e-14)


def test_fednl_says_that_it_diverged_where_a_hessian_overflows():
    X = np.array([[1.0], [-1.0], [400.0], [2.0], [-3.0], [1.5]])
    f = LinearModel(X, np.array([9.0, 0.0, 1e6, 3.0, 0.0, 2.0]), Poisson(), 1e-6)
    with pytest.raises(Diverged, match=r"Client 0, round .* of fednl: the Hessian overflows"):
        run(Problem([f, f]), make("fednl", guess="zero", option=2), rounds=50)
