"""How fast the network of a federation is, as it was measured: network.json of the coordinator's folder.

`auto` with cost = "time" chooses by it. It is measured before the first such run and kept, since what silos follow must
not depend on a clock: the figures are part of the plan. `dualfl deploy measure` measures them anew.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace

from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.few_exchanges.time_model import Network
from dualfl.deploy.project import Project, read_table
from dualfl.deploy.running import submit_and_watch
from dualfl.engines.progress import Bar
from dualfl.errors import InputError
from dualfl.federation.flower.job import Speed, SpeedJob
from dualfl.files import write_atomically

FILE = "network.json"
REMEDY = "run `dualfl deploy measure` again"
Say = Callable[[str], None]


def with_network(project: Project, algorithm: Auto, patience: float | None, say: Say) -> Auto:
    """`auto` that minimises time, with the network's figures where nobody stated them."""
    if algorithm.cost != "time" or not algorithm.network.free:
        return algorithm
    network = known(project)
    if network is None:
        say("The network is measured first, since cost is time.")
        network = measure(project, patience, say)
    say(f"The network, as measured: {network} ({FILE}; `dualfl deploy measure` measures it anew).")
    return replace(algorithm, latency=network.latency, bandwidth=network.bandwidth)


def known(project: Project) -> Network | None:
    """What was measured before, or None."""
    path = project.folder / FILE
    given = read_table(path, REMEDY)
    if not given:
        return None
    try:
        network = Network(float(given["latency"]), float(given["bandwidth"]))
    except (KeyError, TypeError, ValueError):
        network = Network(-1.0)
    if not (0 <= network.latency < float("inf") and network.bandwidth > 0):
        raise InputError(f'{path} must hold a "latency" in seconds and a "bandwidth" in Mbit/s; {REMEDY}.')
    return network


def measure(project: Project, patience: float | None, say: Say) -> Network:
    """Ask all silos, and write down what came of it."""
    project.check_complete()
    settings, work = project.settings, project.folder.absolute() / "network" / "work"
    job = SpeedJob(
        tuple(sorted(settings.silos)), settings.patience if patience is None else patience, authenticated=settings.tls
    )
    write_atomically(work / "job.pkl", pickle.dumps(job))
    submit_and_watch(project, work, Bar("", 0, False), say, lambda: None)
    found: Speed = pickle.loads((work / "result.pkl").read_bytes())
    content = json.dumps(found.network._asdict()) + "\n"
    write_atomically(project.folder / FILE, content.encode())
    return found.network
