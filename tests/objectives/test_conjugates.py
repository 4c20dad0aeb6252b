"""Conjugates: Fenchel-Young, equality at the gradient, and back to the loss by conjugating twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from objective_cases import KINKED, LOSSES, SMOOTH, formula, names, random_targets, some

from dualfl.errors import NotSupported
from dualfl.kernels import twin_losses
from dualfl.objectives import (
    CLogLog,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    NegativeBinomial,
    Poisson,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=names(LOSSES))
SCALAR = [loss for loss in LOSSES if loss.outputs == 1]


def draw(loss: Loss, seed: int, n: int = 30) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    Z = rng.normal(0, 3, (n, loss.outputs))
    return Z, random_targets(loss, n, rng).astype(float), rng


def slopes(loss: Loss, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """l'(z) written out; a subgradient at kinks."""
    if isinstance(loss, Softmax):
        p = np.exp(Z - Z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y.astype(int)] -= 1
        return p
    z = Z[:, 0]
    h = 1e-7
    if isinstance(loss, Logistic):
        return -y / (1 + np.exp(y * z))
    if isinstance(loss, Squared):
        return z - y
    if isinstance(loss, Huber):
        return np.clip(z - y, -loss.delta, loss.delta)
    if isinstance(loss, Poisson):
        return np.exp(z) - y
    if isinstance(loss, SquaredHinge):
        return -2 * y * np.maximum(0, 1 - y * z)
    if isinstance(loss, Gamma):
        return 1 - y * np.exp(-z)
    if isinstance(loss, Tweedie):
        return np.exp((2 - loss.power) * z) - y * np.exp((1 - loss.power) * z)
    if isinstance(loss, NegativeBinomial):
        mean = np.exp(z)
        return (mean - y) / (1 + loss.dispersion * mean)
    if isinstance(loss, CLogLog):
        m = np.exp(z)
        return np.where(y > 0, -m / np.expm1(np.minimum(m, 700)), m)
    # piecewise linear with slopes of one decimal: a difference quotient away from kinks is exact
    quotient = (formula(loss, Z + h, y) - formula(loss, Z - h, y)) / (2 * h)
    return np.round(quotient, 1)


def inner(u: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.sum(u * Z, axis=1) if u.ndim == 2 else u * Z[:, 0]


@each_loss
@some
@given(st.integers(0, 10**6))
def test_fenchel_young(loss, seed):
    Z, y, rng = draw(loss, seed)
    u = slopes(loss, Z, y)
    at_gradient = loss.conjugate(u, y)
    assert np.isfinite(at_gradient).all()
    # equality where u is the gradient at z
    assert_allclose(formula(loss, Z, y) + at_gradient, inner(u, Z), rtol=1e-10, atol=1e-10)
    # and an inequality at every other z, with u from the domain or not
    other = rng.normal(0, 5, Z.shape)
    assert (formula(loss, other, y) + at_gradient >= inner(u, other) - 1e-10).all()
    anywhere = rng.normal(0, 2, u.shape)
    assert (formula(loss, other, y) + loss.conjugate(anywhere, y) >= inner(anywhere, other) - 1e-10).all()


@pytest.mark.parametrize("loss", SCALAR, ids=names(SCALAR))
def test_conjugating_twice_gives_the_loss_back(loss):
    u = np.linspace(-12, 12, 48_001)
    for y in (-1.0, 1.0):
        if isinstance(loss, (Poisson, Gamma, Tweedie, NegativeBinomial)) and y < 0:
            continue
        target = np.full(len(u), y)
        star = loss.conjugate(u, target)
        assert np.isfinite(star).any() and not np.isnan(star).any()
        for z in (-1.7, -0.3, 0.0, 0.9, 2.1):
            twice = np.max(u * z - star)
            assert_allclose(twice, formula(loss, np.array([[z]]), np.array([y]))[0], atol=2e-3)


def test_conjugating_softmax_twice():
    loss, rng = Softmax(3), np.random.default_rng(0)
    grid = np.array([(i, j, 200 - i - j) for i in range(201) for j in range(201 - i)]) / 200
    for label in range(3):
        u = grid - np.eye(3)[label]
        star = loss.conjugate(u, np.full(len(u), float(label)))
        for z in rng.normal(size=(3, 3)):
            value = formula(loss, z[None], np.array([float(label)]))[0]
            assert_allclose(np.max(u @ z - star), value, atol=1e-3)


@pytest.mark.parametrize(
    ("loss", "y", "inside", "outside"),
    [
        (Logistic(), 1.0, [-1.0, -0.5, 0.0, 1e-13], [-1.001, 0.001]),
        (Hinge(), -1.0, [0.0, 1.0], [-0.001, 1.001]),
        (Huber(0.5), 2.0, [-0.5, 0.5], [0.51, -0.51]),
        (Poisson(), 3.0, [-3.0, 100.0], [-3.001]),
        (SquaredHinge(), 1.0, [-5.0, 0.0], [0.001]),
        (Gamma(), 2.0, [-1e9, 0.0, 1.0], [1.001]),
        (Tweedie(1.5), 0.0, [0.0, 1e9], [-0.001]),
        (Tweedie(1.01), 3.0, [-1e9, -1.0, 0.0, 2.0, 1e3], []),
        (Tweedie(1.99), 3.0, [-1e3, -1.0, 0.0, 2.0, 1e3], []),
        (NegativeBinomial(0.5), 3.0, [-3.0, 0.0, 2.0], [-3.001, 2.001]),
        (CLogLog(), 1.0, [-1.0, -1 + 1e-15, -1e-200, 0.0], [0.001, -1.001]),
        (CLogLog(), -1.0, [0.0, 50.0], [-0.001]),
    ],
    ids=repr,
)
def test_domains_are_closed_and_end_where_they_should(loss, y, inside, outside):
    assert np.isfinite(loss.conjugate(np.array(inside), np.full(len(inside), y))).all()
    assert np.isposinf(loss.conjugate(np.array(outside), np.full(len(outside), y))).all()


def test_softmax_domain():
    y = np.array([0.0])
    assert Softmax(2).conjugate(np.array([[0.0, 0.0]]), y) == 0.0
    assert Softmax(2).conjugate(np.array([[-1.0, 1.0]]), y) == 0.0
    assert np.isposinf(Softmax(2).conjugate(np.array([[-1.5, 1.5]]), y)).all()
    assert np.isposinf(Softmax(2).conjugate(np.array([[-0.5, 0.4]]), y)).all()


def test_rounding_at_large_counts_is_not_infeasible():
    """exp(z) - y + y is negative by rounding when exp(z) is tiny and y is large."""
    y = np.full(100, 1e8 + 0.1)
    u = np.nextafter(-y, -np.inf)
    assert np.isfinite(Poisson().conjugate(u, y)).all()


@pytest.mark.parametrize("loss", KINKED, ids=names(KINKED))
@some
@given(st.integers(0, 10**6))
def test_the_box_is_the_loss(loss, seed):
    Z, y, _ = draw(loss, seed)
    q, b, lo, hi, eps = loss.box(y)
    a = np.array([lo, 0.0, hi])[:, None]  # the maximum of a piecewise linear function is at one of its corners
    best = np.max(a * (b - q * Z[:, 0]) - eps * np.abs(a), axis=0)
    assert_allclose(best, formula(loss, Z, y), atol=1e-14)


@pytest.mark.parametrize("loss", SMOOTH, ids=names(SMOOTH))
def test_smooth_losses_have_no_box(loss):
    with pytest.raises(NotSupported) as error:
        loss.box(np.ones(3))
    assert str(error.value) == (
        f"{loss} is not piecewise linear, so dual coordinate ascent does not apply; use a smooth solver."
    )


@pytest.mark.parametrize("loss", [x for x in SMOOTH if np.isfinite(x.curvature)], ids=repr)
def test_the_bound_of_the_curvature_holds_and_is_attained(loss):
    if isinstance(loss, Softmax):
        p = np.zeros(loss.classes)
        p[:2] = 0.5  # two classes share everything
        top = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]
    else:
        z, h = np.linspace(-4, 4, 8001), 1e-4
        value = [formula(loss, (z + s)[:, None], np.full(len(z), 1.0)) for s in (-h, 0, h)]
        top = ((value[0] - 2 * value[1] + value[2]) / h**2).max()
    assert top == pytest.approx(loss.curvature, rel=1e-5)


def test_a_conjugate_far_in_the_tail_takes_few_turns(monkeypatch):
    """Slopes of the complementary log-log fall like exp(-exp(z)); Newton's steps alone creep through 110 turns."""
    turns, look = [], twin_losses.values_and_slopes

    def watched(*given):
        turns.append(len(given[1]))
        return look(*given)

    z = np.linspace(-30, 6, 200)
    y = np.ones(len(z))
    slopes = look(CLogLog(), z[:, None], y)[1][:, 0]
    monkeypatch.setattr(twin_losses, "values_and_slopes", watched)
    found = CLogLog().conjugate(slopes, y)
    assert len(turns) <= 45 and sum(turns) < 20 * len(z)
    value = look(CLogLog(), z[:, None], y)[0]
    assert (np.abs(found - (slopes * z - value)) <= 1e-14 * (np.abs(slopes * z) + np.abs(value))).all()
