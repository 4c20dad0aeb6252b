"""Cox's partial likelihood: C and NumPy against a double loop, and their derivatives against each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dualfl.kernels import RiskSets, sorted_risk_sets, twin_survival
from survival_cases import Survival, drawn, partial_likelihood

try:
    from dualfl.kernels import native_survival as native
except ImportError:
    pytest.skip("there are no native kernels here", allow_module_level=True)
BACKENDS = [twin_survival, native]


def sets_of(data: Survival) -> RiskSets:
    strata = np.unique(data.strata, return_inverse=True)[1]
    return sorted_risk_sets(data.time, data.event, strata, data.entry, data.ties == "efron")


@pytest.mark.parametrize("kernels", BACKENDS, ids=["twin", "native"])
@pytest.mark.parametrize("far", [1.0, 500.0, 1e8])
def test_value(kernels, far):
    rng = np.random.default_rng(0)
    for _ in range(60):
        data = drawn(rng)
        sets, z = sets_of(data), rng.normal(size=data.n) * far
        value = kernels.cox_residual(sets, z[sets.order], data.weights[sets.order])[0]
        exact = float(partial_likelihood(data, z))
        assert value == pytest.approx(exact, rel=1e-12, abs=1e-11 * far)


def test_native_is_the_twin():
    rng = np.random.default_rng(1)
    for _ in range(80):
        data = drawn(rng, late=False)
        sets, z = sets_of(data), rng.normal(size=data.n) * rng.choice([1.0, 500.0])
        z, s, p = z[sets.order], data.weights[sets.order], rng.normal(size=data.n)
        X = data.X[sets.order]
        for a, b in zip(native.cox_residual(sets, z, s), twin_survival.cox_residual(sets, z, s)):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
        args = sets, z, s, p
        np.testing.assert_allclose(
            native.cox_curvature_times(*args), twin_survival.cox_curvature_times(*args), rtol=1e-9, atol=1e-11
        )
        M, N = native.cox_means(sets, z, s, X), twin_survival.cox_means(sets, z, s, sparse.csr_array(X))
        np.testing.assert_allclose(M.T @ M, N.T @ N, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kernels", BACKENDS, ids=["twin", "native"])
def test_derivatives(kernels):
    rng, h = np.random.default_rng(2), 1e-6
    for _ in range(30):
        data = drawn(rng)
        sets = sets_of(data)
        z, s, p = rng.normal(size=data.n), data.weights[sets.order], rng.normal(size=data.n)
        X = data.X[sets.order]

        def at(t: float, sets=sets, z=z, s=s, p=p):
            return kernels.cox_residual(sets, z + t * p, s)

        _, R, expected = at(0.0)
        assert R @ p == pytest.approx((at(h)[0] - at(-h)[0]) / (2 * h), abs=1e-7)
        curved = kernels.cox_curvature_times(sets, z, s, p)
        np.testing.assert_allclose(curved, (at(h)[1] - at(-h)[1]) / (2 * h), atol=1e-7)
        M, v = kernels.cox_means(sets, z, s, X), rng.normal(size=3)
        H = X.T @ (expected[:, None] * X) - M.T @ M
        np.testing.assert_allclose(H @ v, X.T @ kernels.cox_curvature_times(sets, z, s, X @ v), atol=1e-10)
        assert expected.sum() == pytest.approx(s[sets.dead].sum())  # as many are expected as there are


def test_a_row_that_is_long_gone_leaves_no_error_behind():
    """A row of risk exp(40) that had left before: taking it off a running sum would leave nothing of the others."""
    time, entry = np.array([9.0, 8.0, 3.0, 2.0]), np.array([5.0, 0.0, 0.0, 0.0])
    event, z = np.ones(4, dtype=bool), np.array([40.0, 0.0, 0.0, 0.0])
    sets = sorted_risk_sets(time, event, np.zeros(4, dtype=np.int64), entry, True)
    _, R, _ = twin_survival.cox_residual(sets, z[sets.order], np.ones(4))
    back = np.empty(4)
    back[sets.order] = R
    assert back[3] == pytest.approx(1 / 3 - 1, rel=1e-15)  # dies at 2, with rows 1 and 2 at risk


def test_what_c_is_given_is_checked():
    raw = pytest.importorskip("dualfl.kernels._native")
    q, z = np.array([0], dtype=np.int64), np.zeros(3)
    for end, deaths in ((4, 1), (2, 3), (2, 0)):
        bad = q, np.array([end], dtype=np.int64), np.array([deaths], dtype=np.int64), True, z, z + 1, z.copy(), z.copy()
        with pytest.raises(ValueError, match="event group 0"):
            raw.cox_residual(*bad)
