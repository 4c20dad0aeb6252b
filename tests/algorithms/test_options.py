"""What some algorithms can do beside the plain problem: codecs, penalties, nonsmooth or unequal costs, balancing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instances import Case, models, quad, rounds_to, unequal

from dualfl.algorithms import Codec, FedDR, Quantise, RandK, TopK
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.engines import Problem, run
from dualfl.engines.suiting import bound
from dualfl.errors import InputError, NotSupported
from dualfl.objectives import (
    L1,
    BoxConstraint,
    Hinge,
    LinearModel,
    Logistic,
    NonNegative,
    Objective,
    Poisson,
    Quadratic,
)
from dualfl.objectives.average import Average, common_ridge
from dualfl.solvers import FISTA, DampedNewton, GradientNorm, PrimalDualGap, minimise

MINE = ("fedpd", "fedsplit", "apda", "apda-inexact")


@pytest.mark.parametrize(
    ("name", "codec"),
    [(name, codec) for name in MINE for codec in (TopK(5), Quantise(4))]
    + [("fedpd", RandK(8)), ("fedsplit", RandK(8))],
)
def test_compressed_uploads_still_lead_to_the_optimum(name: str, codec: Codec) -> None:
    assert rounds_to(1e-8, unequal(), make(name), 250, codec=codec) < np.inf


@pytest.mark.parametrize("name", ["scaffnew", "feddr", "locodl"])
def test_codecs_are_refused_where_they_would_do_harm(name: str) -> None:
    assert not ALGORITHMS[name].compresses
    with pytest.raises(NotSupported, match="codec"):
        run(quad().problem, make(name), rounds=1, codec=TopK(5))


def with_l1(here: Case) -> tuple[Problem, Any, float]:
    """The problem with an l1 penalty that makes some coefficients zero, its minimiser, and E(0)."""
    slope = np.abs(here.problem.pooled.gradient(np.zeros(20))).max()
    problem = Problem(here.problem.clients, sizes=here.problem.sizes, penalty=L1(0.2 * slope), solvers=DampedNewton())
    best = minimise(problem.pooled, solver=FISTA(), stop=GradientNorm(1e-11, cap=50_000))
    return problem, best, problem.value(np.zeros(20))


@pytest.mark.parametrize(
    ("name", "options", "budget"),
    [
        ("feddr", {}, 90),
        ("feddr", {"C": 4}, 190),
        ("feddr", {"penalty_rule": "balanced"}, 80),
        ("scaffnew", {}, 90),
    ],
)
@pytest.mark.parametrize("which", [quad, unequal])
def test_a_common_penalty_is_applied_by_the_server(name: str, options: Any, budget: int, which: Any) -> None:
    problem, best, first = with_l1(which())
    found = run(problem, make(name, **options), rounds=budget, threads=1)
    assert found.energy is not None
    assert found.energy - best.value <= 1e-9 * (first - best.value)
    zero = np.abs(best.x) < 1e-12
    assert 2 <= zero.sum() < 20
    assert np.array_equal(np.abs(found.theta) < 1e-12, zero)


def test_feddualavg_takes_the_penalty_into_psi() -> None:
    problem, best, first = with_l1(quad())
    energies = run(problem, make("feddualavg"), rounds=200, threads=1).history.column("energy")
    errors = (energies - best.value) / (first - best.value)
    assert errors[200] < 0.4 * errors[100] < 1e-2


@pytest.mark.parametrize("name", ["fedpd", "feddr", "feddyn"])
def test_splitting_methods_take_nonsmooth_costs_if_the_penalty_is_given(name: str) -> None:
    rng = np.random.default_rng(9)
    parts = []
    for count in (10, 25, 15):
        X = rng.standard_normal((count, 4)) + rng.standard_normal(4)
        parts.append((X, np.where(X @ rng.standard_normal(4) > 0.3, 1.0, -1.0)))
    clients: list[Objective] = [LinearModel(X, y, Hinge(), ridge=0.5) for X, y in parts]
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    whole = LinearModel(X, y, Hinge(), ridge=0.5)
    best = minimise(whole, stop=PrimalDualGap(1e-13))
    given = {"alpha": 1.0} if name == "feddyn" else {"eta": 1.0}
    theta = models(Problem(clients), make(name, **given), 150)[-1]
    assert whole.value(theta) - best.value <= 1e-6
    assert np.linalg.norm(theta - best.x) <= 1e-3


@pytest.mark.parametrize("off", [1e-3, 1e3])
@pytest.mark.parametrize("which", [quad, unequal])
def test_balancing_forgives_a_penalty_that_is_wrong_by_a_thousand(which: Any, off: float) -> None:
    here: Case = which()
    eta = off / np.sqrt(here.mu * here.L)
    assert rounds_to(1e-8, here, FedDR(eta=eta, penalty_rule="balanced"), 130) < np.inf
    assert here.error(models(here.problem, FedDR(eta=eta), 130)[-1]) > 1e-2


UNIFORM = [name for name, algorithm in ALGORITHMS.items() if algorithm.uniform]


@pytest.mark.parametrize("name", UNIFORM)
def test_methods_for_equal_clients_minimise_the_weighted_mean(name: str) -> None:
    """Unequal clients whose strong convexity differs."""
    clients = [Quadratic(np.diag(a), np.array(b)) for a, b in (([1.0, 4.0], [1.0, 2.0]), ([3.0, 10.0], [-3.0, 1.0]))]
    problem = Problem(clients, sizes=[1, 3])
    best = minimise(problem.pooled, solver=DampedNewton(), stop=GradientNorm(1e-12))
    found = run(problem, make(name), rounds=1200 if name.endswith("svrp") else 400, threads=1)
    assert np.abs(found.theta - best.x).max() < 1e-8
    assert found.energy == pytest.approx(best.value, rel=1e-12)


@pytest.mark.parametrize("name", UNIFORM)
def test_methods_for_equal_clients_take_other_ridges(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.sign(X[:, 0] + 0.3 * rng.standard_normal(40))
    clients = [LinearModel(X[:10], y[:10], Logistic(), 0.01), LinearModel(X[10:], y[10:], Logistic(), 1.0)]
    problem = Problem(clients)
    best = minimise(problem.pooled, stop=GradientNorm(1e-12))
    found = run(problem, make(name), rounds=400, threads=1)
    assert np.abs(found.theta - best.x).max() < 1e-6
    assert found.energy == pytest.approx(best.value, rel=1e-10)


@pytest.mark.parametrize("intercept", [True, "free"])
def test_clients_with_other_ridges_get_a_common_one(intercept: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.sign(rng.standard_normal(40))
    parts = zip(np.split(np.arange(40), [10, 25]), (0.01, 1.0, 0.3))
    clients: list[Objective] = [LinearModel(X[i], y[i], Logistic(), r, intercept=intercept) for i, r in parts]
    clients[1] = clients[1].tilted(0.2)
    problem, algorithm = Problem(clients), make("5gcs")
    ridge = common_ridge(clients, problem.weights)
    bound_to = [bound(f, w, 3, algorithm, None, ridge) for f, w in zip(clients, problem.weights)]
    mean, x = Average(bound_to, [1 / 3] * 3), rng.standard_normal(4)
    assert mean.value(x) == pytest.approx(problem.value(x), rel=1e-13)
    assert np.allclose(mean.gradient(x), problem.pooled.gradient(x), rtol=1e-12)
    assert [f.mu for f in bound_to] == pytest.approx([np.min(ridge)] * 3)
    assert common_ridge([f.fresh() for f in clients[:1]] * 3, problem.weights) is None
    assert bound(clients[0], 0.5, 2, make("dualfl"), None, ridge).mu == clients[0].mu  # it takes weights


def test_giant_steps_back_from_an_overflow() -> None:
    problem = Problem([LinearModel(np.ones((20, 1)), np.full(20, 1000.0), Poisson(), 1e-3)] * 2)
    best = minimise(problem.pooled, solver=DampedNewton(), stop=GradientNorm(1e-9))
    assert run(problem, make("giant"), rounds=20, threads=1).energy == pytest.approx(best.value, rel=1e-12)


def test_bundle_refuses_bounds_and_takes_other_penalties() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    clients = [LinearModel(X, np.sign(X[:, 0]), Logistic(), 0.1)] * 2
    for box in (BoxConstraint(-0.1, 0.1), NonNegative()):
        with pytest.raises(NotSupported, match=r"^bundle evaluates the cost anywhere, .* BoxConstraint.*\.$"):
            run(Problem(clients, penalty=box), make("bundle"), rounds=5)
    for penalty in (L1(0.1), BoxConstraint()):
        problem = Problem(clients, penalty=penalty)
        best = minimise(problem.pooled, solver=FISTA(), stop=GradientNorm(1e-9, cap=50_000)).value
        result = run(problem, make("bundle"), rounds=30, threads=1)
        assert result.energy == pytest.approx(best, rel=1e-6) and result.state.bound <= best + 1e-12


def test_bundle_drops_cuts_that_overflow() -> None:
    problem = Problem([LinearModel(np.ones((20, 1)), np.full(20, 10.0), Poisson(), 1e-2)] * 2)
    best = minimise(problem.pooled, solver=DampedNewton(), stop=GradientNorm(1e-9)).value
    bounds = [run(problem, make("bundle"), rounds=rounds, threads=1).state.bound for rounds in (0, 1, 10)]
    assert -np.inf < bounds[0] <= bounds[1] < bounds[2] <= best  # the first minimiser is at 900
    with pytest.raises(InputError, match="bundle needs a start where E is finite"):
        run(problem, make("bundle"), rounds=1, start=np.array([800.0]), evaluate=False)


def test_fista_on_the_dual_takes_its_own_default_where_all_is_round() -> None:
    problem = Problem([Quadratic(np.eye(2), b) for b in np.eye(2)])
    for name in ("fista-dual", "dualfl"):
        assert np.allclose(run(problem, make(name), rounds=2).theta, 0.5, atol=1e-12)


def test_a_row_method_says_what_it_misses() -> None:
    with pytest.raises(NotSupported, match="batch=None"):
        run(quad().problem, make("s-local-svrg"), rounds=1)
    with pytest.raises(NotSupported, match="samples"):
        run(quad().problem, make("proxskip-vr"), rounds=1)


@pytest.mark.parametrize("name", ["s-local-svrg", "proxskip-vr"])
def test_stochastic_methods_take_a_problem_whose_curvature_is_added(name: str) -> None:
    """A regularised cost has rows too: its gradients of single rows and their smoothness are those of the sum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] + rng.logistic(size=60) > 0, 1.0, -1.0)
    clients = [LinearModel(X[p], y[p], Logistic(), ridge=0.1) for p in np.array_split(np.arange(60), 3)]
    problem = Problem(clients).regularised(0.2)
    result = run(problem, make(name), rounds=400, threads=1)
    assert result.constants.L_row == pytest.approx(max(f.L_row for f in clients) + 0.2, rel=1e-12)
    assert np.linalg.norm(problem.pooled.gradient(result.theta)) < 1e-6
