"""The partial likelihood as an objective: against a double loop, at every scale, by all algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import dualfl
from dualfl.algorithms.registry import make
from dualfl.errors import InputError
from dualfl.objectives import L1, CoxPartialLikelihood
from dualfl.problem import Problem
from survival_cases import LD, Survival, drawn, partial_likelihood


def cox(data: Survival, ridge: float = 0.0, X: Any = None) -> CoxPartialLikelihood:
    return CoxPartialLikelihood(
        data.X if X is None else X, data.time, data.event, ridge,
        entry=data.entry, strata=data.strata, weights=data.weights, offset=data.offset, ties=data.ties,
    )  # fmt: skip


def exact(data: Survival, x: Any, ridge: float = 0.0, X: Any = None) -> Any:
    z = (data.X if X is None else X).astype(LD) @ x.astype(LD)
    z = z if data.offset is None else z + data.offset.astype(LD)
    return partial_likelihood(data, z) / data.weights.astype(LD).sum() + LD(ridge) / 2 * (x.astype(LD) ** 2).sum()


def test_value_gradient_and_curvature():
    rng, h = np.random.default_rng(0), 1e-6
    for trial in range(26):
        data, x, p = drawn(rng), rng.normal(size=3), rng.normal(size=3)
        data.offset = rng.normal(size=data.n) if trial % 2 else None
        f = cox(data, 0.1)
        assert f.value(x) == pytest.approx(float(exact(data, x, 0.1)), rel=1e-12)
        assert f.gradient(x) @ p == pytest.approx((f.value(x + h * p) - f.value(x - h * p)) / (2 * h), abs=1e-7)
        assert_allclose(f.hessian(x) @ p, f.hessian_times(x, p), atol=1e-12)
        assert_allclose(f.hessian(x) @ p, (f.gradient(x + h * p) - f.gradient(x - h * p)) / (2 * h), atol=1e-7)
        ray = f.at(x).ray(p)
        assert ray.value(0.3) == pytest.approx(f.value(x + 0.3 * p), rel=1e-12)
        assert ray.slope(0.3) == pytest.approx(f.gradient(x + 0.3 * p) @ p, rel=1e-9)
        eigenvalues = np.linalg.eigvalsh(f.hessian(x))
        assert f.mu - 1e-12 <= eigenvalues[0] and eigenvalues[-1] <= f.L
        half = f.scaled(0.5)
        assert half.value(x) - 0.05 * x @ x == pytest.approx((f.value(x) - 0.05 * x @ x) / 2, rel=1e-10, abs=1e-12)
        assert f.scaled(0.0).value(x) == pytest.approx(0.05 * x @ x)


def test_sparse_rows_are_dense_rows():
    rng = np.random.default_rng(3)
    data = drawn(rng, n=50)
    X = data.X * (rng.random(data.X.shape) < 0.5)
    dense, sparse, x = cox(data, 0.1, X), cox(data, 0.1, sp.csr_array(X)), rng.normal(size=3)
    assert_allclose(sparse.value(x), dense.value(x), rtol=1e-13)
    assert_allclose(sparse.gradient(x), dense.gradient(x), atol=1e-13)
    assert_allclose(sparse.hessian(x), dense.hessian(x), atol=1e-12)
    assert np.linalg.eigvalsh(sparse.hessian(x))[-1] <= sparse.L


def test_columns_far_from_zero_lose_nothing():
    rng = np.random.default_rng(4)
    data = drawn(rng, n=60, late=False)
    X = np.round(data.X * 1024) / 1024  # so that adding 2^20 is exact
    near, far, x = cox(data, X=X), cox(data, X=X + 2.0**20), rng.normal(size=3)
    assert_allclose(far.gradient(x), near.gradient(x), atol=1e-9)
    assert_allclose(far.hessian(x), near.hessian(x), atol=1e-9)
    assert far.L == pytest.approx(near.L)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_rounding_stays_below_its_bound(kind):
    rng, tightest = np.random.default_rng(5), 0.0
    for trial in range(60):
        data = drawn(rng)
        data.offset = rng.normal(size=data.n) * 10.0 ** rng.uniform(-2, 3) if trial % 3 == 0 else None
        scale = 10.0 ** rng.uniform(-8, 8, 3)
        X = data.X * scale
        x = rng.normal(size=3) / scale * 10.0 ** rng.uniform(-2, 3)
        f = cox(data, 1e-3, sp.csr_array(X) if kind == "csr" else X)
        off, value, g = f.rounding(x), f.value(x), f.gradient(x)
        wrong = abs(float(exact(data, x, 1e-3, X) - LD(value)))
        assert wrong <= off.value
        tightest = max(tightest, wrong / off.value)
        for size in (1e-9, 1e-4, 1.0):  # the cut holds everywhere
            y = x + size * rng.normal(size=3) * np.abs(x)
            step = y.astype(LD) - x.astype(LD)
            slope = (g.astype(LD) * step - off.gradient.astype(LD) * np.abs(step)).sum()
            assert LD(value) - LD(off.value) + slope <= exact(data, y, 1e-3, X)
    assert tightest > 1e-6


def test_no_event_and_no_weight():
    rng = np.random.default_rng(6)
    f = CoxPartialLikelihood(rng.normal(size=(5, 2)), np.ones(5), np.zeros(5), ridge=0.5)
    x = np.ones(2)
    assert f.value(x) == 0.5 and (f.gradient(x) == 0.5 * x).all() and (f.hessian(x) == 0.5 * np.eye(2)).all()
    assert f.L == f.mu == 0.5
    data = drawn(rng, n=20)
    less = Survival(**{**vars(data), "weights": np.where(np.arange(20) < 5, 0.0, data.weights)})
    rest = slice(5, None)
    only = Survival(
        data.X[rest], data.time[rest], data.event[rest], data.strata[rest],
        None if data.entry is None else data.entry[rest], data.weights[rest], data.ties,
    )  # fmt: skip
    assert cox(less).value(np.ones(3)) == pytest.approx(cox(only).value(np.ones(3)))


def silos(ridge: float, rng: np.random.Generator) -> tuple[Problem, CoxPartialLikelihood]:
    """Four silos, one of them without an event, and the same rows stratified by silo."""
    data = drawn(rng, n=240, late=False)
    silo = np.minimum(np.arange(240) // 70, 3)
    event = data.event & (silo != 3)
    parts = [CoxPartialLikelihood(data.X[silo == j], data.time[silo == j], event[silo == j], ridge) for j in range(4)]
    return Problem(parts), CoxPartialLikelihood(data.X, data.time, event, ridge, strata=silo)


@pytest.mark.parametrize("name", ["auto", "prox-newton", "lbfgs", "nesterov", "dualfl", "scaffnew", "disco"])
def test_silos_make_the_stratified_fit(name):
    problem, pooled = silos(0.05, np.random.default_rng(7))
    x = np.random.default_rng(8).normal(size=3)
    assert problem.value(x) == pytest.approx(pooled.value(x), rel=1e-12)
    result = dualfl.run(problem, make(name), rounds=400 if name == "scaffnew" else 80)
    minimum = pooled.value(dualfl.solvers.minimise(pooled).x)
    assert result.energy - minimum <= 1e-6
    if result.certificate is not None:
        assert result.energy - minimum <= result.certificate


def test_auto_takes_an_l1_penalty():
    problem, pooled = silos(0.0, np.random.default_rng(9))
    problem = Problem(problem.clients, penalty=L1(0.02))
    result = dualfl.run(problem, make("auto"), rounds=30)
    step = result.theta - pooled.gradient(result.theta) / pooled.L
    assert_allclose(np.sign(step) * np.maximum(np.abs(step) - 0.02 / pooled.L, 0), result.theta, atol=1e-9)


GOOD: dict[str, Any] = {"time": [1.0, 2.0, 3.0], "event": [1, 0, 1]}


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"time": [1.0, 0.0, 3.0]}, r"time\[1\] is 0; times must be finite and > 0"),
        ({"time": [1.0, -2.0, 3.0]}, r"time\[1\] is -2"),
        ({"time": [1.0, np.nan, 3.0]}, r"time\[1\] is nan"),
        ({"time": [1.0, 2.0]}, "one number for each of the 3 rows"),
        ({"event": [1, 2, 0]}, r"event must be 1 \(it happened\) or 0 \(censored\), and it contains .*2"),
        ({"event": ["yes", "no", "no"]}, "event must be 1"),
        ({"entry": [0.0, 2.0, 0.0]}, r"entry\[1\] is 2 and time\[1\] is 2; a row must enter before its time"),
        ({"weights": [1.0, -1.0, 1.0]}, r"weights\[1\] is -1"),
        ({"ties": "exact"}, 'ties must be "efron" or "breslow"'),
        ({"strata": [1, 2]}, "strata must be one label for each of the 3 rows"),
        ({"ridge": -1.0}, "ridge must be a finite number >= 0"),
    ],
    ids=str,
)
def test_bad_input_is_one_sentence(bad, sentence):
    with pytest.raises(InputError, match=sentence):
        CoxPartialLikelihood(np.eye(3), **{**GOOD, **bad})
