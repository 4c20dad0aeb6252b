"""Solvers for penalties and for losses with kinks, against oracles that share no code with them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear, minimize, nnls
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet as SkElasticNet
from sklearn.linear_model import Lasso

from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.objectives import (
    L1,
    Absolute,
    BoxConstraint,
    Cost,
    ElasticNetPenalty,
    EpsilonInsensitive,
    Function,
    GroupL2,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    NonNegative,
    Poisson,
    Quadratic,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
    regularised,
)
from dualfl.solvers import (
    FISTA,
    POGM,
    SDCA,
    CoordinateDescent,
    FixedIterations,
    GradientNorm,
    PrimalDualGap,
    RelativeEnergy,
    RelativeStep,
    coordinate_descent,
    default_solver,
    minimise,
)
from dualfl.solvers.coordinate_descent import Separable, minimise_model
from dualfl.solvers.dual_newton import DualProblem, _direction, _proximal_point
from dualfl.solvers.fista import momentum
from dualfl.solvers.proximal import Split

TIGHT = GradientNorm(1e-10, cap=100_000)
RNG = np.random.default_rng(7)
X = RNG.standard_normal((40, 6)) * np.array([1, 2, 0.5, 1, 3, 1])
TRUE = np.array([1.0, -1.0, 0.0, 0.0, 0.5, 0.0])
Y = X @ TRUE + 0.5 * RNG.standard_normal(40)
SIGNS = np.where(Y > 0, 1.0, -1.0)
CLASSES = RNG.integers(0, 3, 40)
COUNTS = RNG.poisson(2.0, 40)
WEIGHTS = np.where(np.arange(40) % 7 == 0, 0.0, RNG.uniform(0.5, 2, 40))
PIXELS = RNG.integers(0, 256, (40, 6)).astype(np.uint8)

TARGETS = {
    Squared(): Y,
    Logistic(): SIGNS,
    Softmax(3): CLASSES,
    Huber(0.7): Y,
    SquaredHinge(): SIGNS,
    Poisson(): COUNTS,
}
PENALTIES = (L1(0.1), ElasticNetPenalty(0.05, 0.2), GroupL2(0.1), BoxConstraint(-0.2, 0.3), NonNegative())
PROXIMAL = (FISTA(), FISTA(backtracking=True), POGM(), CoordinateDescent())


def named(values):
    return pytest.mark.parametrize("case", values, ids=[str(v).replace(" ", "") for v in values])


def feature_kinds():
    """The same numbers in every type that X may have, with the scale."""
    as_csr = sparse.csr_array(PIXELS.astype(float))
    return {
        "dense": (PIXELS / 255.0, 1.0),
        "csr": (as_csr, 1 / 255),
        "uint8": (PIXELS, 1 / 255),
        "float32": (PIXELS.astype(np.float32), 1 / 255),
        "csr uint8": (sparse.csr_array(PIXELS), 1 / 255),
    }


# -- penalties ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", PROXIMAL, ids=str)
@pytest.mark.parametrize("free", [False, True], ids=["through 0", "free intercept"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_elastic_net_is_scikit_learns(solver, free, weights, beta):
    alpha = 0.2
    f = LinearModel(X, Y, Squared(), weights=weights, intercept="free" if free else False)
    x = minimise(f + (ElasticNetPenalty(alpha, beta) if beta else L1(alpha)), solver=solver, stop=TIGHT).x
    settings = {"fit_intercept": free, "tol": 1e-15, "max_iter": 100_000}
    if beta:
        sk = SkElasticNet(alpha=alpha + beta, l1_ratio=alpha / (alpha + beta), **settings)
    else:
        sk = Lasso(alpha=alpha, **settings)
    sk.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(x, np.append(sk.coef_, sk.intercept_) if free else sk.coef_, atol=1e-8)
    assert 0 < np.count_nonzero(sk.coef_) < 6, "an easy case proves little"


@pytest.mark.parametrize("solver", PROXIMAL, ids=str)
def test_bounds_are_scipys(solver):
    f = LinearModel(X, Y, Squared())
    np.testing.assert_allclose(minimise(f + NonNegative(), solver=solver, stop=TIGHT).x, nnls(X, Y)[0], atol=1e-8)
    bounded = lsq_linear(X, Y, (-0.2, 0.3), method="bvls", tol=1e-15).x
    box = BoxConstraint(-0.2, 0.3)
    np.testing.assert_allclose(minimise(f + box, solver=solver, stop=TIGHT).x, bounded, atol=1e-8)


@pytest.mark.parametrize("solver", [FISTA(), POGM()], ids=str)
@pytest.mark.parametrize("groups", [None, (0, 0, 1, 1, 2, 2)])
def test_group_penalty_in_closed_form(solver, groups):
    """On orthogonal features the minimiser shrinks every group of the least-squares solution."""
    Q = np.linalg.qr(X)[0] * np.sqrt(40)  # Q'Q/n = I
    least_squares = Q.T @ Y / 40
    alpha = 0.6
    label = np.arange(6) if groups is None else np.array(groups)
    norms = np.sqrt(np.bincount(label, least_squares**2))[label]
    expected = least_squares * np.maximum(0, 1 - alpha / norms)
    assert (expected == 0).any() and (expected != 0).any()
    x = minimise(LinearModel(Q, Y, Squared()) + GroupL2(alpha, groups), solver=solver, stop=TIGHT).x
    np.testing.assert_allclose(x, expected, atol=1e-8)


def logistic_oracle(alpha, ridge):
    """l1 logistic regression: SLSQP on x = u - v with u, v >= 0 finds the support, Newton on it the digits."""

    def value_gradient(uv):
        u, v = np.split(uv, 2)
        m = SIGNS * (X @ (u - v))
        p = -SIGNS / (1 + np.exp(m)) / len(m)
        g = X.T @ p + ridge * (u - v)
        value = np.logaddexp(0, -m).mean() + ridge / 2 * (u - v) @ (u - v) + alpha * uv.sum()
        return value, np.concatenate([g + alpha, alpha - g])

    found = minimize(
        value_gradient,
        np.full(12, 0.1),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * 12,
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    x = found.x[:6] - found.x[6:]
    S = np.abs(x) > 1e-4
    x[~S] = 0
    for _ in range(20):
        m = SIGNS * (X @ x)
        sigma = 1 / (1 + np.exp(m))
        g = -X[:, S].T @ (SIGNS * sigma) / 40 + ridge * x[S] + alpha * np.sign(x[S])
        H = (X[:, S].T * (sigma * (1 - sigma))) @ X[:, S] / 40 + ridge * np.eye(S.sum())
        x[S] -= np.linalg.solve(H, g)
    off = X.T @ (-SIGNS / (1 + np.exp(SIGNS * (X @ x)))) / 40
    assert (np.abs(off[~S]) <= alpha).all() and 0 < S.sum() < 6
    return x


@pytest.mark.parametrize("solver", PROXIMAL, ids=str)
def test_l1_logistic(solver):
    x = minimise(LinearModel(X, SIGNS, Logistic(), 0.01) + L1(0.05), solver=solver, stop=TIGHT).x
    np.testing.assert_allclose(x, logistic_oracle(0.05, 0.01), atol=1e-8)


def slopes(loss, Z, y):
    """l' of every loss, written down once more."""
    z = Z[:, 0]
    if isinstance(loss, Softmax):
        p = np.exp(Z - Z.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True) - np.eye(3)[y]
    if isinstance(loss, Squared):
        return (z - y)[:, None]
    if isinstance(loss, Huber):
        return np.clip(z - y, -loss.delta, loss.delta)[:, None]
    if isinstance(loss, Logistic):
        return (-y / (1 + np.exp(y * z)))[:, None]
    if isinstance(loss, SquaredHinge):
        return (-2 * y * np.maximum(0, 1 - y * z))[:, None]
    return (np.exp(z) - y)[:, None]


@pytest.mark.parametrize("loss", TARGETS, ids=str)
@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("view", ["plain", "tilted", "free intercept", "weighted"])
def test_every_penalty_on_every_loss(loss, penalty, view):
    """All solvers agree, and a gradient from scratch is balanced by the penalty."""
    weights = WEIGHTS if view == "weighted" else None
    f = LinearModel(X / 2, TARGETS[loss], loss, 0.02, weights=weights, intercept=view == "free intercept" and "free")
    a, c = (0.3, 0.2 * np.cos(np.arange(f.d))) if view == "tilted" else (0.0, np.zeros(f.d))
    F = f.tilted(a, c) + penalty if a else f + penalty
    solutions = []
    for solver in PROXIMAL:
        try:
            solver.check(F)
        except NotSupported:
            assert isinstance(penalty, GroupL2) or isinstance(loss, Poisson)
            continue
        solutions.append(solver.solve(F, None, GradientNorm(1e-10, cap=100_000)))
        assert not solutions[-1].capped
        assert np.linalg.norm(solutions[-1].residual) <= 1e-10
    assert len(solutions) >= 2
    points = [solution.x.reshape(-1, f.k).copy() for solution in solutions]
    if view == "free intercept" and f.k > 1:  # a constant may be added to free intercepts of softmax
        for point in points:
            point[-1] -= point[-1].mean()
    for point in points[1:]:
        np.testing.assert_allclose(point, points[0], atol=1e-8)

    x = solutions[0].x
    s = np.full(40, 1 / 40) if weights is None else weights / weights.sum()
    X1 = np.column_stack([X / 2, np.ones(40)]) if view == "free intercept" else X / 2
    ridge = np.full((X1.shape[1], f.k), 0.02)
    if view == "free intercept":
        ridge[-1] = 0
    W = x.reshape(X1.shape[1], f.k)
    gradient = X1.T @ (s[:, None] * slopes(loss, X1 @ W, TARGETS[loss])) + (ridge + a) * W - c.reshape(W.shape)
    np.testing.assert_allclose(F.steepest(x, gradient.ravel()), 0, atol=1e-9)


@pytest.mark.parametrize("solver", PROXIMAL, ids=str)
def test_types_of_features(solver):
    found = []
    for features, scale in feature_kinds().values():
        f = LinearModel(features, SIGNS, Logistic(), 0.01, scale=scale, intercept="free")
        found.append(minimise(f + L1(0.01), solver=solver, stop=TIGHT).x)
    for x in found[1:]:
        np.testing.assert_allclose(x, found[0], atol=1e-8)


@pytest.mark.parametrize("solver", PROXIMAL, ids=str)
def test_smooth_objectives_are_the_case_without_penalty(solver):
    A = X.T @ X / 40
    x = minimise(Quadratic(A, np.ones(6)), solver=solver, stop=TIGHT).x
    np.testing.assert_allclose(x, np.linalg.solve(A, np.ones(6)), atol=1e-8)


@pytest.mark.parametrize("solver", PROXIMAL, ids=str)
def test_warm_start_outside_the_box_and_at_the_minimiser(solver):
    F = LinearModel(X, Y, Squared(), 0.1) + BoxConstraint(0.1, 0.4)
    first = minimise(F, solver=solver, warm=np.full(6, 9.0), stop=TIGHT)
    assert F.value(first.x) < np.inf
    assert F.value(minimise(F, solver=solver, warm=np.full(6, 9.0), stop=FixedIterations(0)).x) < np.inf
    again = minimise(F, solver=solver, warm=first.warm, stop=GradientNorm(1e-9))
    assert again.iterations == 0
    np.testing.assert_array_equal(again.x, first.x)


def test_badly_conditioned_lasso_in_one_iteration():
    """Sweeps alone crawl here: two columns are nearly the same."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((60, 5))
    features = np.column_stack([base, base + 1e-4 * rng.standard_normal((60, 5))])
    y = features @ np.ones(10) + rng.standard_normal(60)
    F = LinearModel(features, y, Squared()) + L1(0.05)
    solution = minimise(F, solver=CoordinateDescent(), stop=GradientNorm(1e-9))
    assert solution.iterations <= 2
    assert not solution.capped


def test_function_without_known_smoothness():
    """exp(x1) + exp(-x1) + (x2 - 3)^2/2 + |x|_1, minimised at (0, 2)."""
    f = Function(
        2,
        lambda x: np.exp(x[0]) + np.exp(-x[0]) + (x[1] - 3) ** 2 / 2,
        lambda x: np.array([np.exp(x[0]) - np.exp(-x[0]), x[1] - 3]),
    )
    solution = minimise(f + L1(1.0), solver=FISTA(), warm=np.array([3.0, -5.0]), stop=TIGHT)
    np.testing.assert_allclose(solution.x, [0, 2], atol=1e-8)


def test_restart_and_strong_convexity_pay():
    rng = np.random.default_rng(1)
    A = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    A = (A * np.logspace(-4, 0, 50)) @ A.T
    F = Quadratic((A + A.T) / 2, rng.standard_normal(50)) + L1(1e-3)
    rule = GradientNorm(1e-8, cap=6000)
    with_it, without = (minimise(F, solver=POGM(restart=r), stop=rule) for r in (True, False))
    assert with_it.iterations < 3000 and without.capped
    assert minimise(F, solver=FISTA(), stop=rule).iterations < 4000


@pytest.mark.parametrize(("mu_f", "mu_P"), [(0.01, 0.0), (0.0, 0.3), (0.02, 0.1)])
def test_momentum_tends_to_nesterovs(mu_f, mu_P):
    """beta -> (1 - sqrt q)/(1 + sqrt q) with q = tau mu/(1 + tau mu_P), wherever the strong convexity sits."""
    split = Split(Quadratic(np.diag([max(mu_f, 1e-300), 1.0]), np.ones(2)) + ElasticNetPenalty(0.1, mu_P))
    t, tau = 1.0, 0.8
    for _ in range(2000):
        t, beta = momentum(split, t, tau, 1.0)
    root = np.sqrt(tau * (mu_f + mu_P) / (1 + tau * mu_P))
    assert beta == pytest.approx((1 - root) / (1 + root), rel=1e-9)


def test_confirmation_costs_about_one_gradient():
    F = LinearModel(X, Y, Squared(), 0.01) + L1(0.1)
    solution = minimise(F, solver=FISTA(), stop=GradientNorm(1e-8))
    assert solution.cost.gradients <= solution.iterations + 5


# -- losses with kinks ----------------------------------------------------------------------------------------

KINKED = {Hinge(): SIGNS, Absolute(): Y, Quantile(0.8): Y, EpsilonInsensitive(0.4): Y}


def kink_oracle(loss, features, y, s, lam, c):
    """The quadratic programme by SLSQP, then one linear system on the rows that lie at a kink."""
    n, D = features.shape
    lo, hi, eps = {
        Hinge: (0.0, 1.0, 0.0),
        Absolute: (-1.0, 1.0, 0.0),
        Quantile: (getattr(loss, "tau", 0) - 1.0, getattr(loss, "tau", 0), 0.0),
        EpsilonInsensitive: (-1.0, 1.0, getattr(loss, "eps", 0.0)),
    }[type(loss)]
    Z, b = (features * y[:, None], np.ones(n)) if isinstance(loss, Hinge) else (features, y)
    pieces = [(hi, -hi * eps), (lo, lo * eps)] + ([(0.0, 0.0)] if eps else [])
    # xi_i >= slope (b_i - z_i'theta) + offset
    M = np.vstack([np.hstack([slope * Z, np.eye(n)]) for slope, _ in pieces])
    r = np.concatenate([slope * b + offset for slope, offset in pieces])
    start = np.concatenate([np.zeros(D), np.max([slope * b + offset for slope, offset in pieces], axis=0)])
    found = minimize(
        lambda v: s @ v[D:] + lam @ v[:D] ** 2 / 2 - c @ v[:D],
        start,
        jac=lambda v: np.concatenate([lam * v[:D] - c, s]),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: M @ v - r, "jac": lambda v: M},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    u = b - Z @ found.x[:D]
    at_kink = np.abs(np.abs(u) - eps) < 1e-5
    a = np.where(u > eps, hi, np.where(u < -eps, lo, 0.0))
    a[at_kink] = 0.0
    K = at_kink & (s > 0)
    # lam theta - Z_K' (s a)_K = c + the other rows;   Z_K theta = b - the kink
    k = K.sum()
    system = np.block([[np.diag(lam), -(Z[K].T * s[K])], [Z[K], np.zeros((k, k))]])
    right = np.concatenate([c + Z.T @ (s * a), (b - np.sign(u) * eps)[K]])
    solved = np.linalg.solve(system, right)
    assert ((solved[D:] >= lo) & (solved[D:] <= hi)).all(), "the oracle missed the kinks"
    return solved[:D]


@pytest.mark.parametrize("loss", KINKED, ids=str)
@pytest.mark.parametrize("view", ["plain", "weighted", "tilted", "intercept", "free, tilted", "free, regularised"])
def test_kinks_against_a_quadratic_programme(loss, view):
    rows = slice(0, 20)
    y, weights = KINKED[loss][rows], WEIGHTS[rows] if view == "weighted" else None
    intercept = "free" if "free" in view else view == "intercept"
    f = LinearModel(X[rows], y, loss, 0.1, weights=weights, intercept=intercept)
    features = np.column_stack([X[rows], np.ones(20)]) if intercept else X[rows]
    lam, c = np.full(f.d, 0.1), np.zeros(f.d)
    if view == "free, regularised":
        F = regularised(f, 0.02)
        lam[-1] = 0.02
    elif "tilted" in view:
        c = 0.3 * np.sin(np.arange(f.d))
        F = f.tilted(0.4, c)
        lam += 0.4
        lam[-1] -= 0.1 * (intercept == "free")
    else:
        F = f
    s = np.full(20, 1 / 20) if weights is None else weights / weights.sum()
    expected = kink_oracle(loss, features, y, s, lam, c)
    solution = minimise(F, stop=PrimalDualGap(1e-15))
    np.testing.assert_allclose(solution.x, expected, atol=1e-8)
    assert not solution.residual.any() and solution.gap == solution.slack
    assert solution.value == pytest.approx(F.value(solution.x), abs=1e-14)

    for epochs in (0, 1, 4):  # the gap bounds what is missing, from the first epoch
        rough = SDCA(newton=0).solve(F, None, FixedIterations(epochs))
        assert rough.gap + 1e-15 >= F.value(rough.x) - F.value(expected) >= -1e-15


@pytest.mark.parametrize("loss", KINKED, ids=str)
@pytest.mark.parametrize("newton", [0, 5])
def test_types_of_features_with_kinks(loss, newton):
    found = []
    for features, scale in feature_kinds().values():
        f = LinearModel(features, KINKED[loss], loss, 1.0, scale=scale, intercept=True)
        found.append(minimise(f, solver=SDCA(newton=newton), stop=PrimalDualGap(1e-13)).x)
    for x in found[1:]:
        np.testing.assert_allclose(x, found[0], atol=1e-6)


def test_rows_without_weight_or_features():
    features = np.vstack([X[:10], np.zeros((3, 6)), X[:3]])
    y = np.concatenate([SIGNS[:10], [1.0, -1.0, 1.0], -SIGNS[:3]])
    weights = np.r_[np.ones(13), np.zeros(3)]
    f = LinearModel(features, y, Hinge(), 0.1, weights=weights)
    g = LinearModel(X[:10], SIGNS[:10], Hinge(), 0.13)  # the empty rows only add a constant
    x = minimise(f, stop=PrimalDualGap(1e-15)).x
    np.testing.assert_allclose(x, minimise(g, stop=PrimalDualGap(1e-15)).x, atol=1e-7)
    nothing = LinearModel(np.zeros((4, 2)), np.ones(4), Hinge(), 0.1)
    assert not minimise(nothing).x.any()


@pytest.mark.parametrize("ridge", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("name", ["hinge", "absolute", "quantile", "epsilon"])
def test_small_ridges_on_real_data(name, ridge):
    data = load_breast_cancer() if name == "hinge" else load_diabetes()
    features = (data.data - data.data.mean(0)) / data.data.std(0)
    y = 2.0 * data.target - 1 if name == "hinge" else (data.target - data.target.mean()) / data.target.std()
    loss = {"hinge": Hinge(), "absolute": Absolute(), "quantile": Quantile(0.9), "epsilon": EpsilonInsensitive(0.1)}
    f = LinearModel(features, y, loss[name], ridge)
    solution = minimise(f, stop=PrimalDualGap(1e-10, cap=100))
    assert not solution.capped
    # the certificate once more, from alpha alone
    box, alpha = f.loss.box(f.y), solution.warm
    assert ((alpha >= box.lo) & (alpha <= box.hi)).all()
    v = features.T @ (f.s * alpha * box.q)
    dual = f.s @ (alpha * box.b - box.eps * np.abs(alpha)) - v @ v / (2 * ridge)
    np.testing.assert_allclose(solution.x, v / ridge, atol=1e-9 * np.abs(v / ridge).max())
    assert f.value(solution.x) - dual == pytest.approx(solution.gap, abs=1e-13)


@pytest.mark.parametrize("n", [8, 20])
def test_a_newton_system_that_is_singular_in_floating_point_is_too_bold(n):
    """Columns that sum to a constant, rows that come twice, and a ridge that is rounding beside sigma."""
    bits = np.random.default_rng(0).integers(0, 2, (n, 8)).astype(float)
    rows = np.tile(np.hstack([bits, 1 - bits]), (2, 1))
    f = LinearModel(rows, SIGNS[: 2 * n], Hinge(), 1e-3, intercept=True)
    q, _, lo, hi, eps = f.loss.box(f.y)
    p = DualProblem(f.design, q, np.zeros(2 * n), lo, hi, eps, f.s, f.ridge, np.zeros(f.d))
    start = replace(p.look(np.full(2 * n, 0.5)), theta=np.zeros(f.d))  # all margins are 0, so all rows stay inside
    with pytest.raises(np.linalg.LinAlgError):
        _direction(p, np.arange(2 * n), 1e25, np.ones(f.d), Cost())
    assert _proximal_point(p, start, 1e25, 0.0, Cost()) is None


def test_wide_data_use_the_small_system():
    features = RNG.standard_normal((30, 200))
    f = LinearModel(features, SIGNS[:30], Hinge(), 1e-3)
    solution = minimise(f, stop=PrimalDualGap(1e-12, cap=100))
    assert not solution.capped


def test_a_warm_start_continues():
    f = LinearModel(X, SIGNS, Hinge(), 0.01)
    first = minimise(f, stop=PrimalDualGap(1e-12))
    assert first.warm.shape == (40,)
    assert minimise(f, warm=first.warm, stop=PrimalDualGap(1e-11)).iterations == 0
    half = SDCA().solve(f, None, FixedIterations(3))
    more = SDCA().solve(f, half.warm, FixedIterations(3))
    assert more.gap < half.gap
    with pytest.raises(InputError, match="one dual variable for each of the 40 rows"):
        minimise(f, warm=np.zeros(6))


def test_sdca_ends_at_rounding_level():
    solution = minimise(LinearModel(X, SIGNS, Hinge(), 0.1), stop=PrimalDualGap(0.0))
    assert solution.gap <= 1e-15 and solution.iterations < 1000


def test_the_same_seed_gives_the_same_bits():
    f = LinearModel(X, Y, Absolute(), 0.01)
    runs = [SDCA(seed=seed, newton=0).solve(f, None, FixedIterations(5)).x for seed in (3, 3, 4)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


# -- every rule, every refusal --------------------------------------------------------------------------------

PAIRS = [(solver, LinearModel(X, SIGNS, Logistic(), 0.1) + L1(0.05)) for solver in PROXIMAL]
PAIRS.append((SDCA(), LinearModel(X, SIGNS, Hinge(), 0.1)))


@pytest.mark.parametrize(("solver", "F"), PAIRS, ids=lambda v: str(v) if not hasattr(v, "d") else "")
def test_every_rule_works(solver, F):
    best = minimise(F, solver=solver, stop=PrimalDualGap(1e-14)).x
    exactly = solver.solve(F, None, FixedIterations(3))
    assert exactly.iterations == 3 and not exactly.capped
    for rule in (
        PrimalDualGap(1e-9),
        GradientNorm(1e-6),
        RelativeEnergy(1e-10),
        RelativeStep(1e-4, np.zeros(F.d)),
        PrimalDualGap(1e-9, 0.05),
    ):
        solution = solver.solve(F, None, rule)
        assert not solution.capped
        assert F.value(solution.x) - F.value(best) <= 1e-6
        assert solution.gap >= F.value(solution.x) - F.value(best) - 1e-14
    capped = solver.solve(F, None, GradientNorm(0.0, cap=2))
    assert capped.capped and capped.iterations == 2
    assert solver.solve(F, None, GradientNorm(0.0, cap=0)).capped


@pytest.mark.parametrize(("solver", "F"), PAIRS, ids=lambda v: str(v) if not hasattr(v, "d") else "")
def test_nan_is_divergence(solver, F):
    with pytest.raises(Diverged, match="met NaN or infinity"):
        minimise(F, c=np.full(F.d, np.nan), solver=solver)


@pytest.mark.parametrize("solver", [FISTA(restart=False), POGM(restart=False)], ids=str)
def test_a_wrong_L_is_divergence(solver):
    f = Function(2, lambda x: 50 * x @ x, lambda x: 100 * x, L=1.0)
    with pytest.raises(Diverged, match="its step is too long"):
        minimise(f + L1(0.1), warm=np.ones(2), solver=solver)


def test_coordinate_descent_ends_at_rounding_level():
    F = LinearModel(X, SIGNS, Logistic(), 0.1) + L1(0.05)
    solution = minimise(F, solver=CoordinateDescent(), stop=GradientNorm(0.0))
    assert solution.iterations < 100
    assert np.linalg.norm(solution.residual) < 1e-14


def test_defaults():
    smooth, kinked = LinearModel(X, SIGNS, Logistic(), 0.1), LinearModel(X, SIGNS, Hinge(), 0.1)
    assert isinstance(default_solver(smooth + L1(0.1)), FISTA)
    assert isinstance(default_solver(kinked), SDCA)
    assert minimise(kinked).gap <= 1e-10


@pytest.mark.parametrize(
    ("solver", "f", "sentence"),
    [
        (FISTA(), LinearModel(X, SIGNS, Hinge(), 0.1), "FISTA needs a gradient, and Hinge has none; use SDCA"),
        (POGM(), LinearModel(X, SIGNS, Hinge(), 0.1) + L1(1.0), "POGM needs a smooth loss next to the penalty"),
        (POGM(), LinearModel(X, COUNTS, Poisson(), 0.1) + L1(1.0), "POGM needs a finite L.*L = inf; use FISTA"),
        (CoordinateDescent(), LinearModel(X, Y, Squared()) + GroupL2(0.1), "GroupL2 couples coordinates; use FISTA"),
        (
            CoordinateDescent(),
            LinearModel(sparse.csr_array((3, 4001)), np.ones(3), Squared()) + L1(1.0),
            "at most 4000 coefficients, and .* has 4001; use FISTA",
        ),
        (
            CoordinateDescent(),
            Function(2, lambda x: x @ x, lambda x: 2 * x) + L1(1.0),
            "needs a Hessian, and Function has none; use FISTA",
        ),
        (SDCA(), LinearModel(X, SIGNS, Hinge()), "SDCA needs a strongly convex objective, and Hinge has mu = 0"),
        (SDCA(), LinearModel(X, SIGNS, Hinge(), 0.1, intercept="free"), "Hinge has a free intercept"),
        (SDCA(), LinearModel(X, SIGNS, Hinge(), 0.1) + L1(0.1), r"no other penalty, and it was given Hinge \+ L1"),
        (SDCA(), LinearModel(X, SIGNS, Logistic(), 0.1), "SDCA takes a linear model with hinge.* Logistic is not one"),
        (
            SDCA(),
            LinearModel(X, SIGNS, Hinge(), 0.1).tilted(np.arange(6.0)),
            "one ridge for all features.*from 0.1 to 5.1; give `a` as one number",
        ),
    ],
    ids=lambda v: v.name if hasattr(v, "name") else "",
)
def test_refusals_are_one_sentence(solver, f, sentence):
    with pytest.raises(NotSupported, match=sentence) as raised:
        minimise(f, solver=solver)
    assert str(raised.value).count(". ") == 0


def test_settings_out_of_range():
    with pytest.raises(InputError, match="SDCA's newton must be a number of epochs >= 0, but it is -1"):
        SDCA(newton=-1)
    with pytest.raises(InputError, match="SDCA's seed must be an integer >= 0, but it is -3"):
        SDCA(seed=-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_model_is_minimised_where_columns_sum_to_a_constant(seed):
    """One-hot columns and an intercept: along some lines only the l1 part says anything, with a kink at every zero."""
    rng = np.random.default_rng(seed)
    levels = [np.eye(k)[rng.integers(k, size=300)] for k in (6, 8, 10, 12)]
    X = np.hstack([*levels, np.ones((300, 1))])
    Q, q = X.T @ X / 300, X.T @ rng.standard_normal(300) / 300
    l1 = np.append(np.full(36, 1e-4), 0.0)
    P = Separable(l1, np.zeros(37), np.full(37, -np.inf), np.full(37, np.inf))
    z = minimise_model(Q, q, P, 5 * rng.standard_normal(37), 1e-12)
    assert np.linalg.norm(P.steepest(z, Q @ z - q)) <= 1e-12


def test_a_model_is_minimised_in_a_box():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 12))
    Q, q = A.T @ A / 30, rng.standard_normal(12)
    P = Separable(np.full(12, 0.05), np.zeros(12), np.full(12, -0.4), np.full(12, 0.6))
    z = minimise_model(Q, q, P, np.zeros(12), 1e-13)
    assert ((P.lo <= z) & (z <= P.hi)).all() and (z == P.lo).any() and (z == P.hi).any()
    assert np.linalg.norm(P.steepest(z, Q @ z - q)) <= 1e-13


def test_a_model_at_rounding_is_left_alone(monkeypatch):
    """From its minimiser on values differ by rounding, and steps on a face that chase that are dear."""
    steps, step, d = [], coordinate_descent.face_step, 300
    P = Separable(np.full(d, 1e-2), np.zeros(d), np.full(d, -np.inf), np.full(d, np.inf))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((3 * d, d))
        Q = A.T @ A / (3 * d)
        q = A.T @ rng.standard_normal(3 * d) / (3 * d) + 100 * Q @ rng.standard_normal(d)
        z = minimise_model(Q, q, P, np.zeros(d), 1e-13)
        with monkeypatch.context() as patch:
            patch.setattr(coordinate_descent, "face_step", lambda *a: steps.append(1) or step(*a))
            minimise_model(Q, q, P, z, 0.0)
    assert len(steps) <= 40  # 20; about a hundred, where a fall within rounding counts as one
