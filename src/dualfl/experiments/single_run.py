"""One run from settings to a result: data set, partition, algorithm, limits. The command `dualfl run` is this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dualfl.algorithms.codecs import Codec, Quantise, RandK, TopK
from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.algorithms.registry import make
from dualfl.data import Dataset, Mix, load, make_problem, rows_of_clients
from dualfl.engines import Problem, Result, run
from dualfl.engines.continuation import Stage, run_regularised
from dualfl.engines.decision import ClientsHere, decide, with_what_it_took
from dualfl.engines.request import RunKeywords
from dualfl.errors import DualflError, InputError
from dualfl.experiments.settings import RunSettings
from dualfl.optimum import find_reference
from dualfl.optimum.minimum import Reference
from dualfl.solvers.base import Solver
from dualfl.solvers.naming import choose_solver

Say = Callable[[str], None]


@dataclass(frozen=True)
class Finished:
    """A run with what it was made of. `reference` is E* with its accuracy, or None, and then `no_minimum` says why."""

    settings: RunSettings
    dataset: Dataset
    problem: Problem
    asked: Algorithm  # before theory filled in what was left open
    result: Result
    reference: Reference | None
    no_minimum: str = ""
    stages: tuple[Stage, ...] = ()

    @property
    def minimum(self) -> float | None:
        return None if self.reference is None else self.reference.energy

    @property
    def error(self) -> float | None:
        """(E - E*)/|E*| of the model."""
        if self.minimum is None or self.result.energy is None:
            return None
        return (self.result.energy - self.minimum) / abs(self.minimum)

    @property
    def mix(self) -> Mix:
        """Who has what."""
        s = self.settings
        return Mix.of(self.dataset, rows_of_clients(self.dataset, s.clients, s.partition, s.seed))

    @property
    def accuracy(self) -> float | None:
        """The share of training rows that the model classifies correctly."""
        return self.dataset.accuracy(self.result.model) if self.dataset.classes else None


def execute(
    settings: RunSettings,
    *,
    threads: int | None = None,
    engine: str = "inprocess",
    checkpoint: Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    progress: bool = False,
    say: Say = lambda sentence: None,
) -> Finished:
    """Run it. `say` hears of steps that may take a while."""
    given = choose_algorithm(settings.algorithm, settings.hyperparameters)
    solver, codec = choose_solver(settings.solver), choose_codec(settings.codec)
    regularise = settings.epsilon is not None or settings.alpha is not None
    if regularise and checkpoint is not None:
        raise InputError("A checkpoint is of one problem, and epsilon or alpha make several; leave one of them out.")
    say(f"Reading {settings.dataset} ...")
    dataset = load(settings.dataset, scale=settings.scale, target=settings.target, task=settings.task)
    problem = problem_of(settings, dataset, solver)
    algorithm, choice = decide(given, ClientsHere(problem))
    if choice:
        say(choice)
    minimum, why = find_minimum(problem, settings, say)
    options: RunKeywords = {
        "tol": settings.tol,
        "seconds": settings.seconds,
        "reference": None if minimum is None else minimum.energy,
        "seed": settings.seed,
        "threads": threads,
        "engine": engine,
        "codec": codec,
        "progress": progress,
    }
    stages: tuple[Stage, ...] = ()
    if regularise:
        found = run_regularised(
            problem, algorithm, alpha=settings.alpha, epsilon=settings.epsilon, rounds=settings.rounds, **options
        )
        result, stages = found.result, tuple(found.stages)
    else:
        # An engine asks for L only where theory needs it; a reader wants to see it, and a note may depend on it.
        known = constants_of(problem) if algorithm.resolved else None
        result = run(
            problem,
            algorithm,
            rounds=settings.rounds,
            constants=known,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            **options,
        )
    result = replace(result, choice=with_what_it_took(choice, given, result.history, problem.N))
    return Finished(settings, dataset, problem, algorithm, result, minimum, why, stages)


def problem_of(settings: RunSettings, dataset: Dataset, solver: Solver | None = None) -> Problem:
    """The federated problem that the settings describe."""
    s = settings
    return make_problem(dataset, s.clients, s.partition, s.ridge, s.loss, s.seed, solver, s.l1)


def find_minimum(problem: Problem, settings: RunSettings, say: Say) -> tuple[Reference | None, str]:
    """(E*, "") or (None, why not)."""
    if not settings.reference:
        return None, "it was not asked for"
    say("Finding E*, once ...")
    try:
        return find_reference(problem), ""
    except DualflError as error:
        return None, str(error)


def constants_of(problem: Problem) -> Constants:
    """What the engine's survey would find."""
    clients = problem.clients
    return Constants(
        mu=min(f.mu for f in clients),
        L=max(f.L for f in clients),
        N=problem.N,
        d=problem.d,
        L_row=max(f.L_row for f in clients),
        n=max(f.n for f in clients),
    )


# -- from words to objects --------------------------------------------------------------------------------


def choose_algorithm(name: str, hyperparameters: Mapping[str, Any]) -> Algorithm:
    """The algorithm with these hyperparameters, checked for being of the right kind."""
    return make(name, **hyperparameters)


CODECS: dict[str, Callable[[int], Codec]] = {"top": TopK, "rand": RandK, "bits": Quantise}


def choose_codec(text: str | None) -> Codec | None:
    """The codec that `top:50`, `rand:50` or `bits:8` means."""
    if text is None:
        return None
    kind, _, number = text.partition(":")
    if kind not in CODECS or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise InputError(f"The codec must be top:K, rand:K or bits:B with a whole number, but it is {text!r}.")
    return CODECS[kind](int(number))
