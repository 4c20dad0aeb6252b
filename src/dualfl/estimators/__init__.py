"""Estimators with the interface of scikit-learn: the model of the pooled table, from silos that stay apart.

from dualfl.estimators import LogisticRegression
model = LogisticRegression(C=1.0).fit(X, y, groups=hospital)
"""

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
from dualfl.estimators.metrics import ClassificationSums, Evaluation, RegressionSums, evaluate
from dualfl.estimators.path import PenaltyPath
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
    "ClassificationSums",
    "CoxPH",
    "ElasticNet",
    "ElasticNetCV",
    "Evaluation",
    "HuberRegressor",
    "HuberRegressorCV",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LinearSVCCV",
    "LogisticRegression",
    "LogisticRegressionCV",
    "PenaltyPath",
    "PoissonRegressor",
    "PoissonRegressorCV",
    "QuantileRegressor",
    "QuantileRegressorCV",
    "RegressionSums",
    "Ridge",
    "RidgeCV",
    "StandardScaler",
    "evaluate",
    "survival_target",
]
