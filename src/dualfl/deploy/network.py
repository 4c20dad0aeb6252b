"""How fast the network of a federation is, as it was measured: network.json of the coordinator's folder.

`auto` with cost = "time" chooses by it. It is measured before the first such run and kept, since what silos follow must
not depend on a clock: the figures are part of the plan. `dualfl deploy measure` measures them anew, for the runs that
begin after it: each run keeps, in a network.json of its own, the figures that it began with.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.few_exchanges.time_model import Network
from dualfl.deploy.project import Project, read_table
from dualfl.deploy.running import submit_and_watch
from dualfl.engines.progress import Bar
from dualfl.errors import InputError
from dualfl.federation.flower.job import Speed, SpeedJob
from dualfl.files import write_atomically
from dualfl.outputs import alone

FILE = "network.json"
Say = Callable[[str], None]


def with_network(project: Project, algorithm: Auto, work: Path, fresh: bool, patience: float | None, say: Say) -> Auto:
    """`auto` that minimises time, with the network's figures where nobody stated them.

    work : of the run, which goes on with the figures that it began with unless it is a `fresh` one.
    """
    if algorithm.cost != "time" or not algorithm.network.free:
        return algorithm
    begun = None if fresh else known(work, "give --fresh to begin the run anew")
    if begun is not None:
        network = begun
        say(f"The network, as measured when this run began: {network} (--fresh takes newer figures).")
    else:
        network = known(project.folder) or measure_first(project, patience, say)
        say(f"The network, as measured: {network} ({FILE}; `dualfl deploy measure` measures it anew).")
        note(network, work)
    return replace(algorithm, latency=network.latency, bandwidth=network.bandwidth)


def known(folder: Path, remedy: str = "run `dualfl deploy measure` again") -> Network | None:
    """What was measured before, or None."""
    path = folder / FILE
    given = read_table(path, remedy)
    if not given:
        return None
    try:
        network = Network(float(given["latency"]), float(given["bandwidth"]))
    except (KeyError, TypeError, ValueError):
        network = Network(-1.0)
    if not (0 <= network.latency < float("inf") and network.bandwidth > 0):
        raise InputError(f'{path} must hold a "latency" in seconds and a "bandwidth" in Mbit/s; {remedy}.')
    return network


def note(network: Network, folder: Path) -> None:
    write_atomically(folder / FILE, (json.dumps(network._asdict()) + "\n").encode())


def measure_first(project: Project, patience: float | None, say: Say) -> Network:
    say("The network is measured first, since cost is time.")
    return measure(project, patience, say)


def measure(project: Project, patience: float | None, say: Say) -> Network:
    """Ask all silos, and write down what came of it."""
    project.check_complete()
    settings, place = project.settings, project.folder.absolute() / "network"
    work = place / "work"
    job = SpeedJob(
        tuple(sorted(settings.silos)), settings.patience if patience is None else patience, authenticated=settings.tls
    )
    with alone(place):
        write_atomically(work / "job.pkl", pickle.dumps(job))
        try:
            submit_and_watch(project, work, Bar("", 0, False), say, lambda: None)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("The measurement was ended; nothing was noted.") from None
        found: Speed = pickle.loads((work / "result.pkl").read_bytes())
    note(found.network, project.folder)
    return found.network
