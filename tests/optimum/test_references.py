"""E* of every kind of problem, against solvers that are not ours, and the accuracy that each claims."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import Lasso

from dualfl.data import load, make_problem
from dualfl.engines import Problem
from dualfl.errors import InputError, NotSupported
from dualfl.objectives import (
    L1,
    Absolute,
    ElasticNetPenalty,
    GroupL2,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    NonNegative,
    Quadratic,
    Squared,
)
from dualfl.optimum import find_reference
from dualfl.optimum.minimum import OTHERS, SMOOTH
from dualfl.optimum.pooled import pool
from oracles import l1_logistic

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = X @ [1.0, -2.0, 0.0, 0.5] + RNG.standard_t(3, size=60)
SIGNS = np.where(Y > 0, 1.0, -1.0)


def problem(loss, y, ridge, penalty=None, intercept=True, parts=(25, 10, 25)):
    cuts = np.cumsum(parts)[:-1]
    models = [LinearModel(A, b, loss, ridge, intercept=intercept) for A, b in zip(np.split(X, cuts), np.split(y, cuts))]
    return Problem(models, penalty=penalty)


def test_the_pooled_rows_have_the_cost_of_the_problem():
    one = problem(Squared(), Y, 0.3)
    x = np.cos(np.arange(5))
    assert pool(one).value(x) == pytest.approx(one.value(x), rel=1e-14)
    assert pool(Problem([Quadratic(np.eye(2), np.ones(2))])) is None


@pytest.mark.parametrize("sparse", [False, True])
def test_smooth_problems_are_known_to_rounding(sparse):
    data = load("digits", layout="sparse" if sparse else "dense")
    found = find_reference(make_problem(data, clients=3), cache=False)
    assert found.accuracy <= SMOOTH and found.method == "Newton's method"
    assert found.energy == pytest.approx(0.7410569338310146, rel=1e-13)


@pytest.mark.parametrize(
    ("loss", "l1"),
    [(loss, l1) for loss in ("hinge", "absolute", "quantile:0.8", "epsilon-insensitive:0.4") for l1 in (0.0, 0.02)],
)
def test_losses_with_kinks_against_slsqp(loss, l1):
    """t_i >= each piece of the loss and v_k >= |theta_k| make it smooth with linear constraints."""
    from dualfl.data.problem import REGRESSION, parse_loss

    name, number = parse_loss(loss)
    y = SIGNS if name == "hinge" else Y
    chosen = Hinge() if name == "hinge" else REGRESSION[name](*number)
    ridge, n, d = 0.1, 60, 5
    found = find_reference(problem(chosen, y, ridge, L1(l1) if l1 else None), cache=False)
    assert found.accuracy <= OTHERS
    q, b, lo, hi, eps = chosen.box(y)
    Z = np.c_[X, np.ones(60)] * q[:, None]
    pieces = [(hi, hi * (b - eps)), (lo, lo * (b + eps)), (0.0, np.zeros(n))][: 3 if eps > 0 else 2]
    rows = np.vstack([np.c_[slope * Z, np.eye(n), np.zeros((n, d))] for slope, _ in pieces])
    least = np.concatenate([level for _, level in pieces])
    for sign in (1, -1):
        rows = np.vstack([rows, np.c_[sign * np.eye(d), np.zeros((d, n)), np.eye(d)]])
        least = np.concatenate([least, np.zeros(d)])

    def cost(v):
        return v[d : d + n].mean() + l1 * v[d + n :].sum() + ridge / 2 * v[:d] @ v[:d]

    def slope(v):
        return np.concatenate([ridge * v[:d], np.full(n, 1 / n), np.full(d, l1)])

    start = np.concatenate([np.zeros(d), np.full(n, 20.0), np.full(d, 1.0)])
    oracle = minimize(
        cost,
        start,
        jac=slope,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: rows @ v - least, "jac": lambda v: rows},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert oracle.success or "linesearch" in oracle.message  # as good as it gets
    assert found.energy == pytest.approx(oracle.fun, rel=1e-7)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_lasso_and_elastic_net_against_scikit_learn(ridge):
    alpha = 0.05
    found = find_reference(problem(Squared(), Y, ridge, L1(alpha), intercept=False), cache=False)
    kind = Lasso(alpha, fit_intercept=False, tol=1e-14, max_iter=100_000)
    if ridge:
        total = alpha + ridge
        kind = SklearnElasticNet(total, l1_ratio=alpha / total, fit_intercept=False, tol=1e-14, max_iter=100_000)
    theta = kind.fit(X, Y).coef_
    value = np.mean((X @ theta - Y) ** 2) / 2 + alpha * np.abs(theta).sum() + ridge / 2 * theta @ theta
    assert found.energy == pytest.approx(value, rel=1e-10)
    assert found.accuracy <= OTHERS
    same = (
        find_reference(problem(Squared(), Y, 0.0, ElasticNetPenalty(alpha, ridge), intercept=False), cache=False)
        if ridge
        else found
    )
    assert same.energy == pytest.approx(found.energy, rel=1e-10)


def test_l1_logistic_without_a_ridge_has_a_true_gap():
    alpha = 0.03
    found = find_reference(problem(Logistic(), SIGNS, 0.0, L1(alpha), intercept=False), cache=False)
    kind = l1_logistic(C=1 / (alpha * 60), solver="liblinear", fit_intercept=False, tol=1e-10, max_iter=10_000)
    theta = kind.fit(X, SIGNS).coef_[0]
    value = np.log1p(np.exp(-SIGNS * (X @ theta))).mean() + alpha * np.abs(theta).sum()
    assert found.energy <= value
    assert found.energy == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("penalty", [NonNegative(), GroupL2(0.1, (0, 0, 1, 1, 2))], ids=str)
def test_other_penalties_with_a_ridge(penalty):
    one = problem(Squared(), Y, 0.1, penalty)
    found = find_reference(one, cache=False)
    assert found.accuracy <= OTHERS
    for seed in range(20):
        x = np.abs(np.random.default_rng(seed).normal(size=5))
        assert one.value(x) >= found.energy


def test_without_a_ridge_the_decrement_tells():
    found = find_reference(problem(Squared(), Y, 0.0), cache=False)
    A = np.c_[X, np.ones(60)]
    residual = Y - A @ np.linalg.lstsq(A, Y, rcond=None)[0]
    assert found.energy == pytest.approx(residual @ residual / 120, rel=1e-13)
    assert "not proven" in found.method
    free = find_reference(problem(Logistic(), SIGNS, 0.1, intercept="free"), cache=False)

    def cost(v):
        return np.logaddexp(0, -SIGNS * (A @ v)).mean() + 0.05 * v[:4] @ v[:4]

    assert free.energy == pytest.approx(minimize(cost, np.zeros(5), tol=1e-12).fun, rel=1e-10)


def test_a_start_where_nothing_curves():
    """Huber's loss far from its targets is straight."""
    near, far = (find_reference(problem(Huber(), Y + shift, 0.0), cache=False) for shift in (0.0, 50.0))
    assert far.energy == pytest.approx(near.energy, rel=1e-12)  # the intercept takes it


def test_softmax_with_a_free_intercept_is_flat_in_one_direction():
    data = load("iris")
    models = [LinearModel(data.X, data.y, make_problem(data).clients[0].loss, 0.1, intercept="free")]
    assert find_reference(Problem(models), cache=False).accuracy <= SMOOTH


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: make_problem("breast_cancer", ridge=0.0), "give it a ridge > 0"),
        (lambda: make_problem("breast_cancer", loss="hinge", ridge=0.0), "give it a ridge > 0"),
        (lambda: problem(Hinge(), SIGNS, 0.1, intercept="free"), "strong"),
        (lambda: problem(Hinge(), SIGNS, 0.1, GroupL2(0.1)), "no reference value for Hinge with the penalty GroupL2"),
        (lambda: problem(Squared(), Y, 0.0, GroupL2(0.1)), "strong"),
        (lambda: Problem([Quadratic(np.zeros((2, 2)), np.ones(2))]), "give it a ridge > 0"),
    ],
)
def test_what_cannot_be_found_is_a_sentence(make, says):
    with pytest.raises((InputError, NotSupported), match=says):
        find_reference(make(), cache=False)


def test_other_objectives_have_references_too():
    quadratic = Quadratic(np.eye(2), np.ones(2))
    assert find_reference(Problem([quadratic])).energy == pytest.approx(-1.0)
    with_l1 = find_reference(Problem([quadratic], penalty=L1(0.5)))
    assert with_l1.energy == pytest.approx(-0.25)


def test_median_regression_with_hardly_a_ridge_is_a_linear_programme():
    A = np.c_[X, np.ones(60)]
    cost = np.concatenate([np.zeros(5), np.full(120, 1 / 60)])
    bounds = [(None, None)] * 5 + [(0, None)] * 120
    oracle = linprog(cost, A_eq=np.c_[A, np.eye(60), -np.eye(60)], b_eq=Y, bounds=bounds)
    found = find_reference(problem(Absolute(), Y, 1e-5), cache=False)
    most = oracle.fun + 1e-5 / 2 * oracle.x[:5] @ oracle.x[:5]
    assert oracle.fun <= found.energy <= most * (1 + 1e-8)  # the accuracy of the LP
