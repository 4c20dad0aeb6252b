"""`dualfl evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from dualfl.cli.command_line import check_fresh, connected, fresh_option
from dualfl.cli.reading import rules_for, spelling_options, tell_idle
from dualfl.errors import InputError


@click.command("evaluate", context_settings={"show_default": True})
@click.argument("folder", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
@click.option(
    "--study", metavar="FOLDER", type=click.Path(path_type=Path), help="Evaluate on the silos of this deployment."
)
@click.option("--bins", type=click.IntRange(10, 1_000_000), default=1000, help="Bins of the scores, for the ROC curve.")
@click.option(
    "--unseen",
    type=click.Choice(["error", "baseline"]),
    default="error",
    help="Unknown levels: refuse them, or count them as the reference level.",
)
@spelling_options
@click.option("--digest", is_flag=True, help="Print the digest by which a plan names the model to operators.")
@click.option("--force", is_flag=True, help="Replace the file --out.")
@fresh_option
@click.option("--out", type=click.Path(path_type=Path), help="Write the numbers and the curves here, as JSON.")
def evaluate_command(
    folder: Path,
    files: tuple[Path, ...],
    study: Path | None,
    bins: int,
    unseen: str,
    digest: bool,
    force: bool,
    fresh: bool,
    out: Path | None,
    **given: Any,
) -> None:
    """Evaluate a model on files, each a silo, and on all of them together.

    MODEL is a folder that `dualfl fit` wrote; each FILE has the columns of
    the model and the target. With --study the silos are those of a
    deployment, with the rows of 'held_out' in their silo.json, or of
    'data' if there is none. Silos send sums and histograms, so the area
    under the ROC curve has an error, and its bound is printed.

    \b
    Examples:
      dualfl evaluate model new_a.csv new_b.csv
      dualfl evaluate model --study study
      dualfl evaluate model --digest
    """
    from dualfl.files import write_atomically
    from dualfl.fits.model_folder import as_json, read
    from dualfl.fits.predicting import evaluate_model
    from dualfl.outputs import check_file
    from dualfl.tables.reading import read_tables

    check_file(out, force)
    if digest:
        click.echo(digest_of(read(folder)))
        return
    if bool(files) == (study is not None):
        said = "both were given." if study else "neither was given."
        raise InputError(f"Give files with rows to evaluate, or --study with the folder of a deployment; {said}")
    model = read(folder)
    check_fresh(fresh, study)
    if study is None:
        _, rules = rules_for(given, files, model.rules)
        tables = read_tables(files, rules)
        tell_idle(given, files, tables)
        evaluation, lost = evaluate_model(model, tables, unseen, bins)
    else:
        evaluation, lost = connected(study, fresh).evaluate(model, bins, unseen), 0
    if out is not None:
        write_atomically(out, as_json(details(evaluation, model.schema.classes)))
    click.echo("\n".join(lines(evaluation, model, bins, lost, study is not None)))
    if out is not None:
        click.echo(f"\nthe numbers and the curves: {out}")


def digest_of(model: Any) -> str:
    from dualfl.analysis.descriptions import ModelEvaluation
    from dualfl.federation.plan_in_words import digest_of_model

    described = ModelEvaluation.of(model).as_json()
    return digest_of_model(described["predictor"], described["schema"])


def details(evaluation: Any, classes: tuple[str, ...]) -> dict[str, Any]:
    """Numbers of every silo; ROC curve and calibration of all rows together."""
    content: dict[str, Any] = {"silos": evaluation.table()}
    if not hasattr(evaluation.overall, "auc"):
        return content
    curves = []
    total = evaluation.overall
    for k, name in enumerate(classes[1:] if len(classes) == 2 else classes):
        fpr, tpr = (values.tolist() for values in total.roc(k))
        predicted, observed, rows = (values.tolist() for values in total.calibration(k))
        curves.append(
            {
                "class": name,
                "roc": {"false positive rate": fpr, "true positive rate": tpr},
                "calibration": {"predicted": predicted, "observed": observed, "rows": rows},
            }
        )
    return {**content, "bins": total.bins, "curves": curves}


HELD_OUT = "Rows of each silo: those of 'held_out' in its silo.json, or its data file."


def lines(evaluation: Any, model: Any, bins: int, lost: int, far: bool) -> list[str]:
    from dualfl.fits.console import NAME
    from dualfl.lines import short, table

    target, classes = short(model.schema.target, NAME), model.schema.classes
    found = evaluation.table()
    keys = [key for key in found["overall"] if key not in ("auc_error", "deviance")]
    keys += ["deviance"] if model.recipe.model == "poisson" else []  # other models have other losses
    rows = [[name, *(number(key, line.get(key, np.nan)) for key in keys)] for name, line in found.items()]
    text = [
        f"{model.recipe.model} of {target}" + (f"; {lost:,} row{'s' * (lost > 1)} without it left out" if lost else ""),
        *([HELD_OUT] if far else []),
        "",
    ]
    text += table(["silo", *(key.replace("_", " ") for key in keys)], rows)
    total = evaluation.overall
    if not hasattr(total, "auc"):
        return text
    if np.isfinite(total.auc):
        text += ["", f"auc from {bins:,} bins, {f'within {total.auc_error:.1g}' if total.auc_error else 'exact'}."]
    if np.isfinite(total.log_loss):
        text += ["", *calibration(total, classes)]
    return text


def number(key: str, value: float) -> str:
    if key in ("rows", "events"):
        return f"{value:,.0f}"
    return f"{value:.4g}" if np.isfinite(value) else "-"


def calibration(total: Any, classes: tuple[str, ...]) -> list[str]:
    """Whether rows that were given a probability of 0.3 are so in three of ten cases."""
    from dualfl.lines import table

    shown = list(enumerate(classes[1:] if len(classes) == 2 else classes))
    rows = []
    for k, name in shown:
        for predicted, observed, mass in zip(*total.calibration(k)):
            rows.append([name, f"{mass:,.0f}", f"{predicted:.3f}", f"{observed:.3f}"])
    return table(["calibration, class", "rows", "predicted", "observed"], rows)
