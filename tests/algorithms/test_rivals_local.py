"""Server optimisers, FedExP, FedAc, FedOSAA and GradSkip against plain NumPy, and as other methods in disguise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from instances import Case, Walk, close, models, quad, tiny, unequal
from test_drift import WEIGHTS, fedavg_fixed_point, weighted_quad

from dualfl.algorithms import (
    FedAc,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedExP,
    FedOSAA,
    FedYogi,
    GradSkip,
    Scaffnew,
    ServerNesterov,
)
from dualfl.engines import Problem, run
from dualfl.objectives import Quadratic
from dualfl.streams import Stream
from dualfl.typing import Array


@pytest.fixture(params=["quad", "unequal"])
def here(request: pytest.FixtureRequest) -> Case:
    return {"quad": quad, "unequal": unequal}[request.param]()


def changes(here: Case, x: Array, K: int, eta: float) -> Array:
    """x_j - x of FedAvg, a row each."""
    ends = []
    for f in here.problem.clients:
        y = x
        for _ in range(K):
            y = y - eta * f.gradient(y)
        ends.append(y - x)
    return np.stack(ends)


# -- optimisers at the server -----------------------------------------------------------------------------------


def test_fedavgm_without_momentum_is_fedavg_to_the_bit(here: Case) -> None:
    assert np.array_equal(models(here.problem, FedAvgM(beta=0.0), 15), models(here.problem, FedAvg(), 15))


@pytest.mark.parametrize("cls", [FedAvgM, FedAdagrad, FedYogi, FedAdam])
def test_server_optimisers_are_their_formulas(here: Case, cls: type[FedAvg]) -> None:
    K, eta, eta_s, b1, b2, tau = 3, 0.3 / here.L, 0.2, 0.8, 0.6, 0.05
    how: dict[str, Any] = {"K": K, "eta": eta, "eta_s": eta_s}
    how |= {"beta": b1} if cls is FedAvgM else {"beta1": b1, "tau": tau}
    how |= {"beta2": b2} if cls in (FedYogi, FedAdam) else {}
    x, m, v, expected = np.zeros(20), np.zeros(20), np.full(20, tau**2), []
    for _ in range(12):
        D = np.asarray(here.problem.weights) @ changes(here, x, K, eta)
        if cls is FedAvgM:
            m = b1 * m + D
            x = x + eta_s * m
        else:
            m = b1 * m + (1 - b1) * D
            v = {
                FedAdagrad: v + D * D,
                FedAdam: b2 * v + (1 - b2) * D * D,
                FedYogi: np.where(v > D * D, v - (1 - b2) * D * D, v + (1 - b2) * D * D),
            }[cls]
            x = x + eta_s * m / (np.sqrt(v) + tau)
        expected.append(x)
    close(models(here.problem, cls(**how), 12), np.stack(expected), 1e-12)


@pytest.mark.parametrize("algorithm", [FedAvgM(), FedAdagrad(), FedYogi(), FedAdam()], ids=lambda a: a.name)
def test_an_optimiser_at_the_server_rests_where_fedavg_does(algorithm: FedAvg) -> None:
    problem = weighted_quad(WEIGHTS[1])
    point = fedavg_fixed_point(problem, 1 / (10 * 100), 10)
    algorithm = replace(algorithm, eta=1 / (10 * 100))
    close(models(problem, algorithm, 2, start=point), np.stack([point, point]), 1e-12)
    way = models(problem, algorithm, 150)
    assert np.linalg.norm(way[-1] - point) < 0.1 * np.linalg.norm(point)


# -- FedExP -----------------------------------------------------------------------------------------------------


def test_fedexp_is_its_formula(here: Case) -> None:
    K, eta, eps, w = 4, 0.2 / here.L, 1e-3, np.asarray(here.problem.weights)
    x, expected, steps = np.zeros(20), [], []
    for _ in range(15):
        D = changes(here, x, K, eta)
        mean = w @ D
        steps.append(max(1.0, float(w @ (D * D).sum(axis=1)) / (2 * (float(mean @ mean) + eps))))
        before, x = x, x + steps[-1] * mean
        expected.append((before + x) / 2)
    assert max(steps) > 1
    close(models(here.problem, FedExP(K=K, eta=eta, eps=eps), 15), np.stack(expected), 1e-11)


def test_fedexp_of_alike_clients_is_fedavg() -> None:
    """All changes are their mean, so the step is 1/2 before it is raised to 1; the model is a mean of two."""
    problem = Problem([quad().problem.clients[0]] * 3)
    a = np.vstack([np.zeros(20), models(problem, FedAvg(), 10)])
    close(models(problem, FedExP(), 10), (a[1:] + a[:-1]) / 2, 1e-13)


# -- FedAc ------------------------------------------------------------------------------------------------------


def test_fedac_is_its_formula(here: Case) -> None:
    K, eta, w = 3, 0.3 / here.L, np.asarray(here.problem.weights)
    gamma = max(np.sqrt(eta / (here.mu * K)), eta)
    alpha = 1 / (gamma * here.mu)
    beta = alpha + 1
    x = xag = np.zeros(20)
    expected = []
    for _ in range(12):
        ends = []
        for f in here.problem.clients:
            u, ag = x, xag
            for _ in range(K):
                md = u / beta + (1 - 1 / beta) * ag
                g = f.gradient(md)
                u, ag = (1 - 1 / alpha) * u + md / alpha - gamma * g, md - eta * g
            ends.append((u, ag))
        x, xag = (w @ np.stack(part) for part in zip(*ends))
        expected.append(xag)
    close(models(here.problem, FedAc(K=K, eta=eta), 12), np.stack(expected), 1e-12)


def test_fedac_with_one_step_is_nesterovs_method() -> None:
    here = quad()
    close(models(here.problem, FedAc(K=1), 40), models(here.problem, ServerNesterov(), 40), 1e-10)


# -- FedOSAA ----------------------------------------------------------------------------------------------------


def test_fedosaa_is_its_formula(here: Case) -> None:
    """Anderson's step as it is written: weights that add up to one; here the last is 1 less the others."""
    K, eta, w = 3, 1 / here.L, np.asarray(here.problem.weights)
    x, expected = np.zeros(20), []
    for _ in range(3):
        E = w @ np.stack([f.gradient(x) for f in here.problem.clients])
        ends = []
        for f in here.problem.clients:
            points = [x]
            rest = [E]
            for _ in range(K):
                points.append(points[-1] - eta * rest[-1])
                rest.append(f.gradient(points[-1]) - f.gradient(x) + E)
            R = np.stack(rest)
            c = np.linalg.lstsq((R[:-1] - R[-1]).T, -R[-1], rcond=None)[0]
            c = np.r_[c, 1 - c.sum()]
            ends.append(c @ (np.stack(points) - eta * R))
        x = w @ np.stack(ends)
        expected.append(x)
    close(models(here.problem, FedOSAA(K=K, eta=eta, line_search=False), 3), np.stack(expected), 1e-9)


def test_fedosaa_of_alike_quadratics_is_newtons_method() -> None:
    """As many steps as there are coefficients: GMRES has then found the solution."""
    f: Any = tiny().problem.clients[0]
    (x,) = models(Problem([f, f]), FedOSAA(K=3), 1)
    close(x, np.linalg.solve(np.asarray(f.A), f.b), 1e-9)


def test_fedosaa_without_local_steps_is_gradient_descent(here: Case) -> None:
    x, expected = np.zeros(20), []
    for _ in range(10):
        x = x - here.problem.pooled.gradient(x) / here.L
        expected.append(x)
    close(models(here.problem, FedOSAA(K=0, line_search=False), 10), np.stack(expected), 1e-12)


# -- GradSkip ---------------------------------------------------------------------------------------------------


def test_gradskip_whose_clients_never_stop_is_scaffnew(here: Case) -> None:
    close(models(here.problem, GradSkip(q=1.0), 20), models(here.problem, Scaffnew(), 20), 1e-11)


@pytest.mark.parametrize("q", [0.7, None])
def test_gradskip_is_its_formula(here: Case, q: float | None) -> None:
    """Iteration by iteration, with the steps that stand still."""
    gamma, p = 1 / here.L, 0.25
    walk = Walk(here.problem, GradSkip(gamma=gamma, p=p, q=q))
    N, stopped = 8, 0
    x, h = np.zeros((N, 20)), np.zeros((N, 20))
    for n, s in enumerate(walk.states(25)):
        at = replace(walk.engine.place, round=n)
        steps = at.common("coin").geometric(p)
        for j, f in enumerate(here.problem.clients):
            goes_on = q if q is not None else (1 - f.mu / f.L) / (1 - here.mu / here.L)
            for coin in Stream(0, "own:own coin", j, n, 0).generator().random(steps):
                g = f.gradient(x[j])
                if coin >= goes_on:
                    h[j], stopped = g, stopped + 1
                x[j] = x[j] - gamma * (g - h[j])
        mean = walk.mean(x - gamma / p * h)
        h = h + p / gamma * (mean - x)
        x = np.tile(mean, (N, 1))
        close(s.x, mean, 1e-10)
    assert stopped or (q is None and here is quad())  # whose clients are equally hard


def test_gradskip_saves_gradients_of_easy_clients() -> None:
    """One hard client among seven easy ones: about as many exchanges as Scaffnew, far fewer gradients."""
    rng = np.random.default_rng(0)
    clients = []
    for top in [100.0] + [2.0] * 7:
        Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        A = Q * np.r_[1.0, rng.uniform(1, top, 4), top] @ Q.T
        clients.append(Quadratic((A + A.T) / 2, rng.standard_normal(6)))
    problem = Problem(clients)
    star = np.linalg.solve(sum(np.asarray(f.A) for f in clients), sum(f.b for f in clients))

    def near(row: Any, theta: Array) -> bool:
        return bool(np.linalg.norm(theta - star) < 1e-6)

    rows = [
        run(problem, algorithm, rounds=2000, evaluate=False, threads=1, stop=near).history[-1]
        for algorithm in (Scaffnew(), GradSkip())
    ]
    assert rows[1].exchanges < 1.5 * rows[0].exchanges
    assert rows[1].local_gradients < 0.5 * rows[0].local_gradients
