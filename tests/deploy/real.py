"""A real deployment for tests: TLS, keys, proxy, SuperLink and SuperNodes; silos that can be made to fail."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path

import numpy as np

from dualfl.deploy.silo_service import SiloService
from dualfl.deploy.trial import Deployment
from dualfl.engines import Problem, run
from dualfl.engines.request import Limits
from dualfl.federation.experiment import Experiment
from dualfl.federation.flower import runtime
from dualfl.federation.silo_folder import SiloFolder

FAULTY = Path(__file__).parent / "faulty"


def write_files(folder: Path, rows=(30, 20, 25)) -> list[Path]:
    rng, paths = np.random.default_rng(3), []
    folder.mkdir(parents=True)
    for j, n in enumerate(rows):
        X = rng.normal(size=(n, 4)) * [1, 10, 100, 1]
        y = (X @ [1, 0.1, 0, 1] + rng.normal(size=n) > 0).astype(int)
        lines = [",".join(map(repr, [*x, t])) for x, t in zip(X.tolist(), y.tolist())]
        path = folder / f"{j}.csv"
        path.write_text("one,two,three,four,target\n" + "\n".join(lines) + "\n")
        paths.append(path)
    return paths


class Real(Deployment):
    """Silos are started again by a thread, as a service manager would, while `supervised`."""

    def __init__(self, folder: Path, silos: int = 2, **settings) -> None:
        names = ["alpha", "beta", "gamma"][:silos]
        settings = {"secure": False, "ridge": 0.1, "intercept": "penalised"} | settings
        super().__init__(folder, write_files(folder / "data")[:silos], "target", names, **settings)
        self.restarts = 0

    def start(self, name: str) -> None:
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(FAULTY), *([before] if before else [])])
        try:
            # Not tied to this process, as services tie them: the kernel would end it with the thread that started it.
            service = SiloService(self.folder / name)
            env = runtime.environment(service.folder / "flower")
            self.silos[name] = runtime.Process(service.command(), service.log, env)
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before

    def fault(self, name: str, do: str, **more) -> None:
        (self.folder / name / "fault.json").write_text(json.dumps({"do": do} | more))

    @contextlib.contextmanager
    def supervised(self, pause: float = 3.0):
        ended = threading.Event()

        def supervise():
            while not ended.wait(0.5):
                for name, process in list(self.silos.items()):
                    if not process.running and not ended.wait(pause):
                        self.restarts += 1
                        process.kill()  # as `serve` does: what a keeper that died alone has left
                        self.start(name)

        thread = threading.Thread(target=supervise)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def wait_for_row(self, name: str, row: int, seconds: float = 300.0) -> None:
        path, end = self.project.folder / "runs" / name / "work" / "rows.jsonl", time.monotonic() + seconds
        while time.monotonic() < end:
            if path.exists() and len(path.read_text().splitlines()) > row:
                return
            time.sleep(0.2)
        raise AssertionError(f"no row {row} of {name} after {seconds} s")

    def go(self, algorithm, rounds: int, name: str, **options):
        return self.run(algorithm, Limits(rounds), name=name, progress=False, **options).result

    def expected(self, algorithm, rounds: int, name: str, seed: int = 0):
        """The same run in one process, on the rows as the silos have them."""
        work = self.project.folder / "runs" / name / "work"
        id = json.loads((work / "experiment.json").read_text())["id"]
        clients = [Experiment(SiloFolder(self.folder / silo), id).source[0] for silo in self.names]
        return run(Problem(clients), algorithm, rounds=rounds, seed=seed, threads=1)


def same(a, b) -> bool:
    rows = [[row._replace(seconds=0.0) for row in result.history] for result in (a, b)]
    return np.array_equal(a.theta, b.theta) and rows[0] == rows[1]
