"""Methods that are one method under several names give the same iterates, and what must add up adds up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from instances import Case, Walk, close, models, quad, tiny, unequal

from dualfl.algorithms import (
    APDA,
    TAMUNA,
    Algorithm,
    APDAInexact,
    CompressedScaffnew,
    FedAvg,
    FedDR,
    FedDualAvg,
    FedDyn,
    FedLin,
    FedPD,
    FedSAM,
    FedSplit,
    FiveGCS,
    LoCoDL,
    Place,
    ProxSkipVR,
    RandProx,
    Scaffnew,
    Scaffold,
    SLocalSVRG,
)
from dualfl.solvers import LBFGS
from dualfl.typing import Array

EXACT: Any = {"accuracy": "exact"}


@pytest.fixture(params=["quad", "unequal"])
def here(request: pytest.FixtureRequest) -> Case:
    return {"quad": quad, "unequal": unequal}[request.param]()


# -- T2: one splitting method, four names -----------------------------------------------------------------------


def test_fedpd_is_feddyn(here: Case) -> None:
    a = models(here.problem, FedPD(eta=0.3, **EXACT), 12)
    close(a, models(here.problem, FedDyn(alpha=1 / 0.3, **EXACT), 12))


def test_fedpd_is_feddr_which_has_taken_its_first_round_before_it_starts(here: Case) -> None:
    a = models(here.problem, FedPD(eta=0.3, **EXACT), 13)
    walk = Walk(here.problem, FedDR(eta=0.3, **EXACT))
    close(walk.model, a[0])
    close(np.stack([s.x for s in walk.states(12)]), a[1:])


def test_fedsplit_is_feddr_with_relaxation_two(here: Case) -> None:
    """From the same y_j = 0, hence z_j = 0; FedSplit's x is the mean of z_j, FedDR's the mean of 2 x_j - y_j."""
    a = models(here.problem, FedSplit(s=0.3, **EXACT), 13)
    walk = Walk(here.problem, FedDR(eta=0.3, alpha=2.0, **EXACT))
    close(walk.model, a[0])
    close(np.stack([s.x for s in walk.states(12)]), a[1:])


def test_balancing_that_never_acts_is_feddr(here: Case) -> None:
    a = models(here.problem, FedDR(penalty_rule="balanced", settle=0, **EXACT), 10)
    close(a, models(here.problem, FedDR(**EXACT), 10))


# -- T3: drifting methods ---------------------------------------------------------------------------------------


def test_feddualavg_without_psi_is_fedavg(here: Case) -> None:
    step = 1 / (10 * here.L)
    a = models(here.problem, FedDualAvg(mu_psi=0.0, eta_c=step), 20)
    close(a, models(here.problem, FedAvg(eta=step), 20), 1e-13)


def test_fedsam_without_a_radius_is_fedavg(here: Case) -> None:
    assert np.array_equal(models(here.problem, FedSAM(rho=0.0), 20), models(here.problem, FedAvg(), 20))


def test_feddualavg_with_one_step_is_gradient_descent_with_vanishing_steps(here: Case) -> None:
    eta, mu = 1 / here.L, here.mu
    x, E = np.zeros(here.problem.d), here.problem.pooled
    expected = []
    for r in range(20):
        x = x - eta / (1 + eta * mu * (r + 1)) * E.gradient(x)
        expected.append(x)
    close(models(here.problem, FedDualAvg(K=1), 20), np.stack(expected))


def test_feddualavg_is_its_formula(here: Case) -> None:
    """Three clients' steps in the dual, written out."""
    eta, mu, K = 0.5 / here.L, here.mu, 3
    z, expected = np.zeros(20), []
    for r in range(4):
        ends = []
        for f in here.problem.clients:
            y = z
            for k in range(K):
                w = y / (1 + mu * eta * (r * K + k))
                y = y - eta * (f.gradient(w) - mu * w)
            ends.append(y)
        z = np.asarray(here.problem.weights) @ np.stack(ends)
        expected.append(z / (1 + mu * eta * (r + 1) * K))
    close(models(here.problem, FedDualAvg(K=K, eta_c=eta), 4), np.stack(expected), 1e-12)


# -- T4: one local step is gradient descent ---------------------------------------------------------------------


def gradient_descent(here: Case, step: float, rounds: int) -> Array:
    x, E = np.zeros(here.problem.d), here.problem.pooled
    return np.stack([x := x - step * E.gradient(x) for _ in range(rounds)])


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(K=1),
        Scaffold(K=1),
        Scaffold(K=1, option="I"),
        FedLin(K=1),
        Scaffnew(p=1.0),
        RandProx(k=20),
    ],
    ids=lambda a: a.name,
)
def test_one_step_is_gradient_descent(here: Case, algorithm: Algorithm) -> None:
    close(models(here.problem, algorithm, 25), gradient_descent(here, 1 / here.L, 25), 1e-12)


def test_s_local_gd_with_certain_coins_is_gradient_descent(here: Case) -> None:
    a = models(here.problem, SLocalSVRG(batch=None, p=1.0, gamma=1 / here.L), 25)
    close(a, gradient_descent(here, 1 / here.L, 25), 1e-12)


def test_tamuna_without_skipping_or_compressing_is_gradient_descent() -> None:
    a = models(quad().problem, TAMUNA(s=8, p=1.0, gamma=0.01), 25)
    close(a, gradient_descent(quad(), 0.01, 25), 1e-12)


def test_s_local_gd_is_fedlin_with_as_many_steps(monkeypatch: pytest.MonkeyPatch, here: Case) -> None:
    monkeypatch.setattr("dualfl.streams.Stream.geometric", lambda self, p: 7)
    eta = 1 / (7 * here.L)
    a = models(here.problem, SLocalSVRG(batch=None, gamma=eta), 20)
    close(a, models(here.problem, FedLin(K=7, eta=eta), 20), 1e-12)


# -- T5: the family that skips the prox -------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [TAMUNA, CompressedScaffnew])
def test_tamuna_of_all_clients_without_masks_is_scaffnew(cls: type[TAMUNA]) -> None:
    """The coins are drawn from the same stream, so the numbers of local steps agree."""
    a = models(quad().problem, cls(s=8, gamma=0.01, p=0.1), 20)
    close(a, models(quad().problem, Scaffnew(gamma=0.01, p=0.1), 20), 1e-11)


def test_tamuna_of_all_clients_is_compressed_scaffnew() -> None:
    a = models(quad().problem, TAMUNA(s=3), 30)
    assert np.array_equal(a, models(quad().problem, CompressedScaffnew(s=3), 30))


def test_randprox_is_scaffnew_if_all_coordinates_are_drawn(here: Case) -> None:
    """k = d with certainty is Scaffnew with p = 1."""
    close(models(here.problem, RandProx(k=20), 20), models(here.problem, Scaffnew(p=1.0), 20), 1e-12)


def test_proxskip_vr_with_all_rows_is_scaffnew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of all rows makes the estimator exact, whatever the reference point is."""
    here = unequal()
    smallest = min(f.n for f in here.problem.clients)
    problem = type(here.problem)([f for f in here.problem.clients if f.n == smallest] * 2)

    class AllRows:
        def integers(self, n: int, size: tuple[int, int]) -> Any:
            return np.tile(np.arange(n), (size[0], 1))

        def random(self, size: int) -> Array:
            return np.full(size, 0.3)

    monkeypatch.setattr(Place, "rng", lambda self, tag="": AllRows())
    how = {"gamma": 0.5, "p": 0.2}
    a = models(problem, ProxSkipVR(batch=smallest, q=0.5, **how), 15)
    close(a, models(problem, Scaffnew(**how), 15), 1e-9)


# -- T6 ---------------------------------------------------------------------------------------------------------


def test_5gcs_has_the_local_problem_of_dualfl_if_n_tau_is_mu() -> None:
    """argmin f_j(t) - nu <zeta_j, t> with nu = mu and zeta_j = xh + N u_j/mu."""
    here, mu = quad(), quad().mu
    walk = Walk(here.problem, FiveGCS(solve="exact", tau=mu / 8, gamma=0.5))
    for _ in walk.states(3):
        pass
    c, seen = walk.locals[2], {}
    xh = np.linspace(-1, 1, 20)

    def local(a: float, c: Array, warm: Any, stop: Any) -> Any:
        seen.update(a=a, c=c)
        return SimpleNamespace(subgradient=c, x=c, warm=None)

    at = Place(seed=0, N=8, d=20, round=3, j=2)
    walk.algorithm.local(SimpleNamespace(local=local), c, at, xh)
    assert seen["a"] == pytest.approx(0.0, abs=1e-15)
    close(seen["c"], mu * (xh + 8 * c.u / mu), 1e-14)


# -- T7: what adds up -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [2, 8])
def test_feddr_keeps_the_mean_of_all_reflected_points(here: Case, C: int) -> None:
    walk = Walk(here.problem, FedDR(C=C))
    for s in walk.states(30):
        close(s.xt, walk.mean(walk.stacked("xh")), 1e-12)


@pytest.mark.parametrize("C", [2, 8])
def test_feddyn_keeps_the_mean_of_all_gradients(here: Case, C: int) -> None:
    walk = Walk(here.problem, FedDyn(C=C))
    for _ in walk.states(40):
        pass
    g = walk.stacked("g")  # everybody has been asked by now, so everybody has a state
    close(walk.server.h, walk.mean(g), 1e-12, scale=g)


def test_dual_variables_of_exact_solves_are_gradients(here: Case) -> None:
    """FedPD: lambda_j = -f_j'(x_j), FedDyn: g_j = f_j'(x_j), FedDR: y_j = x_j + eta f_j'(x_j)."""
    clients = here.problem.clients
    pd = Walk(here.problem, FedPD(eta=0.2, **EXACT))
    dyn = Walk(here.problem, FedDyn(alpha=5.0, **EXACT))
    dr = Walk(here.problem, FedDR(eta=0.2, **EXACT))
    for walk in (pd, dyn, dr):
        for _ in walk.states(4):
            pass
    for j, f in enumerate(clients):
        close(pd.locals[j].lam, -f.gradient(pd.locals[j].warm), 1e-8)
        close(dyn.locals[j].g, f.gradient(dyn.locals[j].warm), 1e-8)
        close(dr.locals[j].y, dr.locals[j].x + 0.2 * f.gradient(dr.locals[j].x), 1e-8)


@pytest.mark.parametrize("C", [2, 8])
@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_keeps_the_mean_of_all_control_variates(here: Case, C: int, option: Any) -> None:
    walk = Walk(here.problem, Scaffold(C=C, option=option))
    for _ in walk.states(40):
        pass
    c = walk.stacked("c")
    close(walk.server.c, walk.mean(c), 1e-12, scale=c)


def test_control_variates_of_scaffold_are_gradients_at_the_start_or_means_of_gradients(here: Case) -> None:
    for option in ("I", "II"):
        walk = Walk(here.problem, Scaffold(option=option, K=2))  # type: ignore[arg-type]
        eta = walk.algorithm.eta_l  # type: ignore[attr-defined]
        for _ in range(3):
            x, c, before = walk.server.x, walk.server.c, walk.locals
            walk.round()
            for f, old, new in zip(here.problem.clients, before, walk.locals):
                g = f.gradient(x)
                own = np.zeros(20) if old is None else old.c
                close(new.c, g if option == "I" else (g + f.gradient(x - eta * (g - own + c))) / 2, 1e-11)


@pytest.mark.parametrize("algorithm", [Scaffnew(), ProxSkipVR()], ids=lambda a: a.name)
def test_control_variates_of_scaffnew_add_up_to_zero(algorithm: Algorithm) -> None:
    walk = Walk(unequal().problem, algorithm)
    for _ in walk.states(20):
        h = walk.stacked("h")
        assert np.abs(walk.mean(h)).max() <= 1e-13 * max(np.abs(h).max(), 1e-3)


@pytest.mark.parametrize("algorithm", [TAMUNA(), TAMUNA(c=4, s=3), TAMUNA(c=5), CompressedScaffnew()], ids=repr)
def test_control_variates_of_tamuna_add_up_to_zero(here: Case, algorithm: Algorithm) -> None:
    walk = Walk(here.problem, algorithm)
    for _ in walk.states(40):
        h = np.stack([c.h for c in walk.locals if c is not None])
        assert np.abs(h.sum(axis=0)).max() <= 1e-12 * max(np.abs(h).max(), 1e-3)


def test_randprox_keeps_zero_sums_and_the_mean_of_each_coordinate(here: Case) -> None:
    walk = Walk(here.problem, RandProx(k=3))
    for _ in walk.states(40):
        u = walk.stacked("u")
        assert np.abs(walk.mean(u)).max() <= 1e-13 * max(np.abs(u).max(), 1e-3)
        support = walk.locals[0].support
        close(walk.server.x[support], walk.mean(walk.stacked("xh"))[support], 1e-12)


def test_locodl_keeps_its_zero_sum_and_everybody_knows_y(here: Case) -> None:
    walk = Walk(here.problem, LoCoDL())
    before = walk.server
    for s in walk.states(40):
        u, v = walk.stacked("u"), walk.stacked("v")
        assert np.abs(u.mean(axis=0) + v[0]).max() <= 1e-12 * max(np.abs(u).max(), 1e-3)
        assert all(np.array_equal(row, v[0]) for row in v)
        assert np.array_equal(v[0], before.v)  # what the clients know is the server's state of the round before
        before = s


@pytest.mark.parametrize("algorithm", [APDA(), APDAInexact()], ids=lambda a: a.name)
def test_dual_variables_of_apda_add_up_to_zero(here: Case, algorithm: Algorithm) -> None:
    walk = Walk(here.problem, algorithm)
    for _ in walk.states(30):
        y = walk.stacked("y")
        assert np.abs(walk.mean(y)).max() <= 1e-12 * max(np.abs(y).max(), 1e-3)


def test_apda_steps_with_the_gradient_at_an_inexact_solution(here: Case) -> None:
    """x_j+ = x_j - eta_x (f_j'(xh_j) + yb_j), which differs from xh_j where the solver has stopped early."""
    problem = type(here.problem)(here.problem.clients, sizes=here.problem.sizes, solvers=LBFGS())
    walk = Walk(problem, APDAInexact())
    a: Any = walk.algorithm
    early = 0
    for _ in range(6):
        before, wbar = walk.locals, walk.server.wbar
        walk.round()
        for f, old, new in zip(problem.clients, before, walk.locals):
            if old is None:
                continue
            y = old.w - wbar
            yb, xh = y + a.theta * (y - old.y), new.warm
            close(new.x, old.x - a.eta_x * (f.gradient(xh) + yb), 1e-10)
            early += not np.allclose(new.x, xh, rtol=1e-6, atol=0)
    assert early


@pytest.mark.parametrize("C", [2, 8])
def test_5gcs_keeps_the_sum_of_its_dual_variables(here: Case, C: int) -> None:
    walk = Walk(here.problem, FiveGCS(C=C, K=5))
    for _ in walk.states(40):
        pass
    u = walk.stacked("u")
    close(walk.server.v, u.sum(axis=0), 1e-12, scale=u)


def test_everything_is_at_rest_at_the_optimum() -> None:
    """The dictionary of dual variables at theta*: with them, a round changes nothing."""
    here = tiny()
    g, star, mu, N = here.gradients(), here.star, here.mu, 3
    rest: list[tuple[Algorithm, str, Any]] = [
        (FedPD(**EXACT), "lam", lambda a: -g),
        (FedDR(**EXACT), "y", lambda a: star + a.eta * g),
        (FedDyn(**EXACT), "g", lambda a: g),
        (FedSplit(**EXACT), "z", lambda a: star - a.s * g),
        (Scaffnew(), "h", lambda a: g),
        (RandProx(), "u", lambda a: -g),
        (CompressedScaffnew(), "h", lambda a: g),
        (LoCoDL(), "u", lambda a: g - a.mu_g * star),
        (LoCoDL(), "v", lambda a: np.tile(a.mu_g * star, (N, 1))),
        (APDA(), "y", lambda a: -g),
        (APDAInexact(), "y", lambda a: -g),
        (FiveGCS(), "u", lambda a: (g - mu * star) / N),
        (Scaffold(), "c", lambda a: g),
    ]
    for algorithm, field, expected in rest:
        walk = Walk(here.problem, algorithm)
        for _ in walk.states(400):
            if here.error(walk.model) < 1e-18:
                break
        for _ in walk.states(20 if algorithm.name in ("randprox", "locodl", "compressed-scaffnew") else 3):
            pass
        close(walk.stacked(field), expected(walk.algorithm), 1e-6)
