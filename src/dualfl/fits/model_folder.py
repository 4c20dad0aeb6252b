"""The folder of a model: model.json, from which `dualfl predict` works, and what people and the page read.

A folder is written beside its place under a passing name and then moved there, so that it is whole or not there at all.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.analysis.fitted import Fitted
from dualfl.analysis.model_kinds import MODELS
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Fit
from dualfl.engines.history import Row
from dualfl.errors import InputError, NotSupported
from dualfl.fits.card import CARD, card
from dualfl.fits.page_facts import for_the_page
from dualfl.outputs import check_folder, replacing, resolved
from dualfl.report.folder import environment, plain
from dualfl.report.results import COEFFICIENTS, FIT, HISTORY, PARTITION, REPORT
from dualfl.silos.ledger import totals, with_all
from dualfl.tables.roles import ADDED
from dualfl.tables.rules import USUAL_RULES, Rules
from dualfl.tables.schema import Schema
from dualfl.typing import Array
from dualfl.version import __version__

FORMAT = 3
NUMBERS = {
    "quantile": "quantile",
    "huber": "delta",
    "tweedie": "power",
    "negative-binomial": "dispersion",
    "cox": "ties",
}
UNSIGNED = 1  # what dualfl 0.1.0 wrote: no digest
UNRULED = 2  # without the rules by which files are read
DECISIVE = ("recipe", "schema", "outputs", "columns", "coefficients", "intercepts")  # of model.json, for a prediction
MODEL, RECORD, PATH, PICTURE, INFLUENCE = "model.json", "fit.json", "path.csv", "path.png", "influence.csv"
TABLES = frozenset(f"table.{form}" for form in ("md", "tex", "html", "csv"))
WRITTEN = TABLES | {MODEL, RECORD, CARD, PATH, PICTURE, INFLUENCE, COEFFICIENTS, HISTORY, PARTITION, REPORT}  # by a fit


# -- writing ----------------------------------------------------------------------------------------------


def check_place(out: Path, force: bool = False) -> None:
    """Make sure that a model can be put here, and that nothing is lost by it."""
    place = resolved(out)
    if place == resolved(Path.cwd()):
        raise InputError(f"{out} is the folder that you are in, which cannot be replaced; give --out a folder in it.")
    if os.path.ismount(place):
        raise InputError(f"{out} is where a disk is mounted, which cannot be replaced; give --out a folder in it.")
    check_folder(out, replaced=True)
    if place.exists() and any(place.iterdir()):
        check_replaceable(out, force)


def check_replaceable(out: Path, force: bool) -> None:
    """A folder with files is replaced if it is a model and nothing else, and if that is asked for."""
    others = sorted(path.name for path in out.iterdir() if path.name not in WRITTEN or not path.is_file())
    if others or not (out / MODEL).is_file():
        shown = others or sorted(path.name for path in out.iterdir())
        names = ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
        raise InputError(
            f"{out} has other files in it, {names}, which would be lost; move them, or give another --out."
        )
    if not force:
        raise InputError(f"{out} has a model already; give another --out, or --force to replace it.")


def write(fit: Fit, out: Path, command: str, *, page: bool = True, table: str | None = None) -> list[str]:
    """All files of the fit, or none; their names. `table`: a format in which the coefficients are written, too."""
    with replacing(out) as folder:
        for name, data in files(fit, command):
            (folder / name).write_bytes(data)
        if table is not None:
            from dualfl.fits.model_table import folder_table

            (folder / f"table.{table}").write_bytes(folder_table([folder], table).encode())
        if page:
            from dualfl.report.page import write_page

            write_page([folder])
    return sorted(path.name for path in out.iterdir() if path.name != REPORT)


def files(fit: Fit, command: str) -> Iterator[tuple[str, bytes]]:
    yield MODEL, as_json(describe(fit))
    yield COEFFICIENTS, as_csv(FIT, coefficient_rows(fit))
    yield HISTORY, history(fit)
    yield PARTITION, as_json(partition(fit))
    if fit.without:
        yield INFLUENCE, as_csv(("silo", "feature", "class", "change", "in_std_errors"), influence_rows(fit))
    if fit.path is not None:
        from dualfl.report.figure import png

        head = ("alpha", "held_out_loss", "std_error", "chosen")
        chosen = np.arange(len(fit.path.values)) == fit.path.chosen
        rows = zip(fit.path.values, fit.path.mean, fit.path.standard_error, chosen.astype(int))
        yield PATH, as_csv(head, ([*map(float, row[:3]), int(row[3])] for row in rows))
        yield PICTURE, png(fit.path.figure())
    told = record(fit, command)
    yield RECORD, as_json(told)
    yield CARD, card(plain(told), fit.wishes.rules.predicting.as_json()).encode()


def as_json(content: Any) -> bytes:
    return (json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def as_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if isinstance(v, float) and np.isnan(v) else v for v in row] for row in rows)
    return text.getvalue().encode()


def describe(fit: Fit) -> dict[str, Any]:
    """model.json: all that prediction needs, and how sure one may be of it."""
    estimator = fit.estimator
    content = {
        "format": FORMAT,
        "dualfl": __version__,
        "recipe": asdict(fit.recipe),
        "rules": fit.wishes.rules.predicting.as_json(),
        "schema": fit.schema.as_json(),
        "outputs": list(fit.outputs),
        "columns": list(fit.schema.names),
        "coefficients": fit.theta[: len(fit.schema.names)].T.tolist(),  # one line an output
        "intercepts": fit.theta[len(fit.schema.names) :].ravel().tolist(),  # of ordered levels the thresholds
        "scaling": {"mean": fit.scaling.mean.tolist(), "spread": fit.scaling.spread.tolist()},
        "rows": own_rows(fit),
        "objective": estimator.objective_,
        "certificate": estimator.certificate_,
        "no certificate because": estimator.certificate_reason_,
    }
    if "time" in fit.schema.roles:
        content["survival"] = survival_of(fit)
    return content | {"digest": digest(content)}


def survival_of(fit: Fit) -> dict[str, Any]:
    """The row that hazards are relative to, and its cumulative hazard over time at the silos that show it."""
    curves = {
        silo: {name: {"times": one.x.tolist(), "hazard": one.y.tolist()} for name, one in strata.items()}
        for silo, strata in fit.more.get("baselines", {}).items()
    }
    return {"centre": fit.scaling.mean.tolist(), "baselines": curves}


def digest(content: dict[str, Any]) -> str:
    """A number for all that a prediction depends on, however the JSON is written."""
    names = (*DECISIVE, "rules") if content.get("format") == FORMAT else DECISIVE
    names = (*names, "survival") if "survival" in content else names
    decisive = json.dumps(plain({name: content.get(name) for name in names}), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(decisive.encode()).hexdigest()


def coefficient_rows(fit: Fit) -> Iterator[list[Any]]:
    """One line a feature and output, as coefficients.csv has them."""
    errors = fit.standard_errors
    quantile = fit.errors.quantile if fit.errors is not None else np.nan
    for k, label in enumerate(fit.outputs):
        for i, name in enumerate(fit.names):
            value = float(fit.theta[i, k])
            error = np.nan if errors is None else float(errors[i, k])
            yield [name, label, value, error, value - quantile * error, value + quantile * error]


def influence_rows(fit: Fit) -> Iterator[list[Any]]:
    for one in fit.without:
        moved = fit.moved(one)
        change = np.full(fit.theta.shape, np.nan) if moved is None else moved
        in_errors = fit.in_errors(change)
        for k, label in enumerate(fit.outputs):
            for i, name in enumerate(fit.names):
                yield [one.silo, name, label, float(change[i, k]), float(in_errors[i, k])]


def history(fit: Fit) -> bytes:
    """What every round cost; for several problems, which of them it was."""
    results = fit.estimator.results_
    if len(results) == 1:
        return results[0].history.to_csv().encode()
    rows = ([f"{label} against the rest", *row] for label, one in zip(fit.outputs, results) for row in one.history)
    return as_csv(("name", *Row._fields), (["" if value is None else value for value in row] for row in rows))


def partition(fit: Fit) -> dict[str, Any]:
    """Who holds how many rows, of which class; silos that withhold it are left out."""
    shown = {silo: own for silo, own in zip(fit.silos, fit.own) if own is not None}
    counts = [own.classes.astype(int).tolist() if fit.schema.classes else [own.rows] for own in shown.values()]
    return {"clients": list(shown), "labels": list(fit.schema.classes) or ["rows"], "counts": counts}


def own_rows(fit: Fit) -> dict[str, int]:
    """Of the silos that show how many they have."""
    return {silo: own.rows for silo, own in zip(fit.silos, fit.own) if own is not None}


def record(fit: Fit, command: str) -> dict[str, Any]:
    """fit.json: how the model was made."""
    estimator, last = fit.estimator, fit.estimator.results_[0].history[-1]
    result = estimator.results_[0]
    several = len(estimator.results_) > 1
    return {
        "command": command,
        "settings": {
            "model": f"{fit.recipe.model}: {fit.recipe.kind.about}",
            **relevant(fit.recipe),
            "standardised": fit.wishes.standardise,
            "missing values": fit.wishes.request.missing,
            "coding of categories": fit.coding,
            "standard errors": f"none: {fit.no_errors}" if fit.errors is None else fit.errors.form,
            "level of the intervals": fit.wishes.level if fit.errors is not None else None,
        },
        "algorithm": {"algorithm": result.algorithm.name, "chosen": estimator.algorithm_},
        "data": {
            "target": fit.schema.target,
            "silos": list(fit.silos),
            "classes": list(fit.schema.classes),
            "rows": fit.rows,
            "columns": [feature.name for feature in fit.schema.features],
            "left out, constant": list(fit.schema.constant),
            "warnings": list(fit.wishes.warnings),
            **{f"rows of {silo}": rows for silo, rows in own_rows(fit).items()},
        },
        "results": {
            "stopped": result.stopped,
            **(totals(fit.spent) if several else with_all(last._asdict(), fit.spent)),
            "round": estimator.n_iter_,
            "best energy": estimator.objective_,
            "certificate": estimator.certificate_,
            "no certificate because": estimator.certificate_reason_,
            "training accuracy": getattr(fit.evaluation.overall, "accuracy", None),
        },
        "statistics": statistics_of(fit),
        "silos": fit.evaluation.table(),
        "coefficients": int(fit.theta.size),
        **for_the_page(fit),
        "environment": environment(),
    }


def statistics_of(fit: Fit) -> dict[str, Any]:
    """What papers print of a fit, by name; and the covariance of the coefficients."""
    content: dict[str, Any] = {}
    found = fit.statistics
    if found is not None:
        plain_fit = fit.recipe.penalty == "none"
        content = {
            "log-likelihood": found.log_likelihood,
            "deviance": found.deviance,
            "null deviance": found.null_deviance,
            "residual degrees of freedom": found.df_residual,
            "null degrees of freedom": found.df_null,
            "parameters": found.parameters,
            "AIC": found.aic if plain_fit else None,
            "BIC": found.bic if plain_fit else None,
            "dispersion": found.dispersion,
            "events": fit.events,
        }
    if fit.errors is not None:
        content |= {
            "errors": fit.errors.form,
            "information": fit.errors.kind,
            "degrees of freedom of the tests": None if np.isinf(fit.errors.df) else fit.errors.df,
            "clusters": fit.errors.clusters,
            "ratio": fit.ratio_name,
            "covariance": fit.errors.covariance.tolist(),
        }
    content |= {"proportional hazards": [[one.name, one.statistic, one.df, one.p] for one in fit.checks] or None}
    known = {name: value for name, value in content.items() if value is not None}
    return {name: value for name, value in known.items() if not isinstance(value, float) or np.isfinite(value)}


def relevant(recipe: Recipe) -> dict[str, Any]:
    """The numbers of the recipe that this model has a use for."""
    kept = ["penalty", "tol"]
    kept += ["alpha"] if recipe.penalty != "none" else []
    kept += ["l1_ratio"] if recipe.penalty == "elastic-net" else []
    kept += [NUMBERS[recipe.model]] if recipe.model in NUMBERS else []
    kept += ["site_effect"] if recipe.site_effect != "none" else []
    kept += ["class_weight"] if recipe.class_weight is not None else []
    return {name: getattr(recipe, name) for name in kept}


# -- reading ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """A model as it was kept: for columns as they are."""

    recipe: Recipe
    schema: Schema
    W: Array  # one row an output
    b: Array
    rules: Rules = USUAL_RULES  # by which new files are read
    survival: Mapping[str, Any] = field(default_factory=dict)  # of a model of hazards

    def estimator(self) -> Fitted:
        return self.recipe.estimator(len(self.schema.classes)).restored(self.W, self.b)

    def to_sklearn(self) -> Any:
        """An estimator of scikit-learn for the columns `schema.names`, with the classes by their names."""
        if self.recipe.site_effect == "fixed":
            raise NotSupported(
                "Every silo of this model has an intercept of its own, which never left it, so no estimator can "
                "predict new rows; fit the model without --site-effect for that."
            )
        added = [f"--{role} {self.schema.roles[role]}" for role in ADDED if role in self.schema.roles]
        if added:
            raise NotSupported(
                f"This model was fitted with {' and '.join(added)}, which estimators of scikit-learn do not take, so "
                "they would predict without it; take `dualfl predict`, or fit without it."
            )
        try:
            made = self.estimator().to_sklearn()
        except NotSupported as error:  # it names a class that nobody has heard of
            raise NotSupported(
                f"scikit-learn has no estimator that predicts as --model {self.recipe.model}."
            ) from error
        made.feature_names_in_ = np.array(self.schema.names, dtype=object)
        if self.schema.classes:
            made.classes_ = np.array(self.schema.classes)
        return made


def sizes(recipe: Recipe, classes: int) -> tuple[int, int]:
    """How many lines of coefficients a model has, and how many intercepts or thresholds."""
    if recipe.model == "ordinal":
        return 1, classes - 1
    outputs = classes if classes > 2 else 1
    return outputs, 0 if recipe.within_silos else outputs


def read(folder: Path) -> Model:
    """The model in a folder, or a sentence that says why there is none."""
    path = folder / MODEL
    if not path.is_file():
        what = "has no model.json" if folder.is_dir() else "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; give the folder that `dualfl fit --out` wrote.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged, it is not JSON ({error}); fit the model again.") from error
    made = content.get("format") if isinstance(content, dict) else None
    if made not in (UNSIGNED, UNRULED, FORMAT) or isinstance(made, bool):
        by = content.get("dualfl", "another program") if isinstance(content, dict) else "another program"
        raise InputError(
            f"{path} has format {made!r}, written by dualfl {by}, and dualfl {__version__} reads formats "
            f"{UNSIGNED} to {FORMAT}; fit the model again, or use dualfl {by}."
        )
    if made != UNSIGNED and content.get("digest") != digest(content):
        raise InputError(f"{path} is not as it was written: somebody has edited it; fit the model again.")
    try:
        recipe, schema = Recipe(**content["recipe"]), Schema.from_json(content["schema"])
        rules = Rules.from_json(content.get("rules", {}))
        W = np.array(content["coefficients"], dtype=np.float64)
        b = np.array(content["intercepts"], dtype=np.float64)
        outputs, intercepts = sizes(recipe, len(schema.classes))
        if W.shape != (outputs, len(schema.names)) or b.shape != (intercepts,) or recipe.model not in MODELS:
            raise ValueError(f"{W.shape} coefficients")
        if content["columns"] != list(schema.names) or not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError("its columns are not those of its coefficients, or one of these is no number")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}); fit the model again.") from error
    return Model(recipe, schema, W, b, rules, content.get("survival", {}))
