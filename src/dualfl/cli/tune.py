"""`dualfl tune`."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import click

from dualfl.cli.command_line import command_line
from dualfl.cli.commands import INTERRUPTED
from dualfl.cli.options import clients_option
from dualfl.cli.plugins import plugin_option
from dualfl.errors import InputError
from dualfl.experiments.settings import RunSettings

HERE = RunSettings()
TABLE, TUNED, CELLS = "table2.csv", "tuned.json", "cells"


@click.command("tune", context_settings={"show_default": True})
@click.option("--dataset", default=HERE.dataset, help="A name from `dualfl datasets`.")
@clients_option
@click.option("--partition", default=HERE.partition, help="How rows are split, such as even or dirichlet:0.5.")
@click.option("--scale", default=HERE.scale, help="Scale of the features: default, raw, or a number.")
@click.option("--loss", default=HERE.loss, help="Loss: auto, softmax, logistic, squared, huber, ...")
@click.option("--ridge", default=HERE.ridge, help="Strength mu of the penalty (mu/2)|theta|^2.")
@click.option("--l1", default=HERE.l1, help="Strength alpha of the penalty alpha |theta|_1.")
@click.option("--seed", default=HERE.seed, help="Seed of random algorithms.")
@click.option("--algorithms", "chosen", help="Names separated by commas.  [default: the eight of the paper's Table 2]")
@click.option(
    "--grid", default="wide", help="paper: the grids of Table 2; wide: each algorithm's grid, and theory's value."
)
@click.option("--criterion", default="area", help="area (mean log10 error over rounds), final, or rounds:1e-4.")
@click.option("--rounds", default=50, help="Communication rounds of the last step.")
@click.option("--solver", default="exact", help="Local solver: exact, as in Figure 1, default, or paper (AOGM).")
@click.option("--budget", type=float, metavar="MINUTES", help="Largest duration of the search.  [default: no limit]")
@click.option("--cell-minutes", default=3.0, help="Largest processor time of a cell, in minutes.")
@click.option("--processes", type=int, help="Cells that run at once.  [default: one per processor]")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: runs/tune-DATASET]")
@plugin_option
@click.pass_context
def tune_command(ctx: click.Context, /, **given: Any) -> None:
    """Search hyperparameters on a grid, as for the paper's Table 2.

    The search uses successive halving. All cells run on 1/8 of the rows for
    half of the rounds, the best third on half of the rows, and the best third
    of those on all rows. The budget is divided 40 : 30 : 30 among these
    steps, and no cell gets more than three times an equal share of its step.
    Finished cells are kept in --out, so the same command continues an
    interrupted search. Writes table2.csv and tuned.json, for `dualfl
    reproduce figure1 --tuned`; values of other algorithms in tuned.json are
    kept.

    \b
    Example:
      dualfl tune --algorithms dualfl,fedpd --budget 5 --out runs/tune
    """
    from dualfl.cli.watching import Watching, check_out
    from dualfl.data import load
    from dualfl.data.problem import how_many
    from dualfl.experiments.cells import Cell, check_minutes
    from dualfl.experiments.store import Store, processors
    from dualfl.experiments.table2 import ALGORITHMS
    from dualfl.experiments.tune import Search, Tuner, known_best, summary, table
    from dualfl.files import write_atomically
    from dualfl.outputs import alone

    out, chosen, budget = given.pop("out"), given.pop("chosen"), given.pop("budget")
    grid, criterion, processes = given.pop("grid"), given.pop("criterion"), given.pop("processes")
    minutes = given.pop("cell_minutes")
    if given["rounds"] < 1:
        raise InputError(f"rounds must be at least 1, but it is {given['rounds']}.")
    check_minutes(minutes)
    data = load(given["dataset"], scale=given["scale"])
    given["clients"] = how_many(data, given["clients"], given["partition"])
    out = Path("runs", f"tune-{Path(given['dataset']).name}") if out is None else out
    check_out(out)
    names = ALGORITHMS if chosen is None else tuple(name.strip() for name in chosen.split(",") if name.strip())
    search = Search(Cell(algorithm="", minutes=minutes, **given), data.n, names, grid, criterion)
    known_best(out / TUNED, search.setting)  # what is not of this problem is refused before hours are spent
    store = Store(out / CELLS)
    with Watching(search.most, 0) as watching:
        tuner = Tuner(
            search, store, budget, processors() if processes is None else processes, watching.tell, click.echo
        )
        try:
            found = tuner.run()
        except KeyboardInterrupt:
            watching.stop()
            click.echo(f"\nInterrupted; finished cells are in {store.folder}, and the same command goes on.", err=True)
            sys.exit(INTERRUPTED)
    lines = table(found, Path(given["dataset"]).name)
    write_atomically(out / TABLE, as_csv(lines).encode())
    fresh = summary(found, search, command_line(ctx, kept=True))
    with alone(out / TUNED, wait=60):  # read again: another search may have written meanwhile
        record = {"setting": search.setting, "best": known_best(out / TUNED, search.setting) | fresh}
        write_atomically(out / TUNED, (json.dumps(record, indent=2) + "\n").encode())
    click.echo(f"\nTable 2 of the paper, and what was found here (grid: {grid}, criterion: {criterion})\n")
    click.echo(as_text(lines) + "\n")
    for best in found:
        click.echo(remark(best))
    if any(best.edge for best in found):
        click.echo("(edge): the best value is the last of its grid, and better ones may lie beyond.")
    click.echo(f"Files in {out}: {TABLE}, {TUNED} and {CELLS}/")


def remark(best: Any) -> str:
    """How good the best cell is, and on how much of the data."""
    if best.tried is None and not best.count:
        return f"  {best.algorithm:<13}   - cells: there was no time for one; give a larger --budget"
    if best.tried is None:
        return f"  {best.algorithm:<13}{best.count:>4} cells, none of which works"
    cell, errors = best.tried.outcome.cell, best.tried.outcome.errors
    part = "" if best.complete else f", on {cell.rows:,} rows only" if cell.rows else ", not all rounds"
    text = f"  {best.algorithm:<13}{best.count:>4} cells, error {errors[-1]:.1e} after {len(errors) - 1} rounds{part}"
    return text + (f"; {best.untried} not tried" if best.untried else "")


def as_csv(lines: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def as_text(lines: list[dict[str, str]]) -> str:
    """The table in 80 columns; an algorithm's name stands once."""
    heads = list(lines[0])
    short = {"hyperparameter": "", "paper MNIST": "paper: MNIST", "paper CIFAR-10": "CIFAR-10"}
    rows = [[short.get(head, head) for head in heads]]
    before = ""
    for line in lines:
        rows.append(["" if line["algorithm"] == before else line["algorithm"], *list(line.values())[1:]])
        before = line["algorithm"]
    widths = [max(len(row[i]) for row in rows) + 2 for i in range(len(heads))]
    return "\n".join("".join(f"{cell:<{w}}" for cell, w in zip(row, widths)).rstrip() for row in rows)
