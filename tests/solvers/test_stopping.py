"""Stop rules one by one, on numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dualfl.errors import Diverged, InputError
from dualfl.objectives import Quadratic
from dualfl.solvers import (
    FixedIterations,
    GeometricSchedule,
    GradientDescent,
    GradientNorm,
    PolynomialSchedule,
    PrimalDualGap,
    RelativeEnergy,
    RelativeStep,
    StopRule,
    Watch,
    minimise,
)
from dualfl.solvers.stopping import Progress

X = np.array([3.0, 4.0])


def progress(**changes: float) -> Progress:
    now = {"iteration": 7, "residual": 0.5, "gap": 0.25, "value": 2.0, "previous": 2.5, "slack": 0.0}
    return Progress(x=X, **(now | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "met"),
    [
        (FixedIterations(7), True),
        (FixedIterations(8), False),
        (GradientNorm(0.5), True),
        (GradientNorm(0.499), False),
        (PrimalDualGap(0.25), True),
        (PrimalDualGap(0.249), False),
        (PrimalDualGap(0.125, modulus=1.0), True),
        (PrimalDualGap(0.124, modulus=1.0), False),
        (RelativeEnergy(0.25), True),  # |2 - 2.5| <= 0.25 * 2
        (RelativeEnergy(0.249), False),
        (RelativeStep(0.1, np.zeros(2)), True),  # 0.5 <= 0.1 * |(3, 4)|
        (RelativeStep(0.099, np.zeros(2)), False),
        (RelativeStep(0.1, X), False),  # no step was made
    ],
    ids=str,
)
def test_a_rule_is_met_exactly_at_its_threshold(rule: StopRule, met: bool):
    assert rule.met(progress()) is met


def test_relative_energy_never_stops_on_the_first_value():
    assert not RelativeEnergy(1.0).met(progress(previous=np.inf))
    assert RelativeEnergy(0.0).met(progress(value=0.0, previous=0.0))


@pytest.mark.parametrize("n", [0, 1, 9])
def test_thresholds_of_the_two_schedules(n):
    N, nu, rho = 8, 1e-2, 3e-3
    polynomial = PolynomialSchedule(gamma=0.1, G0=2.0)
    assert polynomial.threshold(n, N, nu) == pytest.approx(2.0 / (N * nu * (n + 1) ** 4.1))
    smooth = GeometricSchedule(rho, gamma=0.05)
    assert smooth.threshold(n, N, nu) == pytest.approx(((1 - np.sqrt(rho)) / 1.05) ** n / N)
    default = GeometricSchedule(rho, G0=3.0)
    assert default.threshold(n, N, nu) == pytest.approx(3.0 * (1 - np.sqrt(rho)) ** (2 * n) / N)
    for schedule in (polynomial, smooth, default):
        rule = schedule.rule(n, N, nu, cap=77)
        assert rule.eps == schedule.threshold(n, N, nu) and rule.cap == 77


def test_the_rule_of_a_schedule_bounds_the_gradient_as_the_theorem_says():
    """gap <= threshold  is  |grad|^2 <= 2 nu threshold."""
    f, nu, N, n = Quadratic(np.diag([0.5, 2.0]), np.ones(2)), 0.5, 4, 3
    schedule = PolynomialSchedule()
    solution = minimise(f, solver=GradientDescent(), stop=schedule.rule(n, N, nu))
    bound = 2 * nu * schedule.threshold(n, N, nu)
    assert solution.residual @ solution.residual <= bound
    before = minimise(f, solver=GradientDescent(), stop=FixedIterations(solution.iterations - 1))
    assert before.residual @ before.residual > bound


def test_a_watch_counts_iterations_from_the_second_question_on():
    watch = Watch(Quadratic(np.eye(2), np.ones(2)), FixedIterations(2))
    answers = [watch.done(X, 1.0, 0.0) for _ in range(3)]
    assert answers == [False, False, True] and watch.iterations == 2 and not watch.capped


def test_the_cap_is_reported_unless_the_rule_is_met_by_then():
    f = Quadratic(np.eye(2), np.ones(2))
    watch = Watch(f, GradientNorm(0.1, cap=1))
    assert [watch.done(X, r, 0.0) for r in (1.0, 1.0)] == [False, True] and watch.capped
    watch = Watch(f, GradientNorm(0.1, cap=1))
    assert [watch.done(X, r, 0.0) for r in (1.0, 0.1)] == [False, True] and not watch.capped
    assert minimise(f, stop=GradientNorm(0.0, cap=0)).capped


def test_the_gap_is_a_bound_of_the_error_and_infinite_without_strong_convexity():
    f = Quadratic(np.diag([1.0, 9.0]), np.ones(2))
    solution = minimise(f, solver=GradientDescent(), stop=FixedIterations(3))
    least = -(1 + 1 / 9) / 2
    assert solution.gap == pytest.approx(solution.residual @ solution.residual / 2)
    assert solution.value - least <= solution.gap
    flat = Quadratic(np.diag([0.0, 1.0]), np.array([0.0, 1.0]))
    assert Watch(flat, GradientNorm()).gap(0.1) == np.inf
    assert Watch(flat, GradientNorm()).gap(0.0) == 0.0


def test_a_watch_refuses_what_is_not_finite():
    with pytest.raises(Diverged, match="met NaN or infinity at iteration 0 on Quadratic"):
        Watch(Quadratic(np.eye(2), np.ones(2)), GradientNorm()).done(X, np.nan, 0.0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GradientNorm(-1.0), "eps must be a number >= 0, but it is -1.0"),
        (lambda: GradientNorm(np.nan), "eps must be a number >= 0, but it is nan"),
        (lambda: PrimalDualGap(-1.0), "eps must be"),
        (lambda: RelativeEnergy(-1.0), "eps must be"),
        (lambda: RelativeStep(-1.0, X), "s must be a number >= 0, but it is -1.0"),
        (lambda: FixedIterations(-1), "m must be >= 0 iterations, but it is -1"),
        (lambda: GradientNorm(cap=-1), "cap must be >= 0 iterations, but it is -1"),
        (lambda: PolynomialSchedule(gamma=0.0), "gamma and G0 must be positive, but they are 0.0 and 1.0"),
        (lambda: GeometricSchedule(1.0), r"rho must lie in \[0, 1\), but it is 1.0"),
        (lambda: GeometricSchedule(0.1, G0=0.0), "gamma and G0 must be positive"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()
