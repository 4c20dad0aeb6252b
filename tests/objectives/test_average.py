"""The pooled objective is the weighted mean of the clients', in all that can be asked of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from objective_cases import build

from dualfl.errors import NotSupported
from dualfl.objectives import L1, Cost, Hinge, Logistic, Softmax, Squared, regularised
from dualfl.objectives.average import Average

WEIGHTS = np.array([0.2, 0.5, 0.3])


def clients(loss, **options):
    return [build(loss, seed=j, n=5 + j, **options) for j in range(3)]


@pytest.mark.parametrize("intercept", [False, True, "free"])
@pytest.mark.parametrize("loss", [Softmax(3), Squared()], ids=repr)
def test_the_mean(loss, intercept):
    cases = clients(loss, intercept=intercept)
    E = Average([case.f for case in cases], WEIGHTS)
    x, p = np.random.default_rng(0).normal(size=(2, E.d))

    def value(z):
        return WEIGHTS @ [case.value(z) for case in cases]

    assert (E.n, E.mass, E.shape) == (18, 18.0, cases[0].f.shape)
    assert_allclose(E.value(x), value(x), rtol=1e-12)
    assert_allclose(E.gradient(x), WEIGHTS @ [case.f.gradient(x) for case in cases], rtol=1e-12)
    H = sum(w * case.f.hessian(x) for w, case in zip(WEIGHTS, cases))
    assert_allclose(E.hessian(x), H, rtol=1e-12, atol=1e-14)
    assert_allclose(E.hessian_times(x, p), H @ p, rtol=1e-10, atol=1e-13)
    eigenvalues = np.linalg.eigvalsh(H)
    assert E.mu - 1e-12 <= eigenvalues[0] and eigenvalues[-1] <= E.L
    ray = E.at(x).ray(p)
    assert_allclose(ray.value(0.3), value(x + 0.3 * p), rtol=1e-12)
    assert_allclose(ray.slope(0.3), E.fresh().gradient(x + 0.3 * p) @ p, rtol=1e-9)
    assert_allclose(ray.point(0.3).gradient, E.fresh().gradient(x + 0.3 * p), rtol=1e-10, atol=1e-13)
    assert E.mu == (0.0 if intercept == "free" else 0.3)
    assert regularised(E, 0.1).mu == pytest.approx(0.1 if intercept == "free" else 0.4)


def test_views_of_the_mean_keep_its_account():
    E = Average([case.f for case in clients(Logistic())], WEIGHTS)
    local, penalised = E.tilted(0.5), E + L1(0.1)
    x = np.ones(4)
    local.value_gradient(x)
    assert local.cost == penalised.cost == E.cost == Cost(1, 0, 1)
    local.at(x).ray(x)
    assert local.cost.passes == penalised.cost.passes == 1.5
    assert E.fresh().cost == Cost()


def test_what_a_mean_does_not_offer():
    assert Average([case.f for case in clients(Hinge())], WEIGHTS).offers == frozenset()
    E = Average([case.f for case in clients(Squared())], WEIGHTS)
    assert E.offers == {"gradient", "hessian"}
    with pytest.raises(NotSupported) as error:
        E.scaled(2.0)
    assert str(error.value) == "A mean of objectives cannot be scaled as a whole; scale its parts."
