"""fedipm, prox-newton, one-shot: the pooled optimum by independent solvers, invariants, certificates, limits."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from instances import Walk
from scipy.optimize import linprog
from sklearn.linear_model import ElasticNet as SkElasticNet
from sklearn.linear_model import QuantileRegressor

from dualfl.algorithms import Place
from dualfl.algorithms.few_exchanges import FedIPM, OneShot, ProxNewton, SketchedNewton, dual_bound, piecewise_sums
from dualfl.algorithms.few_exchanges.centring import NEAR, centring
from dualfl.algorithms.few_exchanges.dual_bound import Doubt
from dualfl.algorithms.few_exchanges.interior_point import advance, central, first, metric, pieces, smoothed
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.smooth_sums import SmoothSilo, lower_bound
from dualfl.engines import Problem, run
from dualfl.engines.client import LocalCost
from dualfl.errors import InputError, NotSupported
from dualfl.objectives import (
    L1,
    Absolute,
    BoxConstraint,
    ElasticNetPenalty,
    EpsilonInsensitive,
    Function,
    GroupL2,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Loss,
    Objective,
    Penalised,
    Penalty,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)
from dualfl.solvers import FISTA, SDCA, DampedNewton, GradientNorm, PrimalDualGap, minimise
from oracles import l1_logistic

pytestmark = pytest.mark.long

SIZES = (12, 60, 25, 18)
PIECEWISE: list[Loss] = [Hinge(), Absolute(), Quantile(0.8), EpsilonInsensitive(0.3)]
SMOOTH: list[Loss] = [Logistic(), Softmax(3), Squared(), Huber(0.5), SquaredHinge(), Poisson()]
PENALTIES: list[Penalty | None] = [
    None,
    L1(0.05),
    ElasticNetPenalty(0.03, 0.1),
    GroupL2(0.06),
    BoxConstraint(-0.1, 0.2),
]


@cache
def rows() -> tuple[Any, Any, Any, Any]:
    """X, a real target, weights, and who has which rows: sorted by the target, of unequal sizes."""
    rng = np.random.default_rng(3)
    n = sum(SIZES)
    X = rng.standard_normal((n, 6)) * np.array([1, 1, 2, 0.5, 1, 1]) + rng.standard_normal(6) / 2
    y = X @ np.array([1.0, -0.5, 0, 0, 0.3, 0]) + 0.5 + rng.standard_normal(n)
    return X, y, rng.uniform(0.2, 3.0, n), np.split(np.argsort(y), np.cumsum(SIZES)[:-1])


def targets(loss: Loss) -> Any:
    _, y, _, _ = rows()
    if isinstance(loss, Softmax):
        return np.digitize(y, [-0.5, 1.0])
    if isinstance(loss, Hinge | Logistic | SquaredHinge):
        return np.where(y > 0.3, 1.0, -1.0)
    return np.floor(np.abs(y) * 2) if isinstance(loss, Poisson) else y


def federated(
    loss: Loss, ridge: float, intercept: Any = True, penalty: Penalty | None = None, weighted: bool = True
) -> Problem:
    X, _, w, parts = rows()
    X = X / 3 if isinstance(loss, Poisson) else X
    y = targets(loss)
    clients: list[Objective] = [
        LinearModel(X[i], y[i], loss, ridge, weights=w[i] if weighted else None, intercept=intercept) for i in parts
    ]
    return Problem(clients, penalty=penalty)


def linear_program(loss: Loss, ridge_free: Problem, alpha: float = 0.0) -> float:
    """E* of a piecewise linear loss without a ridge, by HiGHS: sum s_i e_i + alpha |theta|_1, e_i >= pieces."""
    models: Any = ridge_free.clients
    X = np.concatenate([np.c_[f.design.X, np.ones(f.n)] for f in models])
    y = np.concatenate([f.y for f in models])
    s = np.concatenate([w * f.s for f, w in zip(models, ridge_free.weights)])
    q, b, lo, hi, eps = loss.box(y)
    n, d = X.shape
    A = np.c_[-q[:, None] * X, q[:, None] * X]  # theta = plus - minus
    rows_, right = [], []
    for slope, shift in ((hi, eps), (lo, -eps)):
        rows_.append(np.c_[slope * A, -np.eye(n)])
        right.append(-slope * (b - shift))
    if eps:
        rows_.append(np.c_[0 * A, -np.eye(n)])
        right.append(np.zeros(n))
    penal = np.full(2 * d, alpha)
    bounds = [(0, None)] * (2 * d) + [(None, None)] * n
    found = linprog(np.r_[penal, s], np.concatenate(rows_), np.concatenate(right), bounds=bounds)
    assert found.status == 0
    return float(found.fun)


def check_certificate(result: Any, E_star: float, slack: float = 1e-11) -> None:
    """Valid in every round, and growing by no more than rounding."""
    best = np.minimum.accumulate(result.history.column("energy"))
    certificates = result.history.column("certificate")
    known = ~np.isnan(certificates)
    assert known[1:].any()
    assert (certificates[known] >= best[known] - E_star - slack * abs(E_star)).all()
    assert (np.diff(certificates[known]) <= 4 * result.rounding).all()


# -- the losses as pieces -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", PIECEWISE, ids=str)
def test_pieces_are_the_loss_and_the_central_path_its_smoothing(loss: Loss) -> None:
    f: Any = federated(loss, 0.1).clients[1]
    theta = np.linspace(-1, 1, f.d)
    P, u = pieces(f), pieces(f).margins(f.predictors(theta)[:, 0])
    assert f.s @ P.loss(u).sum(axis=0) == pytest.approx(f.value(theta) - 0.05 * theta @ theta, rel=1e-13)
    for t in (1.0, 1e-2, 1e-4):
        a = central(P, u, t)
        assert (a > P.lo).all() and (a < P.hi).all()
        # stationary: u + t/(a - lo) - t/(hi - a) = 0, and the smoothed loss has slope a
        assert np.abs((u + t / (a - P.lo) - t / (P.hi - a)) / (1 + np.abs(u))).max() < 1e-8
        h = 1e-6
        slope = (smoothed(P, u + h, t) - smoothed(P, u - h, t)) / (2 * h)
        assert np.abs(slope - a).max() < 1e-4
        D = (central(P, u + h, t) - central(P, u - h, t)) / (2 * h)
        assert np.allclose(metric(P, u, a, t), D, rtol=1e-3, atol=1e-6 / t)
    assert np.abs(smoothed(P, u, 1e-9) - P.loss(u)).max() < 1e-6


@pytest.mark.parametrize("loss", PIECEWISE, ids=str)
def test_the_epsilon_insensitive_form_and_all_others_against_an_lp(loss: Loss) -> None:
    problem = federated(loss, 0.0, penalty=L1(0.02))
    star = linear_program(loss, problem, 0.02)
    result = run(problem, FedIPM(), rounds=40, tol=1e-7, threads=1)
    assert result.stopped == "tol"
    assert result.energy == pytest.approx(star, rel=1e-7)
    check_certificate(result, star, 1e-9)


# -- fedipm reaches the pooled optimum ----------------------------------------------------------------


@cache
def star(loss: Loss, ridge: float, weighted: bool) -> tuple[float, float]:
    """E* with a ridge on everything, by dual coordinate ascent on the pooled rows: bounds from below and above."""
    X, _, w, parts = rows()
    order = np.concatenate(parts)
    f = LinearModel(X[order], targets(loss)[order], loss, ridge, weights=w[order] if weighted else None, intercept=True)
    found = minimise(f, solver=SDCA(), stop=PrimalDualGap(1e-13, cap=100_000))
    return found.value - found.gap, found.value


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("ridge", [1e-1, 1e-3])
@pytest.mark.parametrize("loss", PIECEWISE, ids=str)
def test_fedipm_reaches_the_pooled_optimum_of_unlike_clients(loss: Loss, ridge: float, weighted: bool) -> None:
    low, high = star(loss, ridge, weighted)
    assert high - low < 1e-10
    result = run(federated(loss, ridge, weighted=weighted), FedIPM(), rounds=40, tol=1e-9, threads=1)
    assert result.stopped == "tol" and result.rounds <= 25
    assert -1e-12 <= (result.energy - high) / high <= 1e-9
    check_certificate(result, high)
    assert result.state.base is None  # no safeguard was needed


@pytest.mark.parametrize("loss", PIECEWISE, ids=str)
def test_free_intercept(loss: Loss) -> None:
    problem = federated(loss, 0.05, intercept="free")
    result = run(problem, FedIPM(), rounds=40, tol=1e-8, threads=1)
    assert result.stopped == "tol"
    moved = [problem.value(result.theta + step * e) for step in (1e-3, -1e-3) for e in np.eye(problem.d)]
    assert min(moved) >= result.energy * (1 - 1e-8)
    low, _ = star(loss, 0.05, True)
    assert result.energy <= low  # a free intercept can only help
    best = run(problem, FedIPM(race=False), rounds=60, tol=1e-11, threads=1)
    check_certificate(result, best.energy - best.certificate)


@pytest.mark.parametrize("loss", [Absolute(), Quantile(0.8), EpsilonInsensitive(0.3)], ids=str)
def test_linear_programs_without_any_regularisation(loss: Loss) -> None:
    problem = federated(loss, 0.0)
    E = linear_program(loss, problem)
    result = run(problem, FedIPM(), rounds=40, threads=1)
    assert result.energy == pytest.approx(E, rel=1e-9)
    if not isinstance(loss, EpsilonInsensitive):  # whose pieces have 0 at the end of their boxes
        check_certificate(result, E, 1e-9)
        assert result.certificate is not None and result.certificate <= 1e-6 * E


def test_no_certificate_comes_with_its_reason() -> None:
    result = run(federated(Logistic(), 0.0), ProxNewton(race=False), rounds=1, threads=1)  # not near enough
    assert result.certificate is None and result.certificate_reason == "nothing is regularised"


@pytest.mark.parametrize("intercept", [True, "free"])
def test_clients_with_one_label_each(intercept: Any) -> None:
    """Alone they have nothing to lose: their own problems have the solution 0 loss, or none at all."""
    X, _, _, _ = rows()
    y = np.where(X[:, 0] > X[:, 0].mean(), 1.0, -1.0)
    y[::7] *= -1
    for ridge in (0.0, 1e-3):
        clients = [LinearModel(X[y == k], y[y == k], Hinge(), ridge, intercept=intercept) for k in (-1.0, 1.0)]
        whole = Problem([LinearModel(X, y, Hinge(), ridge, intercept=intercept)])
        result = run(Problem(clients), FedIPM(), rounds=30, tol=1e-6 if ridge else None, threads=1)
        best = run(whole, FedIPM(race=False), rounds=40, threads=1)
        assert result.energy == pytest.approx(best.energy, rel=1e-6)


@pytest.mark.parametrize("far", [0.0, 3.0])
def test_it_starts_anywhere(far: float) -> None:
    problem = federated(Hinge(), 0.01)
    best = run(problem, FedIPM(), rounds=30, tol=1e-8, threads=1)
    result = run(problem, FedIPM(), rounds=30, tol=1e-8, threads=1, start=best.theta + far)
    assert result.stopped == "tol" and result.energy == pytest.approx(best.energy, rel=1e-8)


def test_quantile_regression_is_scikit_learns() -> None:
    X, y, w, _ = rows()
    problem = federated(Quantile(0.8), 0.0, intercept="free", penalty=L1(0.02))
    theirs = QuantileRegressor(quantile=0.8, alpha=0.02, solver="highs").fit(X, y, sample_weight=w / w.sum() * len(w))
    E = problem.value(np.r_[theirs.coef_, theirs.intercept_])
    result = run(problem, FedIPM(), rounds=40, tol=1e-9, threads=1)
    assert result.energy == pytest.approx(E, rel=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES[1:], ids=str)
def test_fedipm_with_every_penalty(penalty: Penalty) -> None:
    problem = federated(Hinge(), 0.02, penalty=penalty)
    result = run(problem, FedIPM(), rounds=40, tol=1e-9, threads=1)
    assert result.stopped == "tol"
    rng = np.random.default_rng(0)
    for _ in range(200):  # nothing nearby is better than the certificate allows
        near = result.theta + 10.0 ** rng.uniform(-5, -1) * rng.standard_normal(problem.d)
        assert problem.value(near) >= result.energy - result.certificate
    check_certificate(result, result.energy, 2e-9)


# -- invariants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", PIECEWISE, ids=str)
def test_dual_variables_stay_inside_and_the_gap_is_comp_plus_res(loss: Loss) -> None:
    problem = federated(loss, 0.01)
    walk = Walk(problem, FedIPM(race=False))
    for _ in range(12):
        theta = walk.driver.state.th
        walk.round()
        sums: dict[str, float] = {"ab": 0.0, "comp": 0.0, "v": 0.0}
        for f, local, weight in zip(problem.clients, walk.locals, problem.weights):
            P = pieces(f)  # type: ignore[arg-type]
            assert (local.a > P.lo).all() and (local.a < P.hi).all() and (local.D > 0).all()
            u = P.margins(f.predictors(theta)[:, 0])  # type: ignore[attr-defined]
            s = f.s  # type: ignore[attr-defined]
            pull = f.design.backward((s * (P.q * local.a).sum(axis=0))[:, None])[:, 0]  # type: ignore[attr-defined]
            sums["ab"] += weight * float(s @ (local.a * P.b).sum(axis=0))
            sums["comp"] += weight * float(s @ (P.loss(u) - local.a * u).sum(axis=0))
            sums["v"] = sums["v"] + weight * pull
        R = Regulariser(np.full(problem.d, 0.01), np.zeros(problem.d))
        gap = problem.value(theta) - (sums["ab"] - R.conjugate(sums["v"]))  # type: ignore[arg-type]
        assert gap == pytest.approx(sums["comp"] + R.residual(theta, sums["v"]), rel=1e-9, abs=1e-13)  # type: ignore[arg-type]


def test_any_partition_gives_the_same_iterates_for_the_hinge() -> None:
    X, _, w, _ = rows()
    y = targets(Hinge())
    whole = Problem([LinearModel(X, y, Hinge(), 0.01, weights=w, intercept=True)])
    one, four = (Walk(p, FedIPM(race=False)) for p in (whole, federated(Hinge(), 0.01)))
    for _ in range(10):
        one.round(), four.round()
        assert np.allclose(one.model, four.model, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("t", [0.5, 0.0])
def test_a_newton_step_solves_the_linearised_central_path(t: float) -> None:
    """Unclipped, the new dual variables satisfy mu theta = Z'a for any t: the identity behind one exchange a step."""
    f: Any = federated(Quantile(0.8), 0.1).clients[1]
    P, theta = pieces(f), np.zeros(f.d)
    u = P.margins(f.predictors(theta)[:, 0])
    a = first(P, u, 1.0)
    D = metric(P, u, a, 1.0)
    Z = (P.q[0] * np.c_[f.design.X, np.ones(f.n)].T).T
    p, q = P.hi - a, a - P.lo
    H = Z.T @ ((f.s * D[0])[:, None] * Z)
    pull = Z.T @ (f.s * (a + D * u)[0]) + t * Z.T @ (f.s * (D * (1 / q - 1 / p))[0])
    new = Regulariser(np.full(f.d, 0.1), np.zeros(f.d)).newton(H, pull, theta)
    _, wanted = advance(P, P.margins(f.predictors(new)[:, 0]), a, D, t, 0.9)
    assert np.allclose(Z.T @ (f.s * wanted[0]), 0.1 * new, rtol=1e-10)


@pytest.mark.parametrize(("res", "sigma"), [(1e-3, 0.02), (0.2, 0.1), (0.5, 0.5), (100.0, 0.5)])
def test_close_by_the_barrier_waits_for_the_residual(res: float, sigma: float) -> None:
    comp = 0.1 * NEAR
    assert centring(comp, res * comp, 1.0, calm=False) == sigma


# -- bounds from any dual point ---------------------------------------------------------------------------


def test_a_free_intercept_needs_balanced_dual_points() -> None:
    """Every dual point bounds E* from below, far from the solution too; without the balance some do not."""
    assert sum(unbalanced(loss) for loss in (Hinge(), Absolute(), Quantile(0.8))) > 0


def unbalanced(loss: Loss) -> int:
    """How many of 200 dual points would be a wrong bound if nobody balanced them; none is, once they are balanced."""
    problem = federated(loss, 0.05, intercept="free")
    best = run(problem, FedIPM(race=False), rounds=60, tol=1e-9, threads=1)
    R = Regulariser(np.r_[np.full(6, 0.05), 0.0], np.zeros(7))
    rng = np.random.default_rng(0)
    silos = [piecewise_sums.PiecewiseSilo(LocalCost(f), Place(0, 4, 7)) for f in problem.clients]
    violations, doubt = 0, Doubt(np.max([f.column_sizes**2 for f in problem.clients], axis=0), 0.0, 4)  # type: ignore[attr-defined]
    for _ in range(200):
        theta = best.theta + 10.0 ** rng.uniform(-4, 0) * rng.standard_normal(7)
        mix, t = 1 - 10.0 ** rng.uniform(-4, 0), 10.0 ** rng.uniform(-5, -1)
        sums: Any = {}
        for silo, weight in zip(silos, problem.weights):
            u = silo.margins(theta)
            random = silo.P.lo + silo.P.width * rng.uniform(size=u.shape)
            a = mix * central(silo.P, u, t) + (1 - mix) * random
            for name, value in silo.sums(u, a, metric(silo.P, u, a, t), np.zeros(len(theta))).items():
                sums[name] = sums.get(name, 0.0) + weight * value
        m = SimpleNamespace(**sums)
        assert piecewise_sums.lower_bound(R, m, doubt, silos[0].spread) <= best.energy * (1 + 1e-12)
        careless = dual_bound.lower_bound(R, m.ab, np.where(R.flat, 0.0, m.v), np.zeros(7))
        violations += careless > best.energy * (1 + 1e-9)
    return violations


@pytest.mark.parametrize(("intercept", "penalty"), [(True, None), ("free", None), (True, L1(0.01))], ids=str)
def test_the_end_of_a_step_proves_more_than_the_step(
    intercept: Any, penalty: Penalty | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dual point for t = 0 proves most fits earlier, and where it leads is at most as high."""
    problems = [federated(loss, 1e-3, intercept=intercept, penalty=penalty) for loss in PIECEWISE]
    proven = [run(problem, FedIPM(), rounds=60, tol=1e-6, threads=1) for problem in problems]
    best = [run(problem, FedIPM(), rounds=60, tol=1e-10, threads=1) for problem in problems]
    monkeypatch.setattr(piecewise_sums.PiecewiseSilo, "at_the_end", lambda self, end, a, D, centre: {})
    without = [run(problem, FedIPM(), rounds=60, tol=1e-6, threads=1) for problem in problems]
    earlier = [b.rounds - a.rounds for a, b in zip(proven, without)]
    assert min(earlier) >= 0 and np.count_nonzero(earlier) >= 2
    for a, b, exact in zip(proven, without, best):
        assert a.energy <= b.history.column("energy")[: len(a.history)].min() * (1 + 1e-6)
        check_certificate(a, exact.energy - exact.certificate)  # type: ignore[operator]


@pytest.mark.parametrize("intercept", [False, "free"])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Huber(0.5), Poisson()], ids=str)
def test_scaled_slopes_bound_the_minimum_from_anywhere(loss: Loss, intercept: Any) -> None:
    """Without a ridge the slopes must be scaled into the box of the l1 penalty, and their conjugates with them."""
    problem = federated(loss, 0.0, intercept=intercept, penalty=L1(0.05))
    best = run(problem, ProxNewton(), rounds=30, tol=1e-9, threads=1)
    R = Regulariser(np.zeros(problem.d), np.zeros(problem.d), Penalised(problem.clients[0], L1(0.05)))
    rng, violations, finite = np.random.default_rng(0), 0, 0
    doubt = Doubt(np.max([f.column_sizes**2 for f in problem.clients], axis=0), 0.0, problem.N)  # type: ignore[attr-defined]
    for _ in range(100):
        x = best.theta + 10.0 ** rng.uniform(-6, 0) * rng.standard_normal(problem.d)
        sums: Any = {}
        for f, weight in zip(problem.clients, problem.weights):
            for name, value in SmoothSilo(LocalCost(f)).sums(x, hessian=False).items():
                sums[name] = sums.get(name, 0.0) + weight * value
        m = SimpleNamespace(**sums)
        bound = lower_bound(R, m, x, doubt)
        assert bound <= best.energy * (1 + 1e-12)
        finite += bound > -np.inf
        unscaled = SimpleNamespace(**{k: np.full_like(v, v[0]) if "conj" in k else v for k, v in sums.items()})
        violations += lower_bound(R, unscaled, x, doubt) > best.energy * (1 + 1e-9)
    assert finite > 50 and violations > 0


# -- the safeguard ------------------------------------------------------------------------------------


def threefold(P: Any, u: Any, a: Any, D: Any, t: float, keep: float) -> Any:
    """Clients that go three times as far as they are told."""
    after, wanted = advance(P, u, a, 3 * D, t, keep)
    return after, wanted


@pytest.mark.parametrize("penalty", [None, L1(0.01)], ids=str)
@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.3)], ids=str)
def test_the_safeguard_rescues_a_method_that_stalls(
    loss: Loss, penalty: Penalty | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = federated(loss, 1e-3, penalty=penalty)
    best = run(problem, FedIPM(race=False), rounds=40, tol=1e-10, threads=1)
    monkeypatch.setattr(piecewise_sums, "advance", threefold)
    stalled = run(problem, FedIPM(race=False, patience=10**6), rounds=60, tol=1e-6, threads=1)
    rescued = run(problem, FedIPM(race=False), rounds=100, tol=1e-6, threads=1)
    assert stalled.stopped == "rounds"  # or there would be nothing to rescue
    assert rescued.stopped == "tol" and rescued.state.base is not None
    assert rescued.energy - best.energy <= 1e-6 * best.energy
    check_certificate(rescued, best.energy - best.certificate)


# -- prox-newton --------------------------------------------------------------------------------------


@cache
def smooth_star(loss: Loss, ridge: float, penalty: Penalty | None) -> float:
    E = federated(loss, ridge, penalty=penalty).pooled
    if penalty is None:
        return run(federated(loss, ridge), ProxNewton(race=False), rounds=30, threads=1).energy or np.nan
    return minimise(E, solver=FISTA(), stop=GradientNorm(1e-10, cap=50_000)).value


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("loss", SMOOTH, ids=str)
def test_prox_newton_on_every_loss_and_penalty(loss: Loss, penalty: Penalty | None) -> None:
    problem = federated(loss, 0.01, penalty=penalty)
    E = smooth_star(loss, 0.01, penalty)
    result = run(problem, ProxNewton(), rounds=20, tol=1e-8, threads=1)
    assert result.stopped == "tol" and result.rounds <= 12
    assert abs(result.energy - E) <= 1e-8 * abs(E)
    check_certificate(result, E, 1e-9)


@pytest.mark.parametrize("intercept", [True, "free"])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Huber(0.5)], ids=str)
def test_no_ridge_at_all_is_certified_by_scaling(loss: Loss, intercept: Any) -> None:
    problem = federated(loss, 0.0, intercept=intercept, penalty=L1(0.05))
    E = minimise(problem.pooled, solver=FISTA(), stop=GradientNorm(1e-11, cap=50_000)).value
    result = run(problem, ProxNewton(), rounds=20, tol=1e-7, threads=1)
    assert result.stopped == "tol"
    check_certificate(result, E, 1e-9)
    assert result.energy == pytest.approx(E, rel=1e-7)


def test_l1_logistic_is_scikit_learns() -> None:
    X, _, w, _ = rows()
    y = targets(Logistic())
    alpha = 0.05
    theirs = l1_logistic(C=1 / (alpha * w.sum()), solver="saga", tol=1e-12, max_iter=100_000).fit(X, y, sample_weight=w)
    problem = federated(Logistic(), 0.0, intercept="free", penalty=L1(alpha))
    result = run(problem, ProxNewton(), rounds=20, tol=1e-10, threads=1)
    assert result.energy <= problem.value(np.r_[theirs.coef_[0], theirs.intercept_]) * (1 + 1e-12)
    assert np.allclose(result.theta, np.r_[theirs.coef_[0], theirs.intercept_], atol=1e-5)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Squared()], ids=str)
def test_the_active_set_finds_the_same(loss: Loss) -> None:
    problem = federated(loss, 0.001, penalty=L1(0.1))
    E = run(problem, ProxNewton(), rounds=20, tol=1e-11, threads=1).energy
    for most in (10, 100):
        result = run(problem, ProxNewton(full=0, most=most), rounds=60, tol=1e-8, threads=1)
        assert result.stopped == "tol"
        assert result.energy == pytest.approx(E, rel=1e-8)


def test_too_long_a_newton_step_is_shortened() -> None:
    """From far away on a Poisson loss the first step overshoots; the ray leads back."""
    problem = federated(Poisson(), 1e-3)
    start = np.full(problem.d, -4.0)
    result = run(problem, ProxNewton(race=False), rounds=40, start=start, threads=1)
    energies = result.history.column("energy")
    best = run(problem, ProxNewton(), rounds=30, threads=1).energy
    assert energies.min() == pytest.approx(best, rel=1e-10)
    assert energies[0] == energies[1] > 5 * energies[2]  # the step that was too long is never the model


def exponential(k: float) -> Function:
    """exp(x) - k x + x^2/20: a Newton step from 0 overflows."""
    return Function(
        1,
        lambda x: float(np.exp(x[0]) - k * x[0] + x[0] ** 2 / 20),
        lambda x: np.exp(x) - k + x / 10,
        lambda x, v: (np.exp(x) + 0.1) * v,
        mu=0.1,
    )


@pytest.mark.parametrize("race", [False, True])
@pytest.mark.parametrize("other", [1000.0, 1500.0])
def test_a_trial_that_overflows_proves_nothing(other: float, race: bool) -> None:
    """Costs without rows have no conjugates that would say so. After it, no step is deployed before it was tried."""
    problem = Problem([exponential(1000.0), exponential(other)], sizes=[1e-3, 1.0])
    with np.errstate(over="ignore", invalid="ignore"):
        result = run(problem, ProxNewton(race=race), rounds=30, tol=1e-9, threads=1)
        best = minimise(problem.pooled, solver=DampedNewton(), stop=GradientNorm(1e-9)).value
        assert result.stopped == "tol" and result.energy == pytest.approx(best, rel=1e-9)
        check_certificate(result, best)
        far = SmoothSilo(LocalCost(exponential(1.0))).sums(np.array([800.0]))
    # The mean with clients that are not so far, and with nothing that would tell how far off it is.
    R, doubt = Regulariser(np.array([0.1]), np.zeros(1)), Doubt(np.ones(1), 0.0, 2)
    m = SimpleNamespace(loss=1e-6 * far["loss"], g=far["g"], off=0.0, spread=0.0, rows=0.0)
    assert lower_bound(R, m, np.array([800.0]), doubt) == -np.inf
    own = {"local_off": 0.0, "local_spread": 0.0, "local_more": np.zeros(1), "zero": 0.0, "rows": 0.0}
    local = SimpleNamespace(local_ab=1e-6 * far["loss"], local_v=far["g"], **own)
    assert ProxNewton().local_bound(R, local, doubt) == -np.inf


# -- nothing regularised, and columns that are nearly the same ----------------------------------------


def nearly_dependent(loss: Loss, apart: float) -> Problem:
    """Columns a and a + apart e, and the target a + e: E* = 0, far out."""
    a, e = np.random.default_rng(3).standard_normal((2, 200))
    X, y = np.stack([a, a + apart * e], axis=1), a + e
    return Problem([LinearModel(X[i::2], y[i::2], loss) for i in range(2)])


@pytest.mark.parametrize("apart", [1e-7, 1e-8, 3e-9, 1e-9])
@pytest.mark.parametrize("algorithm", [OneShot(), FedIPM()], ids=lambda a: a.name)
def test_columns_that_rounding_cannot_tell_apart_prove_nothing(algorithm: Any, apart: float) -> None:
    loss = Squared() if algorithm.name == "one-shot" else Absolute()
    for rounds in (1, 2, 8):
        assert run(nearly_dependent(loss, apart), algorithm, rounds=rounds, threads=1).state.bound <= 0.0


@pytest.mark.parametrize("apart", [1e-2, 1e-4, 1e-6])
def test_columns_that_differ_are_certified_within_rounding(apart: float) -> None:
    """What is summed is about 1/apart^2 times what is left."""
    for rounds in (1, 3):
        result = run(nearly_dependent(Squared(), apart), OneShot(), rounds=rounds, threads=1)
        assert -1e-13 / apart**2 <= result.state.bound <= 1e-14
    result = run(nearly_dependent(Absolute(), apart), FedIPM(), rounds=12, threads=1)
    assert result.certificate is not None and result.state.bound <= 1e-14


@pytest.mark.parametrize("ridge", [1e-11, 1e-13])
def test_hardly_a_ridge_is_certified_within_rounding(ridge: float) -> None:
    rng = np.random.default_rng(0)
    for apart in (1e-2, 1e-3, 1e-4):
        B = rng.standard_normal((60, 3))
        X, y = np.c_[B[:, :2], B[:, 0] + apart * B[:, 2]], B @ rng.standard_normal(3) + 1e-3 * rng.standard_normal(60)
        A, b = np.r_[X / np.sqrt(60), np.sqrt(ridge) * np.eye(3)], np.r_[y / np.sqrt(60), 0, 0, 0]
        exact = np.linalg.lstsq(A, b, rcond=None)[0]
        whole = LinearModel(X, y, Squared(), ridge)
        problem = Problem([LinearModel(X[i::2], y[i::2], Squared(), ridge) for i in range(2)])
        for rounds in (1, 3):
            bound = run(problem, OneShot(), rounds=rounds, threads=1).state.bound
            assert bound <= whole.value(exact) * (1 + 1e-12)


# -- one-shot -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 0.01])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_one_exchange_is_enough_for_squared_losses(penalty: Penalty | None, ridge: float) -> None:
    problem = federated(Squared(), ridge, penalty=penalty)
    result = run(problem, OneShot(), rounds=3, threads=1)
    row = result.history[1]
    assert row.exchanges == 1 and row.certificate is not None and row.certificate <= 1e-12 * row.energy
    if penalty is not None:
        E = minimise(problem.pooled, solver=FISTA(), stop=GradientNorm(1e-11, cap=50_000)).value
        assert row.energy == pytest.approx(E, rel=1e-11)
        check_certificate(result, E)


def test_the_lasso_is_scikit_learns() -> None:
    X, y, w, _ = rows()
    problem = federated(Squared(), 0.0, intercept="free", penalty=ElasticNetPenalty(0.1, 0.05))
    theirs = SkElasticNet(alpha=0.15, l1_ratio=0.1 / 0.15, tol=1e-14, max_iter=100_000).fit(X, y, sample_weight=w)
    found = run(problem, OneShot(), rounds=1, threads=1)
    assert np.allclose(found.theta, np.r_[theirs.coef_, theirs.intercept_], atol=1e-7)


def test_refinement_takes_squared_conditions_back() -> None:
    """Columns that are nearly equal: normal equations lose half the digits, and the next round returns them."""
    rng = np.random.default_rng(1)
    base = rng.standard_normal((80, 4))
    X = np.c_[base, base + 1e-6 * rng.standard_normal((80, 4))]
    y = X @ np.arange(8) / 8
    problem = Problem([LinearModel(X[:30], y[:30], Squared()), LinearModel(X[30:], y[30:], Squared())])
    history = run(problem, OneShot(), rounds=4, threads=1).history
    assert history[3].energy < 1e-3 * history[1].energy or history[1].energy < 1e-24


# -- what they refuse ---------------------------------------------------------------------------------


def test_sizes_are_named() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2500))
    wide = Problem([LinearModel(X, np.sign(X[:, 0]), Hinge(), 0.1)])
    with pytest.raises(InputError, match=r"d = 2,500 makes 3,126,250 of them \(25 MB\).*use bundle"):
        run(wide, FedIPM(), rounds=1)
    with pytest.raises(InputError, match=r"d = 2,500.*lbfgs"):
        run(Problem([LinearModel(X, X[:, 0], Squared(), 0.1)]), OneShot(), rounds=1)
    with pytest.raises(InputError, match=r"d = 2,500.*sketched-newton"):
        run(Problem([LinearModel(X, X[:, 0], Huber(), 0.1)]), ProxNewton(), rounds=1)


def test_tiny_clients_send_gradients_and_one_shot_refuses_them() -> None:
    X, y, _, _ = rows()
    parts = [LinearModel(X[:4], y[:4], Absolute(), 0.1), LinearModel(X[4:], y[4:], Absolute(), 0.1)]
    assert run(Problem(parts), FedIPM(), rounds=150, tol=1e-5).stopped == "tol"
    assert run(Problem(parts), FedIPM(least_rows=2), rounds=30, tol=1e-6).stopped == "tol"
    squared = [LinearModel(X[:3], y[:3], Squared(), 0.1), LinearModel(X[3:], y[3:], Squared(), 0.1)]
    tilted = [f.tilted(0.0, np.ones(f.d)) for f in squared]
    for here in (Problem(squared), Problem(squared).regularised(0.1), Problem(tilted)):
        with pytest.raises(InputError, match=r"Client 0 has 3 rows"):
            run(here, OneShot(), rounds=1)
        # these take a gradient of such a client, and no more (test_few_rows.py looks at what leaves it)
        assert run(here, SketchedNewton(), rounds=60, tol=1e-6).stopped == "tol"
        assert run(here, ProxNewton(), rounds=60, tol=1e-6).stopped == "tol"


def test_the_wrong_loss_is_named() -> None:
    with pytest.raises(NotSupported, match="one-shot is for squared losses, and client 0's is Logistic"):
        run(federated(Logistic(), 0.1), OneShot(), rounds=1)
    with pytest.raises(NotSupported, match="fedipm is not compatible"):
        run(federated(Logistic(), 0.1), FedIPM(), rounds=1)
    with pytest.raises(NotSupported, match="prox-newton is not compatible"):
        run(federated(Hinge(), 0.1), ProxNewton(), rounds=1)
