"""When a fit has settled: where energies rest, and not where trials are taken back."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dualfl.engines.history import Row
from dualfl.estimators.solving import HOPELESS, IDLE, POLISH, FitLimits, Settled, solve
from dualfl.objectives import Absolute, Hinge, LinearModel, Poisson, SquaredHinge
from dualfl.problem import Problem

LIMITS = FitLimits(tol=1e-6, rounds=100, seed=0, progress=False)


def ended(energies, certificate=None):
    """After which of these energies a fit ends; None if it goes on."""
    settled = Settled(LIMITS, True, lambda: 0.0)
    for number, energy in enumerate(energies):
        row = Row(number, number, 0, 0, 0.0, 0.0, energy, None, certificate, 0, 0)
        if settled(row, np.zeros(1)):
            return number
    return None


def test_a_fit_ends_where_energies_rest():
    assert ended([3.0, 2.0, 1.0, *[1.0] * 20]) == 2 + IDLE


def test_rejected_trials_are_no_rest():
    assert ended([3.0, 2.0, 1.0, *[7.0] * (2 * IDLE), 0.5, 0.25]) is None


def test_a_method_that_only_misses_is_given_up_at_last():
    assert ended([3.0, 2.0, 1.0, *[7.0] * (2 * HOPELESS)]) == 2 + HOPELESS


@pytest.mark.parametrize("certificate", [None, 0.5])
def test_one_good_round_starts_the_count_again(certificate):
    assert ended([1.0, 7.0, 7.0, 7.0, 7.0, 0.9, 7.0, 7.0, 7.0, 7.0, 0.8], certificate) is None


def rests(models, certificate, kinks=True):
    """After which of these models a fit ends whose energy, 1, may be off by 1e-9."""
    settled = Settled(LIMITS, True, lambda: 1e-9)
    settled.limits, settled.kinks = replace(LIMITS, tol=1e-12), kinks
    for number, model in enumerate(models):
        if settled(Row(number, number, 0, 0, 0.0, 0.0, 1.0, None, certificate, 0, 0), np.array([model, 0.5])):
            return number
    return None


def test_where_rounding_hides_the_gap_the_model_must_rest_too():
    assert rests([2.0, 2.1, 2.11], 1e-13) == 0  # proven: nothing is hidden
    assert rests([2.0, 2.1, 2.11, 2.11, 2.11], 2e-9) == 3
    assert rests([2.0, 2.0 + 1e-9, 2.1], 2e-9) == 1
    assert rests([2.0, 2.1, 2.11], 2e-9, kinks=False) == 0  # a smooth loss has slopes that tell the other digits
    assert rests([2.0 + 0.1 * n for n in range(20)], 2e-9) == POLISH  # it never does


@pytest.mark.parametrize("loss", [Hinge(), Absolute(), SquaredHinge()], ids=str)
def test_a_perfect_fit_without_a_penalty_is_proven_because_no_loss_is_negative(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 8))
    y = np.where(rng.random(6) > 0.5, 1.0, -1.0)
    problem = Problem([LinearModel(X[:3], y[:3], loss), LinearModel(X[3:], y[3:], loss)])
    result = solve(problem, "auto", LIMITS)
    assert result.energy <= result.certificate <= 1e-9
    # Poisson's loss may be negative, and an energy of 0 proves nothing there.
    assert not Poisson().nonnegative


def test_a_trial_far_out_whose_energy_is_anything_does_not_end_a_fit():
    """Rounding may hide everything there; what counts is the rounding of the best model."""
    best = SimpleNamespace(rounding=0.0)
    settled = Settled(LIMITS, True, lambda: best.rounding)
    for number, energy in enumerate([3.0, 7.0, 2.0, 9.0]):
        row = Row(number, number, 0, 0, 0.0, 0.0, energy, None, 0.5, 0, 0)
        assert not settled(row, np.zeros(1))
    best.rounding = 1e3
    assert settled(Row(4, 4, 0, 0, 0.0, 0.0, 1.0, None, 0.5, 0, 0), np.zeros(1))
