"""Many runs in one exchange: all advance together, and what they ask travels in one message.

A run is a generator of requests (`exchanges`), so several can be driven in lockstep. `together` is a generator again:
it yields the list of what all runs ask that are still alive, is sent the list of answers, and ends when the last run
has. A run never notices the others, so each gives the bits that it gives alone. The longest one decides how many
exchanges they take; one after another they would take the sum.

    exchanges(all)  =  max over runs of exchanges(run)      instead of the sum, while messages stay below `limit`.

Above `limit` numbers to or from a client they go in waves: whoever has had the fewest exchanges is first, and among
these the order is that in which the runs were given.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

from dualfl.algorithms.messages import floats
from dualfl.engines.decision import ClientsHere, deciding
from dualfl.engines.exchanges import Answer, Exchanges, Gathered, Measured, Measurement, Outcome, Request, Step, drive
from dualfl.engines.launch import make_engine
from dualfl.engines.progress import Bar
from dualfl.engines.request import RunRequest, check_limits, check_recording, check_tol
from dualfl.engines.result import Account, Result
from dualfl.engines.session import Session
from dualfl.errors import InputError, OutOfTime
from dualfl.kernels.blas_threads import one_blas_thread
from dualfl.outputs import alone

MOST = 2**24  # numbers in one message to or from a client: 128 MB
FEW, LONGER = 0.02, 1.2  # of the runs, and how much longer they may take than all others
Kept = tuple[type[Exception], ...]
Reply = Answer | BaseException | None
Messages = Generator[list[Request], Sequence[Reply], "Together[Outcome]"]


@dataclass(frozen=True)
class Together(Generic[Outcome]):
    """What became of runs that went together.

    outcomes : the result of each run, or the error that ended it, if errors of its kind are kept.
    account : exchanges and contacts are messages that all shared, set-up included; floats, payload and gradients are
        sums over all runs.
    """

    outcomes: list[Outcome | Exception]
    account: Account

    @property
    def results(self) -> list[Outcome]:
        """The results, if every run has one; otherwise the first error is raised."""
        found: list[Outcome] = []
        for outcome in self.outcomes:
            if isinstance(outcome, Exception):
                raise outcome
            found.append(outcome)
        return found


def together(
    fits: Sequence[Exchanges[Outcome]], *, keep: Kept = (), limit: int = MOST, stragglers: bool = True
) -> Messages[Outcome]:
    """Advance all generators in lockstep.

    Yields the list of what they ask. For each request it is sent an answer, or an error, which is raised inside that
    run alone, or None, which leaves the request for the next list. An error that is thrown into it reaches all runs.

    keep : errors of these kinds end the run that raises them and become its outcome; any other ends all.
    limit : the most numbers that one message to or from a client may have; a request is never divided.
    stragglers : whether to wait for each run, however long it takes. False: once 98 of 100 have ended, the others get a
        fifth as many exchanges again, and then are out of time.
    """
    return _Lockstep(fits, keep, limit, stragglers).messages()


@dataclass
class _Fit(Generic[Outcome]):
    """One of the runs: its generator, what it asks now, and what became of it."""

    place: int
    exchanges: Exchanges[Outcome]
    request: Request | None = None
    had: int = 0  # exchanges that it took part in
    last: int = 0  # numbers that a client sent in the last of them
    outcome: Any = None


class _Sizes:
    """How many numbers clients send back, learnt from what they sent."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str, int], int] = {}

    def of(self, fit: _Fit[Any]) -> int:
        """The larger of what a run sends to one client and what it gets back."""
        if isinstance(fit.request, Measurement):  # what rides on it is likely to be what was asked before
            return len(fit.request.theta) + fit.last
        assert fit.request is not None
        step = fit.request
        most = step.size * (step.size + 9) // 2  # a symmetric matrix and a few vectors
        return max(floats(step.asked.message), self.seen.get(self.key(step), most))

    def learn(self, fit: _Fit[Any], step: Step, gathered: Gathered) -> None:
        fit.last = -(-gathered.floats // max(len(step.clients), 1))
        self.seen[self.key(step)] = max(fit.last, self.seen.get(self.key(step), 0))

    @staticmethod
    def key(step: Step) -> tuple[str, str, int]:
        return step.algorithm.name, step.asked.step, step.size


class _Lockstep(Generic[Outcome]):
    def __init__(self, fits: Sequence[Exchanges[Outcome]], keep: Kept, limit: int, stragglers: bool) -> None:
        if limit < 1:
            raise InputError(f"limit is the most numbers in a message and must be at least 1, but it is {limit}.")
        self.fits = [_Fit(place, exchanges) for place, exchanges in enumerate(fits)]
        self.keep, self.limit, self.stragglers = keep, limit, stragglers
        self.sizes, self.account = _Sizes(), Account()
        self.most: int | None = None  # exchanges that all but a few have taken

    def messages(self) -> Messages[Outcome]:
        began = time.perf_counter()
        try:
            for fit in self.fits:
                self.advance(fit, None)
            while wave := self.wave():
                try:
                    replies = yield [fit.request for fit in wave if fit.request is not None]
                except Exception as error:
                    self.throw(error)
                except KeyboardInterrupt as error:
                    self.throw(error)
                else:
                    self.take(wave, replies)
                    if not self.stragglers:
                        self.leave_behind()
        finally:  # whoever is left, because another has failed, saves what it has
            for fit in self.fits:
                fit.exchanges.close()
        account = self.account._replace(seconds=time.perf_counter() - began)
        return Together([fit.outcome for fit in self.fits], account)

    def leave_behind(self) -> None:
        """End the few that take much longer than all others."""
        live = [fit for fit in self.fits if fit.request is not None]
        if len(live) > FEW * len(self.fits):
            return
        if self.most is None:
            self.most = self.account.exchanges
        if self.account.exchanges >= LONGER * self.most:
            for fit in live:
                self.advance(fit, OutOfTime())

    def wave(self) -> list[_Fit[Outcome]]:
        """Those whose requests make the next message; nobody is left out while there is room."""
        waiting = sorted((fit for fit in self.fits if fit.request is not None), key=lambda fit: (fit.had, fit.place))
        chosen: list[_Fit[Outcome]] = []
        size = 0
        for fit in waiting:
            size += self.sizes.of(fit)
            if chosen and size > self.limit:
                break
            chosen.append(fit)
        return sorted(chosen, key=lambda fit: fit.place)

    def take(self, wave: list[_Fit[Outcome]], replies: Sequence[Reply]) -> None:
        """Hand out what came back."""
        if len(replies) != len(wave):
            raise InputError(f"{len(wave)} runs asked for something, and {len(replies)} answers came; give one each.")
        self.book(wave, replies)
        for fit, reply in zip(wave, replies):
            if reply is not None:
                self.advance(fit, reply)

    def throw(self, error: BaseException) -> None:
        """Raise an error in all runs; those that know no better end with it, and so does this, once all have heard."""
        unhandled = False
        for fit in self.fits:
            if fit.request is not None:
                try:
                    self.advance(fit, error)
                except BaseException as raised:
                    if raised is not error:
                        raise
                    unhandled = True
        if unhandled:
            raise error

    def advance(self, fit: _Fit[Outcome], reply: Reply) -> None:
        """Let a run go on to its next request, or to its end; None: let it begin."""
        fit.request = None
        try:
            if isinstance(reply, BaseException):
                fit.request = fit.exchanges.throw(reply)
            else:
                fit.request = fit.exchanges.send(reply)
        except StopIteration as end:
            fit.outcome = end.value
        except self.keep as error:
            fit.outcome = error

    def book(self, wave: list[_Fit[Outcome]], replies: Sequence[Reply]) -> None:
        """One exchange, whoever took part in it; a measurement alone is none, since it rides on what follows."""
        asked: set[int] = set()  # a message to a client serves all runs of the wave
        for fit, reply in zip(wave, replies):
            step = fit.request
            if isinstance(step, Measurement):
                if not isinstance(reply, Measured) or reply.early is None:
                    continue
                step, reply = step.following, reply.early
            if not isinstance(reply, Gathered) or not isinstance(step, Step):
                continue
            self.sizes.learn(fit, step, reply)
            fit.had += step.asked.answered
            asked |= set(step.clients) if step.asked.answered else set()
            self.account = self.account._replace(
                floats_up=self.account.floats_up + reply.floats,
                floats_down=self.account.floats_down + len(step.clients) * floats(step.asked.message),
                local_gradients=self.account.local_gradients + sum(work.gradients for work in reply.works),
                payload=self.account.payload + floats(step.asked.message) + reply.floats / len(step.clients),
            )
        self.account = self.account._replace(
            exchanges=self.account.exchanges + bool(asked), contacts=self.account.contacts + len(asked)
        )


# -- in one process -------------------------------------------------------------------------------------------


def running(request: RunRequest, engine: str = "inprocess", bar: Bar | None = None) -> Exchanges[Result]:
    """A whole run as a generator: what is decided, what is found out before the first round, and the rounds.

    A run that cannot be resumed because nothing of it was saved starts anew.
    """
    check_limits(request.limits)
    check_recording(request.recording)
    algorithm, choice = yield from deciding(request.algorithm, ClientsHere(request.problem))
    if request.limits.tol is not None:
        check_tol(algorithm, request.recording)
    options, path = request.options, request.recording.checkpoint
    bound = make_engine(engine, request.problem, algorithm, options, settle=False)
    try:
        yield from bound.settling(algorithm, options.constants)
    except BaseException:
        bound.close()
        raise
    session = Session(bound, request.recording)
    resume = request.resume and path is not None and path.exists()
    return replace((yield from session.exchanges(request.limits, resume, bar)), choice=choice)


def run_together(
    requests: Sequence[RunRequest],
    *,
    checkpoint: Path | str | None = None,
    resume: bool = False,
    keep: Kept = (),
    limit: int = MOST,
) -> Together[Result]:
    """Run all requests in lockstep in this process; each result is, to the last bit, that of `run` alone.

    Parameters
    ----------
    checkpoint : a folder with one file a run, in place of the files that the requests name.
    resume : go on from these files; a run that has none starts anew.
    keep : errors that become the outcome of their run instead of ending all.
    limit : the most numbers in a message to or from a client; above it runs go in waves.
    """
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None:
        requests = [
            replace(one, resume=resume, recording=replace(one.recording, checkpoint=folder / f"run-{place:04}.npz"))
            for place, one in enumerate(requests)
        ]
    fits = [running(one) for one in requests]
    with one_blas_thread(), nullcontext() if folder is None else alone(folder):
        return drive(together(fits, keep=keep, limit=limit), carry_all)


def carry_all(requests: Sequence[Request]) -> list[Reply]:
    """The answers of clients in this process.

    Measurements come first: what a run asks next travels with its measurement, so both are one exchange.
    """
    first = [request for request in requests if isinstance(request, Measurement)] or requests
    chosen = {id(request) for request in first}
    return [_answer(request) if id(request) in chosen else None for request in requests]


def _answer(request: Request) -> Answer | Exception:
    """What came back, or the error, which is this run's own."""
    try:
        return request.carried_out()
    except Exception as error:
        return error
