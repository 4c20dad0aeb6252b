"""A progress bar for anything that may take longer than two seconds; silent where nobody watches."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from dualfl.engines.history import Row


class Bar:
    """Rounds done, and the current error or certificate."""

    def __init__(self, title: str, total: int, show: bool) -> None:
        self.title, self.total = title, total
        self.show = show and sys.stderr.isatty()

    def __enter__(self) -> Self:
        if self.show:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[state]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.show:
            self._bar.stop()

    def update(self, row: Row) -> None:
        if self.show:
            self._bar.update(self._task, completed=row.round, state=describe(row))

    def step(self) -> None:
        """One more of the total is done."""
        if self.show:
            self._bar.advance(self._task)


def describe(row: Row) -> str:
    """The most telling number of a row."""
    if row.relative_error is not None:
        return f"error {row.relative_error:.1e}"
    if row.certificate is not None:
        return f"certified {row.certificate:.1e}"
    return "" if row.energy is None else f"energy {row.energy:.6g}"
