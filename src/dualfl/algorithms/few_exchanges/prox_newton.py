"""Proximal Newton at the server: a smooth loss with l1, elastic net, group, box or no penalty.

J. D. Lee, Y. Sun and M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", 2014, with the
Hessian of the pooled loss as the sum of the clients' Hessians. For E = loss + R, R(z) = z'Mz/2 + P(z):

    up      loss, its gradient g and the upper triangle of its Hessian H at x
    server  z = argmin g'(z - x) + (z - x)'H(z - x)/2 + R(z),   to rounding
            Delta = g'(z - x) + R(z) - R(x)
    next    x <- z, if  E(z) <= E(x) + 1e-4 Delta;  the clients also send the loss at a few points between x and z, a
            scalar each, so that a step that was too long is followed by one that is known to be right

Race. In exchange 1 every client also minimises its own cost, and the mean of these minimisers is a model at once. In
exchange 2 it is compared with the first Newton step; the lower energy wins, if the step from there is not predicted to
gain more than there is to gain.

Active set. Beyond `full` coefficients, and with an l1 penalty, only a block of the Hessian travels: coordinates that
are not zero, or whose |g_k| is at least 0.7 of the l1 strength, the largest first; the others rest. It has room for as
many coordinates as are not zero once more, so it doubles while it is too small, up to `most`.
The block is chosen one exchange ahead, from the gradient before.

Clients with fewer rows than `least_rows` send the loss and its gradient, and nothing else of their rows. H then lacks
what they have, a matrix of as many ranks as they have rows, and secant pairs teach it: H is updated by BFGS's formula
with all pairs so far, around what the others sent last. Every such matrix is positive definite, so that steps still
descend.

Certificate. The slopes of the losses at x, scaled, are a dual point: smooth_sums.py and dual_bound.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step
from dualfl.algorithms.cuts import below
from dualfl.algorithms.few_exchanges import composite_bound, dependence, dual_bound
from dualfl.algorithms.few_exchanges.composite_bound import Frame, framed
from dualfl.algorithms.few_exchanges.dual_bound import Doubt
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.secants import updated
from dualfl.algorithms.few_exchanges.smooth_sums import HUGE, Null, SmoothSilo, all_rows, lower_bound, of_few_rows
from dualfl.algorithms.few_exchanges.straight_pieces import STRAIGHT, SURE, kept_promise, lighter
from dualfl.algorithms.few_exchanges.upload_limits import check_size, has_few_rows
from dualfl.algorithms.packing import part, symmetric
from dualfl.algorithms.states import replace
from dualfl.algorithms.two_loops import Vectors
from dualfl.errors import InputError
from dualfl.objectives.penalties import Penalised
from dualfl.objectives.rounding import of_mean
from dualfl.solvers.base import default_solver
from dualfl.solvers.coordinate_descent import Separable, minimise_model
from dualfl.solvers.definite import EPS
from dualfl.solvers.stopping import GradientNorm
from dualfl.typing import Array

RAY = (0.5, 0.25, 0.125, 1 / 32, 1 / 256, 2.0**-12, 2.0**-17, 2.0**-23, 2.0**-30)
ARMIJO = 1e-4
FIRST = 400  # coordinates of the first block
ENOUGH = 1e-5  # of the slope at x: a step on a block, which is a part of the model, is not worth more digits
NEAR_BY = 0.1  # of the energy: a step that promises less is near the minimiser
NEAR = 0.7  # of the l1 strength, from where on a coordinate that is zero may soon not be
ALONE = 30  # Newton steps, or hundreds of first-order ones, of a client's own solution
PAIRS = 60  # that are kept
LARGEST = 4_000_000


@dataclass(frozen=True)
class Server:
    x: Array  # the best point
    trial: Array  # where to ask next
    E: float = np.inf  # at x
    predicted: float = -np.inf  # Delta of the step to the trial
    bound: float = -np.inf
    M: Array | None = None
    sizes2: Array | None = None  # of the columns, for the rounding errors of sums over rows
    grid: float = 0.0
    classes: Array | None = None  # what models without features need: see `Null`
    features: Array | None = None
    rival: Array | None = None
    index: npt.NDArray[np.intp] | None = None
    model: Array | None = None
    straight: float = STRAIGHT  # what straight pieces of the loss count for in the next Hessian
    frame: tuple[Any, ...] | None = None  # directions in which the next Hessian is asked for: see `composite_bound`
    guesses: Array | None = None  # of columns that are others: see `dependence`
    copies: Array | None = None  # those that are
    outputs: int = 1  # coefficients of a feature
    part: bool = False  # some clients send no second-order sums
    g: Array | None = None  # at x, where pairs are kept
    S: Vectors = ()  # secant pairs, the newest last
    Y: Vectors = ()
    wary: bool = False  # the last Newton step led too far: the next one is deployed only after it was tried


@dataclass(frozen=True)
class ProxNewton(Algorithm):
    """Proximal Newton at the server, with the pooled Hessian or its most important part.

    Parameters
    ----------
    race : bool, default True
        Whether several trial points travel in one exchange.
    least_rows : int, default 5
        Clients with fewer rows send losses and gradients, and no second-order sums.
    full : int, default 1000
        Most coefficients for which the whole Hessian is sent.
    most : int, default 2500
        Most coordinates of the working set.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.ProxNewton(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    race: bool = True
    least_rows: int = 5
    full: int = 1000
    most: int = 2500

    name = "prox-newton"
    needs = frozenset({"gradient", "hessian"})
    penalty = "server"
    strongly_convex = False
    warm = True
    tries = True
    no_certificate = "nothing is regularised"
    grid: ClassVar = {"race": [True, False]}
    card = Card(
        "Proximal Newton",
        2014,
        "Lee, Sun and Saunders",
        up="d (d + 1)/2 + d + 18; beyond d = 1000, |A| (|A| + 1)/2 + d + 18",
        needs="smooth, twice differentiable; any penalty with a prox",
        rate="local quadratic, independent of kappa",
        paper="arXiv:1206.1623",
    )

    @property
    def additive(self) -> bool:
        return not self.race

    def check(self, k: Constants) -> None:
        self.require(self.least_rows >= 1, "least_rows", "it must be at least 1 row")
        self.require(self.full >= 0, "full", "it must be >= 0; 0 always works with an active set")
        self.require(self.most >= 1, "most", "it must be at least 1 coordinate")
        check_size(self.name, k.d, LARGEST, "nesterov or lbfgs")

    # -- the server --------------------------------------------------------------------------------

    def start(self, at: Place) -> Server:
        x = np.zeros(at.d) if at.start is None else at.start
        x = x if at.penalty is None else at.penalty.prox(0.0, x)  # into a box, if there is one
        if at.d > self.full:
            self.check_active_set(at)
        return Server(x=x, trial=x, model=x)

    def round(self, s: Server, at: Place) -> Round:
        if s.M is None:
            m = yield ask(self.begin, x=s.trial, hessian=at.d <= self.full, straight=s.straight)
            return self.opened(s, m, at)
        guesses = dependence.NONE if s.guesses is None else s.guesses
        if s.rival is not None:
            m = yield ask(
                self.both, x=s.trial, base=s.x, rival=s.rival, index=s.index, straight=s.straight, guesses=guesses
            )  # fmt: skip
            return self.raced(self.known(s, m, at), m, at)
        frame = () if s.frame is None else (s.frame[0], s.frame[2], s.frame[3], s.frame[5])
        m = yield ask(
            self.step, x=s.trial, base=s.x, index=s.index, straight=s.straight, frame=frame, guesses=guesses
        )  # fmt: skip
        return self.stepped(self.known(s, m, at), m, at)

    def opened(self, s: Server, m: Any, at: Place) -> Server:
        null = [getattr(m, name, None) for name in ("classes", "features")]
        s = replace(s, M=m.M, sizes2=m.sizes2, grid=float(m.grid), classes=null[0], features=null[1])
        s = replace(s, outputs=round(m.outputs) if all_rows(m) else 1, part=bool(m.few > 0))
        R = self.regulariser(s, at)
        if self.race:
            bound = self.local_bound(self.regulariser(s, at, least=True), m, self.doubt(s, at))
            s = replace(s, bound=bound, rival=R.nearest(m.local / max(1 - float(m.few), 1e-9)))
        s = self.accepted(replace(s, guesses=self.guessed(s, R, m)), m, s.trial, at)
        return s if s.rival is None else replace(s, model=s.rival, frame=None)

    def known(self, s: Server, m: Any, at: Place) -> Server:
        """With the guesses that the clients confirmed."""
        if s.guesses is None:
            return s
        R = self.regulariser(s, at)
        copies = composite_bound.usable(R, dependence.proven(s.guesses, m.unlike), s.outputs)
        return replace(s, guesses=None, copies=copies if len(copies) else None)

    def guessed(self, s: Server, R: Regulariser, m: Any) -> Array | None:
        """Columns that may be others, and have no curvature but that of the losses."""
        k, d = s.outputs, len(m.g)
        if not all_rows(m) or not hasattr(m, "h") or d > self.full or s.part:
            return None
        G = np.einsum("iaja->ij", symmetric(m.h, d).reshape(d // k, k, d // k, k))
        bare = (R.m == 0).reshape(-1, k).all(axis=1)
        guesses = dependence.guessed(G, bare)
        guesses = guesses[bare[guesses[:, 0].astype(int)]]
        return guesses if len(guesses) else None

    @staticmethod
    def local_bound(R: Regulariser, m: Any, doubt: Doubt) -> float:
        """What the dual points of the clients' own minimisers prove of E*."""
        if not abs(m.local_ab) < HUGE:  # somebody ended beyond all bounds
            return -np.inf
        off = doubt.off(m.local_spread, m.local_v, m.local_more)
        ab = float(m.local_ab) - (of_mean(doubt.silos) - 1) * float(m.local_off)  # what it is off itself is taken off
        if all_rows(m):  # by the chord from the dual point to 0
            return below(dual_bound.lower_bound(R, ab + m.zero, m.local_v, off) - float(m.zero), abs(m.zero), 8)
        return dual_bound.at_scale(R, ab, m.local_v, off, 1.0)

    def proven(self, s: Server, m: Any, x: Array, at: Place) -> float:
        """What the sums at x prove of E*."""
        null = None
        if s.classes is not None and s.features is not None and not s.part:
            null = Null(s.classes.reshape(len(s.features), -1), s.features)
        return lower_bound(self.regulariser(s, at, least=True), m, x, self.doubt(s, at), null)

    @staticmethod
    def doubt(s: Server, at: Place) -> Doubt:
        assert s.sizes2 is not None
        return Doubt(s.sizes2, s.grid, at.N)

    def raced(self, s: Server, m: Any, at: Place) -> Server:
        assert s.rival is not None
        R = self.regulariser(s, at)
        rival = replace(s, rival=None), part(m, "rival_")
        E = rival[1].loss + R.value(s.rival)
        if E <= min(m.loss + R.value(s.trial), s.E):
            there = self.accepted(*rival, s.rival, at)
            if -there.predicted <= 2 * max(abs(E), E - there.bound):
                return replace(there, bound=max(there.bound, self.proven(s, m, s.trial, at)))
        after = self.stepped(rival[0], m, at)
        return replace(after, bound=max(after.bound, self.proven(s, rival[1], s.rival, at)))

    def stepped(self, s: Server, m: Any, at: Place) -> Server:
        """Accept the trial, or go back to a point on the way to it."""
        R, s = self.regulariser(s, at), self.paired(s, m, s.trial)
        E = m.loss + R.value(s.trial)
        if E <= s.E + ARMIJO * s.predicted + 1e-14 * abs(s.E) or np.array_equal(s.trial, s.x):
            after = self.accepted(replace(s, wary=s.wary and s.predicted == 0), m, s.trial, at)
            sure = kept_promise(s.E - E, -s.predicted) and -after.predicted <= SURE * abs(E)
            return replace(after, straight=0.0 if sure else lighter(s.straight, s.E - E, -s.predicted))
        points = [R.between(s.x, s.trial, t) for t in RAY]
        values = [loss + R.value(z) for loss, z in zip(m.ray, points)]
        best = int(np.argmin(values))
        s = replace(s, bound=max(s.bound, self.proven(s, m, s.trial, at)), wary=True, straight=STRAIGHT)
        if values[best] < s.E:
            return replace(s, trial=points[best], predicted=0.0, model=points[best])
        return replace(s, trial=s.x, predicted=0.0, model=s.x)  # rounding, or a step that led nowhere: Newton once more

    @staticmethod
    def paired(s: Server, m: Any, z: Array) -> Server:
        """With what the gradient at z teaches, where H lacks something."""
        if s.g is None or np.array_equal(z, s.x) or not m.loss < HUGE:
            return s
        return replace(s, S=(*s.S, z - s.x)[-PAIRS:], Y=(*s.Y, m.g - s.g)[-PAIRS:])

    def accepted(self, s: Server, m: Any, x: Array, at: Place) -> Server:
        R = self.regulariser(s, at)
        s = replace(s, g=m.g if s.part else None)
        bound = max(s.bound, self.proven(s, m, x, at))
        E = m.loss + R.value(x)
        if at.d > self.full and (s.index is None or not hasattr(m, "h")):
            return replace(s, x=x, trial=x, E=E, predicted=0.0, bound=bound, index=self.active(R, x, m.g), model=x)
        if at.d > self.full:
            z = self.newton_on(R, m, x, s)
        else:
            frame = None if s.frame is None else Frame(*s.frame)
            H = symmetric(m.h, at.d) if frame is None else frame.hessian(m.h)[1]
            H = updated(H, R.m, s.S, s.Y)
            aim = dual_bound.leaning(R, x, self.doubt(s, at).off(m.spread, m.g, R.M * np.abs(x)), s.outputs)
            z = R.newton(H, aim - m.g, x)
            if hasattr(m, "working_h"):
                z = R.newton(symmetric(m.working_h, at.d), m.working_q, x)
            if frame is not None:
                least = self.regulariser(s, at, least=True)
                bound = max(bound, composite_bound.proven(least, frame, m, x, z, H, self.doubt(s, at)))
            s = replace(s, frame=self.next_frame(s, R, H, m, x, z))
        predicted = float(m.g @ (z - x)) + R.value(z) - R.value(x)
        index = self.active(R, z, m.g) if at.d > self.full else None
        # A step that promises more than there is to gain leads too far to be deployed before it is tried; it gains half
        # of what its slope promises, or more.
        room = E - bound if bound > -np.inf else abs(E)
        model = z if -predicted <= 2 * room and not s.wary else x
        return replace(s, x=x, trial=z, E=E, predicted=min(predicted, 0.0), bound=bound, index=index, model=model)

    @staticmethod
    def next_frame(s: Server, R: Regulariser, H: Array, m: Any, x: Array, z: Array) -> Frame | None:
        """The directions in which to ask for the next Hessian, once the minimiser is near."""
        E, gain = abs(m.loss + R.value(x)), -(float(m.g @ (z - x)) + R.value(z) - R.value(x))
        if not all_rows(m) or not gain <= NEAR_BY * E:
            return None
        copies = dependence.NONE if s.copies is None else s.copies
        return framed(H, R.m, s.outputs, float(np.sqrt(max(0.02 * gain, 1e-9 * E))), copies)

    def active(self, R: Regulariser, x: Array, g: Array) -> npt.NDArray[np.intp]:
        """The coordinates that may move."""
        alive = (x != 0) | (R.P.l1 == 0)
        near = np.flatnonzero(alive | (np.abs(g) >= NEAR * R.P.l1))
        order = near[np.lexsort((-np.abs(g[near]), ~alive[near]))]
        # A set that has room for as many again: it doubles while it is too small, and is never much too large. At the
        # start it has half of those that want to move, but no more than a whole Hessian would have.
        moving = int(np.count_nonzero(np.abs(g[near]) > R.P.l1[near]))
        room = max(FIRST, min(moving // 2, self.full), 2 * int(np.count_nonzero(alive)))
        return np.asarray(np.sort(order[: min(room, self.most)]))

    @staticmethod
    def newton_on(R: Regulariser, m: Any, x: Array, s: Server) -> Array:
        """The Newton step in the coordinates of the block; the others rest."""
        index = s.index
        assert index is not None
        inside = [not np.delete(step, index).any() for step in s.S]  # a step beside the block says nothing of it
        S, Y = (tuple(v[index] for v, here in zip(pairs, inside) if here) for pairs in (s.S, s.Y))
        H = updated(symmetric(m.h, len(index)), R.m[index], S, Y)
        # positive semidefinite but for rounding; to ask Cholesky whether it is took longer than the step
        H[np.diag_indices_from(H)] += R.m[index] + len(H) * EPS * np.abs(np.diag(H))
        P = Separable(*(part[index] for part in (R.P.l1, R.P.beta, R.P.lo, R.P.hi)))
        q = H @ x[index] - m.g[index] - R.m[index] * x[index] + R.c[index]
        z = x.copy()
        here = float(np.linalg.norm(P.steepest(x[index], H @ x[index] - q)))
        size = np.sqrt(np.maximum(np.diag(H), 0.0))  # |H| <= size size', so that rounding moves H x - q by this
        floor = EPS * float(np.linalg.norm(q) + np.linalg.norm(size) * (size @ np.abs(x[index])))
        z[index] = minimise_model(H, q, P, x[index], max(ENOUGH * here, floor))
        return z

    def regulariser(self, s: Server, at: Place, least: bool = False) -> Regulariser:
        """R; `least`: one that is not above it, for proofs, since M came on the grid of what travels."""
        assert s.M is not None
        M = np.maximum(s.M - s.grid, 0.0) if least else s.M
        return Regulariser.at(at, M, np.zeros(at.d))

    def check_active_set(self, at: Place) -> None:
        R = Regulariser.at(at, np.zeros(at.d), np.zeros(at.d))
        if R.group is not None or not (R.P.l1 > 0).any():
            check_size(self.name, at.d, self.full, "sketched-newton, without a penalty, or nesterov, with one,")
        if np.count_nonzero(R.P.l1 == 0) > self.most:
            raise InputError(
                f"{self.name} has {np.count_nonzero(R.P.l1 == 0)} coefficients without an l1 penalty, which are always "
                f"active, and most = {self.most}; set most higher, or penalise them."
            )

    def model(self, s: Server) -> Array:
        assert s.model is not None
        return s.model

    def bound(self, s: Server) -> float:
        return s.bound

    # -- a client ----------------------------------------------------------------------------------

    @client_step
    def begin(self, f: ClientCost, c: Any, at: Place, x: Array, hessian: bool, straight: float) -> tuple[Upload, Any]:
        """Exchange 1: the sums at x, and the minimiser of the client's own cost."""
        silo = SmoothSilo(f)
        few = has_few_rows(f.objective, self.least_rows)
        sums = silo.sums(x, hessian, straight=straight) | {
            "few": float(few),
            "M": silo.m,
            "sizes2": silo.sizes2 + at.grid,
            "grid": at.grid,
            "outputs": 1.0 if silo.model is None else float(silo.model.k),
        }
        sums |= silo.null()
        if hessian and not x.any():
            sums |= silo.working()
        if self.race and few:  # its own minimiser would tell its rows
            sums |= dual_point(silo, x) | {"local": np.zeros(at.d)}
        elif self.race:
            sums |= alone(silo, Regulariser.at(at, silo.m, np.zeros(at.d)), x, hessian)
        return at.send(**(of_few_rows(sums) if few else sums)), c

    @client_step
    def both(
        self, f: ClientCost, c: Any, at: Place, x: Array, base: Array, rival: Array, index: Any, straight: float,
        guesses: Array,
    ) -> tuple[Upload, Any]:  # fmt: skip
        silo = SmoothSilo(f)
        sums = silo.sums(x, index=index, straight=straight) | {"ray": silo.ray(x, base, RAY)}
        there = silo.sums(rival, index=index, straight=straight)
        sums |= silo.copies(guesses)
        if has_few_rows(f.objective, self.least_rows):
            sums, there = of_few_rows(sums), of_few_rows(there)
        return at.send(**sums, **{f"rival_{k}": v for k, v in there.items()}), c

    @client_step
    def step(
        self, f: ClientCost, c: Any, at: Place, x: Array, base: Array, index: Any, straight: float, frame: Any,
        guesses: Array,
    ) -> tuple[Upload, Any]:  # fmt: skip
        silo = SmoothSilo(f)
        sums = silo.sums(x, index=index, straight=straight, frame=(*frame, at.weight) if frame else ())
        sums |= silo.copies(guesses) | {"ray": silo.ray(x, base, RAY)}
        return at.send(**(of_few_rows(sums) if has_few_rows(f.objective, self.least_rows) else sums)), c


def alone(silo: SmoothSilo, R: Regulariser, x: Array, newton: bool) -> dict[str, Any]:
    """The minimiser of one client's cost with the common penalty, and its dual point."""
    x = own_minimiser(silo, R, x) if newton else first_order(silo, R, x)
    return dual_point(silo, x) | {"local": x}


def dual_point(silo: SmoothSilo, x: Array) -> dict[str, Any]:
    """The slopes of the losses at x."""
    m = silo.sums(x, hessian=False)
    zero = float(m["conj"][-1])
    off = float(m["off"])
    return {
        "local_ab": float(m["loss"] - m["g"] @ x) - off,
        "local_v": -m["g"],
        "local_off": off,
        "local_spread": m["spread"],
        "local_more": silo.m * np.abs(x),
        "zero": zero,
    }


def own_minimiser(silo: SmoothSilo, R: Regulariser, x: Array) -> Array:
    working = {} if x.any() else silo.working()
    if working:
        x = R.newton(symmetric(working["working_h"], len(x)), working["working_q"], x)
    for _ in range(ALONE):
        m = silo.sums(x, straight=STRAIGHT, dual=False)
        E = m["loss"] + R.value(x)
        z = R.newton(symmetric(m["h"], len(x)), -m["g"], x)
        predicted = float(m["g"] @ (z - x)) + R.value(z) - R.value(x)
        if not -predicted > 1e-9 * abs(E):
            break
        t, trial = 1.0, z
        while t > 1e-4 and not silo.value(trial) + R.value(trial) <= E + ARMIJO * t * predicted:
            t /= 2
            trial = R.between(x, z, t)
        x = trial
    return x


def first_order(silo: SmoothSilo, R: Regulariser, x: Array) -> Array:
    """The same without a Hessian: the library's own solver, for a few hundred steps."""
    F = silo.f if R.penalised is None else Penalised(silo.f, R.penalised.penalty)
    scale = float(np.linalg.norm(silo.f.gradient(x)))
    return default_solver(F).solve(F, x, GradientNorm(1e-5 * scale, cap=10 * ALONE)).x
