"""Estimators with the interface of scikit-learn: the model of the pooled table, from silos that stay apart.

`LogisticRegression(C=1.0).fit(X, y, groups=hospital)`, for example, fits the rows of several hospitals.

They are imported when they are first used: scikit-learn takes seconds to import where pandas is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualfl.estimators.classifiers import LinearSVC, LogisticRegression
    from dualfl.estimators.cv import (
        ElasticNetCV,
        HuberRegressorCV,
        LassoCV,
        LinearSVCCV,
        LogisticRegressionCV,
        PoissonRegressorCV,
        QuantileRegressorCV,
        RidgeCV,
    )
    from dualfl.estimators.cv_joint import CoxPHCV, OrdinalRegressionCV
    from dualfl.estimators.families import (
        CLogLogRegression,
        GammaRegressor,
        NegativeBinomialRegressor,
        TweedieRegressor,
    )
    from dualfl.estimators.metrics import ClassificationSums, Evaluation, RegressionSums, evaluate
    from dualfl.estimators.ordinal import OrdinalRegression
    from dualfl.estimators.penalty_path import PenaltyPath
    from dualfl.estimators.regressors import (
        ElasticNet,
        HuberRegressor,
        Lasso,
        PoissonRegressor,
        QuantileRegressor,
        Ridge,
    )
    from dualfl.estimators.scaler import StandardScaler
    from dualfl.estimators.survival import CoxPH, survival_target

__all__ = [
    "CLogLogRegression",
    "ClassificationSums",
    "CoxPH",
    "CoxPHCV",
    "ElasticNet",
    "ElasticNetCV",
    "Evaluation",
    "GammaRegressor",
    "HuberRegressor",
    "HuberRegressorCV",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LinearSVCCV",
    "LogisticRegression",
    "LogisticRegressionCV",
    "NegativeBinomialRegressor",
    "OrdinalRegression",
    "OrdinalRegressionCV",
    "PenaltyPath",
    "PoissonRegressor",
    "PoissonRegressorCV",
    "QuantileRegressor",
    "QuantileRegressorCV",
    "RegressionSums",
    "Ridge",
    "RidgeCV",
    "StandardScaler",
    "TweedieRegressor",
    "evaluate",
    "survival_target",
]

_HOMES = {
    "classifiers": (
        "LinearSVC",
        "LogisticRegression",
    ),
    "cv": (
        "ElasticNetCV",
        "HuberRegressorCV",
        "LassoCV",
        "LinearSVCCV",
        "LogisticRegressionCV",
        "PoissonRegressorCV",
        "QuantileRegressorCV",
        "RidgeCV",
    ),
    "cv_joint": ("CoxPHCV", "OrdinalRegressionCV"),
    "families": ("CLogLogRegression", "GammaRegressor", "NegativeBinomialRegressor", "TweedieRegressor"),
    "metrics": (
        "ClassificationSums",
        "Evaluation",
        "RegressionSums",
        "evaluate",
    ),
    "ordinal": ("OrdinalRegression",),
    "penalty_path": ("PenaltyPath",),
    "regressors": (
        "ElasticNet",
        "HuberRegressor",
        "Lasso",
        "PoissonRegressor",
        "QuantileRegressor",
        "Ridge",
    ),
    "scaler": ("StandardScaler",),
    "survival": ("CoxPH", "survival_target"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dualfl.estimators' has no attribute {name!r}")
    value = getattr(import_module(f"dualfl.estimators.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
