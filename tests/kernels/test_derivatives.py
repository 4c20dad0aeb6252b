"""Gradients are derivatives of the twin's value, Hessian products those of gradients, slopes those of rays."""

import numpy as np
import pytest

from dualfl import kernels

from .cases import LOSSES, SMOOTH, STORAGES, both, loss_name, matrix, scale_of, targets, weights

h = 1e-6


def problem(loss, storage, seed=11):
    rng = np.random.default_rng(seed)
    k = 4 if loss.code == 0 else 1
    native, twin = both(matrix(storage, 60, 7, rng), scale=scale_of(storage), intercept=True)
    W, E = rng.normal(size=(native.D, k)), rng.normal(size=(native.D, k))
    return native, twin, W, E, targets(loss, 60, k, rng), weights(60, rng)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES, ids=loss_name)
def test_gradient(loss, storage):
    native, twin, W, E, y, s = problem(loss, storage)
    up, down = (twin.value_gradient(W + t * E, loss, y, s)[0] for t in (h, -h))
    assert np.vdot(native.value_gradient(W, loss, y, s)[1], E) == pytest.approx((up - down) / (2 * h), rel=1e-5)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", SMOOTH, ids=loss_name)
def test_hessian_times(loss, storage):
    native, twin, W, E, y, s = problem(loss, storage)
    up, down = (twin.value_gradient(W + t * E, loss, y, s)[1] for t in (h, -h))
    HE = native.hessian_times(E, loss, twin.forward(W), y, s)
    np.testing.assert_allclose(HE, (up - down) / (2 * h), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=loss_name)
def test_ray(loss):
    native, _, W, E, y, s = problem(loss, "float64")
    steps = np.array([-0.5, 0.0, 0.7])
    values, slopes = kernels.ray(loss, native.forward(W), native.forward(E), steps, y, s)
    for t, value, slope in zip(steps, values, slopes, strict=True):
        expected, G, _ = native.value_gradient(W + t * E, loss, y, s)
        assert value == pytest.approx(expected, rel=1e-12)
        assert slope == pytest.approx(np.vdot(G, E), rel=1e-10)


def test_kinks_have_no_curvature():
    native, twin, W, E, y, s = problem(LOSSES[6], "float64")
    for design in (native, twin):
        with pytest.raises(ValueError, match="no curvature"):
            design.hessian_times(E, LOSSES[6], design.forward(W), y, s)
