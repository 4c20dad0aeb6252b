"""local-secants: the mean of clients' Newton steps between the loops of L-BFGS, and when it becomes L-BFGS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dualfl
from dualfl.algorithms import LocalSecants
from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.similarity.local_secants import Server, cubic_minimum, plain_step
from dualfl.algorithms.two_loops import first_loop, second_loop
from dualfl.objectives import LinearModel, Logistic, Quadratic
from dualfl.problem import Problem

rng = np.random.default_rng(7)


def quadratics(spread: float, d: int = 12, N: int = 4) -> list[Quadratic]:
    """Quadratic costs whose Hessians differ by about `spread`."""
    base = np.diag(np.geomspace(1.0, 100.0, d))
    found = []
    for _ in range(N):
        B = rng.normal(size=(d, d)) * np.sqrt(spread / d)
        found.append(Quadratic(base + B @ B.T, rng.normal(size=d)))
    return found


def bfgs(S, Y, H0):
    """The inverse metric as a matrix, by BFGS's own formula."""
    H, eye = H0.copy(), np.eye(len(H0))
    for s, y in zip(S, Y):
        r = 1 / (s @ y)
        H = (eye - r * np.outer(s, y)) @ H @ (eye - r * np.outer(y, s)) + r * np.outer(s, s)
    return H


def test_two_loops_with_an_answer_between_them_are_the_bfgs_formula():
    d = 6
    A = np.diag(np.arange(1.0, d + 1))
    S = tuple(rng.normal(size=(3, d)))
    Y = tuple(A @ s for s in S)
    B = rng.normal(size=(d, d))
    H0, g = np.eye(d) + B @ B.T, rng.normal(size=d)
    q, weights = first_loop(g, S, Y)
    np.testing.assert_allclose(second_loop(H0 @ q, S, Y, weights), bfgs(S, Y, H0) @ g, rtol=1e-10)
    scale = (S[-1] @ Y[-1]) / (Y[-1] @ Y[-1])
    np.testing.assert_allclose(plain_step(g, S, Y, 1.0), bfgs(S, Y, scale * np.eye(d)) @ g, rtol=1e-10)


def test_equal_clients_take_one_step():
    f = quadratics(3.0)[0]
    result = dualfl.run(Problem([f, f, f]), LocalSecants(accuracy=1e-12), rounds=1)
    x = np.linalg.solve(f.A, f.b)
    assert result.history[-1].exchanges <= 3
    np.testing.assert_allclose(result.theta, x, rtol=1e-4)  # a client's own minimiser is found roughly
    np.testing.assert_allclose(dualfl.run(Problem([f, f]), LocalSecants(), rounds=3).theta, x, rtol=1e-8)


def test_alike_clients_take_fewer_exchanges_than_gradients_alone():
    problem = Problem(quadratics(0.1))
    least = dualfl.reference(problem)
    took = {}
    for method in (LocalSecants(), dualfl.algorithms.ServerLBFGS()):
        result = dualfl.run(problem, method, rounds=100, tol=1e-8, reference=least)
        took[method.name] = result.history[-1].exchanges
    assert 3 * took["local-secants"] < 2 * took["lbfgs"]


def test_local_steps_that_do_not_pay_are_given_up_and_what_was_learnt_stays():
    s = Server(np.zeros(3), 1.0, np.ones(3), np.ones(3), (np.ones(3),), (np.ones(3),), -np.inf)
    method = LocalSecants(plain=40.0)
    s = method.weighed(s, 1.0)
    assert s.local and s.mark == 1.0
    short = method.weighed(replace(s, since=5), 0.9)
    assert short.local and short.mark == 1.0, "the window is not over"
    paid = 1e-6 ** (6 / 40)
    assert method.weighed(replace(s, since=6), 0.99 * paid).local
    given_up = method.weighed(replace(s, since=6), 1.01 * paid)
    assert not given_up.local and len(given_up.S) == 1


def test_after_four_trials_in_a_row_that_fail_it_is_l_bfgs():
    s = Server(np.zeros(2), 1.0, np.ones(2), -np.ones(2), (), (), -np.inf)
    method = LocalSecants()
    for failed in (1, 2, 3):
        s = method.nearer(s, np.ones(2), 2.0, 5.0, -3.0)
        assert s.local and s.failed == failed
        assert 0 < np.linalg.norm(s.trial) < np.linalg.norm(np.ones(2))
    assert not method.nearer(s, np.ones(2), 2.0, 5.0, -3.0).local


def test_the_minimum_of_a_cubic():
    a, b, c, e = 2.0, -1.5, -1.0, 4.0  # e + c t + b t^2 + a t^3
    t = (-b + np.sqrt(b * b - 3 * a * c)) / (3 * a)
    assert cubic_minimum(e, -c, e + c + b + a, -(c + 2 * b + 3 * a)) == pytest.approx(t)
    assert cubic_minimum(1.0, 1.0, np.inf, -np.inf) == 0.0


@pytest.mark.parametrize("sort", [False, True])
def test_it_arrives_also_where_it_has_given_up(sort):
    X = rng.normal(size=(200, 8))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=200))
    order = np.argsort(y, kind="stable") if sort else np.arange(200)
    clients = [LinearModel(X[rows], y[rows], Logistic(), 1e-4) for rows in np.array_split(order, 5)]
    problem = Problem(clients)
    for plain in (4.0, 1e6):  # given up at once, and never
        result = dualfl.run(problem, LocalSecants(plain=plain), rounds=300, tol=1e-9)
        assert result.energy <= (1 + 1e-8) * dualfl.reference(problem)


def test_auto_takes_it_on_slow_lines_among_alike_clients_and_says_what_it_expects():
    X = rng.normal(size=(1600, 60))
    y = np.sign(X @ rng.normal(size=60) + rng.normal(size=1600))
    said: list[str] = []
    problem = Problem([LinearModel(X[i::4], y[i::4], Logistic(), 1e-3) for i in range(4)])
    method = Auto(cost="time", latency=1e-3, bandwidth=0.1)
    result = dualfl.run(problem, method, rounds=200, tol=1e-6, say=said.append)
    assert said[0].startswith("auto runs local-secants") and "times as much as by chance" in said[0]
    assert "expected on a network of 1 ms and 0.1 Mbit/s" in said[0]
    assert "lbfgs" in said[0] and "sketched-newton" in said[0]
    assert f"It took {result.history[-1].exchanges} exchanges" in result.choice
