"""Sampling and compression over many rounds and seeds: the mean of the Lyapunov function stays below its bound.

A Lyapunov function that falls in expectation by `rate` an iteration makes Psi_t / rate^t a supermartingale, and so its
mean at the n-th exchange, whenever that is, is at most Psi_0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from instances import Walk, mild, quad, rounds_to

from dualfl.algorithms import TAMUNA, FedDR, FedDyn, FiveGCS, LoCoDL, RandProx, Scaffnew, Scaffold
from dualfl.algorithms.accuracy import douglas_rachford
from dualfl.algorithms.registry import make
from dualfl.typing import Array

N, d = 8, 20
SEEDS = range(5)


def squares(x: Array) -> float:
    return float(np.sum(x**2))


def iterations(walk: Walk, p: float, rounds: int) -> int:
    """How many local steps the coin has given so far."""
    places = [replace(walk.engine.place, round=n) for n in range(rounds)]
    return sum(at.common("coin").geometric(p) for at in places)


def walked(algorithm: Any, rounds: int, seed: int) -> Walk:
    walk = Walk(quad().problem, algorithm, seed=seed)
    for _ in walk.states(rounds):
        pass
    return walk


def start_of(algorithm: Any) -> Walk:
    return Walk(quad().problem, algorithm)


@pytest.mark.parametrize("C", [2, 4])
def test_feddr_with_cohorts(C: int) -> None:
    here, rounds = quad(), 40
    first = start_of(FedDR(C=C))
    a: Any = first.algorithm
    star = here.star + a.eta * here.gradients()
    rate = 1 - C / N * (1 - douglas_rachford(a.eta, a.alpha, first.engine.constants) ** 2)
    ends = [squares(walked(FedDR(C=C, accuracy="exact"), rounds, s).stacked("y") - star) for s in SEEDS]
    assert np.mean(ends) <= rate**rounds * squares(first.stacked("y") - star)


@pytest.mark.parametrize("C", [2, 8])
def test_5gcs_with_cohorts(C: int) -> None:
    here, rounds = quad(), 12
    a: Any = start_of(FiveGCS(C=C)).algorithm
    star, LF = (here.gradients() - here.mu * here.star) / N, (here.L - here.mu) / N
    rate = 1 - min(a.gamma * a.mu / (1 + a.gamma * a.mu), C / N * a.tau / (LF + a.tau))

    def psi(x: Array, u: Array) -> float:
        return squares(x - here.star) / a.gamma + N / C * (1 / a.tau + 1 / LF) * squares(u - star)

    ends = []
    for seed in SEEDS:
        walk = walked(FiveGCS(C=C), rounds, seed)
        ends.append(psi(walk.server.x, np.stack([np.zeros(d) if c is None else c.u for c in walk.locals])))
    assert np.mean(ends) <= rate**rounds * psi(np.zeros(d), np.zeros((N, d)))


@pytest.mark.parametrize("k", [2, 10])
def test_randprox_with_few_coordinates(k: int) -> None:
    here, rounds = quad(), 60
    a: Any = start_of(RandProx(k=k)).algorithm
    rate = max((1 - a.gamma * here.mu) ** 2, (1 - a.gamma * here.L) ** 2, 1 - (k / d) ** 2)

    def psi(x: Array, u: Array) -> float:
        return squares(x - here.star) + (a.gamma * d / k) ** 2 * squares(u + here.gradients())

    ends = []
    for seed in SEEDS:
        walk = walked(RandProx(k=k), rounds, seed)
        x, support = walk.stacked("xh").copy(), walk.locals[0].support
        u = walk.stacked("u").copy()
        u[:, support] += k / d * (x[:, support] - walk.server.a) / a.gamma
        x[:, support] = walk.server.a
        ends.append(psi(x, u))
    assert np.mean(ends) <= rate**rounds * psi(np.zeros((N, d)), np.zeros((N, d)))


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_scaffnew(scale: float) -> None:
    here, rounds = quad(), 15
    a: Any = start_of(Scaffnew(gamma=scale / quad().L)).algorithm
    rate = max((1 - a.gamma * here.mu) ** 2, (1 - a.gamma * here.L) ** 2, 1 - a.p**2)

    def psi(x: Array, h: Array) -> float:
        return squares(x - here.star) + (a.gamma / a.p) ** 2 * squares(h - here.gradients())

    scaled = []
    for seed in SEEDS:
        walk = walked(a, rounds, seed)
        h = walk.stacked("h") + a.p / a.gamma * (walk.server.x - walk.stacked("x"))
        scaled.append(psi(np.tile(walk.server.x, (N, 1)), h) / rate ** iterations(walk, a.p, rounds))
    assert np.mean(scaled) <= psi(np.zeros((N, d)), np.zeros((N, d)))


@pytest.mark.parametrize(("c", "s"), [(8, 2), (4, 2), (5, 3)])
def test_tamuna_with_cohorts_and_masks(c: int, s: int) -> None:
    here, rounds = quad(), 25
    a: Any = start_of(TAMUNA(c=c, s=s)).algorithm
    learning = a.chi(N) * (s - 1) / (N - 1)
    rate = max((1 - a.gamma * here.mu) ** 2, (1 - a.gamma * here.L) ** 2, 1 - a.p**2 * learning)

    def psi(x: Array, h: Array) -> float:
        return N * squares(x - here.star) + (a.gamma / a.p) ** 2 / learning * squares(h - here.gradients())

    scaled = []
    for seed in SEEDS:
        walk = walked(a, rounds, seed)
        h = np.stack([np.zeros(d) if one is None else one.h for one in walk.locals])
        scaled.append(psi(walk.server.x, h) / rate ** iterations(walk, a.p, rounds))
    assert np.mean(scaled) <= psi(np.zeros(d), np.zeros((N, d)))


def test_locodl_with_few_coordinates() -> None:
    here, rounds = quad(), 25
    walk = start_of(LoCoDL(k=4))
    a: Any = walk.algorithm
    omega, chi, mu, L = a.omega(d), a.chi(N, d), a.mu_g, here.L - a.mu_g
    rate = max((1 - a.gamma * mu) ** 2, (1 - a.gamma * L) ** 2, 1 - a.p**2 * chi / (1 + 2 * omega))

    def psi(x: Array, y: Array, u: Array, v: Array) -> float:
        dual = a.gamma * (1 + 2 * omega) / (a.p**2 * chi)
        off = squares(u - here.gradients() + a.mu_g * here.star) + N * squares(v - a.mu_g * here.star)
        return (squares(x - here.star) + N * squares(y - here.star)) / a.gamma + dual * off

    scaled = []
    for seed in SEEDS:
        walk = walked(a, rounds, seed)
        at, db = walk.engine.place, walk.server.db
        x = (1 - chi) * walk.stacked("xh") + chi * (walk.stacked("yh") + db)
        u = walk.stacked("u") + a.q(at) * (db - walk.stacked("sent"))
        scaled.append(psi(x, walk.server.y, u, walk.server.v) / rate ** iterations(walk, a.p, rounds))
    zero = np.zeros((N, d))
    assert np.mean(scaled) <= psi(zero, zero[0], zero, zero[0])


@pytest.mark.parametrize(
    ("algorithm", "most"),
    [(FedDyn(C=4), 160), (Scaffold(C=4), 100), (FedDR(C=4), 150)],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_cohorts_are_not_lucky_with_one_seed(algorithm: Any, most: int) -> None:
    needed = [rounds_to(1e-8, quad(), algorithm, most, seed=seed) for seed in SEEDS]
    assert np.median(needed) <= most
    assert max(needed) <= 1.5 * min(needed)


def test_variance_reduction_reaches_the_optimum_with_any_seed() -> None:
    for seed in range(3):
        assert rounds_to(1e-8, mild(), make("proxskip-vr"), 95, seed=seed) <= 95
