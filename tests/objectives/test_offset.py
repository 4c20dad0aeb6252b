"""An offset is a column whose coefficient is 1."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from objective_cases import KINKED, SMOOTH, names, random_targets

import dualfl
from dualfl.algorithms.registry import make
from dualfl.errors import InputError, NotSupported
from dualfl.objectives import L1, Hinge, LinearModel, Logistic, Poisson, Softmax
from dualfl.objectives.joined import joined
from dualfl.optimum.pooled import digest, pool
from dualfl.problem import Problem

ONE = [loss for loss in SMOOTH if loss.outputs == 1]


def drawn(loss, seed=0, n=30):
    rng = np.random.default_rng(seed)
    X, o = rng.normal(size=(n, 3)), rng.normal(size=n)
    return X, random_targets(loss, n, rng), o, rng


@pytest.mark.parametrize("intercept", [False, "free"])
@pytest.mark.parametrize("loss", ONE, ids=names(ONE))
def test_it_is_a_column_with_the_coefficient_1(loss, intercept):
    X, y, o, rng = drawn(loss)
    w = rng.random(30)
    f = LinearModel(X, y, loss, 0.1, weights=w, intercept=intercept, offset=o)
    wide = LinearModel(np.column_stack([o, X]), y, loss, 0.1, weights=w, intercept=intercept)
    x, p = 0.3 * rng.normal(size=f.d), rng.normal(size=f.d)
    at, along = np.append(1.0, x), np.append(0.0, p)
    assert f.value(x) + 0.05 == pytest.approx(wide.value(at), rel=1e-13)
    fresh = f.fresh()
    assert_allclose(fresh.gradient(x), wide.gradient(at)[1:], rtol=1e-12)  # without a value first: another way
    assert fresh.cost.passes == 1.0
    assert_allclose(f.hessian(x), wide.hessian(at)[1:, 1:], rtol=1e-12)
    assert_allclose(f.hessian_times(x, p), wide.hessian_times(at, along)[1:], rtol=1e-11, atol=1e-13)
    ray, other = f.at(x).ray(p), wide.at(at).ray(along)
    assert ray.value(0.7) + 0.05 == pytest.approx(other.value(0.7), rel=1e-13)
    assert ray.slope(0.7) == pytest.approx(other.slope(0.7), rel=1e-11)
    assert_allclose(ray.point(0.7).gradient, other.point(0.7).gradient[1:], rtol=1e-11, atol=1e-13)
    assert f.rounding(x).value >= 0.5 * wide.rounding(at).value
    slopes = dualfl.kernels.residual(loss, f.predictors(x), f.y, np.ones(30))[1][:, 0]
    own = f.predictors(x)[:, 0] - (0 if loss.location else o)
    each = dualfl.kernels.residual(loss, f.predictors(x), f.y, np.eye(30)[0])[0]
    assert each + f.conjugate(slopes)[0] == pytest.approx(slopes[0] * own[0], abs=1e-10)  # Fenchel and Young


@pytest.mark.parametrize("loss", [loss for loss in KINKED if not isinstance(loss, Hinge)], ids=repr)
def test_kinked_losses_of_a_difference_take_it_off_the_target(loss):
    X, y, o, rng = drawn(loss)
    x = rng.normal(size=3)
    assert LinearModel(X, y, loss, offset=o).value(x) == LinearModel(X, y - o, loss).value(x)


def test_algorithms_certificates_and_references_know_it():
    X, y, o, _ = drawn(Poisson(), n=90)
    silo = np.arange(90) % 3
    parts = [silo == j for j in range(3)]
    clients = [LinearModel(X[p], y[p], Poisson(), 0.05, intercept=True, offset=o[p]) for p in parts]
    for penalty in (None, L1(0.05)):
        problem = Problem(clients, penalty=penalty)
        whole, one = pool(problem), joined(clients)
        assert whole is not None and one is not None
        x = np.full(4, 0.2)
        assert whole.value(x) == pytest.approx(Problem(clients).pooled.value(x))
        assert one.value(x) == pytest.approx(whole.value(x))
        minimum = dualfl.reference(problem)
        for name in ("auto", "prox-newton") if penalty is None else ("auto",):
            result = dualfl.run(problem, make(name), rounds=150)
            assert result.energy - minimum <= 1e-8
            if result.certificate is not None:
                assert result.energy - minimum <= result.certificate
    other = [LinearModel(f.design.X, f.y, Poisson(), 0.05, intercept=True, offset=f.offset + 1) for f in clients]
    assert digest(Problem(clients), 1) != digest(Problem(other), 1)


def test_what_cannot_have_one_says_so():
    X, y, o, _ = drawn(Logistic())
    with pytest.raises(NotSupported, match="Hinge takes no offset"):
        LinearModel(X, y, Hinge(), offset=o)
    with pytest.raises(NotSupported, match="takes no offset"):
        LinearModel(X, np.zeros(30), Softmax(3), offset=o)
    with pytest.raises(InputError, match=r"offset\[2\] is -inf; offsets must be finite"):
        LinearModel(X, y, Logistic(), offset=np.where(np.arange(30) == 2, -np.inf, 0.0))
    with pytest.raises(InputError, match="offset must be one number for each of the 30 rows"):
        LinearModel(X, y, Logistic(), offset=o[:3])
    assert "samples" not in LinearModel(X, y, Logistic(), offset=o).offers
