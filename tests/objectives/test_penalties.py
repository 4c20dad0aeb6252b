"""Penalties: prox against a numerical minimiser, smallest subgradients against all others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from objective_cases import build, some
from scipy.optimize import minimize

from dualfl.errors import NotSupported
from dualfl.objectives import (
    L1,
    BoxConstraint,
    ElasticNetPenalty,
    GroupL2,
    Hinge,
    LinearModel,
    Logistic,
    NonNegative,
    Objective,
    Penalised,
    Penalty,
    Quadratic,
    Softmax,
    Squared,
    regularised,
)

PENALTIES: list[Penalty] = [
    L1(0.6),
    L1(0.0),
    ElasticNetPenalty(0.4, 0.9),
    ElasticNetPenalty(0.0, 0.5),
    GroupL2(0.8),
    GroupL2(0.0),
    GroupL2(0.8, groups=(7, 2, 7, 2, 5)),
    GroupL2(0.8, groups=(7, 2, 7, 2, 7)),
    BoxConstraint(-0.5, 0.7),
    BoxConstraint(0.2, 0.2),
    BoxConstraint(upper=-0.1),
    NonNegative(),
]
each = pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
shapes = st.sampled_from([(5,), (5, 3)])
seeds = st.integers(0, 10**6)


def by_hand(penalty: Penalty, x: np.ndarray) -> float:
    """The penalties written out once more."""
    if isinstance(penalty, L1):
        return penalty.alpha * np.abs(x).sum()
    if isinstance(penalty, ElasticNetPenalty):
        return penalty.alpha * np.abs(x).sum() + penalty.beta / 2 * (x**2).sum()
    if isinstance(penalty, GroupL2):
        labels = np.arange(len(x)) if penalty.groups is None else np.array(penalty.groups)
        return penalty.alpha * sum(np.linalg.norm(x[labels == g]) for g in set(labels))
    assert isinstance(penalty, BoxConstraint)
    return 0.0 if x.min() >= penalty.lower and x.max() <= penalty.upper else np.inf


@each
@some
@given(seeds, shapes)
def test_value(penalty, seed, shape):
    x = np.random.default_rng(seed).normal(size=shape)
    for z in (x, 0 * x, penalty.prox(1.0, x)):
        assert_allclose(penalty.value(z), by_hand(penalty, z), rtol=1e-13)


@each
@some
@given(seeds, shapes, st.sampled_from([0.1, 1.0, 3.0]))
def test_prox_is_the_minimiser(penalty, seed, shape, step):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=shape)
    p = penalty.prox(step, v)

    def cost(x):
        return by_hand(penalty, x) + ((x - v) ** 2).sum() / (2 * step)

    # the cost is 1/step strongly convex, so no other point may come below this parabola
    for size in (1e-4, 1e-2, 1.0):
        x = p + size * rng.normal(size=(60, *shape))
        if isinstance(penalty, BoxConstraint):
            x = np.clip(x, penalty.lower, penalty.upper)
        for z in x:
            assert cost(z) >= cost(p) + ((z - p) ** 2).sum() / (2 * step) - 1e-12
    # optimality: 0 is the smallest subgradient of the cost at p
    assert_allclose(penalty.steepest(p, (p - v) / step), 0, atol=1e-12)


@each
@pytest.mark.parametrize("seed", range(2))
def test_prox_against_a_numerical_minimiser(penalty, seed):
    v = np.random.default_rng(seed).normal(size=5)
    step = 0.8

    def cost(x):
        return by_hand(penalty, x) + ((x - v) ** 2).sum() / (2 * step)

    if isinstance(penalty, BoxConstraint):
        box = [(penalty.lower, penalty.upper)] * 5
        start = np.clip(v, penalty.lower, penalty.upper)
        found = minimize(lambda x: ((x - v) ** 2).sum() / (2 * step), start, bounds=box).x
    else:
        found = minimize(cost, v, method="Powell", options={"xtol": 1e-10, "ftol": 1e-14}).x
        found = minimize(cost, found, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}).x
    assert_allclose(penalty.prox(step, v), found, atol=2e-5)
    assert cost(penalty.prox(step, v)) <= cost(found) + 1e-9


def some_subgradients(penalty: Penalty, x: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Random elements of dP(x)."""
    found = []
    for _ in range(40):
        free = rng.uniform(-1, 1, x.shape)
        if isinstance(penalty, L1):
            g = penalty.alpha * np.where(x != 0, np.sign(x), free)
        elif isinstance(penalty, ElasticNetPenalty):
            g = penalty.alpha * np.where(x != 0, np.sign(x), free) + penalty.beta * x
        elif isinstance(penalty, GroupL2):
            labels = np.arange(len(x)) if penalty.groups is None else np.array(penalty.groups)
            g = np.zeros_like(x)
            for label in set(labels):
                part = x[labels == label]
                size = np.linalg.norm(part)
                ball = free[labels == label] / max(1.0, np.linalg.norm(free[labels == label]))
                g[labels == label] = penalty.alpha * (part / size if size > 0 else ball)
        else:
            assert isinstance(penalty, BoxConstraint)
            g = np.where(x <= penalty.lower, -4 * rng.random(x.shape), 0.0)
            g = g + np.where(x >= penalty.upper, 4 * rng.random(x.shape), 0.0)
        found.append(g)
    return found


@each
@some
@given(seeds, shapes)
def test_steepest_is_the_smallest_subgradient(penalty, seed, shape):
    rng = np.random.default_rng(seed)
    x = penalty.prox(1.0, rng.normal(size=shape))  # with zeros, or at the bounds, here and there
    g = rng.normal(size=shape)
    smallest = penalty.steepest(x, g)
    for element in some_subgradients(penalty, x, rng):
        # the projection of 0 on the convex set g + dP(x): the angle to all its elements is acute
        assert np.vdot(g + element - smallest, smallest) >= -1e-12
    # and it is an element itself: smallest - g supports P at x
    for other in rng.normal(size=(40, *shape)):
        z = penalty.prox(0.1, other)
        assert penalty.value(z) >= penalty.value(x) + np.vdot(smallest - g, z - x) - 1e-12


@pytest.mark.parametrize("penalty", [L1(0.05), GroupL2(0.05), ElasticNetPenalty(0.05, 0.1), BoxConstraint(-0.1, 0.1)])
@pytest.mark.parametrize("intercept", [False, True, "free"])
def test_fixed_points_of_the_prox_step_are_where_steepest_vanishes(penalty, intercept):
    f = build(Softmax(3), n=20, intercept=intercept).f
    F = f + penalty
    x = np.zeros(f.d)
    for _ in range(3000):
        x = F.prox(1 / f.L, x - f.gradient(x) / f.L)
    assert np.linalg.norm(F.steepest(x, f.gradient(x))) <= 1e-10
    if intercept == "free":
        assert np.abs(x[f.free]).max() > 0 and np.abs(f.gradient(x)[f.free]).max() <= 1e-10
    # away from it there is a direction of descent
    away = F.prox(1.0, x + 0.05)
    g = F.steepest(away, f.gradient(away))
    assert F.value(away - 1e-6 * g) < F.value(away)


@each
def test_free_coordinates_are_not_touched(penalty):
    """Also when a group joins the intercept with others, and when a box has no zero."""
    case = build(Logistic(), features=4, intercept="free")
    F = case.f + penalty
    rng = np.random.default_rng(1)
    v, g = rng.normal(size=(2, 5))
    x = F.prox(0.7, v)
    assert x[-1] == v[-1] and F.steepest(x, g)[-1] == g[-1]
    far = v.copy()
    far[-1] = 1e6  # nothing else may depend on it
    assert_allclose(F.prox(0.7, far)[:-1], x[:-1], atol=1e-15)
    moved = np.append(x[:-1], 1e6)
    assert_allclose(F.steepest(moved, np.append(g[:-1], 1e6))[:-1], F.steepest(x, g)[:-1], atol=1e-15)
    assert F.penalty_value(moved) == F.penalty_value(x) < np.inf


def test_a_free_intercept_stays_free_after_regularisation():
    """f^alpha has curvature everywhere, and its intercept is still none of the penalty's business."""
    case = build(Logistic(), intercept="free", ridge=0.2)
    F = regularised(case.f, 0.1) + L1(5.0)
    assert F.mu == pytest.approx(0.1)
    assert F.prox(1.0, np.ones(5))[-1] == 1.0


@each
@pytest.mark.parametrize("intercept", [False, True])
def test_a_penalised_objective_is_the_sum(penalty, intercept):
    case = build(Logistic(), features=5 - intercept, intercept=intercept)
    F = case.f + penalty
    x = penalty.prox(1.0, case.x)
    assert_allclose(F.value(x), case.value(x) + by_hand(penalty, x), rtol=1e-12)
    assert F.mu == pytest.approx(case.f.mu + penalty.mu) and np.isinf(F.L)
    assert F.offers == {"prox"} and F.smooth_part is case.f and F.penalty == penalty
    assert F.name == f"Logistic + {type(penalty).__name__}" and F.mass == case.f.mass
    c = case.direction()
    tilted = F.tilted(0.5, c)
    assert isinstance(tilted, Penalised) and tilted.cost is case.f.cost
    assert_allclose(tilted.value(x), F.value(x) + 0.25 * x @ x - c @ x, rtol=1e-12)
    assert isinstance(F.scaled(2.0), Penalised)
    assert_allclose(F.scaled(2.0).value(x), case.f.scaled(2.0).value(x) + by_hand(penalty, x), rtol=1e-12)
    assert F.fresh().cost is not F.cost and F.fresh().value(x) == F.value(x)


def test_strong_convexity_of_a_penalty_counts_where_it_acts():
    for intercept, mu in ((False, 0.8), (True, 0.8), ("free", 0.0)):
        F = build(Squared(), intercept=intercept, ridge=0.3).f + ElasticNetPenalty(0.1, 0.5)
        assert F.mu == pytest.approx(mu)
    assert (build(Squared(), intercept="free", ridge=0.3).f.tilted(0.2) + ElasticNetPenalty(0.1, 0.5)).mu == 0.2


def test_what_a_penalised_objective_does_not_have():
    F = build(Logistic()).f + L1(0.1)
    x = np.zeros(4)
    for ask, sentence in [
        (
            lambda: F.gradient(x),
            "This step needs a gradient, and Logistic + L1 has none; use FISTA, POGM or CoordinateDescent.",
        ),
        (lambda: F.hessian_times(x, x), "Logistic + L1 has no Hessian; ask its smooth_part."),
        (
            lambda: F.at(x).ray(x),
            "Logistic + L1 is not smooth along a line; use FISTA, POGM or CoordinateDescent.",
        ),
    ]:
        with pytest.raises(NotSupported) as error:
            ask()
        assert str(error.value) == sentence
    assert (build(Hinge()).f + L1(0.1)).offers == frozenset()


def test_penalties_go_on_any_objective():
    f: Objective = Quadratic(np.eye(2), np.array([3.0, 0.5]))
    F = f + L1(1.0)
    assert_allclose(F.prox(1.0, np.zeros(2) - f.gradient(np.zeros(2))), [2.0, 0.0])
    with pytest.raises(TypeError, match="unsupported operand"):
        f + 3.0  # type: ignore[operator]


def test_groups_may_be_a_list_or_an_array():
    labels = [1, 0, 1, 0]
    for groups in (labels, tuple(labels), np.array(labels)):
        penalty = GroupL2(1.0, groups)
        assert penalty == GroupL2(1.0, (1, 0, 1, 0)) and hash(penalty) == hash(GroupL2(1.0, (1, 0, 1, 0)))
        assert penalty.value(np.array([3.0, 0.0, 4.0, 2.0])) == 7.0


def test_whole_features_vanish_with_group_penalties():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = np.argmax(X[:, :3] + 0.1 * rng.normal(size=(200, 3)), axis=1)  # three features matter
    f = LinearModel(X, y, Softmax(3))
    F, x = f + GroupL2(0.05), np.zeros(18)
    for _ in range(500):
        x = F.prox(1 / f.L, x - f.gradient(x) / f.L)
    rows = np.abs(x.reshape(6, 3)).sum(axis=1)
    assert (rows[:3] > 0).all() and (rows[3:] == 0).all()


def test_people_read_six_digits_and_repr_keeps_all():
    penalty = L1(0.015942712338145083)
    assert str(penalty) == "L1(alpha=0.0159427)" and repr(penalty) == "L1(alpha=0.015942712338145083)"
    assert str(GroupL2(1 / 3, (0, 1))) == "GroupL2(alpha=0.333333, groups=(0, 1))"
