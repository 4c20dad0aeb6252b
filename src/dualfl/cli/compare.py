"""`dualfl compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dualfl.cli.commands import INTERRUPTED
from dualfl.cli.options import page_option, problem_options
from dualfl.cli.plugins import plugin_option
from dualfl.cli.run import command_line
from dualfl.errors import InputError

if TYPE_CHECKING:
    from dualfl.algorithms.contract import Algorithm


@click.command("compare", context_settings={"show_default": True})
@problem_options
@click.option(
    "--algorithms", "chosen", default="dualfl,fedpd,scaffnew,lbfgs", help="Names separated by commas, or all."
)
@click.option("--rounds", default=50, help="Communication rounds of each algorithm.")
@click.option("--seconds", type=float, help="Largest number of seconds for the rounds of each.")
@click.option("--threads", type=int, help="Largest number of threads.  [default: one per processor]")
@click.option("--force", is_flag=True, help="Replace the results in --out.")
@page_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: runs/DATASET-comparison]"
)
@plugin_option
@click.pass_context
def compare_command(
    ctx: click.Context, /, chosen: str, out: Path | None, force: bool, threads: int | None, page: bool, **given: Any
) -> None:
    """Compare algorithms on one problem.

    All algorithms start at zero with their defaults from theory. Writes
    summary.csv (one row per algorithm), history.csv, convergence.png and
    report.html, a page for the browser.

    \b
    Example:
      dualfl compare --algorithms dualfl,fedpd,lbfgs --out runs/three
    """
    from dualfl.algorithms.registry import ALGORITHMS, make
    from dualfl.outputs import alone, check_folder
    from dualfl.report.comparison import FILES
    from dualfl.report.folder import check_names

    names = list(ALGORITHMS) if chosen == "all" else [name.strip() for name in chosen.split(",") if name.strip()]
    algorithms = [make(name) for name in names]
    out = Path("runs", f"{Path(given['dataset']).name}-comparison") if out is None else out
    check_folder(out)
    with alone(out):
        there = check_names(out, FILES)
        if there and not force:
            raise InputError(f"{out} has results already ({', '.join(there)}); give another --out, or --force.")
        perform(algorithms, out, command_line(ctx), threads, page, given)


def perform(
    algorithms: list[Algorithm],
    out: Path,
    command: str,
    threads: int | None,
    page: bool,
    given: dict[str, Any],
) -> None:
    """Compare, write the files, print the table; leave with 130 if somebody interrupted it."""
    from dualfl.data import Mix, load, make_problem, rows_of_clients
    from dualfl.experiments.compare import Entry, compare
    from dualfl.optimum import reference
    from dualfl.outputs import adding
    from dualfl.report.comparison import FILES, RECORD, line, table, write, write_record
    from dualfl.report.page import write_page
    from dualfl.report.results import REPORT

    dataset = load(given["dataset"], scale=given["scale"], target=given["target"], task=given["task"])
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
    title = f"{dataset.name}, {given['clients']} clients ({given['partition']}), ridge {given['ridge']:g}"
    mix = Mix.of(dataset, rows_of_clients(dataset, given["clients"], given["partition"], given["seed"]))
    with adding(out, RECORD, FILES) as folder:
        written = [*write(result, folder, title), *write_record(folder, command, given, mix)]
        if page:
            written.append(write_page([folder]).name)
    click.echo(f"{title}; defaults from theory\n")
    click.echo(table(result))
    click.echo(f"\nfiles in {out}: {', '.join(written)}")
    if page:
        click.echo(f"page for the browser: {out / REPORT}")
    if any(entry.result is not None and entry.result.stopped == "interrupted" for entry in result):
        sys.exit(INTERRUPTED)
