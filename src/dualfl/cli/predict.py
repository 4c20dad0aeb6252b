"""`dualfl predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dualfl.cli.reading import rules_for, spelling_options, tell_idle
from dualfl.errors import InputError


@click.command("predict", context_settings={"show_default": True})
@click.argument("folder", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--unseen",
    type=click.Choice(["error", "baseline"]),
    default="error",
    help="Unknown levels: refuse them, or count them as the reference level.",
)
@click.option(
    "--id", "id", multiple=True, metavar="COLUMN", help="Keep this column beside the predictions; repeatable."
)
@click.option("--at", metavar="TIME,...", help="For cox: probabilities to survive these times.")
@click.option("--silo", metavar="NAME", help="For cox: the silo whose baseline hazard is used, or NAME:STRATUM.")
@spelling_options
@click.option("--force", is_flag=True, help="Replace the file --out.")
@click.option("--out", type=click.Path(path_type=Path), help="The file to write.  [default: print to the screen]")
def predict_command(folder: Path, file: Path, unseen: str, force: bool, out: Path | None, **given: Any) -> None:
    """Predict the rows of a file with a model.

    MODEL is a folder that `dualfl fit` wrote, FILE a CSV or Parquet file
    with the same columns; it need not have the target. The result is CSV:
    the number of the row, its identifier (--id, here or in the fit), the
    prediction, and the probability of each class (for support vector
    machines, the decision value). For a Cox model the prediction is the
    hazard relative to a row of means. Gaps, numbers, levels and dates are
    read as in the fit, unless options say otherwise. A message says how many
    gaps were filled, and how many unknown levels became the reference level.

    \b
    Example:
      dualfl predict model new.csv --out predictions.csv
    """
    from dualfl.files import write_atomically
    from dualfl.fits.model_folder import as_csv, read
    from dualfl.fits.predicting import predictions, substitutions
    from dualfl.names import nearest
    from dualfl.outputs import check_file
    from dualfl.tables.reading import read_table
    from dualfl.tables.roles import ADDED

    check_file(out, force)
    model = read(folder)
    rules, _ = rules_for(given, [file], model.rules)
    roles = [name for role, name in model.schema.roles.items() if role in ADDED]
    table = read_table(file, rules, [*(feature.name for feature in model.schema.features), *roles])
    for name in given["id"]:
        if name not in table.ids:
            raise InputError(f"{file}: {nearest('column', name, (*table.columns, *table.left_out))}")
    tell_idle(given, [file], [table])
    text = as_csv(*predictions(model, table, unseen, times(given["at"]), given["silo"]))
    if said := substitutions(model, table):
        click.echo(said, err=True)
    if out is None:
        click.echo(text.decode(), nl=False)
        return
    write_atomically(out, text)
    click.echo(f"predictions of {table.rows:,} rows: {out}")


def times(text: str | None) -> tuple[float, ...]:
    try:
        found = () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (-1.0,)
    if not all(0 <= time < float("inf") for time in found):
        raise InputError(f"--at must be times of 0 or more, such as 365,730, but it is {text!r}.")
    return found
