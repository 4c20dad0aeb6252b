"""`run`: an algorithm on a problem, by the engine of that name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Constants
from dualfl.algorithms.registry import make
from dualfl.arguments import checked
from dualfl.engines.decision import ClientsHere, decide, with_what_it_took
from dualfl.engines.engine import Engine
from dualfl.engines.history import Row
from dualfl.engines.inprocess import InProcess
from dualfl.engines.ray import OnRay
from dualfl.engines.request import (
    EngineOptions,
    Limits,
    Recording,
    RunRequest,
    check_limits,
    check_recording,
    check_tol,
)
from dualfl.engines.result import Result
from dualfl.engines.session import Session
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.outputs import alone
from dualfl.problem import Problem
from dualfl.typing import Array

HERE = ("inprocess", "ray")  # engines of this room; others are found by an entry point


@checked
def run(
    problem: Problem,
    algorithm: Algorithm | str,
    *,
    rounds: int = 100,
    tol: float | None = None,
    seconds: float | None = None,
    reference: float | None = None,
    start: Array | None = None,
    seed: int = 0,
    threads: int | None = None,
    codec: Codec | None = None,
    constants: Constants | None = None,
    evaluate: bool = True,
    progress: bool = False,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 1,
    resume: bool = False,
    stop: Callable[[Row, Array], bool] | None = None,
    measure: Problem | None = None,
    engine: str = "inprocess",
    say: Callable[[str], None] | None = None,
) -> Result:
    """Run an algorithm on a problem, and return the best model with its certificate.

    Parameters
    ----------
    problem : Problem
        The clients and their penalty.
    algorithm : Algorithm or str
        The algorithm with its hyperparameters, such as `dualfl.DualFL()`, or its name, such as "auto".
    rounds, seconds : int and float
        The largest number of rounds, and of seconds. A run that ends early returns the best model so far.
    tol : float, optional
        Stop when the certificate proves E - E* <= tol |E|; needs an algorithm that has one.
    reference : float, optional
        E*, if it is known, to report relative errors.
    start : ndarray, optional
        The first model; the default is zero.
    seed : int, default 0
        The seed of all random numbers.
    threads : int, optional
        The largest number of clients that compute at the same time; the default is chosen by size.
    codec : Codec, optional
        Compresses uploads, such as `TopK(50)`.
    constants : Constants, optional
        mu, L and others, if they are known already.
    evaluate : bool, default True
        Whether energies and certificates are computed.
    progress : bool, default False
        Whether to show a progress bar.
    checkpoint, checkpoint_every, resume : str or Path, int, bool
        A file, the number of exchanges after which it is written, and whether to continue from it.
    stop : callable, optional
        Called with each row and its model; True ends the run.
    measure : Problem, optional
        Report the energy of this problem instead of the solved one; then there is no certificate.
    engine : str, default 'inprocess'
        Where clients run: "inprocess", "ray" or "flower-simulation". The result is the same.
    say : callable, optional
        Called before the start with a sentence that says which method `auto` chose, and why.

    Returns
    -------
    Result
        The best model, its certificate, and what every round cost.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.DualFL(), rounds=200, tol=1e-6)
    >>> result.stopped, result.certificate <= 1e-6 * result.energy
    ('tol', True)
    """
    limits = Limits(rounds, tol, seconds, stop)
    path = None if checkpoint is None else Path(checkpoint)
    recording = Recording(reference, evaluate, path, checkpoint_every, measure)
    check_limits(limits)
    check_recording(recording)
    given = make(algorithm) if isinstance(algorithm, str) else algorithm
    algorithm, choice = decide(given, ClientsHere(problem))
    if choice and say is not None:
        say(choice)
    if tol is not None:
        check_tol(algorithm, recording)
    options = EngineOptions(seed, threads, codec, start, constants)
    request = RunRequest(problem, algorithm, options, limits, recording, resume, progress)
    result = carry_out(request, engine)
    return replace(result, choice=with_what_it_took(choice, given, result.history, problem.N))


def carry_out(request: RunRequest, engine: str) -> Result:
    """The run by the engine of that name."""
    if engine not in HERE:
        return elsewhere(engine)(request)
    session = Session(make_engine(engine, request.problem, request.algorithm, request.options), request.recording)
    path = request.recording.checkpoint
    with nullcontext() if path is None else alone(path):
        return session.run(request.limits, request.resume, request.progress)


def elsewhere(name: str) -> Callable[[RunRequest], Result]:
    """An engine that carries a whole run to another place; see `request` for what it must do."""
    points = {point.name: point for point in entry_points(group="dualfl.engines")}
    if name not in points:
        raise InputError(nearest("engine", name, (*HERE, *points)))
    engine: Callable[[RunRequest], Result] = points[name].load()
    return engine


def make_engine(
    name: str, problem: Problem, algorithm: Algorithm, options: EngineOptions, settle: bool = True
) -> Engine:
    """The engine of that name, bound to the problem; `settle=False`: it has not asked for its constants yet."""
    kind: type[InProcess | OnRay] = OnRay if name == "ray" else InProcess
    return kind(
        problem,
        algorithm,
        seed=options.seed,
        threads=options.threads,
        codec=options.codec,
        start=options.start,
        constants=options.constants,
        settle=settle,
    )
