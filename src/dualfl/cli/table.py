"""`dualfl table`."""

from __future__ import annotations

from pathlib import Path

import click

FORMATS = ("text", "md", "tex", "html", "csv")


@click.command("table", context_settings={"show_default": True})
@click.argument("folders", nargs=-1, required=True, metavar="MODEL...", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Format of the table.")
@click.option("--force", is_flag=True, help="Replace the file --out.")
@click.option("--out", type=click.Path(path_type=Path), help="The file to write.  [default: print to the screen]")
def table_command(folders: tuple[Path, ...], form: str, force: bool, out: Path | None) -> None:
    """Print the coefficients of a model as a table for a paper.

    MODEL is a folder that `dualfl fit` wrote. The table of one model has
    coefficients, standard errors, ratios with their intervals and p-values;
    several models are shown side by side. `tex` needs the package
    booktabs.

    \b
    Examples:
      dualfl table model --format tex --out table2.tex
      dualfl table crude adjusted --format md
    """
    from dualfl.files import write_atomically
    from dualfl.fits.model_table import folder_table
    from dualfl.outputs import check_file

    check_file(out, force)
    text = folder_table(folders, form)
    if out is None:
        click.echo(text, nl=False)
        return
    write_atomically(out, text.encode())
    click.echo(f"the table: {out}")
