"""A model that was fitted before, evaluated on silos wherever they are: two exchanges, names and then sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.analysis.agreeing import told_names
from dualfl.errors import InputError
from dualfl.estimators.classifiers import LinearSVC, LogisticRegression
from dualfl.estimators.families import CLogLogRegression, NegativeBinomialRegressor
from dualfl.estimators.metrics import Evaluation
from dualfl.estimators.ordinal import OrdinalRegression
from dualfl.estimators.regressors import FederatedRegressor, LogLink, PoissonRegressor
from dualfl.estimators.survival import CoxPH
from dualfl.silos.here import added
from dualfl.silos.predictor import Predictor
from dualfl.silos.questions import Conversation, Exchange, Query, Silos
from dualfl.silos.scores import from_wire
from dualfl.tables.schema import Request, Schema

KINDS = (  # the first that an estimator is one of says what its predictor means
    (CLogLogRegression, "cloglog"),
    (LogisticRegression, "probabilities"),
    (LinearSVC, "margins"),
    ((PoissonRegressor, NegativeBinomialRegressor), "counts"),
    (LogLink, "amounts"),
    (FederatedRegressor, "values"),
    (CoxPH, "hazards"),
    (OrdinalRegression, "ordered"),
)


def predictor_of(estimator: Any) -> Predictor:
    """What silos get of an estimator that was fitted to them."""
    kind = next((kind for made, kind in KINDS if isinstance(estimator, made)), None)
    if kind is None or not hasattr(estimator, "schema_"):
        raise InputError(
            f"A study evaluates estimators that fit_silos has fitted to it, and this {type(estimator).__name__} was "
            "not: the names of its columns are not known. Fit it to the study first."
        )
    b = getattr(estimator, "thresholds_", getattr(estimator, "intercept_", 0.0))
    return Predictor.from_json({"kind": kind, "W": estimator.coef_, "b": b, "classes": len(estimator.schema_.classes)})


def evaluating(
    silos: Silos, predictor: Predictor, schema: Schema, bins: int, quantile: float, unseen: str = "error"
) -> Conversation[Evaluation]:
    """How well the model does on the rows of every silo that shows it, and on those of all."""
    roles = {role: name for role, name in schema.roles.items() if role != "cluster"}
    columns = tuple(feature.name for feature in schema.features) if roles else ()
    request = Request(schema.target, numeric_target=not schema.classes, roles=roles, columns=columns)
    yield from told_names(silos, request, None)
    width = len(schema.names)
    note: dict[str, Any] = {"schema": schema.as_json(), "mean": np.zeros(width), "spread": np.ones(width)}
    note |= {} if unseen == "error" else {"unseen": unseen}
    yield Exchange("evaluation", (Query("encode", note, "none"),))
    given = {"model": predictor.as_json(), "rows": {}, "bins": bins, "quantile": quantile, "centre": 0.0}
    query = Query("evaluate", given)
    each = [Query("evaluate", given, "each")] if len(silos.withheld) != 1 else []
    total = [query] if silos.withheld else []
    answers = list((yield Exchange("evaluation", (*each, *total))))
    own: list[Any] = list(answers[0]) if each else [None] * len(silos.names)
    whole = answers[-1] if total else added(own)
    how = len(schema.classes) > 0, quantile, 0.0
    shown = {name: from_wire(one, *how) for name, one in zip(silos.names, own) if one is not None}
    return Evaluation(shown, from_wire(whole, *how))
