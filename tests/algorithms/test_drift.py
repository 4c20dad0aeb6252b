"""Methods that do not end at theta*: they end exactly where theory says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from instances import Walk, close, models, quad, tiny, unequal

from dualfl.algorithms import Algorithm, FedAvg, FedCM, FedDualAvg, FedProx, FedSAM, Scaffold
from dualfl.engines import Problem
from dualfl.objectives import Quadratic
from dualfl.typing import Array


def weighted_quad(sizes: list[float] | None = None) -> Problem:
    return Problem(quad().problem.clients, sizes=sizes, solvers=quad().problem.solvers)


WEIGHTS = [None, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]


def end(problem: Problem, algorithm: Algorithm, rounds: int) -> Array:
    return models(problem, algorithm, rounds)[-1]


def assert_ends_at(point: Array, problem: Problem, algorithm: Algorithm) -> None:
    """It stays there, and comes nearer from elsewhere."""
    close(models(problem, algorithm, 2, start=point), np.stack([point, point]), 1e-12)
    distance = np.linalg.norm(models(problem, algorithm, 30) - point, axis=1)
    assert distance[-1] < 0.3 * np.linalg.norm(point)


def fedavg_fixed_point(problem: Problem, eta: float, K: int) -> Array:
    """(sum_j w_j M_j)^-1 sum_j w_j M_j x_j*, M_j = I - (I - eta H_j)^K."""
    left, right = 0.0, 0.0
    for f, w in zip(problem.clients, problem.weights):
        assert isinstance(f, Quadratic)
        H = np.asarray(f.A)
        M = np.eye(f.d) - np.linalg.matrix_power(np.eye(f.d) - eta * H, K)
        left = left + w * M
        right = right + w * M @ np.linalg.solve(H, f.b)
    return np.linalg.solve(left, right)


@pytest.mark.parametrize("sizes", WEIGHTS)
def test_fedavg_ends_at_its_own_fixed_point(sizes: list[float] | None) -> None:
    problem = weighted_quad(sizes)
    point = fedavg_fixed_point(problem, 1 / (10 * 100), 10)
    assert_ends_at(point, problem, FedAvg(eta=1 / (10 * 100)))


def test_fedavg_floor_is_far_from_the_optimum() -> None:
    floor = quad().error(end(quad().problem, FedAvg(), 120))
    assert 1e-3 < floor < 1e-1


def test_fedcm_ends_at_the_fixed_point_of_fedavg_with_alpha_times_the_step() -> None:
    problem = weighted_quad(WEIGHTS[1])
    point = fedavg_fixed_point(problem, 0.1 / (10 * 100), 10)
    close(models(problem, FedCM(eta_l=1 / (10 * 100)), 2, start=point), np.stack([point, point]), 1e-12)
    floors = [quad().error(end(quad().problem, algorithm, 90)) for algorithm in (FedAvg(), FedCM())]
    assert floors[1] < floors[0] / 4


def moreau_minimiser(problem: Problem, a: float) -> Array:
    """Where the mean of a (x - prox_{f_j/a}(x)), the gradients of the Moreau envelopes, vanishes."""
    left, right = 0.0, 0.0
    for f, w in zip(problem.clients, problem.weights):
        assert isinstance(f, Quadratic)
        R = np.linalg.inv(np.asarray(f.A) + a * np.eye(f.d))
        left, right = left + w * (np.eye(f.d) - a * R), right + w * R @ f.b
    return np.linalg.solve(left, right)


@pytest.mark.parametrize("sizes", WEIGHTS)
def test_fedprox_ends_at_the_minimiser_of_the_mean_moreau_envelopes(sizes: list[float] | None) -> None:
    problem = weighted_quad(sizes)
    for a in (10.0, 50.0):
        assert_ends_at(moreau_minimiser(problem, a), problem, FedProx(a=a))


def test_fedprox_drifts_less_with_a_larger_weight() -> None:
    floors = [quad().error(moreau_minimiser(quad().problem, a)) for a in (10.0, 100.0)]
    assert 1e-4 < floors[1] < floors[0] / 4


def test_fedprox_without_a_weight_is_fedavg() -> None:
    step = 1 / (10 * 100)
    a = models(quad().problem, FedProx(a=0.0, K=10, eta=step), 20)
    close(a, models(quad().problem, FedAvg(), 20), 1e-13)


def test_the_floor_of_fedsam_falls_with_its_radius() -> None:
    """With one local step there is no drift but the radius': an offset of order rho, squared in the error."""
    errors = [quad().error(end(quad().problem, FedSAM(K=1, rho=rho), 150)) for rho in (0.04, 0.02, 0.01)]
    assert 3 < errors[0] / errors[1] < 5 and 3 < errors[1] / errors[2] < 5
    assert errors[0] > 1e-9


def test_the_error_of_feddualavg_falls_like_one_over_r_squared() -> None:
    here = tiny()
    walk, errors = Walk(here.problem, FedDualAvg()), {}
    for r, _ in enumerate(walk.states(400), start=1):
        errors[r] = here.error(walk.model)
    for r in (100, 200):
        assert 3.2 < errors[r] / errors[2 * r] < 4.8


def test_one_local_step_does_not_drift() -> None:
    for algorithm in (FedAvg(K=1), FedCM(K=1, alpha=1.0), Scaffold(K=1)):
        assert quad().error(end(quad().problem, algorithm, 150)) < 1e-15


def test_alike_clients_do_not_drift() -> None:
    f = quad().problem.clients[0]
    star = np.linalg.solve(np.asarray(f.A), f.b)  # type: ignore[attr-defined]
    assert_ends_at(star, Problem([f, f, f]), FedAvg(eta=0.01))


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(eta=0.1, C=3),
        FedSAM(eta=0.1, C=3),
        FedCM(eta_l=0.1, C=3),
        FedProx(a=0.3, C=3),
        FedProx(a=0.3, C=3, K=4, eta=0.2),
        FedDualAvg(eta_c=0.1, mu_psi=0.01, C=3),
    ],
    ids=lambda a: a.name,
)
def test_a_round_with_a_cohort_is_a_round_of_a_problem_with_these_clients(algorithm: Algorithm) -> None:
    """Nobody remembers anything, so the others do not matter, and the weights are those within the cohort."""
    problem = unequal().problem
    walk = Walk(problem, algorithm)
    cohort = replace(walk.engine.place, round=0).cohort(3)
    walk.round()
    those = Problem(
        [problem.clients[j] for j in cohort], sizes=[problem.sizes[j] for j in cohort], solvers=problem.solvers[0]
    )
    close(walk.model, end(those, algorithm, 1), 1e-13)


def test_many_steps_of_fedprox_are_its_prox() -> None:
    a = end(quad().problem, FedProx(a=10.0, K=600), 1)
    close(a, end(quad().problem, FedProx(a=10.0), 1), 1e-9)


def test_fedavg_with_a_cohort_moves_around_the_same_floor() -> None:
    here = unequal()
    errors = [here.error(m) for m in models(here.problem, FedAvg(C=2), 300)[200:]]
    assert 1e-4 < np.median(errors) < 1.0
