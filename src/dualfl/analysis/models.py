"""The models of `dualfl fit`, all with one objective,

    (1/n) sum_i l(y_i, x_i'w + b)  +  alpha (r |w|_1 + (1 - r)/2 |w|^2),

n the rows of all silos, b free, x standardised unless told otherwise. r is 0 for l2, 1 for l1 and 1/2 or --l1-ratio for
the elastic net; the paper's mu is alpha (1 - r). This is glmnet's way to write it: alpha means the same for few rows
and for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.analysis.fitted import Amounts, Counts, Fitted, Hazards, Levels, Margins, Probabilities, Seen, Values
from dualfl.analysis.model_kinds import MODELS, SMALL_RIDGE, TOL, ModelKind
from dualfl.errors import InputError
from dualfl.objectives import (
    CLogLog,
    Cox,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    NegativeBinomial,
    Ordered,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)

RANGES = {
    "--l1-ratio": "between 0 and 1",
    "--quantile": "between 0 and 1",
    "--power": "between 1 and 2 (1 is --model poisson, 2 is --model gamma)",
}


WITHOUT_OWN_INTERCEPT = ("multinomial", "svm", "squared-hinge", "quantile", "huber", "ordinal", "lasso", "elastic-net")


@dataclass(frozen=True)
class Recipe:
    """A model without its data."""

    model: str
    penalty: str = "l2"
    alpha: float = SMALL_RIDGE
    l1_ratio: float = 0.5
    quantile: float = 0.5
    delta: float | None = None  # of huber
    tol: float = TOL
    power: float = 1.5  # of tweedie
    dispersion: float | None = None  # of negative-binomial; None: searched
    ties: str = "efron"  # of cox
    site_effect: str = "none"
    class_weight: str | tuple[tuple[str, float], ...] | None = None
    errors: str = "model"
    base: tuple[float, ...] = ()  # of ordinal: thresholds of a model without columns, found out from counts

    def __post_init__(self) -> None:
        kind = MODELS[self.model]
        if isinstance(self.class_weight, list | tuple):
            pairs = tuple((str(name), float(weight)) for name, weight in self.class_weight)
            object.__setattr__(self, "class_weight", pairs)
        object.__setattr__(self, "base", tuple(self.base))
        self._check_site_effect()
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
            ("--power", self.power, 1 < self.power < 2),
            ("--dispersion", self.dispersion, self.dispersion is None or 0 < self.dispersion < np.inf),
        ):
            if not good:
                right = RANGES.get(name, "greater than 0")
                remedy = f"; {self._without_penalty}" if name == "--alpha" and value == 0 else ""
                raise InputError(f"{name} must be a number {right}, but it is {value:g}{remedy}.")

    def _check_site_effect(self) -> None:
        if self.site_effect == "none":
            return
        if self.model == "cox":
            raise InputError(
                f"--site-effect {self.site_effect} is for other models: in --model cox every silo has a baseline of "
                "its own already; leave it out."
            )
        if self.site_effect == "random" and (self.model != "linear" or self.penalty != "none"):
            raise InputError(
                "--site-effect random is for --model linear without a penalty (--penalty none), whose variances have a "
                f"likelihood; --model is {self.model} and --penalty {self.penalty}; take --site-effect fixed."
            )
        if self.site_effect == "random" and self.errors != "model":
            raise InputError(
                f"--site-effect random has the errors of its restricted likelihood, and --errors is {self.errors}; "
                "leave it out, or take --site-effect fixed."
            )
        if self.model in WITHOUT_OWN_INTERCEPT:
            raise InputError(
                f"--site-effect {self.site_effect} needs a smooth likelihood of one predictor, and --model "
                f"{self.model} has none; take logistic, cloglog, linear, ridge, poisson or another model of counts."
            )
        if self.penalty in ("l1", "elastic-net"):
            raise InputError(f"--site-effect {self.site_effect} is for --penalty none or l2, not {self.penalty}.")

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
    def within_silos(self) -> bool:
        """Whether silos have intercepts or baselines of their own, so that rows are compared within silos only."""
        return self.model == "cox" or self.site_effect == "fixed"

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
            case "huber":
                assert self.delta is not None
                return Huber(self.delta)
            case "quantile":
                return Quantile(self.quantile)
            case "tweedie":
                return Tweedie(self.power)
            case "negative-binomial":
                return NegativeBinomial(1.0 if self.dispersion is None else self.dispersion)
            case "ordinal":
                return Ordered(classes, self.base or tuple(np.arange(classes - 1) - (classes - 2) / 2))
            case "cox":
                return Cox("breslow" if self.ties == "breslow" else "efron")
        return PLAIN.get(self.model, Squared)()

    def estimator(self, classes: int = 0, progress: bool = False) -> Fitted:
        """The estimator of the recipe, not yet fitted."""
        shape: Any = SHAPES.get(self.model, Values)
        own = self.site_effect == "fixed"
        made: Fitted = shape(self.loss(classes), self.ridge, self.l1, own_intercept=own, tol=self.tol, verbose=progress)
        if classes:
            made.classes_ = np.arange(classes)
        return made


PLAIN: dict[str, type[Loss]] = {
    "svm": Hinge,
    "squared-hinge": SquaredHinge,
    "poisson": Poisson,
    "gamma": Gamma,
    "cloglog": CLogLog,
}
SHAPES: dict[str, type[Fitted]] = {
    "logistic": Probabilities,
    "multinomial": Probabilities,
    "svm": Margins,
    "squared-hinge": Margins,
    "poisson": Counts,
    "negative-binomial": Counts,
    "gamma": Amounts,
    "tweedie": Amounts,
    "cloglog": Seen,
    "ordinal": Levels,
    "cox": Hazards,
}
