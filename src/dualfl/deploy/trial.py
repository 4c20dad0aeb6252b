"""A whole deployment on one machine: coordinator, proxy, silos, keys, one run; then all processes are ended."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from dualfl.algorithms.contract import Algorithm
from dualfl.deploy import member, project, runs
from dualfl.deploy.coordinator import Coordinator
from dualfl.deploy.silo_service import SiloService, explain
from dualfl.engines.request import Limits
from dualfl.errors import InputError
from dualfl.federation.flower import runtime
from dualfl.federation.policy import OPEN

Say = Callable[[str], None]
PATIENCE = 120.0  # seconds for the registration of all keys


def write_data(folder: Path, silos: int) -> list[Path]:
    """The breast cancer set that scikit-learn brings, cut into one CSV file a silo."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [*(name.replace(" ", "_") for name in data.feature_names), "diagnosis"]
    paths = []
    for j in range(silos):
        path = folder / f"silo-{j + 1}.csv"
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            for x, y in zip(data.data[j::silos].tolist(), data.target[j::silos].tolist()):
                writer.writerow([*x, data.target_names[y]])
        paths.append(path)
    return paths


class Deployment:
    """A coordinator and its silos as processes of this machine."""

    def __init__(self, folder: Path, files: list[Path], target: str, names: list[str], **settings: object) -> None:
        runtime.need_flower()
        self.folder, self.names = folder, names
        given = project.ProjectSettings(
            host="127.0.0.1",
            silos=tuple(names),
            port=runtime.free_port(),
            superlink_port=runtime.free_port(),
            **settings,  # type: ignore[arg-type]  # a name it does not know is a TypeError
        )
        self.project = project.init(folder / "coordinator", given)
        ca = folder / "coordinator" / "for-silos" / "ca.crt" if given.tls else None
        where = f"127.0.0.1:{given.port}"
        cards = []
        for name, file in zip(names, files):
            card, _ = member.join(
                folder / name,
                name,
                file,
                target,
                where,
                ca,
                minimum=min(len(names), project.MINIMUM),
                allow_plain=not given.secure,
                policy=OPEN,  # coordinator and silos are one user's, who need not approve what he runs
            )
            cards.append(card)
        self.project.admit(cards)
        for name in names:
            member.trust(folder / name, folder / "coordinator" / "for-silos" / "roster.json")
        self.coordinator = Coordinator(self.project.folder)
        self.silos: dict[str, runtime.Process] = {}

    @contextlib.contextmanager
    def running(self, say: Say = lambda sentence: None) -> Iterator[None]:
        """All processes; none is left afterwards."""
        say("Starting the coordinator: SuperLink on loopback, the proxy in front of it, keys registered ...")
        with self.coordinator.running(say):
            try:
                self.coordinator.register_within(PATIENCE)
                say(f"Starting {len(self.names)} silos, each with a key of its own ...")
                for name in self.names:
                    self.start(name)
                yield
            finally:
                for process in self.silos.values():
                    process.kill()

    def start(self, name: str) -> None:
        self.silos[name] = SiloService(self.folder / name).start()

    def alive(self) -> None:
        for name, process in self.silos.items():
            if not process.running:
                raise InputError(f"Silo {name!r} ended: {explain(process.log, 0)}")

    def run(self, algorithm: Algorithm, limits: Limits, **options: object) -> runs.Finished:
        return runs.execute(
            self.project,
            algorithm,
            limits,
            **options,  # type: ignore[arg-type]  # a name it does not know is a TypeError
        )


def attempt(
    folder: Path, silos: int, algorithm: Algorithm, limits: Limits, secure: bool, progress: bool, say: Say
) -> runs.Finished:
    """All of it, in a folder that is empty."""
    if silos < 2:
        raise InputError(f"A trial needs at least 2 silos, and 3 with secure aggregation; silos is {silos}.")
    names = [f"silo-{j + 1}" for j in range(silos)]
    (folder / "data").mkdir(parents=True)
    files = write_data(folder / "data", silos)
    intercept = "penalised" if algorithm.strongly_convex else "free"
    deployment = Deployment(folder, files, "diagnosis", names, secure=secure, intercept=intercept)
    with deployment.running(say):
        say(f"Running {algorithm.name} ...")
        return deployment.run(algorithm, limits, progress=progress, say=say, alive=deployment.alive)
