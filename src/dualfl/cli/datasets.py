"""`dualfl datasets`."""

from __future__ import annotations

import textwrap

import click

from dualfl.cli.options import clients_option
from dualfl.data.catalogue import DATASETS, Entry
from dualfl.data.download import OFFLINE
from dualfl.data.folders import VARIABLE, data_folders

WIDTH = 80


@click.command("datasets", context_settings={"show_default": True})
@click.argument("name", required=False)
@click.option("--target", help="The column to predict, if NAME is a file.")
@click.option("--partition", default="even", help="How rows are split, such as shuffled or dirichlet:0.5.")
@clients_option
@click.option("--seed", default=0, help="Seed of the partition.")
def datasets_command(name: str | None, target: str | None, partition: str, clients: int | None, seed: int) -> None:
    """List the data sets and where they were found, or show a partition.

    With NAME, or the path of a file, it shows the labels that each client has.

    \b
    Example:
      dualfl datasets digits --partition dirichlet:0.5 --clients 8
    """
    if name is not None:
        show(name, target, partition, clients, seed)
        return
    click.echo(f"{'data set':<15}{'rows':>8}{'features':>10}{'classes':>9}   where")
    for known, entry in DATASETS.items():
        classes = str(entry.classes) if entry.classes else "real"
        click.echo(beside(f"{known:<15}{entry.rows:>8,}{entry.features:>10,}{classes:>9}   ", where(entry)))
    click.echo("\nA file of your own is a data set too: CSV, Parquet, .npz, .npy, LIBSVM, IDX.")
    damaged = {path: why for entry in DATASETS.values() for path, why in entry.damaged.items()}
    if damaged:
        click.echo("\nDamaged, or not what the name says. Get it again; or remove it, and the next use")
        click.echo(f"downloads it, unless {OFFLINE}=1:")
        for path, why in damaged.items():
            click.echo(f"  {path}\n    {why}")
    missing = {known: entry for known, entry in DATASETS.items() if entry.missing}
    if missing:
        click.echo(f"\nNot there yet. The first use downloads them, unless {OFFLINE}=1;")
        click.echo(f"or put them, plain or as .gz, into a folder that {VARIABLE} names:")
        for known, entry in missing.items():
            click.echo(hint(known, entry))
        click.echo("They were looked for in")
        for folder in data_folders():
            click.echo(f"  {folder}")


def beside(head: str, place: str) -> str:
    """One line if 80 columns are enough; paths are not broken, so a long one has a line of its own."""
    return head + place if len(head + place) <= WIDTH else f"{head.rstrip()}\n  {place}"


def hint(name: str, entry: Entry) -> str:
    """Which files are missing, and where each can be had; an address is not broken either."""
    files = ", ".join(entry.missing[:2]) + (", ..." if len(entry.missing) > 2 else "")
    lines = _wrapped(f"{name}: {files}", "", "  ")
    for download in entry.downloads:
        lines += [f"  {download.urls[0]}", *_wrapped(download.about, "    ", "    ")]
    return "\n".join(lines)


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def show(name: str, target: str | None, partition: str, clients: int | None, seed: int) -> None:
    """One data set and the picture of a partition."""
    from dualfl.data import Mix, load, rows_of_clients

    data = load(name, target=target)
    mix = Mix.of(data, rows_of_clients(data, clients, partition, seed))
    click.echo(beside(f"{data.title}, from ", data.source))
    click.echo(f"{len(mix.counts):,} clients, {partition}, seed {seed}\n")
    click.echo(mix.picture())


def where(entry: Entry) -> str:
    if not entry.files:
        return "comes with scikit-learn"
    if entry.found is None:
        return "not there yet, see below"
    return "damaged, see below" if entry.damaged else str(entry.found[0])
