"""A federation under load and faults: python -m benchmarks.soak [--analyses 500] [--silos 5] [--every 10] [--save]

Starts a coordinator and silos as operators do (`dualfl deploy start`, `dualfl deploy serve`), each started again when
it ends, as systemd would. Then one analysis after the other; in every tenth something breaks, at a random exchange:

kill        kill -9 of a silo's process, a silo's service, the SuperLink, the proxy or the coordinator's service
stop        SIGSTOP of a silo's process or of the SuperLink
cut         every connection of a silo is cut, and new ones are refused for 20 seconds
full disk   the disk of a silo is full for 20 seconds (needs root: its folder is a small file system of its own)
clock       the clock of a silo is a day ahead for 20 seconds, as its processes see it

Every model must have the bits of the first, undisturbed one, and processes, files and memory must be in the end what
they were after the first analysis.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dualfl
from benchmarks.breakable import PROGRAMS, Federation
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes
from dualfl.deploy.condition import condition
from dualfl.tables.summaries import Request

WISHES = Wishes(Request("sick"), influence=False)
LAST = 8  # the exchange at which a fault begins, at the latest: an analysis has ten
STEADY, PATIENCE = 3, 30  # looks, a second apart, that must find the same; and how many are made


class Disturbance:
    """A fault that begins when an analysis comes to a certain exchange."""

    def __init__(self, fault: Callable[[], None] | None, exchange: int) -> None:
        self.fault, self.exchange = fault, exchange
        self.thread: threading.Thread | None = None

    def hear(self, sentence: str) -> None:
        """What the analysis says: "exchange 5: the fit"."""
        at = sentence.split(":")[0].removeprefix("exchange ")
        if self.fault is not None and self.thread is None and at.isdigit() and int(at) >= self.exchange:
            self.thread = threading.Thread(target=self.fault)
            self.thread.start()

    def over(self) -> None:
        if self.thread is not None:
            self.thread.join()


class Soak:
    """One analysis after the other; what is known of them is in a folder, so that a soak that was ended goes on."""

    def __init__(self, folder: Path, silos: int, every: int) -> None:
        self.folder, self.every = folder, every
        self.lines, self.first = folder / "rows.jsonl", folder / "theta.npy"
        self.rows: list[dict[str, Any]] = []
        if self.lines.exists():
            self.rows = [json.loads(line) for line in self.lines.read_text().splitlines()]
        self.federation = Federation(folder, silos)

    def run(self, analyses: int, hours: float, note: Callable[[list[dict[str, Any]]], None]) -> None:
        end = time.monotonic() + 3600 * hours
        self.federation.start()
        try:
            wait_for(self.federation)
            while len(self.rows) < analyses and time.monotonic() < end:
                self.rows.append(self.one(len(self.rows) + 1))
                with open(self.lines, "a") as file:
                    file.write(json.dumps(self.rows[-1]) + "\n")
                note(self.rows)
        finally:
            self.federation.stop()

    def one(self, number: int) -> dict[str, Any]:
        name, fault = "", None
        if number % self.every == 0:
            faults = list(self.federation.faults.items())
            name, fault = faults[(number // self.every - 1) % len(faults)]
        broken = Disturbance(fault, int(np.random.default_rng(number).integers(1, LAST + 1)))
        begun, error = time.monotonic(), ""
        try:
            study = dualfl.connect(self.federation.folder / "coordinator", patience=600, say=broken.hear)
            theta = study.fit(Recipe("logistic"), WISHES, fresh=True).theta
        except dualfl.DualflError as failure:
            theta, error = np.zeros(0), str(failure)
        seconds = time.monotonic() - begun
        broken.over()
        if not self.first.exists():
            np.save(self.first, theta)
        row = {"analysis": number, "fault": name, "at exchange": broken.exchange if name else 0}
        row |= {"seconds": round(seconds, 1), "error": error}
        row |= {"same bits": bool(np.array_equal(theta, np.load(self.first)))}
        return row | (self.settled() if number in (1, 2) or number % self.every in (0, 1) else {})

    def settled(self) -> dict[str, float]:
        """A census, when the process of the run is gone and what was killed is back."""
        wait_for(self.federation)
        usual = next((row["processes"] for row in self.rows if "processes" in row), None)
        looks: list[dict[str, float]] = []
        while len(looks) < PATIENCE:
            looks.append(self.federation.census())
            counts = [look["processes"] for look in looks[-STEADY:]]
            steady = counts == [usual or counts[-1]] * STEADY
            if steady and not looks[-1]["run processes"]:
                break
            time.sleep(1)
        return looks[-1]


def wait_for(federation: Federation, seconds: float = 600.0) -> None:
    """Until all services run and every silo has been let in."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        silos = [condition(federation.folder / name)["state"] for name in federation.names]
        if set(silos) == {"connected"} and condition(federation.folder / "coordinator")["state"] == "running":
            return
        time.sleep(0.5)
    said = [path.read_text() for path in federation.folder.glob("*.log")]
    raise SystemExit("The silos have not connected:\n" + "\n".join(said))


def table(rows: list[dict[str, Any]], asked: int) -> str:
    calm = [row["seconds"] for row in rows if not row["fault"]]
    broken = [row for row in rows if row["fault"]]
    memory = ("memory, MB", *(f"- {whose}" for whose in PROGRAMS.values()))
    measured = ("processes", *memory, "files of silos", "experiments open at silos", "database, MB")
    lines = [
        "# A federation of five silos, one analysis after the other, with faults",
        "",
        "By `python -m benchmarks.soak --silos 5 --every 10 --save`, on two processors that others used too.",
        "",
        f"- Analyses: {len(rows)} of {asked}" + ("" if len(rows) == asked else " (the rest was not run: time)"),
        f"- Without the bits of the first: {sum(not row['same bits'] for row in rows)}",
        f"- Ended by an error: {sum(bool(row['error']) for row in rows)}",
        f"- Undisturbed: median {statistics.median(calm):.1f} s, longest {max(calm):.1f} s",
        "",
        "| fault | times | same bits | seconds, longest | longer than undisturbed by at most |",
        "|---|---|---|---|---|",
    ]
    for fault in dict.fromkeys(row["fault"] for row in broken):
        these = [row for row in broken if row["fault"] == fault]
        longest = max(row["seconds"] for row in these)
        good = sum(row["same bits"] for row in these)
        lines.append(
            f"| {fault} | {len(these)} | {good} | {longest:.0f} | {max(0.0, longest - statistics.median(calm)):.0f} s |"
        )
    counted = [row for row in rows if "processes" in row]
    last = counted[-1]
    lines += ["", f"| | after the first | after number {last['analysis']} |", "|---|---|---|"]
    lines += [f"| {what} | {counted[0][what]} | {last[what]} |" for what in measured]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analyses", type=int, default=500)
    parser.add_argument("--silos", type=int, default=5)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--hours", type=float, default=24.0, help="begin no analysis after so long")
    parser.add_argument("--folder", type=Path, help="kept, so that the same command goes on where it was ended")
    parser.add_argument("--save", type=Path, nargs="?", const=Path("results/soak.md"))
    given = parser.parse_args()

    def note(rows: list[dict[str, Any]]) -> None:
        print(json.dumps(rows[-1]), flush=True)
        if given.save:
            given.save.write_text(table(rows, given.analyses))

    folder = given.folder or Path(tempfile.mkdtemp(prefix="dualfl-soak-"))
    whole = Soak(folder.absolute(), given.silos, given.every)
    whole.run(given.analyses, given.hours, note)
    print(table(whole.rows, given.analyses))
    if given.folder is None:
        whole.federation.remove()


if __name__ == "__main__":
    main()
