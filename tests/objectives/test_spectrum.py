"""The bound of the largest eigenvalue: never below, hardly above, whatever the spectrum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from objective_cases import some

from dualfl.objectives import LinearModel, Squared
from dualfl.objectives.spectrum import largest_eigenvalue

d = 400
SPECTRA = {
    "evenly spaced": np.linspace(0, 1, d),
    "crowded at the top": 1 - np.linspace(0, 1, d) ** 3,
    "crowded at the bottom": np.linspace(0, 1, d) ** 3,
    "two close ones": np.r_[np.full(d - 2, 0.1), 0.999, 1.0],
    "a spike on a plateau": np.r_[np.full(d - 1, 0.98), 1.0],
    "a high spike": np.r_[np.linspace(0, 1e-6, d - 1), 1.0],
    "geometric": 0.97 ** np.arange(d),
    "all the same": np.ones(d),
    "rank one": np.r_[np.zeros(d - 1), 1.0],
    "tiny": np.linspace(0, 1e-200, d),
    "large": np.linspace(0, 1e120, d),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_bound(name):
    spectrum = SPECTRA[name]
    bound = largest_eigenvalue(lambda v: spectrum * v, d)
    assert spectrum.max() <= bound <= 1.05 * spectrum.max()
    assert largest_eigenvalue(lambda v: spectrum * v, d) == bound  # no chance is involved
    trace = spectrum.sum()
    assert spectrum.max() <= largest_eigenvalue(lambda v: spectrum * v, d, trace) <= trace * (1 + 1e-9)


def test_zero_and_one_dimension():
    assert largest_eigenvalue(lambda v: 0 * v, 5) == 0.0
    assert largest_eigenvalue(lambda v: 3 * v, 1) == pytest.approx(3.0)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_what_cannot_be_squared(size):
    assert size <= largest_eigenvalue(lambda v: size * np.array([0.1, 0.5, 1.0]) * v, 3) <= 1.00001 * size


def test_what_is_not_finite_is_bounded_by_the_trace():
    assert largest_eigenvalue(lambda v: np.full(4, np.inf), 4, trace=7.0) == 7.0


@some
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 30), st.floats(0, 3))
def test_random_data(seed, n, features, power):
    """Features of all sizes, more or fewer of them than rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features)) / (1 + np.arange(features)) ** power
    exact = np.linalg.eigvalsh(X.T @ X / n)[-1]
    assert exact * (1 - 1e-12) <= LinearModel(X, np.zeros(n), Squared()).L <= exact * 1.00001


def test_low_gaps_in_data():
    """The case where a power iteration stops 2 per cent too low."""
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.normal(size=(600, 300)))[0]
    X = Q * np.sqrt(600 * np.linspace(0, 1, 300))
    assert 1.0 <= LinearModel(X, np.zeros(600), Squared()).L <= 1.05
