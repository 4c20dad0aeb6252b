"""`dualfl compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dualfl.cli.main import INTERRUPTED
from dualfl.cli.options import problem_options
from dualfl.errors import InputError


@click.command("compare", context_settings={"show_default": True})
@problem_options
@click.option("--algorithms", "chosen", default="dualfl,fedpd,scaffnew,lbfgs", help="Names with commas, or all.")
@click.option("--rounds", default=50, help="Communication rounds of each.")
@click.option("--seconds", type=float, help="At most so long in rounds, each.")
@click.option("--threads", type=int, help="At most so many.  [default: one a processor]")
@click.option("--force", is_flag=True, help="Replace what --out has.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: runs/DATASET-comparison]"
)
def compare_command(chosen: str, out: Path | None, force: bool, threads: int | None, **given: Any) -> None:
    """Compare algorithms on one problem under one account.

    All start at zero with the defaults that theory gives them. Writes
    summary.csv (one row an algorithm), history.csv and convergence.png.

    \b
    Example:
      dualfl compare --algorithms dualfl,fedpd,lbfgs --out runs/three
    """
    from dualfl.algorithms.registry import ALGORITHMS, make
    from dualfl.data import load, make_problem, reference
    from dualfl.experiments.compare import Entry, compare
    from dualfl.report.comparison import HISTORY, PICTURE, SUMMARY, line, table, write

    names = list(ALGORITHMS) if chosen == "all" else [name.strip() for name in chosen.split(",") if name.strip()]
    algorithms = [make(name) for name in names]
    out = Path("runs", f"{given['dataset']}-comparison") if out is None else out
    there = [name for name in (SUMMARY, HISTORY, PICTURE) if (out / name).exists()]
    if there and not force:
        raise InputError(f"{out} has results already ({', '.join(there)}); give another --out, or --force.")
    dataset = load(given["dataset"], scale=given["scale"])
    problem = make_problem(
        dataset,
        given["clients"],
        given["partition"],
        given["ridge"],
        given["loss"],
        given["seed"],
        l1=given["l1"],
    )

    def tell(entry: Entry) -> None:
        if sys.stderr.isatty():
            click.echo(line(entry), err=True)

    result = compare(
        problem,
        algorithms,
        rounds=given["rounds"],
        seconds=given["seconds"],
        seed=given["seed"],
        reference=reference(problem),
        threads=threads,
        progress=True,
        tell=tell,
    )
    title = f"{given['dataset']}, {given['clients']} clients ({given['partition']}), ridge {given['ridge']:g}"
    written = write(result, out, title)
    click.echo(f"{title}; defaults from theory\n")
    click.echo(table(result))
    click.echo(f"\nfiles in {out}: {', '.join(written)}")
    if any(entry.result is not None and entry.result.stopped == "interrupted" for entry in result):
        sys.exit(INTERRUPTED)
