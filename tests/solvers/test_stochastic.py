"""SVRG, SAGA and SGD against minimisers found by Newton's method in this file."""

import numpy as np
import pytest
from scipy import sparse

from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.objectives import (
    L1,
    Function,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
    regularised,
)
from dualfl.solvers import (
    SAGA,
    SGD,
    SVRG,
    FixedIterations,
    GradientNorm,
    PrimalDualGap,
    RelativeEnergy,
    RelativeStep,
    minimise,
)

RNG = np.random.default_rng(11)
X = RNG.standard_normal((60, 4))
Y = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.3 * RNG.standard_normal(60)
SIGNS = np.where(Y + 0.5 * RNG.standard_normal(60) > 0, 1.0, -1.0)
CLASSES = RNG.integers(0, 3, 60)
WEIGHTS = np.where(np.arange(60) % 7 == 0, 0.0, RNG.uniform(0.5, 2, 60))
TARGETS = {Squared(): Y, Logistic(): SIGNS, Softmax(3): CLASSES, Huber(0.7): Y, SquaredHinge(): SIGNS}
REDUCED = (SVRG(), SAGA())
ALL = (SVRG(), SAGA(), SGD(batch=8))


def newton(features, y, s, loss, ridge, c):
    """The minimiser of sum s l + <ridge x, x>/2 - <c, x>, by Newton's method with Hessians by hand."""
    n, D = features.shape
    k = 3 if isinstance(loss, Softmax) else 1
    x = np.zeros(D * k)
    for step in range(200):
        Z = features @ x.reshape(D, k)
        z = Z[:, 0]
        if k == 3:
            p = np.exp(Z - Z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            slope, curve = p - np.eye(3)[y], np.einsum("ij,jk->ijk", p, np.eye(3)) - p[:, :, None] * p[:, None, :]
        else:
            if isinstance(loss, Squared):
                slope, curve = z - y, np.ones(n)
            elif isinstance(loss, Logistic):
                sigma = 1 / (1 + np.exp(y * z))
                slope, curve = -y * sigma, sigma * (1 - sigma)
            elif isinstance(loss, Huber):
                slope, curve = np.clip(z - y, -loss.delta, loss.delta), 1.0 * (np.abs(z - y) <= loss.delta)
            else:
                slope, curve = -2 * y * np.maximum(0, 1 - y * z), 2.0 * (y * z < 1)
            slope, curve = slope[:, None], curve[:, None, None]
        g = np.einsum("i,ia,ij->aj", s, features, slope).ravel() + ridge * x - c
        H = np.einsum("i,ia,ijk,ib->ajbk", s, features, curve, features).reshape(D * k, D * k) + np.diag(ridge)
        newton = np.linalg.lstsq(H, g, rcond=None)[0]  # free intercepts of softmax: singular
        x = x - (0.5 if step < 30 else 1.0) * newton
    assert np.linalg.norm(g) < 1e-13
    return x


@pytest.mark.parametrize("solver", REDUCED, ids=str)
@pytest.mark.parametrize("loss", TARGETS, ids=str)
@pytest.mark.parametrize("view", ["plain", "weighted", "tilted", "free", "free, regularised"])
def test_the_minimiser(solver, loss, view):
    y, weights = TARGETS[loss], WEIGHTS if view == "weighted" else None
    f = LinearModel(X, y, loss, 0.1, weights=weights, intercept="free" if "free" in view else False)
    features = np.column_stack([X, np.ones(60)]) if "free" in view else X
    ridge, c, F = np.full((features.shape[1], f.k), 0.1), np.zeros(f.d), f
    if "free" in view:
        ridge[-1] = 0.05 if "regularised" in view else 0.0
    if view == "tilted":
        ridge, c = ridge + 0.2, 0.3 * np.cos(np.arange(f.d))
        F = f.tilted(0.2, c)
    if "regularised" in view:
        F = regularised(f, 0.05)
    s = np.full(60, 1 / 60) if weights is None else weights / weights.sum()
    expected = newton(features, y, s, loss, ridge.ravel(), c)
    solution = minimise(F, solver=solver, stop=GradientNorm(1e-10))
    assert not solution.capped and solution.iterations < 2000
    assert np.linalg.norm(solution.residual) <= 1e-10
    found, expected = solution.x.reshape(-1, f.k).copy(), expected.reshape(-1, f.k)
    if view == "free" and f.k > 1:  # a constant may be added to them
        found[-1] -= found[-1].mean()
        expected[-1] -= expected[-1].mean()
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_types_of_features(solver):
    pixels = RNG.integers(0, 256, (60, 4)).astype(np.uint8)
    kinds = [
        (pixels / 255.0, 1.0),
        (pixels, 1 / 255),
        (sparse.csr_array(pixels.astype(float)), 1 / 255),
        (pixels.astype(np.float32), 1 / 255),
        (sparse.csr_array(pixels), 1 / 255),
    ]
    found = []
    for features, scale in kinds:
        f = LinearModel(features, SIGNS, Logistic(), 0.1, scale=scale, intercept=True)
        found.append(solver.solve(f, None, FixedIterations(20)).x)
    for x in found[1:]:  # the same rows in the same order, so the same iterates
        np.testing.assert_allclose(x, found[0], atol=1e-12)


@pytest.mark.parametrize("batch", [1, 8, 60, 1000])
def test_sgd_reaches_its_noise_ball(batch):
    """E|x_k - x*|^2 <= 8 sigma^2/(mu^2 k) or so after the constant phase, sigma^2 = Var of the gradients at x*."""
    f = LinearModel(X, SIGNS, Logistic(), 0.2, intercept=True)
    features = np.column_stack([X, np.ones(60)])
    best = newton(features, SIGNS, np.full(60, 1 / 60), Logistic(), np.full(5, 0.2), np.zeros(5))
    rows = -(SIGNS / (1 + np.exp(SIGNS * (features @ best))))[:, None] * features + 0.2 * best
    sigma2 = (rows**2).sum(axis=1).mean() / min(batch, 60)
    epochs = 300
    x = SGD(batch=batch).solve(f, None, FixedIterations(epochs)).x
    steps = epochs * -(-60 // min(batch, 60))
    assert ((x - best) ** 2).sum() <= max(8 * sigma2 / (0.2**2 * steps), 1e-6)


def test_sgd_without_strong_convexity():
    f = LinearModel(X, Y, Squared())
    least_squares = np.linalg.lstsq(X, Y, rcond=None)[0]
    x = SGD(batch=4).solve(f, None, FixedIterations(300)).x
    assert np.linalg.norm(x - least_squares) < 0.05


def test_a_constant_cost_needs_no_step():
    assert not minimise(LinearModel(np.zeros((3, 2)), np.ones(3), Squared()), solver=SGD()).x.any()


def test_sgd_stops_by_itself_inside_the_ball():
    f = LinearModel(X, SIGNS, Logistic(), 0.2)
    solution = minimise(f, solver=SGD(batch=8), stop=GradientNorm(1e-2))
    assert not solution.capped and 0 < solution.iterations < 500
    assert np.linalg.norm(f.gradient(solution.x)) <= 1e-2
    assert solution.cost.gradients < 2 * solution.iterations + 2


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_the_same_seed_gives_the_same_bits(solver):
    f = LinearModel(X, SIGNS, Logistic(), 0.1)
    kind = type(solver)
    runs = [kind(seed=seed).solve(f.fresh(), None, FixedIterations(4)).x for seed in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_every_rule_works(solver):
    f = LinearModel(X, SIGNS, Logistic(), 0.5).tilted(0.5, np.ones(4))
    best = f.value(minimise(f, solver=SVRG(), stop=GradientNorm(1e-12)).x)
    exactly = solver.solve(f, None, FixedIterations(3))
    assert exactly.iterations == 3 and not exactly.capped
    for rule in (GradientNorm(5e-3), PrimalDualGap(1e-4), RelativeEnergy(1e-4), RelativeStep(1e-2, np.ones(4))):
        solution = solver.solve(f, None, rule)
        assert not solution.capped
        assert -1e-14 <= f.value(solution.x) - best <= min(solution.gap + 1e-14, 1e-3)
    capped = solver.solve(f, None, GradientNorm(0.0, cap=2))
    assert capped.capped and capped.iterations == 2
    np.testing.assert_allclose(capped.residual, f.gradient(capped.x), atol=1e-14)


@pytest.mark.parametrize("solver", [SVRG(step=1e6), SAGA(step=1e6), SGD(step=1e6)], ids=str)
def test_too_long_a_step_is_divergence(solver):
    f = LinearModel(X, Y, Squared())
    with pytest.raises(Diverged, match="left the finite numbers"):
        minimise(f, solver=solver)


def test_costs_count_rows():
    f = LinearModel(X, SIGNS, Logistic(), 0.1)
    assert SVRG().solve(f.fresh(), None, FixedIterations(5)).cost.gradients == 5 + 6  # epochs and snapshots
    assert SAGA().solve(f.fresh(), None, FixedIterations(5)).cost.gradients == 5 + 2  # the first and the last exact
    sgd = SGD(batch=7).solve(f.fresh(), None, FixedIterations(5)).cost.gradients
    assert sgd == pytest.approx(5 + 2)


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_an_unbounded_curvature_needs_a_step(solver):
    f = LinearModel(X, RNG.poisson(2.0, 60), Poisson(), 0.5)
    with pytest.raises(NotSupported, match="that of Poisson is unbounded; give `step`"):
        minimise(f, solver=solver)
    solution = minimise(f, solver=type(solver)(step=0.01), stop=GradientNorm(0.05))
    assert np.linalg.norm(f.gradient(solution.x)) <= 0.05


@pytest.mark.parametrize("solver", ALL, ids=str)
def test_refusals_are_one_sentence(solver):
    refused = {
        "needs a gradient, and Hinge has none; use SDCA": LinearModel(X, SIGNS, Hinge(), 0.1),
        r"no penalty besides the ridge, and it was given Logistic \+ L1": LinearModel(X, SIGNS, Logistic()) + L1(0.1),
        "draws rows of data, and Function has none": Function(2, lambda x: x @ x, lambda x: 2 * x, L=2.0),
        "differs between classes": LinearModel(X, CLASSES, Softmax(3), 0.1).tilted(np.arange(12.0)),
    }
    for sentence, f in refused.items():
        with pytest.raises(NotSupported, match=sentence) as raised:
            minimise(f, solver=solver)
        assert str(raised.value).startswith(solver.name)


def test_settings_out_of_range():
    for kind in (SVRG, SAGA, SGD):
        with pytest.raises(InputError, match=f"{kind.__name__}'s step must be a positive number.*and it is 0.0"):
            kind(step=0.0)
        with pytest.raises(InputError, match=f"{kind.__name__}'s seed must be an integer >= 0, and it is -1"):
            kind(seed=-1)
    with pytest.raises(InputError, match="SGD's batch must be a number of rows >= 1, and it is 0"):
        SGD(batch=0)
