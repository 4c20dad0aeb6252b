"""A run on the silos of a project: submitted, watched, and written down. Given again, it goes on where it was."""

from __future__ import annotations

import json
import pickle
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.analysis.one_algorithm import AlgorithmOutcome, LinearProblem, OneAlgorithm
from dualfl.deploy.network import with_network
from dualfl.deploy.project import Project, check_algorithm, plain
from dualfl.deploy.running import submit_and_watch
from dualfl.engines.progress import Bar
from dualfl.engines.request import Limits, Recording, check_limits, check_tol
from dualfl.engines.result import Result
from dualfl.errors import InputError
from dualfl.federation.far_silos import AnalysisTerms
from dualfl.federation.fixed_point import BITS
from dualfl.federation.flower.analysis_job import Analysed, AnalysisJob
from dualfl.federation.flower.job import Job, JobOutcome
from dualfl.federation.remote import Setup, Terms
from dualfl.files import write_atomically
from dualfl.silos.ledger import Spent

Say = Callable[[str], None]
LEFTOVERS = (
    "journal",
    "checkpoint.npz",
    "checkpoint.npz.rows",
    "setup.pkl",
    "result.pkl",
    "rows.jsonl",
    "outcome.json",
    "traffic.json",
    "collected",
)  # of a run that is begun anew
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


@dataclass(frozen=True)
class Finished:
    """A run with what it was made of."""

    project: Project
    folder: Path
    asked: Algorithm
    seed: int
    result: Result
    setup: Setup
    constants: Constants
    traffic: Mapping[str, int]
    spent: tuple[Spent, ...] = ()  # for each purpose; nobody keeps that account without masks


def execute(
    project: Project,
    algorithm: Algorithm,
    limits: Limits,
    *,
    name: str | None = None,
    seed: int = 0,
    fresh: bool = False,
    patience: float | None = None,
    progress: bool = True,
    say: Say = lambda sentence: None,
    alive: Callable[[], None] = lambda: None,
) -> Finished:
    """Run `algorithm` on the project's silos, or go on with such a run."""
    if isinstance(algorithm, Auto):
        algorithm = replace(algorithm, proof=True)
    check_algorithm(project.settings, algorithm)
    check_limits(limits)
    if limits.tol is not None:
        check_tol(algorithm, Recording())
    project.check_complete()
    folder = folder_of(project, algorithm, name)
    work = folder / "work"
    if isinstance(algorithm, Auto):
        algorithm = with_network(project, algorithm, work, fresh, patience, say)
    settings = project.settings
    if settings.secure:
        followed = FollowedRun(project, algorithm, limits, seed)
        return followed.execute(folder, Bar(algorithm.name, limits.rounds, progress), fresh, patience, say, alive)
    experiment, _ = open_experiment(work, decisive(project, algorithm, seed), fresh)
    terms = Terms(
        experiment,
        tuple(sorted(settings.silos)),
        algorithm,
        plain(settings),
        seed=seed,
        standardise=settings.standardise,
        task=settings.task,
        roster=project.roster if settings.tls else None,
    )
    job = Job(
        terms,
        limits,
        recording=Recording(checkpoint=work / "checkpoint.npz"),
        resume=True,  # from the checkpoint, if there is one: also after the SuperLink was lost in the middle
        patience=settings.patience if patience is None else patience,
        authenticated=settings.tls,
        solvers=(settings.solver or "default",),
    )
    write_atomically(work / "job.pkl", pickle.dumps(job))
    outcome = submit_and_watch(project, work, Bar(algorithm.name, limits.rounds, progress), say, alive)
    result: Result = pickle.loads((work / "result.pkl").read_bytes())
    found: JobOutcome = pickle.loads((work / "setup.pkl").read_bytes())
    asked = found.decided[0]
    return Finished(project, folder, asked, seed, result, found.setup, found.constants, outcome["traffic"])


@dataclass(frozen=True)
class FollowedRun:
    """A run under masks: an analysis whose questions every silo foresees from the plan."""

    project: Project
    algorithm: Algorithm
    limits: Limits
    seed: int

    @property
    def analysis(self) -> OneAlgorithm:
        settings, (rounds, tol, seconds, _) = self.project.settings, self.limits
        problem = LinearProblem(**plain(settings))
        return OneAlgorithm(
            self.algorithm, problem, settings.task, settings.standardise, self.seed, rounds, tol, seconds
        )

    def execute(
        self, folder: Path, bar: Bar, fresh: bool, patience: float | None, say: Say, alive: Callable[[], None]
    ) -> Finished:
        """Ask the silos, unless they have answered all of it before."""
        settings, work = self.project.settings, folder / "work"
        names, described = tuple(sorted(settings.silos)), self.analysis.as_json()
        wanted = {"analysis": described, "silos": names, "secure": True}
        experiment, _ = open_experiment(work, wanted, fresh)
        if not (work / "result.pkl").exists():
            roster = self.project.roster if settings.tls else None
            job = AnalysisJob(
                AnalysisTerms(experiment, names, described, BITS, roster),
                self.analysis,
                settings.patience if patience is None else patience,
                authenticated=settings.tls,
            )
            write_atomically(work / "job.pkl", pickle.dumps(job))
            submit_and_watch(self.project, work, bar, say, alive)
        traffic = json.loads((work / "outcome.json").read_text())["traffic"]
        analysed: Analysed = pickle.loads((work / "result.pkl").read_bytes())
        found: AlgorithmOutcome = analysed.result
        scaling, N = found.scaling, len(names)
        setup = Setup(
            found.schema,
            None if scaling is None else scaling.mean,
            None if scaling is None else scaling.spread,
            float(found.rows),
            (found.rows / N,) * N,
            equal=False,
            data=(),
        )
        result = found.result
        assert result.constants is not None
        made = self.project, folder, found.asked, self.seed, result, setup, result.constants, traffic
        return Finished(*made, analysed.spent)


def folder_of(project: Project, algorithm: Algorithm, name: str | None) -> Path:
    """Where a run of that name puts its files."""
    return project.folder.absolute() / "runs" / checked_name(name or algorithm.name)


def checked_name(name: str) -> str:
    """The name of a folder in runs/, and not of one elsewhere."""
    if NAME.fullmatch(name) is None:
        raise InputError(
            f"--name must be made of letters, digits, dots, hyphens and underscores, and begin with a letter or a "
            f"digit, but it is {name!r}."
        )
    return name


def decisive(project: Project, algorithm: Algorithm, seed: int) -> dict[str, Any]:
    """All that decides the iterates: a run with the same goes on, with anything else it is another run."""
    settings = project.settings
    return {
        "algorithm": json.loads(algorithm.to_json()),
        "silos": sorted(settings.silos),
        "problem": plain(settings),
        "seed": seed,
        "secure": False,
        "standardise": settings.standardise,
        "task": settings.task,
    }


def as_text(wanted: dict[str, Any]) -> str:
    """What an experiment is about, every digit of its arrays included."""
    return json.dumps(wanted, sort_keys=True, default=lambda part: np.asarray(part).tolist())


def open_experiment(work: Path, wanted: dict[str, Any], fresh: bool) -> tuple[str, bool]:
    """(name of the experiment, whether it has begun before). A fresh one gets a new name, and silos begin anew."""
    path, settings = work / "experiment.json", json.loads(as_text(wanted))
    if path.exists() and not fresh:
        known = json.loads(path.read_text())
        if known["settings"] != settings:
            raise InputError(
                f"{work.parent} has another run; give this one another --name, or --fresh to begin anew there."
            )
        return known["id"], True
    for old in LEFTOVERS:
        (work / old).unlink(missing_ok=True)
    id = secrets.token_hex(12)
    write_atomically(path, (json.dumps({"id": id, "settings": settings}, indent=2) + "\n").encode())
    return id, False
