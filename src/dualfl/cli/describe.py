"""`dualfl describe`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dualfl.cli.command_line import check_fresh, connected, fresh_option
from dualfl.cli.reading import check_columns, parts, rules_for, table_options, tell_idle
from dualfl.errors import InputError

if TYPE_CHECKING:
    from dualfl.analysis.tabulating import Description, TableWishes

FORMATS = ("text", "md", "tex", "html", "csv")
SMALL = 5
OPERATORS = ("na", "recode", "decimal", "encoding", "fold_case", "dates", "id")  # how files are read


@click.command("describe", context_settings={"show_default": True})
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
@click.option(
    "--study", metavar="FOLDER", type=click.Path(path_type=Path), help="Describe the silos of this deployment instead."
)
@click.option("--target", default="", help="Leave out rows that have no entry in this column, as a fit does.")
@click.option("--by", metavar="COLUMN", help="Compare the groups of this column instead of the silos.")
@click.option("--cross", multiple=True, metavar="A,B", help="Add a cross table of two columns; repeatable.")
@click.option(
    "--least",
    default=SMALL,
    type=click.IntRange(0, 10_000),
    help="Smallest number of rows that a cell must have to be shown.",
)
@table_options
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Format of the table.")
@click.option("--force", is_flag=True, help="Replace the file --out.")
@fresh_option
@click.option("--out", type=click.Path(path_type=Path), help="The file to write.  [default: print to the screen]")
@click.pass_context
def describe_command(ctx: click.Context, /, **given: Any) -> None:
    """Describe tables, as the first table of a paper does.

    FILE is CSV or Parquet, each a silo. Columns of numbers get their mean,
    standard deviation and quartiles, columns of text the number of rows of
    each level, for each silo and for all. With --by the table compares the
    groups of a column and shows how much they differ. Only sums and
    histograms pass between silos. Cells with fewer rows than --least are
    hidden, and so is whatever would give them away by subtraction.

    \b
    Examples:
      dualfl describe a.csv b.csv c.csv
      dualfl describe a.csv b.csv --by treated --format tex --out table1.tex
      dualfl describe --study study --cross smoker,ward
    """
    from dualfl.files import write_atomically
    from dualfl.fits.table_one import cross_tables, table_one
    from dualfl.outputs import check_file
    from dualfl.report.sheets import rendered

    study, out = given["study"], given["out"]
    check_file(out, given["force"])
    if bool(given["files"]) == (study is not None):
        said = "both were given." if study else "neither was given."
        raise InputError(f"Give files to describe, or --study with the folder of a deployment; {said}")
    check_fresh(given["fresh"], study)
    found = described_files(given) if study is None else described_study(ctx, given)
    text = "\n\n".join(rendered(sheet, given["form"]) for sheet in (table_one(found), *cross_tables(found)))
    if out is None:
        click.echo(text)
        return
    write_atomically(out, f"{text}\n".encode())
    click.echo(f"the table of {found.groups[-1].rows:,} rows: {out}")


def wishes_of(given: dict[str, Any]) -> TableWishes:
    from dualfl.analysis.tabulating import TableWishes
    from dualfl.tables.schema import Request

    rules, _ = rules_for(given, given["files"])
    by = () if given["by"] is None or given["by"] in rules.columns else (given["by"],)  # --columns are those shown
    columns = (*rules.columns, *by) if rules.columns else ()
    request = Request(given["target"], drop=rules.drop, categorical=rules.categorical, columns=columns)
    cut = None if given["study"] else 0  # whoever has the files has no secret from himself
    return TableWishes(request, given["by"], tuple(map(pair, given["cross"])), given["least"], cut)


def pair(text: str) -> tuple[str, str]:
    names = parts("--cross", text)
    if len(names) != 2:
        raise InputError(f"--cross takes two columns, such as smoker,ward, but it is {text!r}.")
    return names[0], names[1]


def described_files(given: dict[str, Any]) -> Description:
    from dualfl.analysis.tabulating import describe_tables
    from dualfl.tables.reading import read_tables

    wishes = wishes_of(given)
    named = [given["target"], given["by"], *(name for both in wishes.crosses for name in both)]
    _, each = rules_for(given, given["files"])
    tables = read_tables(given["files"], each, tuple(name for name in named if name))
    check_columns(each, tables)
    tell_idle(given, given["files"], tables)
    return describe_tables(tables, wishes)


def described_study(ctx: click.Context, given: dict[str, Any]) -> Description:
    for option in OPERATORS:
        if ctx.get_parameter_source(option) is not ParameterSource.DEFAULT:
            raise InputError(
                f"--{option.replace('_', '-')} says how a file is read, and with --study that is the operators' to "
                "say, in silo.json; leave it out."
            )
    return connected(given["study"], given["fresh"]).describe(wishes_of(given))
