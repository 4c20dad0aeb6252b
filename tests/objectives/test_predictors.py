"""Points along rays: predictors that were updated are those of the model, or are computed afresh."""

import numpy as np
import pytest

from dualfl.objectives import CoxPartialLikelihood, OwnIntercept, Poisson, ProportionalOdds

rng = np.random.default_rng(5)
X = rng.normal(size=(40, 3))
COSTS = {
    "cox": CoxPartialLikelihood(X, rng.exponential(size=40), rng.random(40) < 0.7, 0.1, offset=rng.normal(size=40)),
    "ordinal": ProportionalOdds(X, rng.integers(0, 3, 40), 3, 0.1, offset=rng.normal(size=40)),
    "site effect": OwnIntercept(X + 50.0, rng.poisson(2.0, 40), Poisson(), 0.1),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_ray_is_the_cost_along_it(name):
    f = COSTS[name]
    x, p = 0.1 * rng.normal(size=f.d), np.append(rng.normal(size=3), np.zeros(f.d - 3))
    ray = f.at(x).ray(p)
    for t in (0.0, 0.3, -0.2):
        fresh = f.fresh()
        assert ray.value(t) == pytest.approx(fresh.value(x + t * p), rel=1e-13)
        assert ray.slope(t) == pytest.approx(fresh.gradient(x + t * p) @ p, rel=1e-11)
        np.testing.assert_allclose(ray.point(t).gradient, fresh.gradient(x + t * p), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", COSTS)
def test_far_away_and_back_nothing_is_lost(name):
    """Along a ray to 1e9 and back, updates would leave an error of 1e-7."""
    f = COSTS[name].fresh()
    x, p = 0.1 * rng.normal(size=f.d), np.append(rng.normal(size=3), np.zeros(f.d - 3))
    there = f.at(x).ray(p).point(1e9)
    back = there.ray(-p).point(1e9)
    np.testing.assert_allclose(back.predictors, f.predictors(back.x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", COSTS)
def test_many_small_steps_drift_no_further_than_rounding_counts_on(name):
    f = COSTS[name].fresh()
    point = f.at(np.zeros(f.d))
    for _ in range(300):
        point = point.ray(np.append(rng.normal(size=3), np.zeros(f.d - 3))).point(1e-2)
    lost = np.abs(point.predictors - f.predictors(point.x)).max()
    assert lost <= 2.0**-43 * np.abs(point.predictors).max()
