"""From silos to a fitted linear model: the federated problem, the run, and what became of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.engines.history import Row
from dualfl.engines.inprocess import Result
from dualfl.engines.session import CONTRADICTION, SMALLEST, run
from dualfl.errors import InputError, NotSupported
from dualfl.estimators.cox_proof import CoxProof
from dualfl.estimators.proof import FreeIntercept
from dualfl.estimators.silos import SiloRows
from dualfl.objectives import L1, LinearModel, Loss
from dualfl.objectives.linear import Intercept
from dualfl.problem import Problem
from dualfl.typing import Array

FLOOR = 10  # times what E may be off by rounding: a gap that small is proven as well as floating point can
PERFECT = 8  # times the same: an energy that small is 0 but for rounding
IDLE, IDLE_CERTIFIED = 5, 20  # rounds without a gain after which a run has settled; a certificate may still improve
IDLE, IDLE_CERTIFIED = 5, 20  # rounds at one energy after which a run has settled; a certificate may still improve
HOPELESS = 50  # rounds without a gain, wherever the energies were


@dataclass(frozen=True)
class FitCost:
    """An estimator's objective as this library writes it:

    E = sum_i s_i l(y_i, z_i) + (ridge/2)|w|^2 + l1 |w|_1,  sum_i s_i = 1.
    """

    loss: Loss
    ridge: float = 0.0
    l1: float = 0.0


def federated_problem(silos: Sequence[SiloRows], cost: FitCost, intercept: Intercept) -> Problem:
    """The pooled objective, spread over the silos."""
    clients = [
        LinearModel(silo.X, silo.y, cost.loss, cost.ridge, weights=silo.weights, intercept=intercept) for silo in silos
    ]
    return Problem(clients, penalty=L1(cost.l1) if cost.l1 else None)


@dataclass(frozen=True)
class FitLimits:
    """What ends a fit."""

    tol: float
    rounds: int
    seed: int
    progress: bool
    offset: float = 0.0  # what is added to E before tol is relative to it

    def met(self, gap: float | None, energy: float | None, rounding: float | None) -> bool:
        """Whether a gap is as small as asked for, or as rounding lets it be."""
        if gap is None or energy is None or not np.isfinite(energy):
            return False
        return gap <= max(self.tol * abs(energy + self.offset), FLOOR * (rounding or SMALLEST))


def solve(problem: Problem, algorithm: str | Algorithm, limits: FitLimits, start: Array | None = None) -> Result:
    """Run until E - E* <= tol |E| is proven, or nothing moves any more, or the rounds are used up."""
    chosen = algorithm_named(algorithm) if isinstance(algorithm, str) else algorithm
    if not isinstance(chosen, Algorithm):
        raise InputError(f"algorithm must be a name or an Algorithm, but it is {algorithm!r}.")
    check_able(problem, chosen)
    settled = Settled(limits, problem, proof_of(problem))
    result = run(
        problem,
        chosen,
        rounds=limits.rounds,
        start=start,
        seed=limits.seed,
        stop=settled,
        progress=limits.progress,
    )
    result = settled.with_proof(result)
    if isinstance(settled.proof, CoxProof):
        result = replace(result, theta=settled.proof.refined(result.theta))
    return result


def proof_of(problem: Problem) -> FreeIntercept | CoxProof | None:
    """What can prove a bound of E* where the algorithm itself may not."""
    if CoxProof.applies(problem):
        return CoxProof(problem)
    return FreeIntercept(problem) if FreeIntercept.applies(problem) else None


def algorithm_named(algorithm: str) -> Algorithm:
    """The algorithm of that name. A fit runs in one process, where no sum of few rows leaves anybody's hands."""
    return Auto(least_rows=1) if algorithm == "auto" else make(algorithm)


class Settled:
    """Ends a run: certified by the algorithm, or by `proof`; or once the energy has stopped falling."""

    def __init__(self, limits: FitLimits, problem: Problem, proof: FreeIntercept | CoxProof | None = None) -> None:
        self.limits, self.proof, self.pooled = limits, proof, problem.pooled
        self.nonnegative = all(isinstance(f, LinearModel) and f.loss.nonnegative for f in problem.clients)
        self.energies: list[float] = []  # the best of all rounds up to each
        self.seen: list[float] = []
        self.rounding = 0.0  # how far off the best energy may be
        self.proven = -np.inf  # lower bound of E*
        self.enough = np.inf  # the gain of a round below which another attempt at a proof is worth its exchange

    def __call__(self, row: Row, theta: Array) -> bool:
        if row.energy is None:
            return False
        self.seen.append(row.energy)
        if not self.energies or row.energy <= self.energies[-1]:
            self.rounding = self.pooled.rounding(theta).value  # of the best model: a trial far out may have any
        self.energies.append(min(row.energy, self.energies[-1] if self.energies else np.inf))
        best, limits = self.energies[-1], self.limits
        if not np.isfinite(best):  # a start outside all bounds is not where anything has settled
            return False
        scale = abs(best + limits.offset)
        rounding = self.rounding
        if limits.met(row.certificate, best, rounding):
            return True
        if self.nonnegative and best <= PERFECT * rounding:  # a perfect fit: no loss and no penalty is below 0
            self.proven = max(self.proven, 0.0)
            return True
        patience = IDLE if row.certificate is None else IDLE_CERTIFIED
        idle = self.idle(patience, min(1e-2 * limits.tol, 1e-14) * abs(best))
        # A method that converges quadratically has about the square of its last gain to go.
        near = row.energy <= best + 2 * rounding and self.gain(1) <= min(np.sqrt(limits.tol) * scale, self.enough)
        if self.proof is not None and (near or idle):
            self.proven = max(self.proven, self.proof.bound(theta))
            gap = best + rounding - self.proven
            # What is left is about proportional to the last gain, so the next attempt waits for that.
            self.enough = self.gain(1) * min(0.1, limits.tol * scale / gap if 0 < gap < np.inf else 0.1)
            return idle or limits.met(gap, best, rounding)
        return idle

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


def check_able(problem: Problem, algorithm: Algorithm) -> None:
    """Refuse an algorithm that cannot solve this problem, and say which can."""
    why = obstacle(problem, type(algorithm))
    if why:
        able = [name for name, other in ALGORITHMS.items() if not obstacle(problem, other) and not other.drifts]
        raise NotSupported(f"{algorithm.name} {why}; {', '.join(able)} can.")


def obstacle(problem: Problem, algorithm: type[Algorithm]) -> str:
    """Why the algorithm cannot; empty if nothing is known against it."""
    f: Any = problem.clients[0]
    if problem.penalty is not None and algorithm.penalty is None:
        return "is for smooth problems, and this one has an l1 penalty"
    missing = sorted(algorithm.needs - {"local"} - f.offers)
    if missing:
        return f"needs a {missing[0]}, and the {f.name} loss has none"
    if algorithm.strongly_convex and f.mu == 0:
        if f.free is not None and f.ridge > 0:
            return "needs a strongly convex objective, and the intercept is not penalised (penalize_intercept=False)"
        return "needs a strongly convex objective, and nothing is penalised by a ridge"
    return ""
