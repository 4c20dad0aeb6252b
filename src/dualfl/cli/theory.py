"""`dualfl theory`: every statement of the paper, what was measured, and whether it holds."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dualfl.errors import InputError
from dualfl.files import write_atomically
from dualfl.outputs import check_file
from dualfl.theory import Check, run_all

WIDTH = 80


@click.command("theory")
@click.option("--only", metavar="TEXT", help="Only statements whose name contains TEXT, such as 6.5.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the table as JSON.")
def theory_command(only: str | None, json_file: Path | None) -> None:
    """Measure every statement of the DualFL paper. The exit code is 1 if one does not hold.

    \b
    Example:
      dualfl theory --only 6.5
    """
    check_file(json_file, force=True)
    if only is not None and not only.strip():
        raise InputError(f"--only {only!r} is blank; give a part of a statement's name, such as 6.5.")
    found = measure(only or "")
    if not found:
        raise InputError(f"No statement's name contains {only!r}; `dualfl theory` shows them all.")
    if json_file is not None:
        write_atomically(json_file, (json.dumps([as_json(check) for check in found], indent=1) + "\n").encode())
    Console(width=WIDTH, highlight=False).print(table(found))
    failed = sum(not check.holds for check in found)
    seconds = sum(check.seconds for check in found)
    click.echo(f"{len(found)} measurements, {failed} outside their bounds, {seconds:.0f} s.")
    if failed:
        sys.exit(1)


def measure(only: str) -> list[Check]:
    """Run the statements, with a bar on stderr where somebody watches it."""
    with Progress(
        TextColumn("{task.description:<27}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task("", total=None)

        def report(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        return run_all(report, only)


def table(found: list[Check]) -> Table:
    view = Table(width=WIDTH, box=None, pad_edge=False, padding=(0, 1))
    view.add_column("measured", ratio=1)
    view.add_column("value", justify="right", no_wrap=True)
    view.add_column("bound", no_wrap=True)
    view.add_column("", no_wrap=True)
    view.add_column("s", justify="right", no_wrap=True)
    statement = ""
    for check in found:
        if check.statement != statement:
            statement = check.statement
            view.add_row(f"[bold]{statement}[/bold]")
        verdict = "holds" if check.holds else "[bold red]FAILS[/bold red]"
        seconds = f"{check.seconds:.1f}" if check.seconds >= 0.05 else ""
        view.add_row(
            "  " + check.measured.replace("[", r"\["),
            number(check.value),
            f"{check.relation} {number(check.bound)}",
            verdict,
            seconds,
        )
    return view


def number(x: float) -> str:
    """Four digits near 1, where factors of convergence live; three elsewhere."""
    return f"{x:.4g}" if 0.5 < abs(x) < 1 else f"{x:.3g}"


def as_json(check: Check) -> dict[str, object]:
    """JSON has neither infinity nor NaN."""
    fields = check.as_dict()
    return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in fields.items()}
