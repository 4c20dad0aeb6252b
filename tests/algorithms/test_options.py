"""What some algorithms can do beside the plain problem: codecs, common penalties, nonsmooth costs, balancing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instances import Case, models, quad, rounds_to, unequal

from dualfl.algorithms import Codec, FedDR, Quantise, RandK, TopK
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.engines import Problem, run
from dualfl.errors import NotSupported
from dualfl.objectives import L1, Hinge, LinearModel, Objective
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


def test_a_row_method_says_what_it_misses() -> None:
    with pytest.raises(NotSupported, match="batch=None"):
        run(quad().problem, make("s-local-svrg"), rounds=1)
    with pytest.raises(NotSupported, match="samples"):
        run(quad().problem, make("proxskip-vr"), rounds=1)
