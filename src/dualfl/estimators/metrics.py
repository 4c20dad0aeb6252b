"""Evaluation of fitted estimators from sums; what a silo sends is in `silos`, in files called `..._scores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from dualfl.errors import InputError
from dualfl.silos.chamber import SiloRows
from dualfl.silos.classification_scores import BINS, ClassificationSums, classification_sums
from dualfl.silos.regression_scores import RegressionSums, regression_sums

__all__ = ["OVERALL", "ClassificationSums", "Evaluation", "RegressionSums", "Sums", "evaluate"]

OVERALL = "overall"  # the line of all silos together


Sums = ClassificationSums | RegressionSums


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The sums of every silo, and of all together.

    Parameters
    ----------
    silos : mapping
        The sums of each silo, by name.
    overall : object
        The sums of all silos together.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualfl.estimators import LogisticRegression, evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression().fit(X, y, groups=[i % 2 for i in range(150)])
    >>> evaluate(model, [(X[::2], y[::2]), (X[1::2], y[1::2])]).overall.accuracy > 0.9
    True
    """

    silos: Mapping[str, Any]
    overall: Any

    def table(self) -> dict[str, dict[str, float]]:
        """One line a silo, and the last of all together; the same numbers in every line."""
        overall = self.overall.table()
        lines = {name: sums.table() for name, sums in self.silos.items()}
        return {name: {key: line[key] for key in overall} for name, line in lines.items()} | {OVERALL: overall}

    def __str__(self) -> str:
        lines = self.table()
        names = list(lines[OVERALL])
        width = max(len(name) for name in lines)
        head = " ".join([" " * width, *(f"{name:>10}" for name in names)])
        return "\n".join([head, *(_line(name.ljust(width), line) for name, line in lines.items())])


def _line(name: str, line: Mapping[str, float]) -> str:
    return " ".join([name, *(f"{v:>10,.0f}" if key == "rows" else f"{v:>10.4g}" for key, v in line.items())])


def evaluate(
    model: Any,
    silos: Any,
    names: Sequence[str] | None = None,
    *,
    bins: int = BINS,
    quantile: float | None = None,
) -> Evaluation:
    """Evaluate a fitted model on rows in several silos, from sums and histograms of each.

    Parameters
    ----------
    model : object
        A fitted estimator.
    silos : sequence of Any, or Study
        Pairs (X, y) or triples (X, y, weights), one for each silo; or the study to which the model was fitted.
    names : sequence of str, optional
        The silos' names; a study has its own.
    bins : int, default 1000
        The number of bins of the scores, for the ROC curve.
    quantile : float, optional
        The quantile of the pinball loss; the default is the model's own, or 0.5.

    Returns
    -------
    Evaluation
        The sums of each silo and of all; `print` shows a table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualfl.estimators import LogisticRegression, evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression().fit(X, y, groups=[i % 2 for i in range(150)])
    >>> found = evaluate(model, [(X[::2], y[::2]), (X[1::2], y[1::2])], names=["one", "two"])
    >>> found.overall.accuracy > 0.9
    True
    """
    if hasattr(silos, "fit_estimator"):
        if names is not None or quantile is not None:
            raise InputError("A study knows its silos' names and the model its quantile; leave out names and quantile.")
        evaluation: Evaluation = silos.evaluate(model, bins)
        return evaluation
    if len(silos) == 0:
        raise InputError("evaluate needs at least one silo (X, y), and the list is empty.")
    names = [str(j) for j in range(len(silos))] if names is None else [str(name) for name in names]
    if len(names) != len(silos):
        raise InputError(f"There are {len(silos)} silos and {len(names)} names; give one each.")
    wrong = next((name for name in names if name == OVERALL or names.count(name) > 1), None)
    if wrong is not None:
        raise InputError(f"Every silo needs a name of its own, and {wrong!r} is taken; rename that silo.")
    if quantile is None:
        quantile = getattr(model, "quantile", 0.5)
    sent: dict[str, Any] = {}
    for name, silo in zip(names, silos):
        checked = _evaluated(silo, name)
        if not checked.mass > 0:
            continue  # nothing in it counts
        sent[name] = (
            classification_sums(model, checked, bins)
            if is_classifier(model)
            else regression_sums(model, checked, quantile)
        )
    if not sent:
        raise InputError("All sample weights are zero, so no row counts; give some rows a positive weight.")
    return Evaluation(sent, reduce(lambda a, b: a + b, sent.values()))


def _evaluated(silo: Any, name: str) -> SiloRows:
    X, y = silo[0] if hasattr(silo[0], "shape") else np.asarray(silo[0]), np.asarray(silo[1])
    weights = None if len(silo) < 3 or silo[2] is None else np.asarray(silo[2], dtype=np.float64)
    if X.shape[0] != len(y) or len(y) == 0:
        raise InputError(
            f"Silo {name} has {X.shape[0]} rows and {len(y)} targets; give one a row, and at least one row."
        )
    return SiloRows(name, X, y, weights)
