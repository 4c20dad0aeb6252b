"""The files of a reproduced experiment: pictures in two formats, tables behind them, and what made them."""

from __future__ import annotations

import csv
import io
import platform
import textwrap
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualfl.experiments.claims import Verdict
from dualfl.files import write_atomically
from dualfl.report.figure import png
from dualfl.report.folder import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT = "about.txt"
WIDTH = 80


def write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomically(path, text.getvalue().encode())


def write_figure(figure: Figure, path: Path) -> list[str]:
    """PNG for screens, SVG for print; the same bytes for the same figure."""
    from matplotlib import rc_context

    write_atomically(path.with_suffix(".png"), png(figure))
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "dualfl"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    write_atomically(path.with_suffix(".svg"), buffer.getvalue())
    return [path.with_suffix(".png").name, path.with_suffix(".svg").name]


def write_about(folder: Path, command: str, seconds: float, notes: Sequence[str] = ()) -> None:
    """The command, the versions and the machine."""
    facts = {name: value for name, value in environment().items() if name not in ("platform", "byte order")}
    lines = [
        f"command      {command}",
        f"drawn        {date.today()}",
        f"time         {seconds:,.0f} s of one processor, all cells together",
        f"machine      {processor()}, {facts.pop('processors')} processors, {platform.system()} {platform.machine()}",
        *(f"{name:<13}{value}" for name, value in facts.items()),
        *(f"note         {note}" for note in notes),
    ]
    write_atomically(folder / ABOUT, ("\n".join(lines) + "\n").encode())


def processor() -> str:
    """The model of the processor, as the system calls it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "a processor without a name"


def verdict_lines(verdicts: Sequence[Verdict]) -> str:
    """The claims, 80 columns wide: panel, claim, verdict, and below what was measured."""
    lines = []
    for v in verdicts:
        head = f"{v.panel}: {v.claim}"
        lines.append(f"{head:<{WIDTH - 15}} {v.word:>14}" if len(head) < WIDTH - 14 else f"{head}\n{v.word:>{WIDTH}}")
        lines.append(textwrap.fill(v.sentence, WIDTH, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(lines)
