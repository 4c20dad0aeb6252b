"""Whether an algorithm keeps the contract: the library's own tests, for any algorithm.

    from dualfl.testing import check_algorithm

    def test_heavy_ball():
        check_algorithm(HeavyBall)

An algorithm of the library passes all of `CHECKS`, and one from outside should: then it resumes from a checkpoint, runs
on any engine to the same bits, and ends at the optimum of the pooled data, or says that it does not.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from dualfl.algorithms.contract import Algorithm, Card
from dualfl.algorithms.registry import check_registrable
from dualfl.engines import InProcess, Problem, Result, inprocess, run
from dualfl.engines.client import answer
from dualfl.errors import DualflError, InputError, NotSupported
from dualfl.experiments.optimum_check import PASS, PROBLEMS, check
from dualfl.objectives import Hinge, LinearModel, Logistic, Loss, Objective, Quadratic, Squared
from dualfl.solvers import DampedNewton
from dualfl.typing import Array

__all__ = ["CHECKS", "ContractBroken", "check_algorithm"]

ROUNDS, FEATURES = 3, 5
LOSSES: tuple[Loss, ...] = (Logistic(), Squared(), Hinge())
SIGNED = ("mu",)


class ContractBroken(DualflError, AssertionError):
    """An algorithm does not do what the contract says.

    Examples
    --------
    >>> from dualfl.testing import ContractBroken
    >>> issubclass(ContractBroken, AssertionError)
    True
    """


@dataclass(frozen=True)
class Subject:
    """What is checked: an algorithm, a loss that it takes, and the hyperparameters that may be negative."""

    algorithm: Algorithm
    loss: Loss = field(default_factory=Logistic)
    signed: Collection[str] = SIGNED

    @classmethod
    def of(cls, algorithm: type[Algorithm] | Algorithm, loss: Loss | None, signed: Collection[str]) -> Subject:
        """The first of some losses that it takes, where none is given."""
        check_registrable(algorithm if isinstance(algorithm, type) else type(algorithm))
        chosen = algorithm() if isinstance(algorithm, type) else algorithm
        if loss is not None:
            return cls(chosen, loss, signed)
        refusals: list[DualflError] = []
        for each in LOSSES:
            try:
                subject = cls(chosen, each, signed)
                subject.run(rounds=1)
                return subject
            except (InputError, NotSupported) as error:
                refusals.append(error)
        raise refusals[0]

    @cached_property
    def problem(self) -> Problem:
        """Four unequal clients with five features; no two draw from the same distribution."""
        rng = np.random.default_rng(7)
        clients: list[Objective] = []
        for count in (6, 9, 14, 20):
            X = rng.standard_normal((count, FEATURES)) + rng.standard_normal(FEATURES)
            y = np.where(X @ rng.standard_normal(FEATURES) + rng.standard_normal(count) > 0, 1.0, -1.0)
            y[:2] = 1.0, -1.0
            clients.append(LinearModel(X, y, self.loss, ridge=0.1))
        return Problem(clients, solvers=DampedNewton() if self.loss.smooth else None)

    @cached_property
    def resolved(self) -> Algorithm:
        """With every default filled in from theory."""
        return self.run(rounds=0).algorithm

    def run(self, **options: Any) -> Result:
        return run(self.problem, self.algorithm, **{"rounds": ROUNDS, "threads": 1} | options)

    def promise(self, kept: bool, sentence: str) -> None:
        if not kept:
            raise ContractBroken(f"{self.algorithm.name}: {sentence}.")


Check = Callable[[Subject], str]  # "", or why there was nothing to check


def check_algorithm(
    algorithm: type[Algorithm] | Algorithm,
    *,
    loss: Loss | None = None,
    signed: Collection[str] = SIGNED,
    tell: Callable[[str, str], None] | None = None,
) -> None:
    """Check that an algorithm keeps the contract; ContractBroken says what it does not keep.

    Parameters
    ----------
    algorithm : type[Algorithm] or Algorithm
        The class, whose defaults are then checked, or an instance.
    loss : Loss, optional
        One that it takes; the default is the first of logistic, squared and hinge.
    signed : Collection[str], default ('mu',)
        Hyperparameters that may be negative; all other numbers must refuse -1. By default it is mu alone, which in
        many algorithms only scales the certificate.
    tell : callable, optional
        Hears of each check that is done, and why it does not apply if it does not.

    Examples
    --------
    >>> from dualfl.algorithms import GradientDescent
    >>> from dualfl.testing import check_algorithm
    >>> check_algorithm(GradientDescent)
    """
    subject = Subject.of(algorithm, loss, signed)
    for name, each in CHECKS.items():
        skipped = each(subject)
        if tell is not None:
            tell(name, skipped)


# -- what it says of itself -------------------------------------------------------------------------------


def is_described(subject: Subject) -> str:
    """A card, a docstring of the class and of its file, and a grid of hyperparameters that exist."""
    cls = type(subject.algorithm)
    card = cls.card
    fields = {each.name for each in hyperparameters(cls)}
    subject.promise(isinstance(card, Card), "it has no card")
    subject.promise(
        bool(card.title and card.reference and card.rate) and 1800 < card.year < 2100,
        "its card must have a title, a reference, a rate and a year",
    )
    subject.promise(set(cls.grid) <= fields, f"its grid names {sorted(set(cls.grid) - fields)}, which it does not have")
    subject.promise(bool(cls.__doc__), "its class has no docstring")
    subject.promise(bool(sys.modules[cls.__module__].__doc__), "its file has no docstring, which is its citation")
    return ""


def survives_json(subject: Subject) -> str:
    """Silos in other places know it as JSON; and theory changes nothing that is filled in already."""
    subject.promise(subject.resolved.resolved, "a default is still open after theory has filled it in")
    for algorithm in (subject.algorithm, subject.resolved):
        fields = json.loads(algorithm.to_json())
        subject.promise(fields.pop("algorithm") == algorithm.name, "its JSON has another name")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        subject.promise(type(algorithm)(**values) == algorithm, "it is another algorithm after a way through JSON")
    again = run(subject.problem, subject.resolved, rounds=0).algorithm
    subject.promise(again == subject.resolved, "resolving it twice changes a hyperparameter")
    return ""


def refuses_wrong_values(subject: Subject) -> str:
    """Every number refuses -1, every word refuses another one, and the sentence names the hyperparameter."""
    for each in hyperparameters(subject.resolved):
        value = getattr(subject.resolved, each.name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        if isinstance(value, str):
            _refuses(subject, each.name, "nonsense")
        elif each.name not in subject.signed:
            _refuses(subject, each.name, -1)
    return ""


def _refuses(subject: Subject, name: str, wrong: Any) -> None:
    resolved: Any = subject.resolved
    try:
        run(subject.problem, dataclasses.replace(resolved, **{name: wrong}), rounds=0)
    except InputError as error:
        subject.promise(name in str(error), f"it refuses {name} = {wrong!r} without saying so: {error}")
        return
    subject.promise(False, f"it accepts {name} = {wrong!r}; refuse it in `check`, or say that it may be so by signed=")


def hyperparameters(algorithm: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(algorithm)


# -- that it is a pure function of states and messages ----------------------------------------------------


def resumes(subject: Subject) -> str:
    """Interrupted after every exchange and resumed from the file, it gives the same bits as in one go."""
    whole, real, left = subject.run(), InProcess.gather, 0

    def interrupted(engine: InProcess, *args: Any) -> Any:
        nonlocal left
        if args[0].name not in ("survey", "inquiry"):
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
        return real(engine, *args)

    with tempfile.TemporaryDirectory() as folder, patch.object(InProcess, "gather", interrupted):
        file = Path(folder, "run.npz")
        stopped, legs = "interrupted", 0
        while stopped == "interrupted":
            left, legs = 1, legs + 1  # one exchange, then another process would start from the file
            resumed = subject.run(checkpoint=file, resume=file.exists())
            stopped = resumed.stopped
    subject.promise(legs >= ROUNDS, "a round of it takes no exchange")
    subject.promise(everything(resumed) == everything(whole), "a run that is resumed gives other bits")
    return ""


def ignores_threads(subject: Subject) -> str:
    """One thread or three, the bits are the same."""
    with patch.object(inprocess, "WORTH_A_THREAD", 0.0):
        one, many = (everything(subject.run(threads=threads)) for threads in (1, 3))
    subject.promise(one == many, "the number of threads changes its bits, so a step shares something")
    return ""


def repeats_itself(subject: Subject) -> str:
    """A request that comes twice gets the same answer, also when it is computed once more from the state before."""

    def twice(algorithm: Algorithm, f: Any, silo: Any, request: Any, *rest: Any) -> Any:
        reply, after = answer(algorithm, f, silo, request, *rest)
        again, same = answer(algorithm, f, after, request, *rest)
        subject.promise(same is after and again is reply, "a client does not repeat the answer that it has stored")
        afresh, _ = answer(algorithm, f, silo, request, *rest)
        subject.promise(
            plain(afresh.wire) == plain(reply.wire),
            f"the step {request.step} answers the same message from the same state in two ways",
        )
        return reply, after

    with patch.object(inprocess, "answer", twice):
        subject.run(rounds=2)
    return ""


def starts_anywhere(subject: Subject) -> str:
    """To start at x0 is to move the origin there."""
    if type(subject.algorithm).warm:
        return "it starts in a way of its own"
    x0 = np.array([3.0, -2.0, 1.0, 0.5, -4.0])
    still, moved = shifted(x0)
    options: dict[str, Any] = {"rounds": ROUNDS, "evaluate": False, "threads": 1}
    try:
        a = run(still, subject.algorithm, start=x0, **options).theta
        b = run(moved, subject.algorithm, **options).theta
    except NotSupported as error:
        return str(error)
    subject.promise(bool(np.allclose(a, b + x0, rtol=0, atol=1e-7)), "another start is not a move of the origin")
    return ""


def shifted(x0: Array) -> tuple[Problem, Problem]:
    """A problem, and the same with its origin at x0."""
    rng = np.random.default_rng(8)
    still: list[Objective] = []
    moved: list[Objective] = []
    for _ in range(4):
        B = rng.standard_normal((8, 5))
        A, b = B.T @ B / 8 + 0.3 * np.eye(5), rng.standard_normal(5)
        still.append(Quadratic(A, b))
        moved.append(Quadratic(A, b - A @ x0, mu=still[-1].mu, L=still[-1].L))
    return Problem(still, solvers=DampedNewton()), Problem(moved, solvers=DampedNewton())


def everything(result: Result) -> Any:
    """All numbers of a result but the seconds, as they are in memory."""
    return {
        "theta": plain(result.theta),
        "server": plain(result.state),
        "clients": [plain(silo.state) for silo in result.silos],
        "rows": [row._replace(seconds=0.0) for row in result.history],
    }


def plain(value: Any) -> Any:
    """What can be compared bit by bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


# -- where it ends ----------------------------------------------------------------------------------------


def reaches_the_pooled_optimum(subject: Subject) -> str:
    """On clients that are not alike: see `dualfl.experiments.optimum_check`."""
    verdicts = [check(subject.algorithm, problem) for problem in PROBLEMS]
    reasons = "; ".join(f"{each.problem}: {each.reason}" for each in verdicts)
    subject.promise(
        any(each.applies for each in verdicts), f"no problem is there that it can be checked on ({reasons})"
    )
    for each in verdicts:
        ends = f"it ends at a relative error of {each.error:.1e} on {each.problem} clients that are not alike"
        if each.drifts:
            subject.promise(each.holds, f"it says that it drifts, and {ends}")
        subject.promise(each.holds, f"{ends}, and {PASS:g} is asked for; if that is by design, say drifts = True")
    return ""


OPTIMUM = "reaches the pooled optimum"
CHECKS: dict[str, Check] = {
    "is described": is_described,
    "survives JSON": survives_json,
    "refuses wrong values": refuses_wrong_values,
    "resumes to the same bits": resumes,
    "ignores the number of threads": ignores_threads,
    "repeats itself": repeats_itself,
    "starts anywhere": starts_anywhere,
    OPTIMUM: reaches_the_pooled_optimum,
}
