"""The names of --model and what they mean. Commands list them, so this imports nothing that takes time."""

from __future__ import annotations

from dataclasses import dataclass

PENALTIES = ("none", "l2", "l1", "elastic-net")
SMALL_RIDGE = 1e-3  # alpha where nothing else is said


@dataclass(frozen=True)
class ModelKind:
    """What a name of --model means."""

    about: str
    classes: bool = False
    penalty: str = "l2"  # unless given
    fixed: bool = False  # whether the name says which penalty it is


TOL, FINE = 1e-6, 1e-12  # of E

MODELS = {
    "logistic": ModelKind("logistic regression, two classes", classes=True),
    "multinomial": ModelKind("logistic regression, any number of classes", classes=True),
    "svm": ModelKind("support vector machine, hinge loss", classes=True),
    "squared-hinge": ModelKind("support vector machine, squared hinge loss", classes=True),
    "linear": ModelKind("least squares"),
    "ridge": ModelKind("least squares with an l2 penalty", fixed=True),
    "lasso": ModelKind("least squares with an l1 penalty", penalty="l1", fixed=True),
    "elastic-net": ModelKind("least squares with both penalties", penalty="elastic-net", fixed=True),
    "huber": ModelKind("regression that outliers do not spoil"),
    "quantile": ModelKind("regression of a quantile, the median unless --quantile"),
    "poisson": ModelKind("regression of counts, logarithm as link"),
    "negative-binomial": ModelKind("counts that spread more than Poisson's, logarithm as link", penalty="none"),
    "gamma": ModelKind("regression of amounts > 0, logarithm as link", penalty="none"),
    "tweedie": ModelKind("regression of amounts that may be 0, logarithm as link", penalty="none"),
    "cloglog": ModelKind("two classes, complementary log-log link", classes=True, penalty="none"),
    "ordinal": ModelKind("ordered levels, proportional odds", classes=True, penalty="none"),
    "cox": ModelKind("proportional hazards, a baseline for every silo", classes=True, penalty="none"),
}

WITHOUT_ERRORS = ("svm", "squared-hinge", "huber", "quantile")
WITHOUT_OFFSET = ("svm", "multinomial")
PRINTED = ("logistic", "multinomial", "poisson", "negative-binomial", "gamma", "tweedie")


def tolerance(model: str, penalty: str, site_effect: str = "none") -> float:
    """--tol where nobody gives one. E is flat where it is least, so coefficients have half of its digits; those of a
    likelihood without a penalty are compared with R's digit by digit. Models that are not named here are exact after
    one step, or take one more after their proof (`proving`), or have no standard errors."""
    return FINE if penalty == site_effect == "none" and model in PRINTED else TOL
