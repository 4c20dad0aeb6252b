"""Rounding errors stay below their bounds, for every loss, at every scale, against extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dualfl.objectives import (
    Absolute,
    CLogLog,
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    LinearModel,
    Logistic,
    Loss,
    NegativeBinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    Tweedie,
)
from dualfl.objectives import rounding as module
from dualfl.objectives.average import Average

LD: Any = np.longdouble


def exact(loss: Loss, z: Any, y: Any) -> Any:
    """l(y, z) in extended precision."""
    par = LD(loss.parameter)
    r = z - y
    return {
        "Logistic": lambda: np.maximum(-y * z, 0) + np.log1p(np.exp(-np.abs(z))),
        "Squared": lambda: r * r / 2,
        "Huber": lambda: np.where(np.abs(r) <= par, r * r / 2, par * (np.abs(r) - par / 2)),
        "Poisson": lambda: np.exp(z) - y * z,
        "SquaredHinge": lambda: np.maximum(1 - y * z, 0) ** 2,
        "Hinge": lambda: np.maximum(1 - y * z, 0),
        "Absolute": lambda: np.abs(r),
        "Quantile": lambda: np.maximum((1 - par) * r, -par * r),
        "EpsilonInsensitive": lambda: np.maximum(np.abs(r) - par, 0),
        "Gamma": lambda: z + y * np.exp(-z),
        "Tweedie": lambda: (
            np.where(y > 0, y * np.exp((1 - par) * z) / (par - 1), 0) + np.exp((2 - par) * z) / (2 - par)
        ),
        "NegativeBinomial": lambda: (y + 1 / par) * np.logaddexp(LD(0), z + np.log(par)) - y * z,
        "CLogLog": lambda: np.where(y > 0, -np.log(-np.expm1(-np.exp(z))), np.exp(z)),
    }[type(loss).__name__]()


LOSSES = [
    Logistic(), Squared(), Huber(0.5), Poisson(), SquaredHinge(), Hinge(), Absolute(), Quantile(0.8),
    EpsilonInsensitive(0.3), Gamma(), Tweedie(1.3), NegativeBinomial(0.4), CLogLog(),
]  # fmt: skip


def drawn(loss: Loss, rng: Any) -> tuple[LinearModel, Any, Any, Any]:
    """A model, its rows and weights, and a point whose predictors are of moderate size, or cancel."""
    n, D = int(rng.integers(1, 50)), int(rng.integers(1, 6))
    scale = 10.0 ** rng.uniform(-8, 8, D)
    X = rng.standard_normal((n, D)) * scale
    theta = rng.standard_normal(D) / scale * 10.0 ** rng.uniform(-2, 1)
    if D > 1 and rng.random() < 0.4:  # two columns that cancel nearly
        X[:, 1] = X[:, 0] * (1 + 1e-9 * rng.standard_normal(n))
        theta[:2] = np.array([1.0, -1.0]) * 1e4 / scale[0]
    kind = rng.integers(3)
    X = X.astype(np.float32) if kind == 1 else X
    signs = type(loss).__name__ in ("Logistic", "SquaredHinge", "Hinge", "CLogLog")
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if signs else rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 9)
    y = np.round(np.abs(y)) if isinstance(loss, (Poisson, NegativeBinomial, Tweedie)) else y
    y = np.abs(y) + 1e-3 if isinstance(loss, Gamma) else y
    weights = 10.0 ** rng.uniform(-6, 0, n)
    f = LinearModel(sp.csr_array(X) if kind == 2 else X, y, loss, 1e-3, weights=weights)
    return f, X.astype(LD), weights.astype(LD) / weights.astype(LD).sum(), theta


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_values_and_cuts(loss: Loss, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not small:
        monkeypatch.setattr(module, "SMALL", 0)
    rng, tightest = np.random.default_rng(1), 0.0
    for _ in range(60):
        f, X, s, theta = drawn(loss, rng)
        off = f.rounding(theta)

        def E(v: Any, X: Any = X, s: Any = s, f: Any = f) -> Any:
            v = v.astype(LD)
            return (s * exact(loss, X @ v, f.y.astype(LD))).sum() + LD(1e-3) / 2 * (v**2).sum()

        value = f.value(theta)
        wrong = abs(float(E(theta) - LD(value)))
        assert wrong <= off.value
        tightest = max(tightest, wrong / off.value)
        if not loss.smooth:
            continue
        g = f.gradient(theta)
        for size in (1e-12, 1e-6, 1e-2, 1.0):  # the cut holds everywhere
            y = theta + size * rng.standard_normal(f.d) * np.abs(theta)
            step = y.astype(LD) - theta.astype(LD)
            slope = (g.astype(LD) * step - off.gradient.astype(LD) * np.abs(step)).sum()
            assert LD(value) - LD(off.value) + slope <= E(y)
    assert tightest > 1e-4  # not so large that nothing could ever exceed it


def test_a_bound_that_forgets_the_predictors_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: with the sizes of the losses alone, errors of predictors that cancel exceed it."""
    rng, beyond = np.random.default_rng(2), 0
    for _ in range(60):
        f, X, s, theta = drawn(Absolute(), rng)
        E = (s * np.abs(X @ theta.astype(LD) - f.y)).sum() + LD(1e-3) / 2 * (theta.astype(LD) ** 2).sum()
        beyond += abs(float(E - LD(f.value(theta)))) > module.roundings(0) * f.value(theta)
    assert beyond > 0


def test_a_mean_is_off_by_no_more_than_its_parts_and_their_sum() -> None:
    rng = np.random.default_rng(3)
    parts = [LinearModel(rng.standard_normal((9, 3)), rng.standard_normal(9), Squared(), 0.1) for _ in range(5)]
    mean, x = Average(parts, [0.2] * 5), rng.standard_normal(3)
    off, own = mean.rounding(x), [f.rounding(x) for f in parts]
    assert max(r.value for r in own) * 2 > off.value > min(r.value for r in own)
    assert (off.gradient >= np.mean([r.gradient for r in own], axis=0)).all()


def test_what_overflows_is_off_by_anything() -> None:
    f = LinearModel(np.full((3, 1), 1e3), np.ones(3), Poisson(), 1e-3)
    assert f.rounding(np.ones(1)).value == np.inf
