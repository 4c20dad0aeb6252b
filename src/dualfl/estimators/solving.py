"""From silos to a fitted linear model: the federated problem, the run, and what became of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.engines.best import CONTRADICTION, SMALLEST
from dualfl.engines.decision import inquiry_of
from dualfl.engines.engine import Engine
from dualfl.engines.exchanges import Exchanges, drive
from dualfl.engines.history import Row
from dualfl.engines.lockstep import together
from dualfl.engines.progress import Bar
from dualfl.engines.request import Limits, Recording
from dualfl.engines.result import Result
from dualfl.engines.session import Session
from dualfl.errors import DualflError, InputError, NotSupported
from dualfl.estimators.curvature_proof import CurvatureProof
from dualfl.estimators.proof import FreeIntercept
from dualfl.kernels.blas_threads import one_blas_thread
from dualfl.objectives import Loss
from dualfl.objectives.joined import joined
from dualfl.problem import Problem
from dualfl.silos.costs import Cost, Sample
from dualfl.silos.here import SideHere
from dualfl.silos.questions import Conversation, Exchange, Side, Silos
from dualfl.typing import Array

FLOOR = 10  # times what E may be off by rounding: a gap that small is proven as well as floating point can
NOTHING = 1e-20  # of an energy, whatever its unit
PERFECT = 8  # times the same: an energy that small is 0 but for rounding
IDLE, IDLE_CERTIFIED = 5, 20  # rounds at one energy after which a run has settled; a certificate may still improve
CLOSE, STILL = 1e-3, 3  # of what is wanted, the gain of a round, or of so many, after which a proof is asked for
STEADY, POLISH = 1e-8, 5  # of the largest coefficient, the last move of a model that rests; rounds to wait for that
HOPELESS = 50  # rounds without a gain, wherever the energies were


@dataclass(frozen=True)
class FitCost:
    """An estimator's objective as this library writes it:

    E = sum_i s_i l(y_i, z_i) + (ridge/2)|w|^2 + l1 |w|_1,  sum_i s_i = 1.
    """

    loss: Loss
    ridge: float = 0.0
    l1: float = 0.0


@dataclass(frozen=True)
class FitLimits:
    """What ends a fit."""

    tol: float
    rounds: int
    seed: int
    progress: bool
    offset: float = 0.0  # what is added to E before tol is relative to it
    of_start: bool = False  # tol is relative to E where the fit starts, if that is larger
    least: float = 0.0  # that E, once it is known
    proof_follows: bool = False  # whoever asked for the fit proves how near it is; the run ends when it is near

    def met(self, gap: float | None, energy: float | None, rounding: float | None) -> bool:
        """Whether a gap is as small as asked for, or as rounding lets it be."""
        if gap is None or energy is None or not np.isfinite(energy):
            return False
        return gap <= max(self.wanted(energy), FLOOR * (rounding or SMALLEST))

    def wanted(self, energy: float) -> float:
        """The gap that was asked for."""
        return self.tol * self.scale(energy)

    def scale(self, energy: float) -> float:
        """What tol is relative to."""
        return max(abs(energy + self.offset), self.least)


@dataclass(frozen=True, eq=False)
class Task:
    """One fit of one estimator on some rows; it may take several problems, one a class."""

    model: FitDescription
    sample: Sample
    start: Sequence[Array] | None = None
    of_path: bool = False  # one of many, of which the best is chosen: tol is relative to where it starts


class FitDescription(Protocol):
    """What an estimator says of its fit."""

    algorithm: Any

    def _costs(self, sample: Sample) -> list[Cost]: ...

    def _limits(self, sample: Sample) -> FitLimits: ...


Outcome = list[Result] | DualflError


def solving(silos: Silos, tasks: Sequence[Task], purpose: str = "the fit") -> Conversation[list[Outcome]]:
    """All problems of all tasks, side by side: each exchange carries what all of them ask.

    A task that cannot be solved has the reason in place of its results.
    """
    runs, places = [], []
    for i, task in enumerate(tasks):
        costs = task.model._costs(task.sample)
        starts: Sequence[Array | None] = [None] * len(costs) if task.start is None else task.start
        limits = replace(task.model._limits(task.sample), of_start=task.of_path)
        for cost, start in zip(costs, starts):
            runs.append(one_fit(silos, cost, task.sample, task.model.algorithm, limits, start))
            places.append(i)
    found = yield from side_by_side(runs, purpose, stragglers=not all(task.of_path for task in tasks))
    outcomes: list[Outcome] = [[] for _ in tasks]
    for i, result in zip(places, found):
        known = outcomes[i]
        if isinstance(known, DualflError):
            continue
        if isinstance(result, DualflError):
            outcomes[i] = result
        else:
            known.append(result)
    return outcomes


def side_by_side(runs: Sequence[Exchanges[Result]], purpose: str, stragglers: bool = True) -> Conversation[list[Any]]:
    """The exchanges of several runs, each carrying what all of them ask; the results, or why there is none."""
    merged = together(runs, keep=(DualflError,), stragglers=stragglers)
    answers: Any = None
    while True:
        try:
            requests = merged.send(answers)
        except StopIteration as end:
            return list(end.value.outcomes)
        answers = yield Exchange(purpose, tuple(requests))


def one_fit(
    silos: Silos, cost: Cost, sample: Sample, algorithm: str | Algorithm, limits: FitLimits, start: Array | None = None
) -> Exchanges[Result]:
    """One problem; its targets are shifted, and its result is not."""
    side = silos.side(cost, sample)
    begin = with_shifted_intercept(start, side.template.shape, -cost.shift)
    return shifted((yield from running(side, algorithm, limits, begin)), cost.shift)


def running(side: Side, algorithm: str | Algorithm, limits: FitLimits, start: Array | None = None) -> Exchanges[Result]:
    """Run until E - E* <= tol |E| is proven, or nothing moves any more, or the rounds are used up."""
    chosen = named(algorithm, side) if isinstance(algorithm, str) else algorithm
    if not isinstance(chosen, Algorithm):
        raise InputError(f"algorithm must be a name or an Algorithm, but it is {algorithm!r}.")
    engine, _, why = yield from starting(side, chosen, start, limits.seed)
    session = Session(engine, Recording())
    loss = getattr(side.template, "loss", None)
    proof = None if limits.proof_follows else proof_of(side, engine.algorithm.certifies)
    settled = Settled(limits, loss is not None and loss.nonnegative, lambda: session.best.rounding, proof)
    settled.kinks = loss is not None and not loss.smooth
    settled.last_resort = lambda: proof_of(side, False)
    with Bar(engine.algorithm.name, limits.rounds, limits.progress) as bar:
        result = yield from session.exchanges(Limits(limits.rounds, stop=settled), bar=bar)
    result = side.counted(settled.with_proof(replace(result, choice=why)))
    if isinstance(settled.proof, CurvatureProof):
        result = replace(result, theta=settled.proof.refined(result.theta))
    return result


def starting(
    side: Side, algorithm: Algorithm, start: Array | None, seed: int
) -> Exchanges[tuple[Engine, Algorithm, str]]:
    """An engine that knows its constants; the algorithm that runs, and why it was chosen."""
    check_able(side, algorithm)
    constants, why = None, ""
    if algorithm.undecided:
        facts = yield from side.inquiring(inquiry_of(algorithm))
        algorithm, why = algorithm.specialise(facts, side.penalty)
        constants = replace(facts, facts=None) if algorithm.resolved else None
    engine = side.engine(algorithm, start, seed)
    yield from engine.settling(algorithm, constants)
    return engine, algorithm, why


def solve(problem: Problem, algorithm: str | Algorithm, limits: FitLimits, start: Array | None = None) -> Result:
    """A problem in this process."""
    with one_blas_thread():
        return drive(running(SideHere(problem, joined), algorithm, limits, start))


def named(algorithm: str, side: Side) -> Algorithm:
    """The algorithm of that name."""
    return side.auto if algorithm == "auto" else make(algorithm)


def proof_of(side: Side, certified: bool) -> FreeIntercept | CurvatureProof | None:
    """A proof that this process can make beside the algorithm's own, for costs of which algorithms know too little."""
    problem: Problem | None = getattr(side, "problem", None)
    if problem is None:
        return None
    if CurvatureProof.applies(problem):
        return CurvatureProof(problem)
    return FreeIntercept(problem) if not certified and FreeIntercept.applies(problem) else None


def with_shifted_intercept(theta: Array | None, shape: tuple[int, ...], shift: float) -> Array | None:
    """A flat model whose intercept, the last row of its matrix, is larger by this."""
    if theta is None or not shift:
        return theta
    matrix = np.array(theta).reshape(shape[0], -1)
    matrix[-1] += shift
    return matrix.ravel()


def shifted(result: Result, shift: float) -> Result:
    """The result for targets that are larger by this."""
    theta = with_shifted_intercept(result.theta, result.shape, shift)
    assert theta is not None
    return replace(result, theta=theta)


class Settled:
    """Ends a run: certified by the algorithm, or by `proof`; or once the energy has stopped falling."""

    def __init__(
        self,
        limits: FitLimits,
        nonnegative: bool,
        rounding_of_best: Callable[[], float],
        proof: FreeIntercept | CurvatureProof | None = None,
    ) -> None:
        self.limits, self.nonnegative, self.proof = limits, nonnegative, proof
        self.rounding_of_best = rounding_of_best  # of the best model: a trial far out may have any
        self.energies: list[float] = []  # the best of all rounds up to each
        self.seen: list[float] = []
        self.rounding = 0.0  # how far off the best energy may be
        self.proven = -np.inf  # lower bound of E*
        self.kinks = False  # of the loss: then energies tell only half of a model's digits, and slopes no more
        self.resting: list[Array] = []  # models of the rounds in which rounding hid the rest of the gap
        self.enough = np.inf  # the gain of a round below which another attempt at a proof is worth its exchange
        self.last_resort: Callable[[], FreeIntercept | CurvatureProof | None] = lambda: None  # where all else failed

    def __call__(self, row: Row, theta: Array) -> bool:
        if row.energy is None:
            return False
        self.seen.append(row.energy)
        self.rounding = self.rounding_of_best()
        self.energies.append(min(row.energy, self.energies[-1] if self.energies else np.inf))
        if self.limits.of_start and len(self.seen) == 1 and np.isfinite(row.energy):
            self.limits = replace(self.limits, least=abs(row.energy + self.limits.offset))
        best, limits = self.energies[-1], self.limits
        if not np.isfinite(best):  # a start outside all bounds is not where anything has settled
            return False
        scale = limits.scale(best)
        rounding = self.rounding
        if limits.met(row.certificate, best, rounding):
            assert row.certificate is not None
            return row.certificate <= limits.wanted(best) or not self.kinks or self.rests(theta)
        # A perfect fit: no loss and no penalty is below 0. Rounding that hides everything proves nothing is left.
        # Where the first model is perfect, there is no energy to compare with, and rounding must be next to none.
        if self.nonnegative and best <= PERFECT * rounding <= max(limits.tol * self.seen[0], NOTHING):
            self.proven = max(self.proven, 0.0)
            return True
        if limits.proof_follows and row.certificate is None and self.close(limits.tol * scale):
            return True
        patience = IDLE if row.certificate is None else IDLE_CERTIFIED
        idle = self.idle(patience, min(1e-2 * limits.tol, 1e-14) * abs(best))
        # A method that converges quadratically has about the square of its last gain to go.
        if idle and self.proof is None and row.certificate is None:
            self.proof = self.last_resort()
        near = row.energy <= best + 2 * rounding and self.gain(1) <= min(np.sqrt(limits.tol) * scale, self.enough)
        if self.proof is not None and (near or idle) and row.certificate is None:
            self.proven = max(self.proven, self.proof.bound(theta))
            gap = best + rounding - self.proven
            # What is left is about proportional to the last gain, so the next attempt waits for that.
            self.enough = self.gain(1) * min(0.1, limits.tol * scale / gap if 0 < gap < np.inf else 0.1)
            return idle or limits.met(gap, best, rounding)
        return idle

    def rests(self, theta: Array) -> bool:
        """Whether the model stands still, too, or will not. Where rounding hides what is left of the gap, coefficients
        have only half of their digits; a method that converges fast finds the others in a round or two."""
        self.resting.append(theta)
        if len(self.resting) <= 1:
            return False
        moved = float(np.abs(theta - self.resting[-2]).max(initial=0.0))
        return moved <= STEADY * float(np.abs(theta).max(initial=0.0)) or len(self.resting) > POLISH

    def close(self, wanted: float) -> bool:
        """Whether a method that converges fast has less to go than is wanted: rounds without any gain are trials that
        were taken back, unless there are several."""
        return 0 < self.gain(1) <= CLOSE * wanted or self.gain(STILL) <= CLOSE * wanted

    def idle(self, patience: int, little: float) -> bool:
        """Whether nothing moves any more. Trials that were taken back are no rest: what is above the best was one."""
        if self.gain(patience) > little:
            return False
        return max(self.seen[-patience:]) <= self.energies[-1] + little or self.gain(HOPELESS) <= little

    def gain(self, rounds: int) -> float:
        """By how much the energy has fallen in the last rounds; infinite if there were not so many."""
        return self.energies[-1 - rounds] - self.energies[-1] if len(self.energies) > rounds else np.inf

    def with_proof(self, result: Result) -> Result:
        """The result with what was proven here, and with the exchanges that it took."""
        reason = result.certificate_reason
        if result.certificate is None and self.proof is None and result.algorithm.certifies:
            reason = "nothing that the algorithm has seen proves a lower bound of E*; a ridge penalty would help"
        unproven = self.proof is None and not np.isfinite(self.proven)
        if unproven or result.energy is None or not len(result.history):
            return replace(result, certificate_reason=reason)
        rounding = result.rounding or 0.0
        if self.proven > result.energy + rounding:
            reason = CONTRADICTION.format(bound=self.proven, least=result.energy)
            return replace(result, certificate=None, certificate_reason=reason, stopped="contradiction")
        gap = max(result.energy + rounding - self.proven, rounding) if np.isfinite(self.proven) else np.inf
        gap = min(gap, np.inf if result.certificate is None else result.certificate)
        last = result.history[-1]
        result.history.rows[-1] = last._replace(
            exchanges=last.exchanges + (self.proof.exchanges if self.proof else 0),
            floats_up=last.floats_up + (self.proof.floats_up if self.proof else 0),
            floats_down=last.floats_down + (self.proof.floats_down if self.proof else 0),
            certificate=gap if np.isfinite(gap) else None,
        )
        if not np.isfinite(gap):
            return replace(result, certificate_reason="the fit is not yet near enough to its minimiser for a proof")
        return replace(result, certificate=gap, certificate_reason="")


def warn_unless_certified(results: Sequence[Result], limits: FitLimits) -> None:
    """A model whose accuracy is not proven must not pass for one whose accuracy is."""
    for result in results:
        energy = result.energy
        if limits.met(result.certificate, energy, result.rounding):
            continue
        name, rounds = result.algorithm.name, result.rounds
        if result.stopped == "diverged":
            what = f"{name} diverged in round {rounds}; take another algorithm"
        elif result.stopped == "contradiction":
            what = result.certificate_reason
        elif result.certificate is None:
            what = f"nothing is proven of this fit after {rounds} rounds of {name}: {result.certificate_reason}"
        else:
            gap = result.certificate / abs((energy or 0.0) + limits.offset or 1.0)
            what = (
                f"after {rounds} rounds {name} proves E - E* <= {gap:.1e} |E| and tol = {limits.tol:g} was asked for; "
                "raise max_iter, scale the features, or take another algorithm"
            )
        warnings.warn(f"tol was not certified: {what}.", ConvergenceWarning, stacklevel=4)
        return


# -- which algorithms can ---------------------------------------------------------------------------------


def check_able(side: Side, algorithm: Algorithm) -> None:
    """Refuse an algorithm that cannot solve this problem, and say which can."""
    why = obstacle(side, type(algorithm))
    if why:
        able = [name for name, other in ALGORITHMS.items() if not obstacle(side, other) and not other.drifts]
        raise NotSupported(f"{algorithm.name} {why}; {', '.join(able)} can.")


def obstacle(side: Side, algorithm: type[Algorithm]) -> str:
    """Why the algorithm cannot; empty if nothing is known against it."""
    f: Any = side.template
    if side.penalty is not None and algorithm.penalty is None:
        return "is for smooth problems, and this one has an l1 penalty"
    missing = sorted(algorithm.needs - {"local"} - f.offers)
    if missing:
        return f"needs a {missing[0]}, and the {f.name} loss has none"
    if algorithm.strongly_convex and f.mu == 0:
        if f.free is not None and f.ridge > 0:
            return "needs a strongly convex objective, and the intercept is not penalised (penalize_intercept=False)"
        return "needs a strongly convex objective, and nothing is penalised by a ridge"
    return ""
