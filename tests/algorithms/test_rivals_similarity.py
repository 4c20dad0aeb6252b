"""S-DANE, FedRed, SVRP and AccSVRS against plain NumPy, and as other methods under other names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from instances import Case, Walk, close, models, qsim, quad, tiny, unequal

from dualfl.algorithms import DANE, SDANE, SVRP, AccSDANE, AccSVRS, Algorithm, CatalyzedSVRP, FedRed, Place, SLocalSVRG
from dualfl.solvers import LBFGS
from dualfl.typing import Array


def matrices(here: Case) -> tuple[Array, Array]:
    """H_j and b_j of quadratics f_j(x) = x'H_j x/2 - b_j'x."""
    clients: Any = here.problem.clients
    return np.stack([np.asarray(f.A) for f in clients]), np.stack([f.b for f in clients])


def proximal(H: Array, a: float, c: Array) -> Array:
    """argmin x'Hx/2 + (a/2)|x|^2 - c'x."""
    return np.linalg.solve(H + a * np.eye(len(c)), c)


def place(walk: Walk, n: int) -> Place:
    return replace(walk.engine.place, round=n)


# -- S-DANE -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("first", [None, 3.0])
def test_s_dane_is_its_formula(accelerated: bool, first: float | None) -> None:
    """A and B as the paper has them; from lam = 3, far too small for these clients, the search turns rounds down."""
    H, b = matrices(quad())
    mu, N, d = 1.0, 8, 20
    lam, adaptive = (200.0 if first is None else first), first is not None
    x, v, A, B, rejected, expected = np.zeros(d), np.zeros(d), 0.0, 1.0, 0, []
    for _ in range(25):
        a = B / (2 * lam) + np.sqrt(B**2 / (4 * lam**2) + A * B / lam) if accelerated else 1 / lam
        y = (A * x + a * v) / (A + a) if accelerated else v
        h = H @ y - b - np.mean(H @ y - b, axis=0)
        own = np.stack([proximal(H[j], lam, b[j] + h[j] + lam * y) for j in range(N)])
        slopes = np.einsum("jkl,jl->jk", H, own) - b
        mean, slope = own.mean(axis=0), slopes.mean(axis=0)
        hx = H @ mean - b - np.mean(H @ mean - b, axis=0)
        gain = np.mean([(slopes[j] - hx[j]) @ (y - own[j]) for j in range(N)])
        if adaptive and gain < slope @ slope / (2 * lam):
            lam, rejected = 2 * lam, rejected + 1
        else:
            weight = B if accelerated else 1.0
            x, v = mean, (mu * a * mean + weight * v - a * slope) / (mu * a + weight)
            A, B, lam = A + a, B + mu * a, lam / 2 if adaptive else lam
        expected.append(x)
    assert bool(rejected) == adaptive
    algorithm = AccSDANE if accelerated else SDANE
    found = models(quad().problem, algorithm(lam=first or 200.0, adaptive=adaptive, mu=mu), 25)
    close(found, np.stack(expected), 1e-10)


def test_s_dane_moves_its_centre_by_the_gradients_of_rough_solutions() -> None:
    """Solutions are as rough as allowed, and the server's step is the one for them, by the clients' weights."""
    here = unequal()
    problem = type(here.problem)(here.problem.clients, sizes=here.problem.sizes, solvers=LBFGS())
    walk = Walk(problem, SDANE())
    a: Any = walk.algorithm
    rough = 0.0
    for _ in range(6):
        v = walk.server.v
        walk.round()
        g = np.stack([f.gradient(v) for f in problem.clients])
        E = walk.mean(g)
        xs = walk.stacked("x")
        slopes = np.stack([f.gradient(x) for f, x in zip(problem.clients, xs)])
        left = np.linalg.norm(slopes - g + E + a.lam * (xs - v), axis=1) / (a.lam * np.linalg.norm(xs - v, axis=1))
        assert left.max() <= 0.5 + 1e-9
        rough = max(rough, float(left.max()))
        close(walk.server.x, walk.mean(xs), 1e-13)
        expected = (a.mu * walk.mean(xs) + a.lam * v - walk.mean(slopes)) / (a.mu + a.lam)
        close(walk.server.v, expected, 1e-12)
    assert rough > 1e-3


def test_s_dane_with_exact_solves_is_dane() -> None:
    """The centre is then the mean of the solutions; quadratics are solved in one step of Newton's method."""
    close(models(quad().problem, SDANE(lam=150.0), 15), models(quad().problem, DANE(mu_D=150.0), 15), 1e-10)


def test_acc_s_dane_needs_about_the_root_of_the_rounds_of_s_dane() -> None:
    needed = []
    for algorithm in (SDANE(), AccSDANE()):
        errors = [tiny().error(m) for m in models(tiny().problem, algorithm, 80)]
        needed.append(int(np.argmax(np.array(errors) < 1e-9)))
    assert 0 < needed[1] < needed[0] / 2


def test_adaptive_s_dane_finds_that_clients_are_alike() -> None:
    walk = Walk(qsim().problem, SDANE(adaptive=True, lam=1e3))
    for _ in walk.states(40):
        pass
    assert walk.server.lam < 20 and qsim().error(walk.model) < 1e-12


def test_adaptive_s_dane_rests_at_the_optimum() -> None:
    for algorithm in (SDANE(adaptive=True), AccSDANE(adaptive=True)):
        walk = Walk(tiny().problem, algorithm)
        for s in walk.states(100):
            assert np.isfinite(s.lam) and s.lam > 0
        assert tiny().error(walk.model) < 1e-20


# -- FedRed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["quad", "unequal"])
def test_fedred_is_its_formula(which: str) -> None:
    here = {"quad": quad, "unequal": unequal}[which]()
    eta, lam, p = here.L, 0.4 * here.L, 0.3
    walk = Walk(here.problem, FedRed(eta=eta, lam=lam, p=p))
    x = np.zeros(20)
    for n, s in enumerate(walk.states(12)):
        g = np.stack([f.gradient(x) for f in here.problem.clients])
        h, ends = g - walk.mean(g), []
        for f, own in zip(here.problem.clients, h):
            y = x
            for _ in range(place(walk, n).common("coin").geometric(p)):
                step = 1 / (eta + lam)
                y = y - step * (f.gradient(y) - own + lam * (y - x))
            ends.append(y)
        x = walk.mean(np.stack(ends))
        close(s.x, x, 1e-12)


def test_fedred_with_one_regulariser_is_s_local_gd() -> None:
    here = quad()
    a = models(here.problem, FedRed(eta=here.L, lam=0.0, p=0.2), 15)
    close(a, models(here.problem, SLocalSVRG(batch=None, p=0.2, q=1.0, gamma=1 / here.L), 15), 1e-12)


# -- one client at a time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("catalyst", [0.0, 5.0])
def test_svrp_is_its_formula(catalyst: float) -> None:
    H, b = matrices(quad())
    mu, N, d, eta, p, T = 1.0, 8, 20, 0.01, 0.3, 7
    algorithm: Algorithm = SVRP(eta=eta, p=p)
    if catalyst:
        algorithm = CatalyzedSVRP(eta=eta, p=p, gam=catalyst, T=T)
    walk = Walk(quad().problem, algorithm)
    x = w = y = x0 = np.zeros(d)
    root = np.sqrt(mu / (mu + catalyst))
    for n, s in enumerate(walk.states(30)):
        at = place(walk, n)
        (m,) = at.common("client").subset(N, 1)
        g = np.mean(H @ w - b, axis=0) - (H[m] @ w - b[m])
        # prox of eta (f_m + (gam/2)|. - y|^2) at x - eta g
        x = proximal(H[m], 1 / eta + catalyst, b[m] + (x - eta * g) / eta + catalyst * y)
        if catalyst and (n + 1) % T == 0:
            y, x0, w = x + (1 - root) / (1 + root) * (x - x0), x, x
        elif at.common("reference").coin(p):
            w = x
        close(s.x, x, 1e-11)


def test_a_catalyst_of_no_weight_is_svrp() -> None:
    how: Any = {"eta": 0.01, "p": 0.3}
    a = models(quad().problem, CatalyzedSVRP(gam=0.0, T=10**6, **how), 25)
    assert np.array_equal(a, models(quad().problem, SVRP(**how), 25))


def test_accsvrs_is_its_formula() -> None:
    H, b = matrices(quad())
    mu, N, d, theta, p, tau, alpha, master = 1.0, 8, 20, 0.004, 0.25, 0.3, 0.1, 2
    walk = Walk(quad().problem, AccSVRS(mu=mu, p=p, theta=theta, tau=tau, alpha=alpha, master=master))

    def E(x: Array) -> Array:
        return np.mean(H @ x - b, axis=0)

    def h(x: Array) -> Array:
        """The gradient of |x|^2/(2 theta) + f_1 - E, in which an epoch is a mirror descent."""
        return x / theta + H[master] @ x - b[master] - E(x)

    y = z = np.zeros(d)
    for n, s in enumerate(walk.states(12)):
        at = place(walk, n)
        x0 = x = tau * z + (1 - tau) * y
        coins = at.common("clients")
        for _ in range(at.common("epoch").geometric(p)):
            i = int(coins.uniform() * N)
            g = H[i] @ (x - x0) + E(x0)
            x = proximal(H[master], 1 / theta, H[master] @ x + x / theta - g)
        y, G = x, p * (h(x0) - h(x))
        z = (z + mu * alpha / 2 * y - alpha * G) / (1 + mu * alpha / 2)
        close(s.y, y, 1e-11)
        close(s.z, z, 1e-11)


def test_accsvrs_of_one_client_is_a_proximal_point_method() -> None:
    """N = 1: nothing is left to correct, every step is a proximal one."""
    f: Any = tiny().problem.clients[0]
    walk = Walk(type(tiny().problem)([f]), AccSVRS(p=1.0, theta=0.3, tau=1.0, alpha=0.3))
    z = np.zeros(3)
    for s in walk.states(4):
        close(s.y, proximal(np.asarray(f.A), 1 / 0.3, f.b + z / 0.3), 1e-12)
        z = s.z
