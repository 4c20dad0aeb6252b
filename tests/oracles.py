"""Other people's solvers, which name the same thing differently from version to version."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression


def l1_logistic(**settings: Any) -> LogisticRegression:
    """scikit-learn's logistic regression with an l1 penalty: `penalty` says so before version 1.8, `l1_ratio` since."""
    before = getattr(LogisticRegression(), "penalty", None) == "l2"
    return LogisticRegression(**({"penalty": "l1"} if before else {"l1_ratio": 1.0}), **settings)
