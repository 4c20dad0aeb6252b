"""What fit.json has for the page of a fit: what was fitted on what, silos side by side, and how good the model is."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualfl.analysis.whole_fit import Fit
from dualfl.fits.console import (
    categories_line,
    checks_line,
    coefficient_count,
    left_out_line,
    missing_line,
    penalty_line,
    roles_line,
    score_of,
    site_line,
    statistics_line,
)
from dualfl.fits.term_tests import term_tests
from dualfl.silos.ledger import as_rows
from dualfl.typing import Array

POINTS = 100  # of a ROC curve at most


def for_the_page(fit: Fit) -> dict[str, Any]:
    return {
        "fitted": fitted(fit),
        "side by side": side_by_side(fit),
        "spent": as_rows(fit.spent),
        "curves": curves(fit),
        "terms": [
            {"term": name, "statistic": one.statistic, "df": one.df, "p": one.p}
            for name, one in term_tests(fit).items()
        ],
    }


def fitted(fit: Fit) -> dict[str, str]:
    """What was fitted on what, a sentence each; what there is nothing to say about is left out."""
    lines = {
        "model": f"{fit.recipe.model}: {fit.recipe.kind.about}",
        "target": target(fit),
        "silos": f"{len(fit.silos)}: {', '.join(fit.silos)}",
        "rows": rows(fit),
        "columns": f"{len(fit.schema.features) or len(fit.schema.names):,}, which give {coefficient_count(fit)}",
        "with": roles_line(fit),
        "site effect": site_line(fit),
        "gaps": missing_line(fit),
        "reference levels": categories_line(fit),
        "left out": left_out_line(fit),
        "penalty": penalty_line(fit),
        "likelihood": statistics_line(fit),
        "proportional hazards": checks_line(fit),
    }
    return {name: line for name, line in lines.items() if line}


def target(fit: Fit) -> str:
    """Of classes how many rows each has, of numbers their mean and spread."""
    schema, overview = fit.schema, fit.overview
    if not schema.classes:
        spread = np.sqrt(overview.target_squares / fit.rows)
        return f"{schema.target}, mean {overview.target_mean:.4g}, standard deviation {spread:.4g}"
    counts = [int(count) for count in overview.classes]
    if len(counts) == 2:
        share = counts[1] / fit.rows
        return f"{schema.target} = {schema.classes[1]}: {counts[1]:,} events in {fit.rows:,} rows ({share:.1%})"
    return f"{schema.target}: " + ", ".join(f"{name} {count:,}" for name, count in zip(schema.classes, counts))


def rows(fit: Fit) -> str:
    lost, gaps = fit.overview.without_target, fit.overview.with_gaps
    text = f"{fit.rows:,}"
    text += f"; {lost:,} more without a target were left out" if lost else ""
    return text + (f"; {gaps:,} more with other gaps were left out" if gaps else "")


def side_by_side(fit: Fit) -> list[dict[str, Any]]:
    """A line a silo and one of all; what a silo withholds is None."""
    score = score_of(fit)
    lines = []
    for silo, own, loss in zip(fit.silos, fit.own, fit.losses):
        sums = fit.evaluation.silos.get(silo)
        line = {
            "silo": silo,
            "rows": None if own is None else own.rows,
            "events": None if own is None else events(fit, own.classes),
            "loss": loss,
            score: None if sums is None else getattr(sums, score),
        }
        lines.append(line)
    overall = {"rows": fit.rows, "events": events(fit, fit.overview.classes), "loss": fit.loss}
    lines.append({"silo": "all", **overall, score: getattr(fit.evaluation.overall, score)})
    if len(fit.schema.classes) != 2:
        lines = [{name: value for name, value in line.items() if name != "events"} for line in lines]
    return lines


def events(fit: Fit, classes: Array) -> int | None:
    return int(classes[1]) if len(fit.schema.classes) == 2 else None


def curves(fit: Fit) -> list[dict[str, Any]]:
    """ROC and calibration of each class that the model scores; none for numbers."""
    total, found = fit.evaluation.overall, []
    if not fit.schema.classes or "time" in fit.schema.roles:
        return []
    labels = fit.schema.classes[1:] if len(fit.schema.classes) == 2 else fit.schema.classes
    for k, label in enumerate(labels):
        fpr, tpr = thinned(*total.roc(k))
        one = {"class": label, "auc": float(total.aucs[k]), "false positives": fpr, "true positives": tpr}
        if np.isfinite(total.log_loss):
            names = ("predicted", "observed", "rows")
            one |= {name: value.tolist() for name, value in zip(names, total.calibration_by_quantiles(k))}
        found.append(one)
    return found


def thinned(fpr: Array, tpr: Array) -> tuple[list[float], list[float]]:
    """At most POINTS of the curve, evenly along it; of bins without a row none is a point of its own."""
    along = fpr + tpr  # grows from 0 to 2
    if not np.isfinite(along).all():
        return [], []
    places = np.unique(np.searchsorted(along, np.linspace(0, 2, POINTS) - 1e-12))
    places = np.minimum(places, len(along) - 1)
    return fpr[places].round(5).tolist(), tpr[places].round(5).tolist()
