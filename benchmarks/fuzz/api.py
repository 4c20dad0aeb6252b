"""Public functions and classes with arguments of the wrong kind, and with numbers at the end of their range."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dualfl
from benchmarks.fuzz.evil import anything
from benchmarks.fuzz.ground import Ground
from benchmarks.fuzz.judging import ACCEPTED, Verdict, of_call
from dualfl import data, estimators, objectives, solvers
from dualfl.algorithms import Quantise, RandK, TopK
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.engines import run_regularised
from dualfl.estimators import evaluate
from dualfl.experiments.compare import compare

X = np.random.default_rng(0).normal(size=(24, 3))
Y = (X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=24) > 0).astype(int)
SIGNS = 2.0 * Y - 1
GROUPS = np.arange(24) % 3
Target = tuple[str, Callable[..., Any], dict[str, Any]]


def problem(**more: Any) -> dualfl.Problem:
    parts = [GROUPS == j for j in range(3)]
    return dualfl.Problem([dualfl.LinearModel(X[p], SIGNS[p], dualfl.Logistic(), 0.1) for p in parts], **more)


def targets() -> list[Target]:
    """What may be called, with arguments that are right."""
    f = dualfl.LinearModel(X, SIGNS, dualfl.Logistic(), 0.1)
    clients = [dualfl.Quadratic(np.eye(2), b) for b in np.eye(2)]
    running = {
        **{"problem": problem(), "algorithm": dualfl.DualFL(), "rounds": 3, "tol": None, "seconds": 5.0, "seed": 0},
        **{"reference": None, "start": None, "threads": None, "codec": None, "constants": None, "evaluate": True},
        **{"progress": False, "checkpoint": None, "checkpoint_every": 1, "resume": False, "stop": None},
        **{"measure": None, "engine": "inprocess", "say": None},
    }
    listed: list[Target] = [
        ("run", dualfl.run, running),
        ("run", dualfl.run, running),
        (
            "run_regularised",
            run_regularised,
            {"problem": problem(), "algorithm": dualfl.DualFL(), "alpha": 0.1, "rounds": 3},
        ),
        ("compare", compare, {"problem": problem(), "algorithms": [dualfl.DualFL()], "rounds": 2, "reference": 0.1}),
        (
            "Problem",
            dualfl.Problem,
            {"clients": clients, "sizes": [1.0, 2.0], "penalty": dualfl.L1(0.1), "solvers": None},
        ),
        (
            "LinearModel",
            dualfl.LinearModel,
            {
                "X": X,
                "y": SIGNS,
                "loss": dualfl.Logistic(),
                "ridge": 0.1,
                "weights": None,
                "intercept": True,
                "scale": 1.0,
            },
        ),
        ("Quadratic", dualfl.Quadratic, {"A": np.eye(2), "b": np.ones(2), "constant": 0.0, "mu": None, "L": None}),
        (
            "Function",
            dualfl.Function,
            {
                "d": 2,
                "value": lambda x: float(x @ x),
                "gradient": lambda x: 2 * x,
                "mu": 1.0,
                "L": 2.0,
                "n": 1,
                "name": "f",
            },
        ),
        ("load", dualfl.load, {"name": "iris", "scale": "default", "layout": "auto", "target": None, "task": None}),
        (
            "make_problem",
            dualfl.make_problem,
            {"dataset": "iris", "clients": 3, "partition": "even", "ridge": 0.1, "loss": "auto", "seed": 0, "l1": 0.0},
        ),
        ("partition", data.partition, {"name": "even", "y": Y, "clients": 3, "seed": 0}),
        ("even", data.even, {"n": 10, "clients": 2, "seed": 0}),
        ("shuffled", data.shuffled, {"n": 10, "clients": 2, "seed": 0}),
        ("reference", dualfl.reference, {"problem": problem(), "cache": False}),
        (
            "minimise",
            dualfl.minimise,
            {"f": f, "a": 0.1, "c": np.zeros(3), "warm": np.zeros(3), "solver": None, "stop": None},
        ),
        ("L1", dualfl.L1, {"alpha": 0.1}),
        ("ElasticNetPenalty", dualfl.ElasticNetPenalty, {"alpha": 0.1, "beta": 0.1}),
        ("GroupL2", objectives.GroupL2, {"alpha": 0.1, "groups": (0, 1, 1)}),
        ("BoxConstraint", objectives.BoxConstraint, {"lower": -1.0, "upper": 1.0}),
        ("Huber", dualfl.Huber, {"delta": 1.0}),
        ("Quantile", objectives.Quantile, {"tau": 0.5}),
        ("EpsilonInsensitive", objectives.EpsilonInsensitive, {"eps": 0.1}),
        ("Softmax", dualfl.Softmax, {"classes": 3}),
        ("regularised", objectives.regularised, {"f": f, "alpha": 0.1}),
        ("TopK", TopK, {"k": 2}),
        ("RandK", RandK, {"k": 2}),
        ("Quantise", Quantise, {"bits": 8}),
        ("LBFGS", solvers.LBFGS, {"memory": 5, "metric": "auto"}),
        ("SAGA", solvers.SAGA, {"step": None, "seed": 0}),
        ("SGD", solvers.SGD, {"batch": 2, "step": None, "seed": 0}),
        ("SDCA", solvers.SDCA, {"seed": 0, "newton": 10}),
        ("NewtonCG", solvers.NewtonCG, {"forcing": 0.1, "metric": "auto"}),
        ("DampedNewton", solvers.DampedNewton, {"dense": 200}),
        ("GradientNorm", solvers.GradientNorm, {"eps": 1e-8, "cap": 100}),
        ("FixedIterations", solvers.FixedIterations, {"m": 3, "cap": 100}),
        ("ScipySolver", solvers.ScipySolver, {"method": "L-BFGS-B", "options": {}}),
    ]
    return listed


ESTIMATORS = {
    "LogisticRegression": {"C": 1.0, "l1_ratio": 0.0, "fit_intercept": True, "tol": 1e-4, "max_iter": 20},
    "LinearSVC": {"C": 1.0, "fit_intercept": True, "tol": 1e-2, "max_iter": 20},
    "Ridge": {"alpha": 1.0, "fit_intercept": True, "tol": 1e-4, "max_iter": 20},
    "Lasso": {"alpha": 0.1, "tol": 1e-3, "max_iter": 20},
    "ElasticNet": {"alpha": 0.1, "l1_ratio": 0.5, "tol": 1e-3, "max_iter": 20},
    "HuberRegressor": {"epsilon": 1.35, "alpha": 0.1, "tol": 1e-3, "max_iter": 20},
    "QuantileRegressor": {"quantile": 0.5, "alpha": 0.1, "tol": 1e-2, "max_iter": 20},
    "PoissonRegressor": {"alpha": 0.1, "tol": 1e-3, "max_iter": 20},
    "RidgeCV": {"alphas": [0.1, 1.0], "cv": 2, "rule": "min"},
}
CLASSIFIERS = ("LogisticRegression", "LinearSVC")


def attack(ground: Ground, folder: Path, rng: random.Random) -> tuple[Verdict, str]:
    kind = rng.random()
    if kind < 0.25:
        return estimator(rng)
    if kind < 0.45:
        return algorithm(rng)
    name, function, valid = rng.choice(targets())
    given = dict(valid)
    changed = rng.sample(sorted(given), min(len(given), rng.choice([1, 1, 2])))
    for argument in changed:
        given[argument] = anything(rng, valid[argument])
    if name in ("run", "run_regularised", "compare") and "rounds" in changed:  # a long run ends when its time is over
        given["seconds"] = 0.2
    verdict, value = of_call(lambda: function(**given))
    if verdict.kind == ACCEPTED and name in ("run", "minimise"):
        verdict = Verdict(ACCEPTED) if getattr(value, "stopped", "") == "diverged" else plausible(value)
    return verdict, f"{name}({described(given, changed)})"


def plausible(result: Any) -> Verdict:
    """A result that was given must be one."""
    theta = getattr(result, "theta", getattr(result, "x", None))
    if theta is None or not np.isfinite(theta).all():
        return Verdict("wrong", "a model that is not finite was given as a result")
    return Verdict(ACCEPTED)


def described(given: dict[str, Any], changed: list[str]) -> str:
    from dualfl.arguments import shown

    return ", ".join(f"{name}={shown(given[name])}" for name in changed)


def algorithm(rng: random.Random) -> tuple[Verdict, str]:
    """An algorithm with a hyperparameter that makes no sense, run."""
    name = rng.choice(sorted(ALGORITHMS))
    fields = [field.name for field in dataclasses.fields(ALGORITHMS[name])]  # type: ignore[arg-type]
    chosen = rng.sample(fields, min(len(fields), rng.choice([1, 1, 2])))
    given = {field: anything(rng, 0.1) for field in chosen}
    how = {"codec": TopK(2)} if rng.random() < 0.1 else {}
    verdict, value = of_call(lambda: dualfl.run(problem(), make(name, **given), rounds=3, seconds=2.0, **how))
    if verdict.kind == ACCEPTED and value.stopped != "diverged":
        verdict = plausible(value)
    return verdict, f"run of {name}({described(given, chosen)})"


def estimator(rng: random.Random) -> tuple[Verdict, str]:
    """scikit-learn's conventions: an estimator may also raise ValueError and TypeError, with a sentence."""
    name = rng.choice(sorted(ESTIMATORS))
    given: dict[str, Any] = dict(ESTIMATORS[name])
    y = Y if name in CLASSIFIERS else np.abs(X[:, 0]) + 1
    call: dict[str, Any] = {"X": X, "y": y, "groups": GROUPS, "sample_weight": None}
    changed = []
    for place in rng.sample([given, call], rng.choice([1, 1, 2])):
        argument = rng.choice(sorted(place))
        place[argument] = anything(rng, place[argument])
        changed.append(argument)
    both = given | call

    def fit() -> Any:
        fitted = getattr(estimators, name)(**given).fit(**call)
        fitted.predict(X)
        if rng.random() < 0.2:
            evaluate(fitted, [(X, y)], bins=50)
        return fitted

    verdict, value = of_call(fit, (ValueError, TypeError))
    if verdict.kind == ACCEPTED and not np.isfinite(value.coef_).all():
        verdict = Verdict("wrong", "coefficients that are not finite were given as a fit")
    return verdict, f"{name}.fit, {described(both, changed)}"
