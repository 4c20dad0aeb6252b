"""Running the cells of an experiment while somebody watches."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dualfl.cli.commands import INTERRUPTED
from dualfl.errors import InputError
from dualfl.outputs import check_folder

if TYPE_CHECKING:
    from dualfl.experiments.cells import Cell, Outcome
    from dualfl.experiments.store import Store


class Enough(Exception):
    """The time that was given for all cells is spent."""


def finish(
    out: Path, cells: Sequence[Cell], processes: int | None, minutes: float | None = None
) -> tuple[Store, float]:
    """Run the cells that are missing in `out`, for `minutes` of a processor; the store, and the processor time of all
    cells that it has."""
    from dualfl.experiments.store import Store, processors, run_all

    workers = processors() if processes is None else processes
    if workers < 1:
        raise InputError(f"processes must be at least 1, but it is {workers}.")
    check_out(out)
    store = Store(out / "cells")
    cells = list(dict.fromkeys(cells))
    missing = store.missing(cells)
    click.echo(f"{len(cells)} cells; {len(cells) - len(missing)} found in {out / 'cells'}, {len(missing)} to run.")
    spent = 0.0
    with Watching(len(cells), len(cells) - len(missing)) as watching:

        def tell(cell: Cell, outcome: Outcome) -> None:
            nonlocal spent
            spent += outcome.cpu
            watching.tell(cell, outcome)
            if minutes is not None and spent > 60 * minutes:
                raise Enough

        try:
            run_all(store, missing, processes=workers, tell=tell)
        except Enough:
            watching.stop()
            click.echo(f"The {minutes:g} minutes are up; the same command goes on.")
        except KeyboardInterrupt:
            watching.stop()
            kept = len(cells) - len(store.missing(cells))
            click.echo(f"\nInterrupted; {kept} of {len(cells)} cells are kept, and the same command goes on.", err=True)
            sys.exit(INTERRUPTED)
    return store, sum(found.cpu for cell in cells if (found := store.get(cell)) is not None)


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Says what is left when somebody interrupts after the cells were run."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nInterrupted; all cells are kept, and the same command draws them.", err=True)
        sys.exit(INTERRUPTED)


def check_out(out: Path) -> None:
    """That results can be written there, before hours have gone into them."""
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)


class Watching:
    """A bar where somebody watches, a line a cell where a file does."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done, self.began = total, done, time.monotonic()
        self.bar: Any = None

    def __enter__(self) -> Watching:
        if sys.stderr.isatty() and self.done < self.total:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self.bar = Progress(
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task("the first cells", total=self.total, completed=self.done)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def tell(self, cell: Cell, outcome: Outcome) -> None:
        self.done += 1
        known = outcome.status == "ok" and len(outcome.errors)
        ending = f"{outcome.errors[-1]:.1e}" if known else outcome.status
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, description=f"last: {ending}  {cell.label}")
        else:
            elapsed = time.monotonic() - self.began
            head = f"{self.done}/{self.total} {elapsed:.0f} s  "
            click.echo(shortened(f"{head}{shortened(ending, 30)}  {cell.label}", 80), err=True)


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def wrapped(label: str, text: str) -> str:
    import textwrap

    return textwrap.fill(f"{label}: {text}", 80, subsequent_indent="  ", break_on_hyphens=False)
