"""SHED, FedNS, FedPM, FedNew and lazy FedNL against plain NumPy, and as other methods under other names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instances import Case, Walk, close, models, quad, tiny, unequal

from dualfl.algorithms import SHED, FedNew, FedNL, FedNS, FedPM
from dualfl.algorithms.second_order.shed import renewed, since
from dualfl.engines import run
from dualfl.errors import InputError
from dualfl.streams import Stream
from dualfl.typing import Array

N, d = 8, 20


@pytest.fixture(params=["quad", "unequal"])
def here(request: pytest.FixtureRequest) -> Case:
    return {"quad": quad, "unequal": unequal}[request.param]()


def weights(here: Case) -> Array:
    return np.asarray(here.problem.weights)


def gradients(here: Case, x: Array) -> Array:
    return np.stack([f.gradient(x) for f in here.problem.clients])


def hessians(here: Case, x: Array) -> Array:
    return np.stack([f.hessian(x) for f in here.problem.clients])


def searched(here: Case, x: Array, p: Array) -> Array:
    """x - t p for the first t = 1, 1/4, ... that decreases E enough, or 1 where rounding hides it."""
    E, slope = here.problem.value(x), float(here.problem.pooled.gradient(x) @ p)
    if slope <= 1e-13 * abs(E):
        return x - p
    for t in 4.0 ** -np.arange(7):
        if here.problem.value(x - t * p) <= E - 0.1 * t * slope:
            return x - t * p
    raise AssertionError("no step is short enough")


# -- SHED -------------------------------------------------------------------------------------------------------


def test_shed_renews_in_rounds_of_fibonacci() -> None:
    assert [n for n in range(40) if renewed(n)] == [0, 1, 2, 3, 5, 8, 13, 21, 34]
    assert [since(n) for n in range(10)] == [0, 0, 0, 0, 1, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("q", [1, 3])
def test_shed_is_its_formula(here: Case, q: int) -> None:
    walk, x, w = Walk(here.problem, SHED(q=q)), np.zeros(d), weights(here)
    sent = 0
    for n, s in enumerate(walk.states(11)):
        if n in (0, 1, 2, 3, 5, 8):
            old, sent = hessians(here, x), 0
        sent = min(sent + q, d)
        H = np.zeros((d, d))
        for j in range(N):
            values, V = np.linalg.eigh(old[j])
            low = np.where(np.arange(d) < d - sent, values[d - sent - 1], values)  # all that is to come is rho
            H += w[j] * (V * low) @ V.T
        x = searched(here, x, np.linalg.solve(H, w @ gradients(here, x)))
        close(s.x, x, 1e-9)


def test_shed_that_has_all_eigenvectors_is_newtons_method() -> None:
    """q = d: in the first round on quadratics, and in every round of Fibonacci's elsewhere."""
    assert quad().error(models(quad().problem, SHED(q=d), 1)[0]) < 1e-24
    close(models(unequal().problem, SHED(q=d), 4), models(unequal().problem, FedPM(), 4), 1e-9)


def test_shed_sends_nothing_twice() -> None:
    """q pairs of d + 1 numbers and rho a round, until all have come; and the gradient, 3 numbers and 7 energies."""
    rows = run(quad().problem, SHED(q=6), rounds=8, evaluate=False, threads=1).history
    up = [(b.floats_up - a.floats_up) / N - d - 10 for a, b in zip(rows, list(rows)[1:])]
    assert up == [1 + 6 * 21, 1 + 6 * 21, 1 + 6 * 21, 1 + 6 * 21, 1 + 6 * 21, 1 + 6 * 21, 1 + 6 * 21, 1 + 6 * 21]
    rows = run(quad().problem, SHED(q=12), rounds=8, evaluate=False, threads=1).history
    up = [(b.floats_up - a.floats_up) / N - d - 10 for a, b in zip(rows, list(rows)[1:])]
    assert up[5:] == [1 + 12 * 21, 1 + 8 * 21, 1]  # renewed in round 5


def test_shed_refuses_more_than_the_server_can_hold() -> None:
    resolved = Walk(tiny().problem, SHED()).algorithm
    from dualfl.algorithms import Constants

    with pytest.raises(InputError, match=r"N d\^2 = 4.0e\+09"):
        resolved.check(Constants(mu=1.0, L=2.0, N=1000, d=2000))


# -- FedNS ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line_search", [False, True])
def test_fedns_is_its_formula(here: Case, line_search: bool) -> None:
    k, eta, mu, x, w = 30, 0.6, here.mu, np.zeros(d), weights(here)
    walk = Walk(here.problem, FedNS(k=k, eta=eta, line_search=line_search))
    for n, s in enumerate(walk.states(6)):
        H = mu * np.eye(d)
        for j, own in enumerate(hessians(here, x)):
            values, V = np.linalg.eigh(own - mu * np.eye(d))
            root = V * np.sqrt(np.maximum(values, 0)) @ V.T
            # the same draws as the client's, up to the signs of its eigenvectors, which the root does not see
            B = Stream(0, "own:sketch", j, n, 0).generator().standard_normal((k, d)) / np.sqrt(k) @ root
            H += w[j] * B.T @ B
        p = np.linalg.solve(H, w @ gradients(here, x))
        x = searched(here, x, p) if line_search else x - eta * p
        close(s.x, x, 1e-9)


def test_a_large_sketch_is_newtons_method() -> None:
    """The error of a sketch falls like 1/sqrt(k), and with it that of the first step."""
    newton = models(unequal().problem, FedPM(line_search=False), 1)[0]
    off = [
        float(np.linalg.norm(models(unequal().problem, FedNS(k=k, line_search=False), 1)[0] - newton))
        for k in (20, 2000)
    ]
    assert off[1] < off[0] / 5


def test_fedns_counts_the_sketch() -> None:
    rows = run(quad().problem, FedNS(k=7), rounds=2, evaluate=False, threads=1).history
    assert rows[-1].floats_up == 2 * N * (d + 7 * (d + 1) + 10)


# -- FedPM ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 3])
def test_fedpm_is_its_formula(here: Case, K: int) -> None:
    x, w, eta, expected = np.zeros(d), weights(here), 0.7, []
    for _ in range(5):
        ends, last = [], []
        for f in here.problem.clients:
            y = x
            for _ in range(K):
                H = f.hessian(y)
                y = y - eta * np.linalg.solve(H, f.gradient(y))
            ends.append(y)
            last.append(H)
        P = np.stack(last)
        mixed = np.einsum("j,jkl,jl->k", w, P, np.stack(ends))
        x = np.linalg.solve(np.einsum("j,jkl->kl", w, P), mixed)
        expected.append(x)
    close(models(here.problem, FedPM(K=K, eta=eta, line_search=False), 5), np.stack(expected), 1e-9)


def test_fedpm_mixes_as_a_meta_analysis_does() -> None:
    """Local minimisers of quadratics by inverse variances: the pooled optimum, in one round, whatever K."""
    for K in (1, 4):
        assert quad().error(models(quad().problem, FedPM(K=K), 1)[0]) < 1e-24


def test_fedpm_drifts_with_more_than_one_step() -> None:
    errors = [unequal().error(models(unequal().problem, FedPM(K=K), 12)[-1]) for K in (1, 3)]
    assert errors[0] < 1e-20 and errors[1] > 1e-3


# -- FedNew -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [0, 1, 3])
def test_fednew_is_its_formula(here: Case, period: int) -> None:
    alpha, rho, x, y, w = 0.05 * here.L, 0.2 * here.L, np.zeros(d), np.zeros(d), weights(here)
    lam, expected = np.zeros((N, d)), []
    for n in range(12):
        if n == 0 or (period and n % period == 0):
            H = hessians(here, x)
        g = gradients(here, x)
        own = np.linalg.solve(H + (alpha + rho) * np.eye(d), (g - lam + rho * y)[..., None])[..., 0]
        y = w @ own
        lam = lam + rho * (own - y)
        x = x - y
        expected.append(x)
    found = models(here.problem, FedNew(alpha=alpha, rho=rho, period=period), 12)
    close(found, np.stack(expected), 1e-11)


def test_dual_variables_of_fednew_add_up_to_zero_and_become_gradients() -> None:
    here = quad()
    walk = Walk(here.problem, FedNew())
    for _ in walk.states(250):
        lam = walk.stacked("lam")
        assert np.abs(walk.mean(lam)).max() <= 1e-12 * max(np.abs(lam).max(), 1e-3)
    close(lam, here.gradients(), 1e-6)


# -- FedNL that sends less --------------------------------------------------------------------------------------


def test_fednl_that_is_never_lazy_is_fednl() -> None:
    plain = models(unequal().problem, FedNL(), 10)
    assert np.array_equal(models(unequal().problem, FedNL(period=1, p=1.0, zeta=0.0), 10), plain)
    assert np.array_equal(models(unequal().problem, FedNL(zeta=1e-300), 10), plain)  # the rule holds in every round


@pytest.mark.parametrize("how", [{"period": 3}, {"p": 0.4}, {"zeta": 20.0}], ids=str)
def test_lazy_fednl_is_its_formula(how: dict[str, Any]) -> None:
    here, x = unequal(), np.zeros(d)
    w, walk = weights(unequal()), Walk(unequal().problem, FedNL(rank=2, **how))
    guess = last = hessians(here, x)
    sent = 0
    for n, s in enumerate(walk.states(12)):
        now = hessians(here, x)
        off = now - guess
        shift = w @ np.linalg.norm(off, axis=(1, 2))
        step = np.linalg.solve(np.einsum("j,jkl->kl", w, guess) + shift * np.eye(d), w @ gradients(here, x))
        guess = guess.copy()
        for j in range(N):
            if n % how.get("period", 1):
                continue
            if "p" in how and Stream(0, "own:coin", j, n, 0).generator().random() >= how["p"]:
                continue
            if n and "zeta" in how and np.sum(off[j] ** 2) <= how["zeta"] * np.sum((now - last)[j] ** 2):
                continue
            values, V = np.linalg.eigh(off[j])
            top = np.argsort(-np.abs(values))[:2]
            guess[j] += (V[:, top] * values[top]) @ V[:, top].T
            sent += 1
        last, x = now, x - step
        close(s.x, x, 1e-9)
    assert 0 < sent < 12 * N
    up = run(here.problem, FedNL(rank=2, **how), rounds=12, evaluate=False, threads=1).history[-1].floats_up
    assert up == N * d * (d + 1) // 2 + 12 * N * (d + 4) + sent * 2 * (d + 1)
