"""What is to be analysed, in words that travel: whoever has the description and the answers knows all questions.

A silo that is asked to take part gets the description before it sends any sum, and can show it to its operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import is_regressor

from dualfl.analysis.agreeing import ColumnWishes, agreeing
from dualfl.analysis.checking import checking
from dualfl.analysis.evaluating import evaluating, predictor_of
from dualfl.analysis.models import Recipe
from dualfl.analysis.one_algorithm import OneAlgorithm
from dualfl.analysis.survival_curves import CurveWishes, drawing
from dualfl.analysis.tabulating import TableWishes, describing
from dualfl.analysis.whole_fit import Wishes, fitting
from dualfl.errors import InputError
from dualfl.silos.classification_scores import BINS
from dualfl.silos.predictor import Predictor
from dualfl.silos.questions import Conversation, Exchange, Silos
from dualfl.silos.verbs import request_from_json, request_to_json
from dualfl.tables.refusals import IN_FILES
from dualfl.tables.schema import Request, Schema
from dualfl.tables.terms import Term


class Analysis(Protocol):
    """Something that can be asked of silos."""

    def conversation(self, silos: Silos) -> Conversation[Any]:
        """Its questions."""
        ...

    def as_json(self) -> dict[str, Any]:
        """The description, from which `from_json` makes the same analysis."""
        ...


@dataclass(frozen=True)
class WholeFit:
    """`dualfl fit`."""

    recipe: Recipe
    wishes: Wishes

    def conversation(self, silos: Silos) -> Conversation[Any]:
        return fitting(silos, self.recipe, self.wishes)

    def as_json(self) -> dict[str, Any]:
        wishes = {name: getattr(self.wishes, name) for name in WISHES}
        if self.wishes.alpha_of_sum:  # said only where it is so: a plan that was approved before is the same plan
            wishes["alpha_of_sum"] = True
        return {
            "analysis": "fit",
            "recipe": asdict(self.recipe),
            "request": request_to_json(self.wishes.request),
            "wishes": wishes,
            "terms": [term.as_json() for term in self.wishes.terms],
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> WholeFit:
        request = request_from_json(content["request"], IN_FILES)
        terms = tuple(Term.from_json(one) for one in content.get("terms", ()))
        return WholeFit(Recipe(**content["recipe"]), Wishes(request, **content["wishes"], terms=terms))


@dataclass(frozen=True)
class TableDescription:
    """`dualfl describe`."""

    wishes: TableWishes

    def conversation(self, silos: Silos) -> Conversation[Any]:
        return describing(silos, self.wishes)

    def as_json(self) -> dict[str, Any]:
        wishes = self.wishes
        return {
            "analysis": "describe",
            "request": request_to_json(wishes.request),
            "by": wishes.by,
            "crosses": [list(pair) for pair in wishes.crosses],
            "small": wishes.small,
            "cut": wishes.cut,
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> TableDescription:
        request = request_from_json(content["request"], IN_FILES)
        crosses = tuple((str(a), str(b)) for a, b in content["crosses"])
        return TableDescription(TableWishes(request, content["by"], crosses, content["small"], content["cut"]))


@dataclass(frozen=True)
class SurvivalCurves:
    """`dualfl km`."""

    wishes: CurveWishes

    def conversation(self, silos: Silos) -> Conversation[Any]:
        return drawing(silos, self.wishes)

    def as_json(self) -> dict[str, Any]:
        wishes = {name: getattr(self.wishes, name) for name in ("by", "until", "intervals", "small", "level")}
        return {"analysis": "km", "request": request_to_json(self.wishes.request), "wishes": wishes}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> SurvivalCurves:
        return SurvivalCurves(CurveWishes(request_from_json(content["request"], IN_FILES), **content["wishes"]))


@dataclass(frozen=True, eq=False)
class ModelEvaluation:
    """`dualfl evaluate`: a model that was kept, on the rows that silos have now."""

    predictor: Predictor
    schema: Schema
    bins: int = BINS
    quantile: float = 0.5
    unseen: str = "error"  # levels that the model does not know; or "baseline", the reference level

    def conversation(self, silos: Silos) -> Conversation[Any]:
        return evaluating(silos, self.predictor, self.schema, self.bins, self.quantile, self.unseen)

    def as_json(self) -> dict[str, Any]:
        content = {
            "analysis": "evaluate",
            "predictor": self.predictor.as_json(),
            "schema": self.schema.as_json(),
            "bins": self.bins,
            "quantile": self.quantile,
        }
        return content if self.unseen == "error" else content | {"unseen": self.unseen}

    @staticmethod
    def of(model: Any, bins: int = BINS, unseen: str = "error") -> ModelEvaluation:
        """Of a model as its folder has it, or of an estimator that was fitted to a study."""
        if not hasattr(model, "recipe"):
            predictor = predictor_of(model)
            return ModelEvaluation(predictor, model.schema_, bins, getattr(model, "quantile", 0.5), unseen)
        kind = model.recipe.estimator(len(model.schema.classes)).kind
        W, b = np.atleast_2d(model.W), model.b if len(model.b) else np.zeros(1)
        predictor = Predictor.from_json({"kind": kind, "W": W, "b": b, "classes": len(model.schema.classes)})
        return ModelEvaluation(predictor, model.schema, bins, model.recipe.quantile, unseen)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> ModelEvaluation:
        predictor = Predictor.from_json(content["predictor"])
        schema, how = Schema.from_json(content["schema"]), (content["bins"], content["quantile"])
        return ModelEvaluation(predictor, schema, *how, content.get("unseen", "error"))


@dataclass(frozen=True, eq=False)
class EstimatorFit:
    """`fit_silos` of an estimator: the columns of the silos as they are, all of them."""

    estimator: Any
    target: str
    numeric: bool

    @staticmethod
    def of(estimator: Any, target: str = "") -> EstimatorFit:
        return EstimatorFit(estimator, target, is_regressor(estimator))

    def conversation(self, silos: Silos) -> Conversation[Any]:
        request = Request(self.target, self.numeric)
        agreed = yield from agreeing(silos, ColumnWishes(request, standardise=False, centre=False))
        estimator = self.estimator
        estimator.schema_ = agreed.schema
        if agreed.schema.classes:
            estimator.classes_ = np.array(agreed.schema.classes)
        estimator.n_features_in_ = len(agreed.schema.names)
        estimator.feature_names_in_ = np.array(agreed.schema.names, dtype=object)
        yield Exchange("the fit", (agreed.note,))
        estimator._rows = None
        yield from estimator._fitting(silos)
        yield from estimator._inferring(silos)
        return estimator

    def as_json(self) -> dict[str, Any]:
        parameters = {name: plain(value) for name, value in self.estimator.get_params().items()}
        return {
            "analysis": "estimator",
            "estimator": type(self.estimator).__name__,
            "parameters": parameters,
            "target": self.target,
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> EstimatorFit:
        from dualfl import estimators

        kind = getattr(estimators, str(content["estimator"]), None)
        # What else is exported there, such as functions, fits nothing.
        if not isinstance(kind, type) or not hasattr(kind, "_fitting") or kind.__name__ not in estimators.__all__:
            raise InputError(f"{content['estimator']!r} is no estimator of this version")
        return EstimatorFit.of(kind(**content["parameters"]), str(content["target"]))


@dataclass(frozen=True)
class TableCheck:
    """`dualfl check`: what is wrong with the silos' tables. `classes`: whether the target is names of classes."""

    target: str = ""
    classes: bool | None = None

    def conversation(self, silos: Silos) -> Conversation[Any]:
        return checking(silos, self.target, self.classes)

    def as_json(self) -> dict[str, Any]:
        return {"analysis": "check", "target": self.target, "classes": self.classes}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> TableCheck:
        return TableCheck(str(content["target"]), content["classes"])


def plain(value: Any) -> Any:
    """A parameter that travels: numbers, texts and lists of them."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in np.asarray(value).tolist()]
    raise InputError(
        f"The parameters of a fit on a study must be numbers or texts, and one is {value!r:.60}; name the algorithm."
    )


WISHES = (
    "coding",
    "positive",
    "allow_empty",
    "standardise",
    "cross_validate",
    "cv",
    "rule",
    "level",
    "influence",
    "said_nothing",
    "first",
)
KINDS: dict[str, Any] = {
    "fit": WholeFit,
    "describe": TableDescription,
    "km": SurvivalCurves,
    "evaluate": ModelEvaluation,
    "estimator": EstimatorFit,
    "run": OneAlgorithm,
    "check": TableCheck,
}


def from_json(content: Mapping[str, Any]) -> Analysis:
    """The analysis of this description."""
    kind = KINDS.get(str(content.get("analysis")))
    if kind is None:
        raise InputError(f"{content.get('analysis')!r} is no analysis that this version knows")
    found: Analysis = kind.from_json(content)
    return found
