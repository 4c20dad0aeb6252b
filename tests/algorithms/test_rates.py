"""The proven rates, in their own Lyapunov functions; expectations are exact, over all coins, subsets and masks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from instances import Case, Walk, band, logit, models, quad, rounds_to, tiny, unequal

from dualfl.algorithms import (
    APDA,
    TAMUNA,
    Algorithm,
    APDAInexact,
    FedDR,
    FedLin,
    FedPD,
    FedSplit,
    FiveGCS,
    LoCoDL,
    Place,
    RandProx,
    Scaffnew,
)
from dualfl.algorithms.accuracy import douglas_rachford
from dualfl.algorithms.proxskip import locodl, tamuna
from dualfl.engines.driver import Driver
from dualfl.solvers import LBFGS
from dualfl.streams import Stream
from dualfl.typing import Array

SLACK = 1 + 1e-9
STREAM = "dualfl.streams.Stream"


def squares(rows: Array, weights: Any = None) -> float:
    return float(np.sum((rows**2).sum(axis=-1) * (1.0 if weights is None else np.asarray(weights))))


class Fork:
    """Goes on from one state as often as one likes, each time with other draws."""

    def __init__(self, walk: Walk) -> None:
        self.walk, self.silos, self.saved = walk, walk.engine.silos, walk.driver.saved

    def again(self, rounds: int = 1) -> Walk:
        self.walk.engine.silos = self.silos
        self.walk.driver = Driver(self.walk.algorithm, self.walk.engine.place, self.saved)
        for _ in self.walk.states(rounds):
            pass
        return self.walk


def round_of(stream: Stream) -> int:
    return int(stream._words.state["state"]["counter"][2]) - 1


def steps(monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
    """Let the next rounds take so many local steps; all sides ask for them, so they hang on the round."""
    first: list[int] = []

    def geometric(self: Stream, p: float) -> int:
        if not first:
            first.append(round_of(self))
        return counts[round_of(self) - first[0]]

    monkeypatch.setattr(STREAM + ".geometric", geometric)


# -- deterministic methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("off", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("which", [quad, unequal])
def test_feddr_contracts(which: Any, off: float, alpha: float) -> None:
    here: Case = which()
    eta = off / np.sqrt(here.mu * here.L)
    walk = Walk(here.problem, FedDR(eta=eta, alpha=alpha, accuracy="exact"))
    r = douglas_rachford(eta, alpha, walk.engine.constants)
    star, w = here.star + eta * here.gradients(), walk.engine.weights
    before = squares(walk.stacked("y") - star, w)
    for _ in walk.states(8):
        now = squares(walk.stacked("y") - star, w)
        assert now <= r**2 * before * SLACK
        before = now


def test_the_factor_of_feddr_is_the_printed_one() -> None:
    c = Walk(quad().problem, FedDR()).engine.constants
    sk = np.sqrt(c.kappa)
    assert douglas_rachford(1 / np.sqrt(c.mu * c.L), 1.0, c) == pytest.approx(sk / (sk + 1))
    assert douglas_rachford(1 / np.sqrt(c.mu * c.L), 2.0, c) == pytest.approx((sk - 1) / (sk + 1))


@pytest.mark.parametrize("which", [quad, logit, unequal])
@pytest.mark.parametrize("cls", [APDA, APDAInexact])
def test_apda_contracts(which: Any, cls: type[APDA]) -> None:
    here: Case = which()
    problem = here.problem
    if cls is APDAInexact:  # with a solver that really stops early
        problem = type(problem)(problem.clients, sizes=problem.sizes, solvers=LBFGS())
    walk = Walk(problem, cls())
    a, w, g = walk.algorithm, walk.engine.weights, here.gradients()
    assert isinstance(a, APDA)
    m = here.mu if cls is APDA else here.mu / 2

    def phi() -> float:
        x = walk.stacked("x") - here.star
        y, yprev = walk.stacked("w") - walk.server.wbar, walk.stacked("y")
        return float(
            (1 / a.eta_x + m) * squares(x, w)
            + squares(y + g, w) / a.eta_y
            + (1 / a.eta_y - a.beta) * squares(y - yprev, w)
            - 2 * np.sum(w * ((x * (y - yprev)).sum(axis=1)))
        )

    walk.round()
    before = phi()
    for _ in walk.states(25):
        now = phi()
        assert now <= a.theta * before * SLACK
        before = now


@pytest.mark.parametrize("which", [quad, unequal])
def test_fedlin_has_its_rate_whatever_the_number_of_steps(which: Any) -> None:
    here: Case = which()
    for K in (1, 5):
        thetas = models(here.problem, FedLin(K=K, eta=1 / (6 * K * here.L)), 30)
        bound = (1 - here.mu / (6 * here.L)) ** np.arange(1, 31)
        assert (np.array([here.energy_error(t) for t in thetas]) <= bound * SLACK).all()


@pytest.mark.parametrize("algorithm", [FedPD(), FedSplit(), Scaffnew(), APDA()], ids=lambda a: a.name)
def test_rounds_grow_like_the_root_of_kappa(algorithm: Algorithm) -> None:
    """Sixteen times the condition number, about four times the rounds; a method of order kappa would need sixteen."""
    few, many = (rounds_to(1e-4, band(kappa), algorithm, 400) for kappa in (100.0, 1600.0))
    assert few < many < 6 * few


# -- expectations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1.9])
@pytest.mark.parametrize("which", [tiny, unequal])
def test_scaffnew_over_the_coin(monkeypatch: pytest.MonkeyPatch, which: Any, scale: float) -> None:
    """p Psi(exchange after k + 1 steps) + (1 - p) Psi(k + 1 steps) <= rate Psi(k steps), for k = 0, 1, ..."""
    here: Case = which()
    walk = Walk(here.problem, Scaffnew(gamma=scale / here.L))
    for _ in walk.states(2):
        pass
    a, w, g = walk.algorithm, walk.engine.weights, here.gradients()
    assert isinstance(a, Scaffnew)
    rate = max((1 - a.gamma * here.mu) ** 2, (1 - a.gamma * here.L) ** 2, 1 - a.p**2)

    def psi(x: Array, h: Array) -> float:
        return squares(x - here.star, w) + (a.gamma / a.p) ** 2 * squares(h - g, w)

    fork, before = Fork(walk), None
    for k in range(4):
        steps(monkeypatch, k, 0)
        fork.again()
        skipped = psi(walk.stacked("x"), walk.stacked("h"))
        walk.round()  # without a step: it only takes in the mean
        exchanged = psi(walk.stacked("x"), walk.stacked("h"))
        if before is not None:
            assert a.p * exchanged + (1 - a.p) * skipped <= rate * before * SLACK
        before = skipped


def test_randprox_over_all_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    here, k, d = tiny(3, 4), 2, 4
    walk = Walk(here.problem, RandProx(k=k))
    for _ in walk.states(3):
        pass
    a, g = walk.algorithm, here.gradients()
    assert isinstance(a, RandProx)
    rate = max((1 - a.gamma * here.mu) ** 2, (1 - a.gamma * here.L) ** 2, 1 - (k / d) ** 2)

    def psi(x: Array, u: Array) -> float:
        return squares(x - here.star) + (a.gamma * d / k) ** 2 * squares(u + g)

    def after_exchange() -> float:
        """x_j and u_j once the last mean is taken in."""
        x, support = walk.stacked("xh").copy(), walk.locals[0].support
        x[:, support] = walk.server.a
        walk.round()  # takes it in, and computes u_j
        return psi(x, walk.stacked("u"))

    fork, values = Fork(walk), []
    before = after_exchange()
    for support in combinations(range(d), k):
        monkeypatch.setattr(STREAM + ".subset", lambda self, size, count, s=support: list(s))
        fork.again()
        values.append(after_exchange())
    assert np.mean(values) <= rate * before * SLACK


@pytest.mark.parametrize("p", [None, 1.0])
@pytest.mark.parametrize(("c", "s"), [(3, 2), (3, 3), (2, 2)])
def test_tamuna_over_coin_cohorts_and_masks(monkeypatch: pytest.MonkeyPatch, c: int, s: int, p: float | None) -> None:
    """Clients that are not drawn count as if they walked along.

    All curvatures are mu or L, so that with the right h and an exchange in every step the bound is attained.
    """
    here, N = tiny(3, 2), 3
    walk = Walk(here.problem, TAMUNA(c=c, s=s, p=p))
    for _ in walk.states(6):
        pass
    a, g = walk.algorithm, here.gradients()
    assert isinstance(a, TAMUNA)
    if p is not None:
        walk.engine.silos = [
            replace(silo, state=tamuna.Local(h=h, sent=np.zeros(0))) for silo, h in zip(walk.engine.silos, g)
        ]
    chi, kap = N * (s - 1) / (s * (N - 1)), (s - 1) / (N - 1)
    rate = max((1 - a.gamma * here.mu) ** 2, (1 - a.gamma * here.L) ** 2, 1 - a.p**2 * chi * kap)

    def psi(x: Array) -> float:
        return squares(x - here.star) + (a.gamma / a.p) ** 2 / (chi * kap) * squares(walk.stacked("h") - g)

    def one_step(x: Array) -> Array:
        slopes = np.stack([f.fresh().gradient(row) for f, row in zip(here.problem.clients, x)])
        return x - a.gamma * (slopes - walk.stacked("h"))

    start = np.tile(walk.server.x, (N, 1))
    before, skipped, values = psi(start), psi(one_step(start)), []
    fork = Fork(walk)
    steps(monkeypatch, 1)
    for cohort, order in product(combinations(range(N), c), permutations(range(c))):
        monkeypatch.setattr(Place, "cohort", lambda self, size, cohort=cohort: list(cohort))
        monkeypatch.setattr(STREAM + ".permutation", lambda self, size, order=order: np.array(order))
        fork.again()
        values.append(psi(np.tile(walk.server.x, (N, 1))))
    ratio = (a.p * np.mean(values) + (1 - a.p) * skipped) / (rate * before)
    assert ratio <= SLACK
    assert p is None or ratio == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("p", [None, 1.0])
def test_locodl_over_coin_and_all_supports(monkeypatch: pytest.MonkeyPatch, p: float | None) -> None:
    """From anywhere. All curvatures are mu or L and the dual variables are right: for p = 1 the bound is nearly met."""
    here, N, d = tiny(2, 2), 2, 2
    walk = Walk(here.problem, LoCoDL(k=1, p=p))
    walk.round()
    a: Any = walk.algorithm
    omega, chi, mu, L = a.omega(d), a.chi(N, d), a.mu_g, here.L - a.mu_g
    rate = max((1 - a.gamma * mu) ** 2, (1 - a.gamma * L) ** 2, 1 - a.p**2 * chi / (1 + 2 * omega))
    u_star, v_star = here.gradients() - a.mu_g * here.star, a.mu_g * here.star

    def psi() -> float:
        x, y = walk.stacked("xh") - here.star, walk.stacked("yh") - here.star
        dual = a.gamma * (1 + 2 * omega) / (a.p**2 * chi)
        return (squares(x) + squares(y)) / a.gamma + dual * (
            squares(walk.stacked("u") - u_star) + squares(walk.stacked("v") - v_star)
        )

    def place(x: Array, y: Array) -> None:
        """Everybody at rest but for x_j and y; a db of zero leads from xh_j to (1 - r) xh_j + r yh."""
        zero, r = np.zeros(d), chi
        walk.engine.silos = [
            replace(silo, state=locodl.Local(xh=(xj - r * y) / (1 - r), yh=y, u=uj, v=v_star, sent=zero))
            for silo, xj, uj in zip(walk.engine.silos, x, u_star)
        ]
        state = locodl.Server(y=y, v=v_star, db=zero)
        walk.driver = Driver(a, walk.engine.place, replace(walk.driver.saved, state=state))

    rng, ratios = np.random.default_rng(0), []
    for _ in range(6):
        place(here.star + rng.standard_normal((N, d)), here.star + rng.standard_normal(d))
        fork = Fork(walk)
        steps(monkeypatch, 0)
        fork.again()
        before = psi()
        steps(monkeypatch, 1)
        fork.again()
        skipped, values = psi(), []
        for supports in product(range(d), repeat=N):
            with monkeypatch.context() as patch:
                patch.setattr("dualfl.algorithms.proxskip.locodl.Stream", forced(supports))
                steps(patch, 1, 0)
                fork.again(2)
                values.append(psi())
        ratios.append((a.p * np.mean(values) + (1 - a.p) * skipped) / (rate * before))
    assert max(ratios) <= SLACK
    assert p is None or max(ratios) > 0.95


def forced(supports: tuple[int, ...]) -> type:
    """A stream that gives each client a support of one coordinate."""

    class Forced:
        def __init__(self, seed: int, tag: str, j: int, round: int, exchange: int) -> None:
            self.j = j

        def subset(self, size: int, count: int) -> list[int]:
            return [supports[self.j]]

    return Forced


@pytest.mark.parametrize("solve", ["exact", "steps"])
@pytest.mark.parametrize("C", [1, 2, 3])
def test_5gcs_over_all_cohorts(monkeypatch: pytest.MonkeyPatch, C: int, solve: Any) -> None:
    here, N = tiny(), 3
    walk = Walk(here.problem, FiveGCS(C=C, solve=solve))
    for _ in walk.states(4):
        pass
    a, star = walk.algorithm, (here.gradients() - here.mu * here.star) / N
    assert isinstance(a, FiveGCS)
    LF = (here.L - here.mu) / N
    rate = 1 - min(a.gamma * a.mu / (1 + a.gamma * a.mu), C / N * a.tau / (LF + a.tau))

    def psi() -> float:
        u = np.stack([np.zeros(3) if c is None else c.u for c in walk.locals])
        return squares(walk.server.x - here.star) / a.gamma + N / C * (1 / a.tau + 1 / LF) * squares(u - star)

    fork, values = Fork(walk), []
    before = psi()
    for cohort in combinations(range(N), C):
        monkeypatch.setattr(Place, "cohort", lambda self, size, cohort=cohort: list(cohort))
        fork.again()
        values.append(psi())
    assert np.mean(values) <= rate * before * SLACK


@pytest.mark.parametrize("C", [1, 2])
def test_feddr_over_all_cohorts(monkeypatch: pytest.MonkeyPatch, C: int) -> None:
    """A cohort replaces C of N blocks of a contraction: E|y+ - y*|^2 <= (1 - (C/N)(1 - r^2)) |y - y*|^2."""
    here, N = tiny(), 3
    walk = Walk(here.problem, FedDR(C=C, accuracy="exact"))
    for _ in walk.states(3):
        pass
    a = walk.algorithm
    assert isinstance(a, FedDR)
    r = douglas_rachford(a.eta, a.alpha, walk.engine.constants)
    star = here.star + a.eta * here.gradients()
    fork, before, values = Fork(walk), squares(walk.stacked("y") - star), []
    for cohort in combinations(range(N), C):
        monkeypatch.setattr(Place, "cohort", lambda self, size, cohort=cohort: list(cohort))
        fork.again()
        values.append(squares(walk.stacked("y") - star))
    assert np.mean(values) <= (1 - C / N * (1 - r**2)) * before * SLACK
