"""Smooth local solvers: one test that all of them pass, then what each one promises."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import scipy
import scipy.sparse as sp
from scipy.optimize import root
from scipy.sparse.linalg import aslinearoperator
from scipy.special import expit, softmax
from sklearn.datasets import load_digits

from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.objectives import (
    Cost,
    Function,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Objective,
    Point,
    Poisson,
    Quadratic,
    Ray,
    Softmax,
    Squared,
    SquaredHinge,
)
from dualfl.solvers import (
    AOGM,
    LBFGS,
    DampedNewton,
    FixedIterations,
    GradientDescent,
    GradientNorm,
    Nesterov,
    NewtonCG,
    PrimalDualGap,
    RelativeEnergy,
    RelativeStep,
    ScipySolver,
    Solver,
    default_solver,
    minimise,
    moment_metric,
)
from dualfl.solvers.damped_newton import _cholesky
from dualfl.solvers.line_search import search
from dualfl.solvers.newton_cg import conjugate_gradients

SOLVERS: list[Solver] = [
    AOGM(),
    AOGM(backtracking=False),
    GradientDescent(),
    GradientDescent(backtracking=True),
    Nesterov(),
    Nesterov(adaptive=True),
    LBFGS(),
    LBFGS(memory=4, metric="none"),
    NewtonCG(),
    NewtonCG(metric="none"),
    DampedNewton(),
    DampedNewton(dense=0),
    ScipySolver(),
    ScipySolver("BFGS"),
    ScipySolver("CG"),
    ScipySolver("TNC"),
    ScipySolver("SLSQP"),
    ScipySolver("Newton-CG"),
    ScipySolver("trust-ncg"),
    ScipySolver("trust-krylov"),
]
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=str)


# -- problems, each with a minimiser found without any code of the library --------------------------------------


class Problem(NamedTuple):
    f: Objective
    minimiser: np.ndarray


Slope = Callable[[np.ndarray, np.ndarray], np.ndarray]
SLOPES: dict[str, Slope] = {
    "Logistic": lambda z, y: -y * expit(-y * z),
    "Squared": lambda z, y: z - y,
    "Huber": lambda z, y: np.clip(z - y, -1, 1),
    "Poisson": lambda z, y: np.exp(z) - y,
    "SquaredHinge": lambda z, y: -2 * y * np.maximum(0, 1 - y * z),
}


def oracle(X, y, s, k, slope: Slope, m, a=0.0, c=0.0) -> np.ndarray:
    """The root of the gradient, by a dogleg method on finite differences of a formula."""
    D = X.shape[1]

    def gradient(x):
        R = s[:, None] * slope((X @ x.reshape(D, k)).squeeze(), y).reshape(len(y), k)
        return (X.T @ R).ravel() + (m + a) * x - c

    x = np.zeros(D * k)
    for _ in range(4):  # each call starts from a better point, until the differences are the limit
        x = root(gradient, x, tol=1e-15, options={"xtol": 1e-15}).x
    assert np.linalg.norm(gradient(x)) < 1e-10
    return x


def linear(loss, *, kind="dense", weights=False, intercept=True, a=0.0, tilt=False, n=60, D=5) -> Problem:
    rng = np.random.default_rng(7)
    X = rng.integers(0, 9, (n, D)).astype(np.float64)
    scale = 1.0
    if kind == "dense":
        data, X = X / 8, X / 8
    elif kind == "csr":
        X = X * (rng.random(X.shape) < 0.6) / 8
        data = sp.csr_array(X)
    else:
        data, scale, X = X.astype(np.uint8), 1 / 8, X / 8
    z = X @ rng.standard_normal(D)
    k = loss.outputs
    y = {
        "Softmax": rng.integers(0, k, n),
        "Logistic": np.where(z + rng.standard_normal(n) > 0, 1, -1),
        "SquaredHinge": np.where(z + rng.standard_normal(n) > 0, 1, -1),
        "Poisson": rng.poisson(np.exp(np.clip(z, -2, 2))),
    }.get(type(loss).__name__, z + 2 * rng.standard_normal(n))
    w = rng.integers(0, 4, n).astype(float) if weights else np.ones(n)
    ridge = 0.2
    f: Objective = LinearModel(data, y, loss, ridge, weights=w if weights else None, intercept=intercept, scale=scale)
    c = rng.standard_normal(f.d) if tilt else np.zeros(f.d)
    if a or tilt:
        f = f.tilted(a, c)
    Xt = np.c_[X, np.ones(n)] if intercept else X
    m = np.full((Xt.shape[1], k), ridge)
    if intercept == "free":
        m[-1] = 0.0

    def softmax_slope(Z, y):
        return softmax(Z, axis=1) - np.eye(k)[y.astype(int)]

    slope = softmax_slope if k > 1 else SLOPES[type(loss).__name__]
    return Problem(f, oracle(Xt, y.astype(float), w / w.sum(), k, slope, m.ravel(), a, c))


def quadratic(operator: bool) -> Problem:
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    A = Q @ np.diag(np.geomspace(0.3, 6, 8)) @ Q.T
    A, b = (A + A.T) / 2, rng.standard_normal(8)
    f = Quadratic(aslinearoperator(A), b, mu=0.3) if operator else Quadratic(A, b)
    return Problem(f, np.linalg.solve(A, b))


def function() -> Problem:
    """sum log cosh(x_i - i) + |x|^2/2: each coordinate solves tanh(x - i) + x = 0."""
    shift = np.arange(6.0)
    f = Function(
        6,
        lambda x: float(np.logaddexp(x - shift, shift - x).sum() + x @ x / 2),
        lambda x: np.tanh(x - shift) + x,
        lambda x, v: v / np.cosh(x - shift) ** 2 + v,
        mu=1.0,
        L=2.0,
    )
    return Problem(f, root(lambda x: np.tanh(x - shift) + x, shift / 2, tol=1e-15).x)


MAKERS: dict[str, Callable[[], Problem]] = {
    "softmax": lambda: linear(Softmax(3), weights=True),
    "softmax uint8": lambda: linear(Softmax(3), kind="uint8"),
    "softmax a<0": lambda: linear(Softmax(3), a=-0.1, tilt=True),
    "logistic csr": lambda: linear(Logistic(), kind="csr"),
    "logistic a>0": lambda: linear(Logistic(), a=0.5, tilt=True),
    "logistic free": lambda: linear(Logistic(), intercept="free"),
    "squared uint8": lambda: linear(Squared(), kind="uint8", intercept=False),
    "squared weights": lambda: linear(Squared(), weights=True, tilt=True),
    "huber": lambda: linear(Huber(1.0), weights=True),
    "poisson": lambda: linear(Poisson()),
    "poisson csr": lambda: linear(Poisson(), kind="csr", weights=True, a=0.3, tilt=True),
    "squared hinge csr": lambda: linear(SquaredHinge(), kind="csr", weights=True),
    "quadratic": lambda: quadratic(False),
    "operator": lambda: quadratic(True),
    "function": function,
}


OLD_SCIPY = tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16)


@pytest.fixture(scope="module")
def problems() -> dict[str, Problem]:
    return {name: make() for name, make in MAKERS.items()}


def fresh(problem: Problem) -> Objective:
    return problem.f.fresh()


@every_solver
@pytest.mark.parametrize("name", MAKERS)
def test_every_solver_finds_the_minimiser(problems, solver, name):
    problem = problems[name]
    f = fresh(problem)
    solution = minimise(f, solver=solver, stop=GradientNorm(1e-10, cap=20_000))
    # SciPy's line searches compare values and give up at |g| ~ 1e-8; that is then said
    assert not solution.capped or isinstance(solver, ScipySolver)
    np.testing.assert_allclose(solution.residual, f.gradient(solution.x), rtol=0, atol=1e-12)
    if solution.capped and "SLSQP" in str(solver) and OLD_SCIPY:
        return  # its Fortran gives up earlier, on some processors at 1e-3 of the minimiser
    np.testing.assert_allclose(solution.x, problem.minimiser, rtol=0, atol=1e-6 if solution.capped else 1e-8)
    assert solution.value == pytest.approx(f.value(problem.minimiser), rel=1e-11)
    assert solution.cost.gradients <= f.cost.gradients


@every_solver
def test_a_warm_start_at_the_minimiser_ends_at_once_under_every_rule(problems, solver):
    f = fresh(problems["function"])
    g = Function(2, lambda x: float(x @ x), lambda x: 2 * x, lambda x, v: 2 * v, mu=2.0, L=2.0)
    for stop in (GradientNorm(0.0), FixedIterations(5), RelativeEnergy(), PrimalDualGap(0.0)):
        solution = minimise(g, warm=np.zeros(2), solver=solver, stop=stop)
        assert (solution.iterations, solution.capped) == (0, False)
    warm = problems["function"].minimiser
    assert minimise(f, warm=warm, solver=solver, stop=GradientNorm(1e-9)).iterations == 0


@every_solver
def test_every_rule_works_with_every_solver(problems, solver):
    problem = problems["softmax"]
    least = fresh(problem).value(problem.minimiser)

    def solve(stop):
        return minimise(fresh(problem), solver=solver, stop=stop)

    for m in (0, 1, 3):
        solution = solve(FixedIterations(m))
        assert (solution.iterations, solution.capped) == (m, False)
    assert np.linalg.norm(solve(GradientNorm(1e-3)).residual) <= 1e-3
    solution = solve(PrimalDualGap(1e-5))
    assert solution.gap <= 1e-5 and -1e-15 <= solution.value - least <= solution.gap
    assert solve(RelativeEnergy(1e-8)).value - least <= 1e-5
    centre = np.zeros(problem.f.d)
    solution = solve(RelativeStep(0.05, centre))
    assert np.linalg.norm(solution.residual) <= 0.05 * np.linalg.norm(solution.x)
    solution = solve(GradientNorm(1e-9, cap=2))
    assert (solution.iterations, solution.capped) == (2, True)


def test_scipys_options_are_the_last_word(problems):
    """A new start where SciPy gives up must not go on where somebody said that it should end."""
    f = fresh(problems["softmax"])
    solution = minimise(f, solver=ScipySolver("L-BFGS-B", {"maxiter": 2}), stop=GradientNorm(1e-10, cap=1000))
    assert (solution.iterations, solution.capped) == (2, True)


@every_solver
def test_the_account_is_what_was_called(solver):
    calls = {"gradient": 0, "product": 0}

    def gradient(x):
        calls["gradient"] += 1
        return 4 * x**3 + x - 1

    def product(x, v):
        calls["product"] += 1
        return 12 * x**2 * v + v

    f = Function(3, lambda x: float((x**4).sum() + x @ x / 2 - x.sum()), gradient, product, mu=1.0)
    solution = minimise(f, warm=np.full(3, 2.0), solver=solver, stop=GradientNorm(1e-6))
    assert solution.cost.gradients == calls["gradient"] > 0
    assert solution.cost.hessian_products == calls["product"]
    assert solution.cost.passes >= calls["gradient"] + calls["product"]


@pytest.mark.parametrize(
    ("solver", "each", "once"),
    [
        (GradientDescent(), 1, 1),
        (Nesterov(), 1, 1),
        (AOGM(backtracking=False), 1, 1),
        (AOGM(), 1.5, 1),  # half a pass for the ray, however many steps are tried
        (LBFGS(metric="none"), 1, 1),
        (LBFGS(), 1, 2),  # one for the Gram matrix
    ],
    ids=str,
)
def test_a_line_search_on_a_linear_model_costs_no_pass(solver, each, once):
    f = linear(Softmax(3)).f
    solution = minimise(f, solver=solver, stop=FixedIterations(6))
    assert solution.cost.passes == 6 * each + once


# -- first-order methods ----------------------------------------------------------------------------------------


def chain(d: int) -> Quadratic:
    """Nesterov's worst function in the world, with L = 4 (up to its largest eigenvalue)."""
    A = 2 * np.eye(d) - np.eye(d, k=1) - np.eye(d, k=-1)
    return Quadratic(A, np.eye(d)[0], mu=0.0, L=4.0)


def test_ogm_keeps_its_bound_on_the_worst_quadratic():
    f = chain(60)
    x_star = np.linalg.solve(f.A, f.b)
    least, distance2 = f.value(x_star), x_star @ x_star
    solver, t = AOGM(backtracking=False, restart=False), 1.0
    for k in range(40):
        solution = minimise(f, solver=solver, stop=FixedIterations(k))
        y = solution.x - solution.residual / f.L
        assert f.value(y) - least <= f.L * distance2 / (4 * t**2)
        t = (1 + np.sqrt(1 + 4 * t**2)) / 2


@pytest.mark.parametrize(
    ("solver", "factor"), [(AOGM(backtracking=False, restart=False), 2.0), (Nesterov(adaptive=True), 1.0)], ids=str
)
def test_momentum_is_that_of_the_papers_in_their_other_form(solver, factor):
    """x_k = (1 - 1/t_k) y_k + z_k/t_k with z_k = x_0 - (factor/L) sum_j t_j grad f(x_j): 2 for OGM, 1 for Nesterov."""
    f = chain(40)
    x = y = z = np.zeros(40)
    t = 1.0
    for k in range(12):
        np.testing.assert_allclose(minimise(f, solver=solver, stop=FixedIterations(k)).x, x, atol=1e-13)
        g = f.A @ x - f.b
        y, z = x - g / 4, z - factor / 4 * t * g
        t = (1 + np.sqrt(1 + 4 * t**2)) / 2
        x = (1 - 1 / t) * y + z / t


def spectrum(kappa: float, d: int = 100) -> Quadratic:
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    A = Q @ np.diag(np.geomspace(1 / kappa, 1, d)) @ Q.T
    return Quadratic((A + A.T) / 2, rng.standard_normal(d))


@pytest.mark.parametrize("backtracking", [False, True])
def test_aogm_needs_of_the_order_of_sqrt_kappa_iterations(backtracking):
    f = spectrum(1e4)
    solution = minimise(f, solver=AOGM(backtracking=backtracking), stop=GradientNorm(1e-7))
    assert not solution.capped and 800 <= solution.iterations <= 2600
    without = minimise(f, solver=AOGM(backtracking=False, restart=False), stop=GradientNorm(1e-7, cap=5000))
    assert without.capped


def test_restart_lets_nesterov_profit_from_a_mu_it_does_not_know():
    solution = minimise(spectrum(1e4), solver=Nesterov(adaptive=True), stop=GradientNorm(1e-7))
    assert not solution.capped and solution.iterations <= 4000


def test_nesterov_with_known_mu_keeps_its_rate():
    f = spectrum(1e3)
    x_star = np.linalg.solve(f.A, f.b)
    least, q = f.value(x_star), f.mu / f.L
    for k in (10, 50, 150):
        solution = minimise(f, solver=Nesterov(), stop=FixedIterations(k))
        y = solution.x - solution.residual / f.L
        start = f.value(np.zeros(f.d)) - least + f.mu / 2 * (x_star @ x_star)
        assert f.value(y) - least <= (1 - np.sqrt(q)) ** (k + 1) * start * (1 + 1e-10)


def test_gradient_descent_takes_the_step_of_the_formula():
    f = chain(5)
    solution = minimise(f, solver=GradientDescent(), stop=FixedIterations(1))
    np.testing.assert_allclose(solution.x, f.b / 4, atol=1e-15)


def test_the_rule_of_the_paper_leaves_an_energy_error_near_its_tolerance():
    f = linear(Softmax(3)).f
    exact = minimise(f, solver=DampedNewton(), stop=GradientNorm(1e-13)).value
    for eps in (1e-6, 1e-9, 1e-12):
        solution = minimise(f, solver=AOGM(), stop=RelativeEnergy(eps))
        assert not solution.capped
        assert solution.value - exact <= 1e3 * eps


# -- L-BFGS -----------------------------------------------------------------------------------------------------


def digits(ridge: float = 1e-2, intercept: bool = True) -> LinearModel:
    X, y = load_digits(return_X_y=True)
    return LinearModel(X / 16, y, Softmax(10), ridge, intercept=intercept)


def test_lbfgs_needs_fewer_passes_than_scipy():
    f = digits()
    scipy, plain, gram = (
        minimise(f.fresh(), solver=solver, stop=GradientNorm(1e-6)).cost.passes
        for solver in (ScipySolver(), LBFGS(metric="none"), LBFGS())
    )
    assert plain < 0.6 * scipy
    assert gram < 0.5 * scipy


def test_the_metric_follows_the_curvature():
    """At a small ridge the curvature at the minimiser is far from that at zero."""
    assert minimise(digits(1e-5), solver=LBFGS(), stop=GradientNorm(1e-6)).iterations < 120


@pytest.mark.parametrize("memory", [30, 50])
@pytest.mark.parametrize("kappa", [1e2, 1e4, 1e6])
def test_lbfgs_reaches_rounding_level_on_quadratics(kappa, memory):
    f = spectrum(kappa, d=30)
    solution = minimise(f, solver=LBFGS(memory), stop=GradientNorm(1e-10 * np.linalg.norm(f.b)))
    assert not solution.capped


@pytest.mark.parametrize("solver", [LBFGS(), LBFGS(metric="none"), NewtonCG(), DampedNewton()], ids=str)
def test_a_rule_below_rounding_level_ends_and_is_reported(solver):
    f = linear(Softmax(3)).f
    solution = minimise(f, solver=solver, stop=GradientNorm(0.0))
    assert solution.capped or not solution.residual.any()
    assert solution.iterations < 200
    assert np.linalg.norm(solution.residual) < 1e-14


@pytest.mark.parametrize(
    "solver", [LBFGS(), LBFGS(metric="none"), NewtonCG(), DampedNewton(), AOGM(), GradientDescent()], ids=str
)
def test_an_overflow_only_shortens_the_step(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    f = LinearModel(X, rng.poisson(900 * np.exp(X[:, 0])), Poisson(), 1.0)
    assert not np.isfinite(f.value(-f.gradient(np.zeros(3))))  # a step of length 1 overflows
    solution = minimise(f, solver=solver, stop=GradientNorm(1e-6))
    assert not solution.capped


class Wall(Ray):
    """phi(t) = (t - 1e-9)^2 up to a wall at 1e-8, and no number behind it."""

    def value(self, t: float) -> float:
        return (t - 1e-9) ** 2 if t < 1e-8 else np.inf

    def slope(self, t: float) -> float:
        return 2 * (t - 1e-9) if t < 1e-8 else np.nan

    def point(self, t: float) -> Point:
        raise AssertionError


def test_a_line_search_finds_its_step_in_front_of_a_wall():
    ray = Wall()
    step = search(Cost(), ray, ray.value(0.0), ray.slope(0.0))
    assert step == pytest.approx(1e-9, rel=0.1)


class Rising(Ray):
    """A kink at 1, where the slope jumps from -1 to 0.05: a small slope is no proof of a decrease."""

    def value(self, t: float) -> float:
        return -t if t < 1 else -1 + 0.05 * (t - 1)

    def slope(self, t: float) -> float:
        return -1.0 if t < 1 else 0.05

    def point(self, t: float) -> Point:
        raise AssertionError


def test_a_line_search_never_climbs():
    step = search(Cost(), Rising(), 0.0, -1.0, t=100.0)
    assert step is not None and Rising().value(step) <= 0


def test_the_gram_metric_is_exact_for_least_squares():
    problem = linear(Squared(), intercept=False, a=0.1, tilt=True)
    solve = moment_metric.choose_metric("gram", problem.f, "test").at(problem.f.at(np.zeros(problem.f.d)))
    v = np.arange(1.0, problem.f.d + 1)
    np.testing.assert_allclose(problem.f.at(np.zeros(problem.f.d)).hessian_times(solve(v)), v, atol=1e-12)
    assert minimise(problem.f, solver=LBFGS(metric="gram"), stop=GradientNorm(1e-10)).iterations <= 2


def wide(n=600, D=400) -> LinearModel:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, D)) * np.geomspace(10, 1e-3, D)
    y = np.where(X[:, :20].sum(axis=1) + 20 * rng.standard_normal(n) > 0, 1, -1)
    return LinearModel(X, y, Logistic(), 1e-2)


def test_a_cut_metric_still_helps_much():
    plain, cut = (
        minimise(wide(), solver=LBFGS(metric=name), stop=GradientNorm(1e-8)).iterations for name in ("none", "gram")
    )
    assert cut < plain / 2


def test_leading_axes_are_orthonormal_and_lead():
    f = wide()
    w, V = moment_metric.axes(f)
    assert V.shape == (400, moment_metric.RANK)
    np.testing.assert_allclose(V.T @ V, np.eye(moment_metric.RANK), atol=1e-12)
    exact = np.linalg.eigvalsh(f.design.gram(f.s))
    np.testing.assert_allclose(w[-10:], exact[-10:], rtol=5e-2)


def test_axes_are_found_once_and_die_with_the_data():
    f = wide()
    first = moment_metric.axes(f)
    assert moment_metric.axes(f.fresh()) is first
    assert moment_metric.axes(f.scaled(2.0)) is not first
    key = next(key for key, (_, _, axes) in moment_metric._known.items() if axes is first)
    del f, first
    gc.collect()
    assert key not in moment_metric._known


def test_default_solver_of_a_dense_quadratic_is_exact():
    f = spectrum(1e6)
    assert isinstance(default_solver(f), DampedNewton)
    assert minimise(f, stop=GradientNorm(1e-8)).iterations <= 2
    assert isinstance(default_solver(quadratic(True).f), LBFGS)
    assert isinstance(default_solver(digits()), LBFGS)


# -- Newton -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [700, 0])
def test_damped_newton_gives_the_reference_on_digits(dense):
    f = digits()
    solution = minimise(f, solver=DampedNewton(dense), stop=GradientNorm(0.0))
    assert solution.gap <= 1e-14 * abs(solution.value)
    assert solution.iterations < 30


def test_damped_newton_solves_where_the_hessian_is_singular():
    f = LinearModel(np.eye(3)[[0, 1, 2, 0, 1, 2]], np.arange(6) % 2, Softmax(2), 0.1, intercept="free")
    solution = minimise(f, solver=DampedNewton(), stop=GradientNorm(1e-12))
    assert not solution.capped


def test_a_singular_hessian_is_shifted_no_more_than_it_needs():
    s = _cholesky(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([2.0, -2.0]))
    np.testing.assert_allclose(s[0] - s[1], 2.0, rtol=1e-9)


def straight(far, scale=1.0):
    """All residuals are on the straight pieces of Huber's loss, and there is no ridge: the Hessian at 0 is zero."""
    rng = np.random.default_rng(0)
    f = LinearModel(scale * rng.standard_normal((50, 2)), far + rng.standard_normal(50), Huber(), intercept="free")
    assert not f.hessian(np.zeros(3)).any()
    return f


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e-4])
@pytest.mark.parametrize("far", [100.0, 1e4])
def test_damped_newton_starts_where_nothing_curves(far, scale):
    f = straight(far, scale)
    solution = minimise(f, solver=DampedNewton(), stop=GradientNorm(1e-8))
    assert not solution.capped and solution.iterations < 30


@pytest.mark.parametrize("solver", [LBFGS(), NewtonCG()], ids=str)
def test_the_metric_where_nothing_curves_is_the_identity(solver):
    solution = minimise(straight(100.0), solver=solver, stop=GradientNorm(1e-8))
    assert not solution.capped and solution.iterations < 30


@pytest.mark.parametrize("curvature", [0.0, 1e-320])
def test_a_cost_that_falls_for_ever_ends_at_the_cap(curvature):
    f = Quadratic(curvature * np.eye(2), np.ones(2), mu=0.0, L=1.0)
    assert minimise(f, solver=DampedNewton(), stop=GradientNorm(cap=50)).capped


@pytest.mark.parametrize("solver", [GradientDescent(), Nesterov(), AOGM(backtracking=False)], ids=str)
def test_a_constant_cost_needs_no_step(solver):
    f = LinearModel(np.zeros((3, 2)), np.ones(3), Squared())
    assert f.L == 0
    assert not minimise(f, solver=solver).x.any()


def test_conjugate_gradients_end_after_d_products():
    A, b, products = spectrum(1e2, d=20).A, np.ones(20), 0

    def times(v):
        nonlocal products
        products += 1
        return A @ v

    x = conjugate_gradients(times, b, 1e-8)
    np.testing.assert_allclose(A @ x, b, atol=1e-8)
    assert products <= 25
    assert conjugate_gradients(lambda v: 0 * v, b, 1e-8) @ b > 0  # no curvature: still a descent direction


def test_newton_cg_converges_superlinearly():
    f = digits()
    norms = [np.linalg.norm(minimise(f, solver=NewtonCG(), stop=FixedIterations(k)).residual) for k in range(3, 8)]
    ratios = np.divide(norms[1:], norms[:-1])
    assert ratios[-1] < 1e-2 and ratios[-1] < ratios[0]


@pytest.mark.data
@pytest.mark.skipif("DUALFL_DATA" not in os.environ, reason="DUALFL_DATA names no folder")
def test_damped_newton_gives_the_reference_on_a_client_of_mnist():
    folder = os.environ["DUALFL_DATA"]
    X = np.fromfile(f"{folder}/mnist/train-images-idx3-ubyte", np.uint8, offset=16).reshape(-1, 784)[:1000]
    y = np.fromfile(f"{folder}/mnist/train-labels-idx1-ubyte", np.uint8, offset=8)[:1000]
    f = LinearModel(np.ascontiguousarray(X), y, Softmax(10), 1e-2, intercept=True, scale=1 / 255)
    solution = minimise(f, solver=DampedNewton(), stop=GradientNorm(0.0))
    assert solution.gap <= 1e-14 * abs(solution.value)


# -- what does not go together, and says so ----------------------------------------------------------------------


@every_solver
def test_a_loss_without_gradient_is_refused_in_one_sentence(solver):
    f = LinearModel(np.eye(2), np.array([1, -1]), Hinge(), 0.1)
    with pytest.raises(NotSupported, match=f"{solver.name} needs a gradient, and Hinge has none; use SDCA"):
        minimise(f, solver=solver)


@pytest.mark.parametrize("solver", [NewtonCG(), DampedNewton(), ScipySolver("trust-ncg")], ids=str)
def test_a_function_without_hessian_is_refused(solver):
    f = Function(2, lambda x: float(x @ x), lambda x: 2 * x)
    with pytest.raises(NotSupported, match="needs Hessian products, and Function has none; use LBFGS"):
        minimise(f, solver=solver)


def test_the_gram_metric_needs_a_linear_model():
    with pytest.raises(NotSupported, match='metric="gram" needs a linear model, not Quadratic'):
        minimise(chain(3), solver=LBFGS(metric="gram"))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LBFGS(memory=0), "memory must be >= 1 pairs, but it is 0"),
        (lambda: LBFGS(metric="diagonal"), "metric must be .* but it is 'diagonal'"),
        (lambda: NewtonCG(forcing=1.0), r"forcing must lie in \(0, 1\), but it is 1.0"),
        (lambda: DampedNewton(dense=-1), "dense must be >= 0 coefficients, but it is -1"),
        (lambda: ScipySolver("Powell"), "method must be one of L-BFGS-B, .* but it is 'Powell'"),
    ],
)
def test_settings_out_of_range_are_named(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


@every_solver
def test_nan_is_divergence_not_a_result(solver):
    f = Function(2, lambda x: np.nan, lambda x: np.full(2, np.nan), lambda x, v: v, mu=1.0, L=1.0)
    with pytest.raises(Diverged, match="met NaN or infinity at iteration 0"):
        minimise(f, solver=solver)
