"""Large predictors neither overflow nor lose digits; NaN and inf come out where they go in."""

import numpy as np
import pytest

from dualfl import kernels
from dualfl.kernels import Design, twin
from dualfl.objectives import Poisson

from .cases import LOSSES, STORAGES, Loss, both, close, loss_name, matrix, on, scale_of, targets, weights

BACKENDS = ["native", "numpy"]
LOGISTIC, POISSON = Loss(1), Loss(4)
one = np.ones(1)


def at(loss, z, y):
    """Value and slope at one predictor."""
    value, R = kernels.residual(loss, np.array([[z]]), np.array([y]), one)
    return value, float(R[0, 0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("z", [-1e300, -800.0, -40.0, -1e-9, 0.0, 1e-9, 40.0, 800.0, 1e300])
def test_logistic_is_exact_far_out(backend, z):
    with on(backend):
        value, slope = at(LOGISTIC, z, 1.0)
        assert value == pytest.approx(np.logaddexp(0.0, -z), rel=1e-14)
        assert slope == pytest.approx(-np.exp(-np.logaddexp(0.0, z)), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax_is_exact_far_out(backend):
    Z = np.array([[1000.0, 0.0, -1000.0], [1e300, 1e300, 0.0], [-1e300, 0.0, 0.0]])
    y = np.array([2.0, 0.0, 0.0])
    with on(backend):
        value, R = kernels.residual(Loss(0), Z, y, np.ones(3))
    np.testing.assert_allclose(R, [[1, 0, -1], [-0.5, 0.5, 0], [-1, 0.5, 0.5]], atol=1e-15)
    assert value == pytest.approx(1e300)


@pytest.mark.parametrize("backend", BACKENDS)
def test_poisson_overflows_to_inf(backend):
    with on(backend):
        assert at(POISSON, 800.0, 3.0) == (np.inf, np.inf)
        assert at(POISSON, -np.inf, 0.0)[1] == 0.0


def test_exp_is_within_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.uniform(-745, 709.7, 20000), rng.normal(size=20000), [0.0, -745.0, 709.78]])
    with on("native"):
        exp = kernels.residual(POISSON, z[:, None], np.zeros(len(z)), np.ones(len(z)))[1][:, 0]
    exact = np.exp(z)
    assert np.max(np.abs(exp - exact) / np.spacing(exact)) <= 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES, ids=loss_name)
def test_what_is_not_finite_is_not_hidden(loss, storage, bad):
    rng = np.random.default_rng(2)
    k = 3 if loss.code == 0 else 1
    X = matrix(storage, 40, 6, rng)
    W, y, s = rng.normal(size=(7, k)), targets(loss, 40, k, rng), np.full(40, 1 / 40)
    W[-1, 0] = bad  # the bias: it reaches every row
    for design in both(X, scale=scale_of(storage), intercept=True):
        value, G, Z = design.value_gradient(W, loss, y, s)
        assert not np.isfinite(Z[:, 0]).any()
        if np.isnan(bad):
            assert np.isnan(value) and np.isnan(G[:, 0]).all()
        else:
            expected = kernels.residual(loss, Z, y, s)[0]
            np.testing.assert_equal(np.isfinite(value), np.isfinite(expected))


def test_a_nan_in_the_rows_reaches_only_its_own_predictor():
    X = np.ones((50, 9))
    X[13, 4] = np.nan
    Z = Design(X).forward(np.ones((9, 2)))
    assert np.isnan(Z[13]).all() and np.isfinite(np.delete(Z, 13, axis=0)).all()


def test_no_rows_at_all():
    s = y = np.empty(0)
    for design in both(np.empty((0, 4)), intercept=True):
        value, G, Z = design.value_gradient(np.ones((5, 1)), LOGISTIC, y, s)
        assert value == 0.0 and not G.any() and Z.shape == (0, 1)


def test_weights_of_one_row_are_not_shared():
    rng = np.random.default_rng(9)
    Z, y = rng.normal(size=(11, 3)), rng.integers(0, 3, 11).astype(float)
    s = weights(11, rng)
    _, R = kernels.residual(Loss(0), Z, y, s)
    for i in range(11):
        close(R[i : i + 1], kernels.residual(Loss(0), Z[i : i + 1], y[i : i + 1], s[i : i + 1])[1])


@pytest.mark.parametrize("n", [1, 3, 75])
def test_rows_without_weight_count_as_nothing_where_a_loss_overflows(n):
    """Rows that fill up a vector have the intercept as their predictor, and exp(2000) times no weight is not a NaN."""
    x = np.full((n, 1), -1.0)
    y, s = np.ones(n), np.full(n, 1 / n)
    for kernel in (kernels.Design(x, intercept=True), twin.Rows(x, 1.0, True)):
        value, G, Z = kernel.value_gradient(np.array([[2000.0], [2000.0]]), Poisson(), y, s)
        assert value == pytest.approx(1.0) and np.abs(G).max() < 1e-12 and not Z.any()
    far = np.array([[2000.0], [0.0]])
    for module in (kernels, twin):
        value, R = module.residual(Poisson(), far, np.ones(2), np.array([0.0, 1.0]))
        assert value == pytest.approx(1.0) and R[0, 0] == 0.0
        assert module.curvature_times(Poisson(), far, np.ones((2, 1)), np.ones(2), np.array([0.0, 1.0]))[0, 0] == 0.0
