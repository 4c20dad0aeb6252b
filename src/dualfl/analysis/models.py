"""The models of `dualfl fit`, all with one objective,

    (1/n) sum_i l(y_i, x_i'w + b)  +  alpha (r |w|_1 + (1 - r)/2 |w|^2),

n the rows of all silos, b free, x standardised unless told otherwise. r is 0 for l2, 1 for l1 and 1/2 or --l1-ratio for
the elastic net; the paper's mu is alpha (1 - r). This is glmnet's way to write it: alpha means the same for few rows
and for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.engines.engine import Result
from dualfl.errors import InputError
from dualfl.estimators.base import FederatedClassifier, FederatedLinear, FederatedRegressor
from dualfl.estimators.classifiers import LinearSVC, LogisticRegression
from dualfl.estimators.regressors import PoissonRegressor
from dualfl.estimators.solving import FitCost
from dualfl.objectives import Hinge, Huber, Logistic, Loss, Poisson, Quantile, Softmax, Squared, SquaredHinge
from dualfl.typing import Array

PENALTIES = ("none", "l2", "l1", "elastic-net")
SMALL_RIDGE = 1e-3  # alpha where nothing else is said


@dataclass(frozen=True)
class ModelKind:
    """What a name of --model means."""

    about: str
    classes: bool = False
    penalty: str = "l2"  # unless given
    fixed: bool = False  # whether the name says which penalty it is


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
}


@dataclass(frozen=True)
class Recipe:
    """A model without its data."""

    model: str
    penalty: str = "l2"
    alpha: float = SMALL_RIDGE
    l1_ratio: float = 0.5
    quantile: float = 0.5
    delta: float | None = None  # of huber
    tol: float = 1e-6

    def __post_init__(self) -> None:
        kind = MODELS[self.model]
        if kind.fixed and self.penalty != kind.penalty:
            raise InputError(
                f"--model {self.model} means the penalty {kind.penalty}, and --penalty is {self.penalty}; "
                "take --model linear with it."
            )
        if self.penalty == "none" and self.model in ("svm", "squared-hinge"):
            raise InputError(f"--model {self.model} needs a penalty, but it is none; take --penalty l2 or l1.")
        for name, value, good in (
            ("--alpha", self.alpha, 0 < self.alpha < np.inf or self.penalty == "none"),
            ("--l1-ratio", self.l1_ratio, 0 < self.l1_ratio < 1),
            ("--quantile", self.quantile, 0 < self.quantile < 1),
            ("--delta", self.delta, self.delta is None or 0 < self.delta < np.inf),
            ("--tol", self.tol, 0 < self.tol < np.inf),
        ):
            if not good:
                right = "between 0 and 1" if name in ("--l1-ratio", "--quantile") else "greater than 0"
                remedy = f"; {self._without_penalty}" if name == "--alpha" and value == 0 else ""
                raise InputError(f"{name} must be a number {right}, but it is {value:g}{remedy}.")

    @property
    def _without_penalty(self) -> str:
        """What somebody who asks for none may give."""
        if self.model in ("svm", "squared-hinge"):
            return "this model needs a penalty"
        return f"for no penalty take {'--model linear ' if self.kind.fixed else ''}--penalty none"

    @property
    def kind(self) -> ModelKind:
        return MODELS[self.model]

    @property
    def share(self) -> float:
        """r, the part of the penalty that is l1."""
        return {"none": 0.0, "l2": 0.0, "l1": 1.0, "elastic-net": self.l1_ratio}[self.penalty]

    @property
    def ridge(self) -> float:
        return 0.0 if self.penalty == "none" else self.alpha * (1 - self.share)

    @property
    def l1(self) -> float:
        return 0.0 if self.penalty == "none" else self.alpha * self.share

    def loss(self, classes: int = 0) -> Loss:
        match self.model:
            case "logistic" | "multinomial":
                return Logistic() if classes == 2 else Softmax(classes)
            case "svm":
                return Hinge()
            case "squared-hinge":
                return SquaredHinge()
            case "huber":
                assert self.delta is not None
                return Huber(self.delta)
            case "quantile":
                return Quantile(self.quantile)
            case "poisson":
                return Poisson()
        return Squared()

    def estimator(self, classes: int = 0, progress: bool = False) -> Fitted:
        """The estimator of the recipe, not yet fitted."""
        shape: Any = {
            "logistic": Probabilities,
            "multinomial": Probabilities,
            "svm": Margins,
            "squared-hinge": Margins,
            "poisson": Counts,
        }.get(self.model, Values)
        made: Fitted = shape(self.loss(classes), self.ridge, self.l1, tol=self.tol, verbose=progress)
        if classes:
            made.classes_ = np.arange(classes)
        return made


class Fitted(FederatedLinear):
    """An estimator whose penalty is given as the paper gives it; it keeps what its runs returned."""

    fit_intercept, penalize_intercept = True, False
    kind: ClassVar[str]  # what its predictor means (`silos.predictor`)
    _no_minimiser = "There is no minimiser, because there is no penalty."

    def __init__(
        self,
        loss: Loss,
        ridge: float = 0.0,
        l1: float = 0.0,
        *,
        algorithm: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.loss, self.ridge, self.l1 = loss, ridge, l1
        self.algorithm, self.tol, self.max_iter = algorithm, tol, max_iter
        self.random_state, self.verbose = random_state, verbose

    def _cost(self, mass: float) -> FitCost:
        return FitCost(self.loss, self.ridge, self.l1)

    def _read(self, results: list[Result], offset: float = 0.0) -> None:
        super()._read(results, offset)
        self.results_ = results

    @property
    def outputs(self) -> int:
        """Rows of coefficients: one for each class where there are more than two."""
        classes = len(getattr(self, "classes_", ()))
        return classes if classes > 2 else 1

    def restored(self, W: Array, b: Array) -> Fitted:
        """Fitted, with the coefficients that somebody found before; one row an output."""
        self.n_features_in_ = W.shape[1]
        FederatedClassifier._keep(self, W, b) if hasattr(self, "classes_") else FederatedRegressor._keep(self, W, b)
        return self


class Probabilities(Fitted, LogisticRegression):
    """Classes with probabilities."""

    kind = "probabilities"

    def _keep(self, W: Array, b: Array) -> None:
        if len(self.classes_) > 2 and self.ridge == self.l1 == 0:
            W = W - W.mean(axis=0)  # the same vector added to all classes changes nothing
        super()._keep(W, b)


class Margins(Fitted, LinearSVC):  # type: ignore[misc]  # `loss` is a Loss in one base, a word in the other
    """Classes with decision values; one against the rest for more than two."""

    kind = "margins"


class Values(Fitted, FederatedRegressor):
    """Real targets."""

    kind = "values"


class Counts(Fitted, PoissonRegressor):
    """Expected counts."""

    kind = "counts"
