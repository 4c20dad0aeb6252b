"""What one coordinator and its silos cost: python -m benchmarks.scale [--silos 3,10,20,50] [--idle 60] [--save]

Coordinator and silos are processes of this machine, with TLS, keys and masks; every silo has its service beside it, as
`dualfl deploy serve` starts it. Idle: processor seconds a minute and resident memory of a silo and of the coordinator,
after a minute without messages. Then a run: processor seconds and seconds of an exchange. Processor time says more than
seconds where others use the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.breakable import children
from benchmarks.deploy import write_wide
from dualfl.algorithms.registry import make
from dualfl.deploy.trial import Deployment
from dualfl.engines.request import Limits
from dualfl.federation.flower import runtime

HEAD = """# One coordinator and its silos on one machine

By `python -m benchmarks.scale --save`, on two processors that others used too: processor time and memory mean
something, seconds little.

"""
TICK = os.sysconf("SC_CLK_TCK")


def processor(pids: list[int]) -> float:
    """Processor seconds that these have used, children that ended included."""
    total = 0
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(words[k]) for k in (11, 12, 13, 14))
    return total / TICK


def resident(pid: int) -> int:
    """Bytes of memory, those included that it shares with others."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def family(pid: int) -> list[int]:
    tree, found = children(), [pid]
    for each in found:
        found += tree.get(each, [])
    return found


class Served(Deployment):
    """Silos with their services."""

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "dualfl.deploy.silo_service", str(self.folder / name), "0"]
        self.silos[name] = runtime.Process(command, self.folder / f"{name}.log", dict(os.environ))


def measure(silos: int, idle: float, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="dualfl-scale-") as temporary:
        folder = Path(temporary)
        names = [f"silo-{j:03d}" for j in range(silos)]
        files = write_wide(folder / "data", silos, 20, 30)
        deployment = Served(folder, files, "y", names, secure=True, intercept="penalised", patience=1800.0)
        with deployment.running():
            wait_for(deployment)
            time.sleep(5)  # until all wait
            sides = {
                "a silo": [pid for silo in deployment.silos.values() for pid in family(silo.popen.pid)],
                "coordinator": [
                    pid
                    for part in deployment.coordinator.supervisor.parts.values()
                    for pid in family(part.process.popen.pid)
                ],
            }
            share = {"a silo": silos, "coordinator": 1}
            before, began = {side: processor(pids) for side, pids in sides.items()}, time.monotonic()
            time.sleep(idle)
            minutes = (time.monotonic() - began) / 60
            found = {"silos": float(silos), "load": os.getloadavg()[0]}
            for side, pids in sides.items():
                found[f"{side}, idle CPU s/min"] = (processor(pids) - before[side]) / minutes / share[side]
                found[f"{side}, idle MB"] = sum(resident(pid) for pid in pids) / 2**20 / share[side]
            deployment.run(make("dualfl"), Limits(2), name="first", progress=False)  # imports what it needs
            before = {side: processor(pids) for side, pids in sides.items()}
            finished = deployment.run(make("dualfl"), Limits(rounds), name="scale", progress=False)
            result, traffic = finished.result, finished.traffic
            exchanges = result.history[-1].exchanges + 4  # four before the first round
            for side, pids in sides.items():
                found[f"{side}, CPU s an exchange"] = (processor(pids) - before[side]) / exchanges / share[side]
                found[f"{side}, MB after"] = sum(resident(pid) for pid in pids) / 2**20 / share[side]
            found["kB up, a silo and exchange"] = traffic["up"] / exchanges / silos / 1e3
            found["kB down, a silo and exchange"] = traffic["down"] / exchanges / silos / 1e3
            found["s an exchange"] = statistics.median(np.diff(result.history.column("seconds"))[1:].tolist())
        return found


def wait_for(deployment: Deployment, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    paths = [deployment.folder / name / "service" / "heard" for name in deployment.names]
    while not all(path.exists() for path in paths):
        deployment.alive()
        if time.monotonic() > end:
            raise SystemExit("The silos have not connected.")
        time.sleep(0.5)


LINES = ("coordinator, idle CPU s/min", "coordinator, MB after")
PARABOLAS = ("coordinator, CPU s an exchange", "kB down, a silo and exchange")  # every silo hears the hellos of all


def extrapolated(rows: list[dict[str, float]], to: int = 1000) -> str:
    """Curves through what was measured, and where they lead."""
    silos = [row["silos"] for row in rows]
    lines = [f"Curves through these, by least squares, and where they lead with N = {to:,} silos:", ""]
    for what in LINES + PARABOLAS * (len(rows) > 2):
        found = np.polyfit(silos, [row[what] for row in rows], 1 if what in LINES else 2)
        terms = [f"{c:.2g}{power}" for c, power in zip(found[::-1], ("", " N", " N^2"))]
        lines.append(f"- {what}: {' + '.join(terms)}, so {float(np.polyval(found, to)):,.3g}")
    return "\n".join(lines) + "\n"


def table(rows: list[dict[str, float]]) -> str:
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(f"{row[head]:.3g}" for head in heads) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--silos", default="3,10,20,50")
    parser.add_argument("--idle", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--save", type=Path, nargs="?", const=Path("results/scale.md"))
    given, rows = parser.parse_args(), []
    for silos in map(int, given.silos.split(",")):
        rows.append(measure(silos, given.idle, given.rounds))
        print({name: round(value, 3) for name, value in rows[-1].items()}, flush=True)
        if given.save:
            given.save.write_text(HEAD + table(rows) + ("\n" + extrapolated(rows) if len(rows) > 1 else ""))
    print(table(rows))
    if len(rows) > 1:
        print(extrapolated(rows))


if __name__ == "__main__":
    main()
