"""`dualfl reproduce matrix`: all algorithms on many problems."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dualfl.cli.command_line import command_line
from dualfl.cli.commands import INTERRUPTED
from dualfl.cli.options import page_option
from dualfl.cli.plugins import plugin_option
from dualfl.cli.watching import Watching, check_out, drawing, finish, shortened, wrapped
from dualfl.errors import InputError

if TYPE_CHECKING:
    from dualfl.experiments.matrix import Matrix
    from dualfl.experiments.matrix_scores import Unfinished
    from dualfl.experiments.network import Network
    from dualfl.experiments.store import Store

CELLS = "cells.zip"  # all finished cells, small enough to keep


@click.command("matrix", context_settings={"show_default": True})
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/matrix"),
    help="Folder of the results.",
)
@click.option(
    "--rows",
    multiple=True,
    metavar="WORD",
    help="Only these rows, such as svm, labels:1, 0.01 or mnist/shuffled; repeatable.",
)
@click.option("--dataset", help="A file or a named set, in the place of the matrix's own problems.")
@click.option("--target", help="The column to predict, if the data are a file.")
@click.option(
    "--clients", type=int, help="Number of clients of --dataset.  [default: 8, or one for each value of column:NAME]"
)
@click.option(
    "--partition", multiple=True, help="How rows of --dataset are split, such as column:hospital; repeatable."
)
@click.option("--only", metavar="NAMES", help="Only these algorithms, separated by commas.  [default: all]")
@click.option("--seeds", default=3, help="Runs of each random method; the median counts.")
@click.option("--full", is_flag=True, help="Every partition with every mu, not one varied at a time.")
@click.option("--whole", is_flag=True, help="All rows of every data set, not 2,000.")
@click.option("--quick", is_flag=True, help="400 rows of every data set.")
@click.option(
    "--tune",
    "tune_minutes",
    type=float,
    metavar="MINUTES",
    help="First search the grids of all methods, for this long for each task and mu; the values are kept in --out.",
)
@click.option("--cell-minutes", type=float, help="Largest processor time of a cell, in minutes.  [default: no limit]")
@click.option(
    "--minutes",
    type=float,
    help="Processor time of all cells together; rows left unfinished are listed.  [default: no limit]",
)
@click.option("--latency", default=0.05, help="Seconds of a round trip, for the map of times.")
@click.option("--bandwidth", default=10.0, help="Megabits per second of each client, for the map of times.")
@click.option("--processes", type=int, help="Cells that run at once.  [default: one per processor]")
@page_option
@plugin_option
@click.pass_context
def matrix_command(ctx: click.Context, /, **given: Any) -> None:
    """All algorithms on many problems beyond the paper's.

    A cell ends at a relative error of 1e-6, at 500 exchanges, or by
    divergence. Counts rounds, exchanges, contacts and floats to 1e-4 and to
    1e-6. Writes matrix.csv, matrix.md, auto.md (`auto` against the others, on
    sixteen networks), unfinished.md (rows of the matrix that are not there),
    heat maps of exchanges and of time on a network, report.html, a page for
    the browser, about.txt and cells.zip. Methods run with theory's values, or
    with those that --tune found.

    \b
    Examples:
      dualfl reproduce matrix --quick --rows svm --out runs/svm
      dualfl reproduce matrix --rows logistic --tune 10 --out runs/logistic
      dualfl reproduce matrix --dataset patients.csv --target outcome
        --partition column:hospital --out runs/patients
    """
    with drawing():
        run_matrix(command_line(ctx, kept=True), **given)


def run_matrix(
    command: str,
    *,
    out: Path,
    rows: Sequence[str] = (),
    dataset: str | None = None,
    target: str | None = None,
    clients: int | None = None,
    partition: Sequence[str] = (),
    only: str | None = None,
    seeds: int = 3,
    full: bool = False,
    whole: bool = False,
    quick: bool = False,
    tune_minutes: float | None = None,
    cell_minutes: float | None = None,
    minutes: float | None = None,
    latency: float = 0.05,
    bandwidth: float = 10.0,
    processes: int | None = None,
    page: bool = True,
) -> None:
    from dualfl.experiments.cells import check_minutes
    from dualfl.experiments.matrix import Matrix, own_task
    from dualfl.experiments.matrix_scores import unfinished
    from dualfl.experiments.matrix_tuning import read_tuned
    from dualfl.experiments.network import Network
    from dualfl.experiments.store import unpack
    from dualfl.outputs import alone

    if whole and quick:
        raise InputError("--whole takes all rows and --quick 400; give one of them.")
    check_minutes(minutes, "minutes")
    network = Network(latency, bandwidth)
    names = tuple(name.strip() for name in (only or "").split(",") if name.strip())
    size = "whole" if whole else "quick" if quick else "small"
    own = None
    if dataset is not None:
        own = own_task(dataset, target, clients, tuple(partition) or ("shuffled",), size)
    elif target is not None or clients is not None or partition:
        raise InputError("--target, --clients and --partition say how --dataset is taken; give that too.")
    matrix = Matrix(tuple(rows), names, cell_minutes, size, seeds, own=own, full=full)
    check_out(out)
    with alone(out):
        if tune_minutes is not None:
            search_values(command, out / "tuned", matrix, tune_minutes, processes)
        matrix = replace(matrix, tuned=read_tuned(out / "tuned", matrix))
        unpack(out / CELLS, out / "cells")
        store, cpu = finish(out, matrix.cells, processes, minutes)
        left = unfinished(replace(matrix, rows=(), only=()), store)
        if minutes is not None:
            matrix = whole_rows(matrix, store)
        draw_matrix(command, out, matrix, store, network, page, cpu, left)


def search_values(command: str, folder: Path, matrix: Matrix, minutes: float, processes: int | None) -> None:
    """Hyperparameters of all methods with grids, for each task and mu."""
    from dualfl.experiments.matrix_tuning import left, search_of, tune
    from dualfl.experiments.store import processors

    check_out(folder)
    cells = sum(search_of(matrix, row).most for row in left(matrix, folder))
    with Watching(cells, 0) as watching:
        try:
            tune(
                matrix,
                folder,
                minutes,
                processes=processors() if processes is None else processes,
                command=command,
                tell=watching.tell,
                say=click.echo,
            )
        except KeyboardInterrupt:
            watching.stop()
            click.echo("\nInterrupted; finished searches and cells are kept, and the same command goes on.", err=True)
            sys.exit(INTERRUPTED)


def whole_rows(matrix: Matrix, store: Store) -> Matrix:
    """What can be drawn when time was up: the rows of which no cell is missing."""
    from dualfl.experiments.matrix_scores import unfinished

    open_rows = {item.row for item in unfinished(matrix, store)}
    done = [row for row in matrix.chosen if row not in open_rows]
    if not done:
        raise InputError("No row is whole yet, so there is nothing to draw; the same command goes on.")
    return matrix.of(done)


def draw_matrix(
    command: str,
    out: Path,
    matrix: Matrix,
    store: Store,
    network: Network,
    page: bool,
    cpu: float,
    left: Sequence[Unfinished],
) -> None:
    from dualfl.experiments import matrix_auto
    from dualfl.experiments.matrix_scores import csv_rows, list_of, markdown, table
    from dualfl.experiments.store import pack
    from dualfl.files import write_atomically
    from dualfl.report.matrix import heat_map
    from dualfl.report.matrix_answers import fastest_figure, problems_figure, profile_figure
    from dualfl.report.reproduction import write_about, write_csv, write_figure
    from dualfl.report.reproduction_page import EXCHANGES, SEED, Part, write_report

    found = table(matrix, store, network)
    # drawn first: if there is nothing to draw, nothing of before is lost
    maps = {
        "exchanges": heat_map(found, about=matrix.about),
        "time": heat_map(found, "seconds", network=str(network), about=matrix.about),
        "profile": profile_figure(found, matrix.about),
        "problems": problems_figure(found, matrix.about),
    }
    write_csv(out / "matrix.csv", csv_rows(found))
    write_atomically(out / "matrix.md", markdown(found, network).encode())
    write_atomically(out / "unfinished.md", list_of(left).encode())
    files = ["matrix.csv", "matrix.md", "unfinished.md"]
    if "auto" in matrix.algorithms:
        runs = matrix_auto.reached(matrix, store)
        write_atomically(out / "auto.md", matrix_auto.markdown(runs).encode())
        files.append("auto.md")
        maps |= {"fastest": fastest_figure(runs, matrix.about)}
    files += [file for name, drawn in maps.items() for file in write_figure(drawn, out / name)]
    notes = [f"{matrix.about[0].upper()}{matrix.about[1:]}."]
    write_about(out, command, cpu, notes)
    pack(store.folder, out / CELLS)
    click.echo("\nFewest exchanges to a relative error of 1e-6:\n")
    for row in found.rows:
        click.echo(best_line(found, row))
    click.echo()
    click.echo(wrapped("Files", f"{', '.join(files)}, {CELLS} and about.txt in {out}"))
    if page:
        curves = {
            row: {name: outcome for name in matrix.algorithms if (outcome := store[matrix.cell(row, name)]).applies}
            for row in matrix.chosen
        }
        parts = [
            Part(f"{row.task} {row.partition} {row.ridge:g}", row.title, outcomes, note=SEED)
            for row, outcomes in curves.items()
        ]
        title = "All algorithms on many problems"
        click.echo(wrapped("Page", str(write_report(out, parts, command, title, EXCHANGES, notes=notes))))


def best_line(found: Any, row: Any) -> str:
    best = found.best(row, 1e-6, "exchanges")
    first = [name for name in found.algorithms if found.scores[row][name][1e-6].exchanges == best]
    result = f"{best:.0f}  {', '.join(first)}" if first else "nobody reached it"
    return shortened(f"{row.title:<50}{result}", 80)
