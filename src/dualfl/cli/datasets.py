"""`dualfl datasets`."""

from __future__ import annotations

import click

from dualfl.data.catalogue import DATASETS, Entry
from dualfl.data.files import VARIABLE, data_folders, find


@click.command("datasets")
def datasets_command() -> None:
    """List the data sets and where they were found."""
    click.echo(f"{'data set':<15}{'rows':>8}{'features':>10}{'classes':>9}   where")
    for name, entry in DATASETS.items():
        classes = str(entry.classes) if entry.classes else "real"
        click.echo(f"{name:<15}{entry.rows:>8,}{entry.features:>10,}{classes:>9}   {where(entry)}")
    missing = {name: entry.missing for name, entry in DATASETS.items() if entry.missing}
    if missing:
        click.echo(f"\nMissing files, to be put, plain or as .gz, into a folder that {VARIABLE} names:")
        for name, files in missing.items():
            for number, file in enumerate(files):
                click.echo(f"  {name if number == 0 else '':<13}{file}")
        click.echo("They were looked for in")
        for folder in data_folders():
            click.echo(f"  {folder}")


def where(entry: Entry) -> str:
    if not entry.files:
        return "comes with scikit-learn"
    return "missing, see below" if entry.missing else str(find(entry.files[0]))
