"""`dualfl report`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The file to write.  [default: DIR/report.html; for several DIR, ./report.html]",
)
@click.option("--title", default="", help="Title of the page.  [default: the algorithm or experiment]")
@click.option("--any-version", is_flag=True, help="Put runs of several versions of dualfl on one page.")
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
def report_command(folders: tuple[Path, ...], out: Path | None, title: str, any_version: bool, show: bool) -> None:
    """Make one page for the browser from one or several runs.

    DIR is a folder that run, compare, reproduce or fit wrote, or a folder
    of such folders. The page is one file that needs no server and no
    network: curves to point at, tables, certificates, who holds which
    rows, coefficients, and the commands that made it.

    \b
    Examples:
      dualfl report runs/digits-dualfl
      dualfl report runs/one runs/two --out both.html
    """
    from dualfl.report.page import write_page

    path = write_page(folders, out, title=title, any_version=any_version)
    click.echo(f"page for the browser: {path}")
    if show:
        click.launch(str(path.absolute()))
