"""Predictions and evaluation of a model that was kept, on new files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dualfl.analysis.descriptions import ModelEvaluation
from dualfl.errors import InputError
from dualfl.estimators.metrics import Evaluation, evaluate
from dualfl.fits.model_folder import Model
from dualfl.names import nearest
from dualfl.report.sheets import harmless
from dualfl.silos.chamber import Chamber
from dualfl.silos.here import SilosHere
from dualfl.silos.predictor import Predictor
from dualfl.silos.questions import drive
from dualfl.silos.survival_sums import StepFunction
from dualfl.tables.encoding import features, substituted, targets
from dualfl.tables.reading import Table, check_usable, missing
from dualfl.tables.refusals import IN_FILES
from dualfl.tables.roles import ADDED, check_roles, parts
from dualfl.typing import Array

OWN_INTERCEPTS = (
    "Every silo of this model has an intercept of its own, which never left it, so new rows cannot be predicted or "
    "evaluated; fit the model without --site-effect for that."
)


def predictions(
    model: Model, table: Table, unseen: str = "error", at: Sequence[float] = (), silo: str | None = None
) -> tuple[list[str], Iterator[list[Any]]]:
    """A head, and a line for each row: what names it, what is predicted, and how surely.

    at, silo : for a model of hazards, the times at which survival is wanted, by the baseline of this silo.
    """
    if (at or silo is not None) and "time" not in model.schema.roles:
        raise InputError(
            f"--at and --silo are for --model cox, and this model is {model.recipe.model}; leave them out."
        )
    head, lines = _predicted(model, table, unseen, at, silo)
    if not table.ids:
        return head, lines
    names = ([harmless(str(text)) for text in line] for line in zip(*table.ids.values()))
    return [*head[:1], *table.ids, *head[1:]], ([line[0], *own, *line[1:]] for line, own in zip(lines, names))


def scorer(model: Model) -> Predictor:
    """The model as something that predicts."""
    W, b = np.atleast_2d(model.W), model.b if len(model.b) else np.zeros(1)
    kind = model.recipe.estimator(len(model.schema.classes)).kind
    return Predictor.from_json({"kind": kind, "W": W, "b": b, "classes": len(model.schema.classes)})


def offsets(model: Model, table: Table) -> Array | None:
    """What the model adds to the predictor of each row; a row needs it."""
    roles = {role: name for role, name in model.schema.roles.items() if role in ADDED}
    check_roles(table, model.schema.target, roles, IN_FILES)
    for role, name in roles.items():
        gaps = missing(table.columns[name])
        if gaps.any():
            row = int(np.argmax(gaps)) + 1
            raise InputError(f"{table.name} has a gap in column {name!r}, the {role}, row {row}; fill it.")
    found: Array | None = parts(table, roles)["offset"]
    return found


def hazards(
    model: Model, X: Any, offset: Array | None, at: Sequence[float], silo: str | None
) -> tuple[list[str], Iterator[list[Any]]]:
    """The logarithm of the hazard relative to the mean row, whose offset is 0, the ratio, and survival up to times."""
    z = (X - np.asarray(model.survival["centre"])) @ model.W[0]
    z = z if offset is None else z + offset
    columns = [z, np.exp(z)]
    if at:
        curves = baseline(model, silo)
        columns += [np.exp(-curves(time) * np.exp(z)) for time in at]
    head = ["row", "log hazard ratio", "hazard ratio", *(f"survival {time:g}" for time in at)]
    return head, ([i + 1, *map(float, row)] for i, row in enumerate(zip(*columns)))


def baseline(model: Model, silo: str | None) -> StepFunction:
    """The cumulative hazard of the mean row at a silo; SILO:STRATUM where there are strata."""
    known = {
        (name if len(strata) == 1 else f"{name}:{stratum}"): one
        for name, strata in model.survival["baselines"].items()
        for stratum, one in strata.items()
    }
    if not known:
        raise InputError(
            "No silo of this model shows its baseline hazard, so there are no survival curves; leave out --at."
        )
    if silo is None and len(known) > 1:
        raise InputError(f"Every silo has its own baseline; name one of {', '.join(known)} by --silo.")
    name = next(iter(known)) if silo is None else silo
    if name not in known:
        raise InputError(f"--silo: {nearest('baseline', name, tuple(known))}")
    return StepFunction(np.array(known[name]["times"]), np.array(known[name]["hazard"]), 0.0)


def _predicted(
    model: Model, table: Table, unseen: str, at: Sequence[float], silo: str | None
) -> tuple[list[str], Iterator[list[Any]]]:
    X = features(table, model.schema, unseen)
    if model.recipe.site_effect == "fixed":
        raise InputError(OWN_INTERCEPTS)
    if "time" in model.schema.roles:
        return hazards(model, X, offsets(model, table), at, silo)
    estimator, X = scorer(model).with_offset(offsets(model, table), X)
    number = estimator.predict(X)
    if not model.schema.classes:
        return ["row", "prediction"], ([i + 1, float(value)] for i, value in enumerate(number))
    labels = [model.schema.classes[int(k)] for k in number]
    if hasattr(estimator, "predict_proba"):
        what, scores = "probability", estimator.predict_proba(X)
        names = list(model.schema.classes)
    else:
        what, scores = "decision", estimator.decision_function(X).reshape(len(X), -1)
        names = list(model.schema.classes if scores.shape[1] > 1 else model.schema.classes[1:])
    head = ["row", "prediction", *(f"{what} {name}" for name in names)]
    shown = {name: harmless(name) for name in model.schema.classes}
    return head, ([i + 1, shown[label], *map(float, line)] for i, (label, line) in enumerate(zip(labels, scores)))


def substitutions(model: Model, table: Table) -> str:
    """What predictions had to put in place of entries, in one sentence; nothing if they had to do nothing."""
    gaps, unseen = substituted(table, model.schema)
    said = []
    if gaps:
        said.append(f"{gaps:,} missing number{'s' * (gaps > 1)} became the mean that the model was fitted with")
    if unseen:
        known = "s that the model does not know count" if unseen > 1 else " that the model does not know counts"
        said.append(f"{unseen:,} level{known} as the reference level")
    return f"{table.name}: {'; '.join(said)}." if said else ""


def evaluate_model(
    model: Model, tables: Sequence[Table], unseen: str = "error", bins: int = 1000
) -> tuple[Evaluation, int]:
    """The sums of every file, and how many rows had no target."""
    if model.recipe.site_effect == "fixed":
        raise InputError(OWN_INTERCEPTS)
    if model.schema.roles or model.recipe.model == "ordinal":
        return by_questions(model, tables, unseen, bins)
    target, lost, silos = model.schema.target, 0, []
    for table in tables:
        if target not in table.columns:
            raise InputError(f"{table.name} has no column {target!r}, the target; add it, or use `dualfl predict`.")
        check_usable(table, target)
        there = ~missing(table.columns[target])
        if not there.any():
            raise InputError(f"{table.name} has no entry at all in column {target!r}, the target; fill it.")
        lost += int(len(there) - np.count_nonzero(there))
        kept = table.kept(there)
        silos.append((features(kept, model.schema, unseen), targets(kept, model.schema)))
    names = [table.name for table in tables]
    return evaluate(model.estimator(), silos, names, bins=bins, quantile=model.recipe.quantile), lost


def by_questions(model: Model, tables: Sequence[Table], unseen: str, bins: int) -> tuple[Evaluation, int]:
    """The same for models whose rows have more than features and a target."""
    silos = SilosHere([Chamber(table) for table in tables])
    evaluation = drive(ModelEvaluation.of(model, bins, unseen).conversation(silos), silos)
    return evaluation, sum(chamber.used[1] for chamber in silos.chambers)
