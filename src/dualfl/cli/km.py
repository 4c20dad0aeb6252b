"""`dualfl km`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dualfl.cli.command_line import check_fresh, connected, fresh_option
from dualfl.cli.reading import check_columns, rules_for, table_options, tell_idle
from dualfl.errors import InputError

if TYPE_CHECKING:
    from dualfl.analysis.survival_curves import Curves, CurveWishes

OPERATORS = ("na", "recode", "decimal", "encoding", "fold_case", "dates", "id")  # how files are read
LINES = 10  # of a curve, on the screen


@click.command("km", context_settings={"show_default": True})
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
@click.option(
    "--study", metavar="FOLDER", type=click.Path(path_type=Path), help="Use the silos of this deployment instead."
)
@click.option("--time", required=True, metavar="COLUMN", help="When the event happened, or the row was last seen.")
@click.option("--event", required=True, metavar="COLUMN", help="1 if the event happened, 0 if the row was censored.")
@click.option("--entry", metavar="COLUMN", help="When observation of the row began.")
@click.option("--strata", metavar="COLUMN", help="For the log-rank test: compare only rows with the same label.")
@click.option("--by", metavar="COLUMN", help="Draw a curve for each level of this column, and test them.")
@click.option("--until", type=float, help="Where curves end.  [default: where nearly nobody is at risk]")
@click.option("--intervals", default=100, help="Number of intervals of the time grid.")
@click.option(
    "--least",
    default=5,
    type=click.IntRange(0, 10_000),
    help="Smallest number of events, or of rows that leave, in a cell.",
)
@click.option("--level", default=0.95, help="Confidence level of the bands.")
@table_options
@click.option("--force", is_flag=True, help="Replace the files --out and --plot.")
@fresh_option
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the curves here, as PNG.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the curves here, as CSV.")
@click.pass_context
def km_command(ctx: click.Context, /, **given: Any) -> None:
    """Draw Kaplan-Meier curves of all silos together, and compare them.

    FILE is CSV or Parquet, each a silo. Silos send how many rows are at
    risk and how many events there are on a common grid of times, so the
    curves are approximate. Cells with fewer than --least events are joined
    with their neighbours. The log-rank test stratified by silo is exact. No
    event time leaves a silo.

    \b
    Examples:
      dualfl km a.csv b.csv --time days --event died --by treatment
      dualfl km --study study --time days --event died --out curves.csv
    """
    from dualfl.files import write_atomically
    from dualfl.fits.curve_text import as_rows, curve_text, drawn
    from dualfl.fits.model_folder import as_csv
    from dualfl.outputs import check_file

    study = given["study"]
    for path in (given["out"], given["plot"]):
        check_file(path, given["force"])
    if bool(given["files"]) == (study is not None):
        said = "both were given." if study else "neither was given."
        raise InputError(f"Give files, or --study with the folder of a deployment; {said}")
    check_fresh(given["fresh"], study)
    found = curves_of_files(given) if study is None else curves_of_study(ctx, given)
    files = {"curves": given["out"], "picture": given["plot"]}
    for what, path in files.items():  # before anything is said, so that whoever reads only its head has them, too
        if path is not None:
            write_atomically(path, drawn(found) if what == "picture" else as_csv(*as_rows(found)))
    click.echo(
        "\n\n".join([curve_text(found, LINES), *(f"the {what}: {path}" for what, path in files.items() if path)])
    )


def wishes_of(given: dict[str, Any]) -> CurveWishes:
    from dualfl.analysis.survival_curves import CurveWishes
    from dualfl.tables.schema import Request

    roles = {role: given[role] for role in ("time", "entry", "strata") if given[role] is not None}
    if given["by"] in (given["event"], *roles.values()):
        raise InputError(f"--by {given['by']!r} is the time, the event, or another role already; take another column.")
    rules, _ = rules_for({**given, "columns": ()}, given["files"])
    columns = (given["by"] if given["by"] is not None else given["time"],)
    categorical = tuple(name for name in rules.categorical if name == given["by"])
    request = Request(given["event"], False, categorical=categorical, columns=columns, roles=roles)
    return CurveWishes(request, given["by"], given["until"], given["intervals"], given["least"], given["level"])


def curves_of_files(given: dict[str, Any]) -> Curves:
    from dualfl.analysis.survival_curves import curves_of_tables
    from dualfl.tables.reading import read_tables

    wishes = wishes_of(given)
    _, each = rules_for({**given, "columns": ()}, given["files"])
    needed = tuple(name for name in (given["event"], given["by"], *wishes.request.roles.values()) if name)
    tables = read_tables(given["files"], each, needed)
    check_columns(each, tables)
    tell_idle(given, given["files"], tables)
    return curves_of_tables(tables, wishes)


def curves_of_study(ctx: click.Context, given: dict[str, Any]) -> Curves:
    for option in OPERATORS:
        if ctx.get_parameter_source(option) is not ParameterSource.DEFAULT:
            raise InputError(
                f"--{option.replace('_', '-')} says how a file is read, and with --study that is the operators' to "
                "say, in silo.json; leave it out."
            )
    return connected(given["study"], given["fresh"]).curves(wishes_of(given))
