"""A model as silos get it to evaluate it: coefficients, and what its predictor means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax

from dualfl.errors import InputError
from dualfl.typing import AnyArray, Array

KINDS = ("probabilities", "margins", "values", "counts")


class Predictor:
    """X W' + b, one column an output, and what is made of it; the methods have scikit-learn's names."""

    def __init__(self, kind: str, W: Array, b: Array, classes: int = 0) -> None:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is no kind of model that this version knows")
        self.kind, self.W, self.b = kind, np.atleast_2d(W), np.atleast_1d(b)
        self.classes_ = np.arange(classes)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "W": self.W, "b": self.b, "classes": len(self.classes_)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Predictor:
        made = Probabilities if content["kind"] == "probabilities" else Predictor
        return made(**content)

    def _predictor(self, X: Any) -> Array:
        z: Array = np.asarray(X @ self.W.T) + self.b
        return z

    def decision_function(self, X: Any) -> Array:
        z = self._predictor(X)
        return z.ravel() if z.shape[1] == 1 else z

    def predict(self, X: Any) -> AnyArray:
        z = self.decision_function(X)
        if len(self.classes_):
            number: AnyArray = (z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)
            return number
        return np.exp(z) if self.kind == "counts" else z


class Probabilities(Predictor):
    """Classes with probabilities."""

    def predict_log_proba(self, X: Any) -> Array:
        z = self._predictor(X)
        logs: Array = -np.logaddexp(0.0, z * [1.0, -1.0]) if z.shape[1] == 1 else log_softmax(z, axis=1)
        return logs

    def predict_proba(self, X: Any) -> Array:
        z = self._predictor(X)
        if z.shape[1] == 1:
            return np.column_stack([1 - expit(z[:, 0]), expit(z[:, 0])])
        return np.exp(self.predict_log_proba(X))
