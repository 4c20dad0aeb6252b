"""`dualfl datasets`."""

from __future__ import annotations

import click

from dualfl.data.catalogue import DATASETS, Entry
from dualfl.data.files import VARIABLE, data_folders, find


@click.command("datasets", context_settings={"show_default": True})
@click.argument("name", required=False)
@click.option("--partition", default="even", help="Who gets which rows, such as shuffled or dirichlet:0.5.")
@click.option("--clients", default=8, help="Number of clients.")
@click.option("--seed", default=0, help="Of the partition.")
def datasets_command(name: str | None, partition: str, clients: int, seed: int) -> None:
    """List the data sets and where they were found, or show who has what.

    With NAME: the labels that each client has under a partition.

    \b
    Example:
      dualfl datasets digits --partition dirichlet:0.5 --clients 8
    """
    if name is not None:
        show(name, partition, clients, seed)
        return
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


def show(name: str, partition: str, clients: int, seed: int) -> None:
    """One data set and the picture of a partition."""
    from dualfl.data import Mix, load, rows_of_clients

    data = load(name)
    mix = Mix.of(data, rows_of_clients(data, clients, partition, seed))
    click.echo(f"{data}, from {data.source}")
    click.echo(f"{clients:,} clients, {partition}, seed {seed}\n")
    click.echo(mix.picture())


def where(entry: Entry) -> str:
    if not entry.files:
        return "comes with scikit-learn"
    return "missing, see below" if entry.missing else str(find(entry.files[0]))
