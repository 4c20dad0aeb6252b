"""A model as silos get it to evaluate it: coefficients, and what its predictor means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax

from dualfl.errors import InputError
from dualfl.typing import AnyArray, Array

KINDS = ("probabilities", "margins", "values", "counts", "amounts", "cloglog", "hazards", "ordered")


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
        made = {"probabilities": Probabilities, "cloglog": Seen, "ordered": Ordered}.get(
            str(content["kind"]), Predictor
        )
        return made(**content)

    def with_offset(self, offset: Array | None, X: Any) -> tuple[Predictor, Any]:
        """The predictor and the rows with one more column, which is added as it is."""
        if offset is None:
            return self, X
        W = np.column_stack([self.W, np.ones(len(self.W))])
        return type(self)(self.kind, W, self.b, len(self.classes_)), np.column_stack([X, offset])

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
        return np.exp(z) if self.kind in ("counts", "amounts") else z


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


class Seen(Probabilities):
    """Two classes with the complementary log-log link."""

    def predict_log_proba(self, X: Any) -> Array:
        m = np.exp(np.minimum(self._predictor(X)[:, 0], 700.0))
        return np.column_stack([-m, np.log(np.maximum(-np.expm1(-m), 1e-300))])

    def predict_proba(self, X: Any) -> Array:
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> AnyArray:
        return np.asarray(self.predict_proba(X)[:, 1] > 0.5).astype(int)


class Ordered(Probabilities):
    """Ordered levels; b are the thresholds between them."""

    def _predictor(self, X: Any) -> Array:
        return np.asarray(X @ self.W.T)

    def predict_log_proba(self, X: Any) -> Array:
        return np.log(np.maximum(self.predict_proba(X), 1e-300))

    def predict_proba(self, X: Any) -> Array:
        below = expit(self.b[None, :] - self._predictor(X))
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def decision_function(self, X: Any) -> Array:
        p = self.predict_proba(X)
        logits = np.log(np.maximum(p, 1e-300)) - np.log1p(-np.minimum(p, 1 - 1e-16))
        return logits[:, 1] if p.shape[1] == 2 else logits

    def predict(self, X: Any) -> AnyArray:
        found: AnyArray = self.predict_proba(X).argmax(axis=1)
        return found
