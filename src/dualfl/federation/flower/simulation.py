"""Runs an algorithm in Flower's simulation: the same two apps as in a deployment, silos as virtual nodes on Ray.

Everything lives in a temporary folder, the SuperLink included, which ends with the run. Flower pays for every message,
so this engine is for checking an app; for studies take `ray` or `inprocess`.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
import tempfile
from pathlib import Path

from dualfl.algorithms import plugins
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.engines.history import Row
from dualfl.engines.inprocess import fingerprint
from dualfl.engines.progress import Bar
from dualfl.engines.request import RunRequest
from dualfl.engines.result import Result
from dualfl.errors import InputError
from dualfl.federation.flower import runtime
from dualfl.federation.flower.job import Job
from dualfl.federation.remote import Terms
from dualfl.files import write_atomically
from dualfl.objectives.average import common_ridge
from dualfl.problem import Problem

REQUESTS = re.compile(r"uvicorn\.access|Servicer\.")  # what Flower says of every request, twice


def simulate(request: RunRequest) -> Result:
    """The engine `flower-simulation`."""
    runtime.need_flower()
    check(request)
    problem, algorithm, options = request.problem, request.algorithm, request.options
    names = tuple(f"silo-{j:06d}" for j in range(problem.N))
    terms = Terms(
        f"simulation-{fingerprint(problem, problem.sizes)}",
        names,
        algorithm,
        seed=options.seed,
        start=options.start,
        codec=options.codec,
        tables=False,
    )
    job = Job(
        terms,
        request.limits,
        template=problem.clients[0],
        penalty=problem.penalty,
        constants=options.constants,
        recording=request.recording,
        poll=0.05,
        patience=600.0,
    )
    with tempfile.TemporaryDirectory(prefix="dualfl-simulation-") as temporary:
        folder = Path(temporary)
        write_silos(folder, problem)
        write_atomically(folder / "job.pkl", pickle.dumps(job))
        with Bar(algorithm.name, request.limits.rounds, request.progress) as bar:
            launch(folder, problem.N, bar)
        result: Result = pickle.loads((folder / "result.pkl").read_bytes())
        return result


def check(request: RunRequest) -> None:
    """Refuse what a simulation cannot do."""
    problem, algorithm = request.problem, request.algorithm
    if request.recording.checkpoint is not None:
        raise InputError("The engine flower-simulation keeps no checkpoints; take inprocess or ray.")
    if request.limits.stop is not None:
        raise InputError(
            "The engine flower-simulation runs elsewhere, so `stop` cannot be called; stop by tol or rounds."
        )
    if ALGORITHMS.get(algorithm.name) is not type(algorithm):
        raise InputError(
            f"{algorithm.name} is not in the registry, and silos know algorithms by name; put it into a file and load "
            "that by dualfl.load_plugin or --plugin."
        )
    if algorithm.uniform and len(set(problem.sizes)) > 1 and common_ridge(problem.clients, problem.weights) is not None:
        raise InputError(
            f"{algorithm.name} takes all clients as equal, and here both their sizes and their ridges differ, which no "
            "client of the engine flower-simulation can make up for alone; take inprocess or ray."
        )


def write_silos(folder: Path, problem: Problem) -> None:
    """A home for every client, with its objective in a file."""
    for j, (f, solver, size) in enumerate(zip(problem.clients, problem.solvers, problem.sizes)):
        home = folder / "silos" / f"silo-{j:06d}"
        write_atomically(home / "client.pkl", pickle.dumps((f, solver, size, problem.penalty)))
        settings = {"name": home.name, "pickle": "client.pkl", "identity": str(j)}
        write_atomically(home / "silo.json", json.dumps(settings).encode())


def last_words(log: Path, lines: int = 15) -> str:
    """The end of Flower's log without what it says of every request."""
    said = [line for line in log.read_text(errors="replace").splitlines() if not REQUESTS.search(line)]
    return "\n".join(said[-lines:])


def launch(folder: Path, N: int, bar: Bar) -> None:
    home, port = folder / "flower", runtime.free_port()
    app = runtime.write_app(folder / "app")
    runtime.connect(home, f"127.0.0.1:{port}", None)
    command = [sys.executable, "-m", "dualfl.federation.flower.patient_superlink", "--insecure", "--simulation"]
    superlink = runtime.Process(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation"],
        folder / "superlink.log",
        runtime.environment(home) | plugins.environment(),
    )
    try:
        runtime.wait_for_port(port, superlink)
        run = runtime.submit(app, folder, home, N)
        runtime.watch(run, folder, home, lambda line: bar.update(Row(*line)) if isinstance(line, list) else None)
    except runtime.Lost as error:  # without a word of the app: Flower's log is all that is known
        raise InputError(f"{error} The end of Flower's log:\n{last_words(superlink.log)}") from error
    except runtime.RunFailed as error:
        raise InputError(str(error)) from error
    finally:
        superlink.stop()
