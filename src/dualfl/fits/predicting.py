"""Predictions and evaluation of a model that was kept, on new files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators.metrics import Evaluation, evaluate
from dualfl.fits.model_folder import Model
from dualfl.report.sheets import harmless
from dualfl.tables.encoding import features, substituted, targets
from dualfl.tables.reading import Table, check_usable, missing


def predictions(model: Model, table: Table, unseen: str = "error") -> tuple[list[str], Iterator[list[Any]]]:
    """A head, and a line for each row: what names it, what is predicted, and how surely."""
    head, lines = _predicted(model, table, unseen)
    if not table.ids:
        return head, lines
    names = ([harmless(str(text)) for text in line] for line in zip(*table.ids.values()))
    return [*head[:1], *table.ids, *head[1:]], ([line[0], *own, *line[1:]] for line, own in zip(lines, names))


def _predicted(model: Model, table: Table, unseen: str) -> tuple[list[str], Iterator[list[Any]]]:
    X = features(table, model.schema, unseen)
    estimator: Any = model.estimator()
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
