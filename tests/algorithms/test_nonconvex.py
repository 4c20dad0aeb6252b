"""Costs that are not convex: who runs on them, what is said of them, and DualFL around a moving centre."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instances import close, models, quad, tiny

from dualfl.algorithms import DualFL, RecentredDualFL
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.engines import Problem, run
from dualfl.errors import InputError, NotSupported
from dualfl.experiments.small_network import Layers, Nonconvex, measured, network_cost, summary, to_csv
from dualfl.objectives import Function, Quadratic
from dualfl.objectives.function import estimated_L
from dualfl.report.network import network_figure
from dualfl.solvers import LBFGS, DampedNewton
from dualfl.typing import Array

RUN_ON_IT = sorted(name for name, cls in ALGORITHMS.own.items() if cls.nonconvex)


def small() -> tuple[Problem, Array]:
    """Two clients with a network of 3 hidden units, and its first weights."""
    rng, layers = np.random.default_rng(0), Layers(4, 3, 3)
    x0, clients = layers.start(1), []
    for j in range(2):
        X = rng.standard_normal((20, 4)) + j
        f = network_cost(layers, X, rng.integers(0, 3, 20), 1e-2)
        clients.append(network_cost(layers, X, rng.integers(0, 3, 20), 1e-2, 3 * estimated_L(f, x0)))
    return Problem(clients, solvers=LBFGS()), x0


def test_the_gradient_of_the_network_is_its_derivative() -> None:
    problem, x0 = small()
    f = problem.clients[0]
    g, h = f.gradient(x0), 1e-6
    for i in range(f.d):
        e = np.eye(f.d)[i] * h
        assert (f.value(x0 + e) - f.value(x0 - e)) / (2 * h) == pytest.approx(g[i], abs=1e-8)


def test_the_network_is_not_convex() -> None:
    problem, x0 = small()
    E, h = problem.pooled, 1e-6
    H = np.stack([(E.gradient(x0 + h * e) - E.gradient(x0 - h * e)) / (2 * h) for e in np.eye(len(x0))])
    assert np.linalg.eigvalsh((H + H.T) / 2).min() < -0.01 and not E.convex


@pytest.mark.parametrize("name", RUN_ON_IT)
def test_who_runs_on_it_comes_nearer_to_a_stationary_point(name: str) -> None:
    problem, x0 = small()
    L = problem.clients[0].L
    given: dict[str, dict[str, Any]] = {
        "fedpd": {"eta": 1 / L},
        "feddr": {"eta": 1 / L},
        "feddyn": {"alpha": L},
        "fedprox": {"a": L, "K": 10},
        "scaffnew": {"p": 0.2},
        "fedavgm": {"beta": 0.5},
    }
    result = run(problem, make(name, **given.get(name, {})), rounds=40, start=x0, threads=1)
    first = problem.pooled.value(x0)
    assert result.energy is not None and result.energy < first - 0.05
    assert result.certificate is None and "not convex" in result.certificate_reason


@pytest.mark.parametrize("name", ["dualfl", "gd", "lbfgs", "dane"])
def test_all_others_refuse_it_by_name(name: str) -> None:
    problem, _ = small()
    with pytest.raises(NotSupported, match=r"convex=False.*dualfl-recentred.*fedavg"):
        run(problem, make(name), rounds=1)


def test_recentred_dualfl_ends_at_a_stationary_point() -> None:
    problem, x0 = small()
    theta = run(problem, RecentredDualFL(lam=problem.clients[0].L), rounds=400, start=x0, threads=1).theta
    first = np.linalg.norm(problem.pooled.gradient(x0))
    assert np.linalg.norm(problem.pooled.gradient(theta)) < 0.1 * first


def test_recentred_dualfl_is_its_formula() -> None:
    """On quadratics, of which some curve downwards: the local problems are systems of equations."""
    rng, d, N, lam, nu, rho, T = np.random.default_rng(0), 5, 3, 6.0, 3.0, 0.2, 3
    A = np.stack([np.diag(rng.uniform(-2, 4, d)) for _ in range(N)])
    A[0] += 5 * np.eye(d)  # so that their mean is convex
    b = rng.standard_normal((N, d))
    clients = [
        Function(d, lambda x, j=j: x @ A[j] @ x / 2 - b[j] @ x, lambda x, j=j: A[j] @ x - b[j], L=9.0, convex=False)
        for j in range(N)
    ]
    problem = Problem(clients, solvers=LBFGS())
    found = models(problem, RecentredDualFL(lam=lam, nu=nu, rho=rho, T=T, accuracy=1e-9), 12)
    theta, zeta, s, own = np.zeros(d), np.zeros((N, d)), np.zeros((N, d)), np.zeros((N, d))
    for n in range(12):
        if n % T == 0:
            centre, t = theta, 0.0
        after = (1 - rho * t * t + np.sqrt((1 - rho * t * t) ** 2 + 4 * t * t)) / 2
        beta = max(t - 1, 0) / after * (1 - after * rho) / (1 - rho)
        new = zeta + theta - own
        zeta, s, t = new + beta * (new - s), new, after
        own = np.stack([np.linalg.solve(A[j] + lam * np.eye(d), b[j] + nu * zeta[j] + lam * centre) for j in range(N)])
        theta = own.mean(axis=0)
        close(found[n], theta, 1e-7)


def test_around_a_centre_that_stays_it_is_dualfl() -> None:
    """On f_j + (lam/2)|.|^2 from 0, whose local problems one step of Newton's method solves."""
    lam, nu, rho = 20.0, 15.0, 0.1
    raised = [Quadratic(np.asarray(f.A) + lam * np.eye(20), f.b) for f in quad().problem.clients]  # type: ignore
    a = models(quad().problem, RecentredDualFL(lam=lam, nu=nu, rho=rho, T=100), 12)
    b = models(Problem(raised, solvers=DampedNewton()), DualFL(nu=nu, rho=rho, accuracy="exact"), 12)
    close(a, b, 1e-8)


def test_a_missing_L_is_one_sentence_and_can_be_estimated() -> None:
    f = Function(2, lambda x: x @ x, lambda x: 2 * x, convex=False)
    with pytest.raises(InputError, match=r"L = inf; give eta yourself, or tell the cost its L, as in TorchFunction\(L"):
        run(Problem([f, f]), make("fedavg"), rounds=1)
    H: Any = tiny().problem.clients[0]
    known = Function(3, H.value, H.gradient, H.hessian_times)
    by_differences = Function(3, H.value, H.gradient)
    for g in (known, by_differences):
        assert estimated_L(g, np.ones(3)) == pytest.approx(np.linalg.norm(np.asarray(H.A), 2), rel=1e-3)
    broken = Function(3, lambda x: 0.0, lambda x: np.full(3, np.nan), convex=False, name="mine")
    with pytest.raises(InputError, match="the curvature of mine is not finite"):
        estimated_L(broken, np.ones(3))


def test_bad_input() -> None:
    with pytest.raises(InputError, match="leave one of them out"):
        Function(1, lambda x: 0.0, lambda x: x, mu=1.0, convex=False)
    broken = Function(1, lambda x: float("nan"), lambda x: x, L=1.0, convex=False, name="my network")
    with pytest.raises(InputError, match="my network is NaN"):
        run(Problem([broken, broken]), make("fedavg"), rounds=1, threads=1)
    with pytest.raises(InputError, match="rounds must be at least 1"):
        Nonconvex(rounds=0)


def test_the_experiment() -> None:
    plan = Nonconvex("digits", rows=60, hidden=2, clients=3, rounds=2, seeds=2, only=("fedavg", "dualfl-recentred"))
    lines = measured(plan)
    assert len(lines) == 2 * 2 * 3 and all(line["status"] == "ok" for line in lines)
    last = {name: [line for line in lines if line["algorithm"] == name][-1] for name in plan.only}
    assert last["fedavg"]["energy"] < lines[0]["energy"] and 0 <= last["fedavg"]["accuracy"] <= 1
    assert summary(lines).count("\n") == 4 and to_csv(lines).count("\n") == 13
    assert len(network_figure(lines).axes) == 3
