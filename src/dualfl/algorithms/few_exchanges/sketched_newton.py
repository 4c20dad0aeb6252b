"""Sketched Newton: few exchanges on clients however unlike, for smooth linear models.

Newton's method needs few rounds on any partition, because sums of Hessians are pooled Hessians; but a Hessian has
d(d+1)/2 numbers. Here clients send as much of it as fits into a message (see `metric`), and secant pairs learn the rest:

    exchange 1   E(0), E'(0), the second moment C of the features, and the mean theta_bar of the clients' own minimisers
                 (DualFL's first round). At 0 the Hessian is C (x) S + mu I exactly, so  x_N = -E''(0)^-1 E'(0)
    exchange 2   E, E' and a metric H0 at both points; the better one is kept, theta_bar only if its decrement is not
                 larger than its energy
    then         x+ = x - p,   p = two-loop L-BFGS(pairs) with first metric H0^-1 applied to g,   one exchange each:
                 E, E' at x+, losses along the ray x - t p while far away, and a new H0 when one is due (see `due`)

A point is accepted if E(x+) <= E(x) + 1e-4 <g, x+ - x>. Rejected points still give a secant pair; a rejection far away,
or a second one, falls back along the ray, where the losses already known pick t; a third one drops all pairs. So E
falls monotonically whatever H0 is, and H0 only decides how fast; docs/auto.md has the proof.

E* is bounded by all gradients seen (see `bundle_bound`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.few_exchanges import metric as sketch
from dualfl.algorithms.few_exchanges.bundle_bound import Parabolas
from dualfl.algorithms.few_exchanges.metric import Basis, Metric
from dualfl.errors import InputError
from dualfl.solvers.stopping import GradientNorm
from dualfl.typing import Array

RAY = (0.5, 0.25, 0.125, 0.0625, 0.03125)
ARMIJO = 1e-4
NOWHERE = np.zeros(0)


@dataclass(frozen=True)
class Local:
    """The basis a client works with, as the server sent it."""

    U: Array
    B: Array


@dataclass(frozen=True)
class Server:
    x: Array  # the best point whose energy is known
    E: float
    g: Array
    trial: Array  # the next one
    rivals: Array  # of the race in the second exchange, none later
    p: Array  # x - trial while losses along the ray are wanted
    basis: Basis
    metric: Metric
    S: tuple[Array, ...]
    Y: tuple[Array, ...]
    E0: float
    sent: bool = False  # whether the clients have the basis
    request: tuple[int, ...] = ()  # ranks of the metrics that come with the trials, if any
    near: bool = False
    since: int = 0  # exchanges since the metric was renewed
    rejected: int = 0  # in a row
    t: float = 1.0
    bounds: Parabolas = Parabolas()
    decrement: float = np.inf


@dataclass(frozen=True)
class SketchedNewton(Algorithm):
    """Sketched Newton with limited-memory corrections.

    Parameters
    ----------
    far, near : numbers in a metric while far from the minimiser, and near it; None for multiples of d.
    memory : secant pairs.
    local : whether the clients' own minimisers are raced as a start.
    cuts : gradients that are kept for the bound of E*.
    """

    far: int = theory("max(4 d, 2^15)", lambda c, a: max(4 * c.d, 2**15))
    near: int = theory("max(16 d, 2^20)", lambda c, a: max(16 * c.d, 2**20))
    grow: float = 24.0
    memory: int = 60
    local: bool = True
    cuts: int = 40
    mu: float = theory("mu", lambda c, a: c.mu, zero=True)

    name = "sketched-newton"
    needs = frozenset({"gradient", "moments"})
    strongly_convex = False
    no_certificate = "E is not strongly convex"
    grid: ClassVar = {"local": [True, False]}
    card = Card(
        "Sketched Newton",
        2025,
        "this library",
        up="d + 6, a metric when due, at first D(D+1)/2",
        needs="smooth linear model",
        rate="local superlinear for small d, linear with secant pairs for large",
    )

    # -- the server -------------------------------------------------------------------------------

    def start(self, at: Place) -> Round:
        m = yield ask(self.first)
        k = len(m.S)
        C = square(m.C, at.d // k)
        basis = sketch.eigenbasis(C, m.S, self.mu)
        metric = sketch.first_metric(basis, self.mu)
        newton = -metric.solve(basis, m.g)
        rivals = np.stack([newton, m.theta]) if self.local else newton[None]
        x = np.zeros(at.d)
        bounds = Parabolas().with_point(self.mu, x, m.E, m.g, self.cuts)
        return Server(
            x, m.E, m.g, rivals[-1], rivals, -newton, basis, metric, (), (), m.E, request=(self.rank(basis, True), self.rank(basis, False))[: len(rivals)],
            bounds=bounds,
        )

    def round(self, s: Server, at: Place) -> Round:
        X = s.rivals if len(s.rivals) else s.trial[None]
        basis = (NOWHERE, NOWHERE) if s.sent else (s.basis.U, s.basis.B)
        m = yield ask(self.look, X=X, p=s.p, U=basis[0], B=basis[1], ranks=s.request)
        bounds = s.bounds
        for x, E, g in zip(X, m.E, m.g):
            bounds = bounds.with_point(self.mu, x, float(E), g, self.cuts)
        s = replace(s, sent=True, since=s.since + 1, bounds=bounds.tightened(self.mu))
        return self.raced(s, m) if len(s.rivals) else self.moved(s, m)

    def raced(self, s: Server, m: Any) -> Server:
        """Exchange 2: which of the two points is it?"""
        newton = self.arrived(s, 0, s.rivals, m)
        chosen = newton
        if len(s.rivals) > 1:
            mean = self.arrived(s, 1, s.rivals, m)
            decrement = float(mean.g @ mean.metric.solve(mean.basis, mean.g))
            if mean.E <= newton.E and decrement <= abs(mean.E):
                chosen = mean
        if not chosen.E < s.E0:  # neither: shorter along the ray to x_N
            return self.shortened(replace(s, rivals=NOWHERE), m.ray)
        return self.stepped(replace(chosen, rivals=NOWHERE))

    def moved(self, s: Server, m: Any) -> Server:
        x, E, g = s.trial, float(m.E[0]), m.g[0]
        step, change = x - s.x, g - s.g
        promised = ARMIJO * min(0.0, float(s.g @ step))
        accepted = E <= s.E + promised or (
            abs(E - s.E) <= 1e-14 * abs(s.E) and float(np.linalg.norm(g)) <= float(np.linalg.norm(s.g))
        )
        S, Y = s.S, s.Y
        if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            S, Y = (*S, step)[-self.memory :], (*Y, change)[-self.memory :]
        s = replace(s, S=S, Y=Y)
        if accepted:
            return self.stepped(self.arrived(s, 0, x[None], m))
        s = replace(s, rejected=s.rejected + 1, request=())
        if s.rejected >= 3:
            s = replace(s, S=(), Y=())
        if s.near and s.rejected == 1:
            return self.stepped(s)  # the new pair knows the curvature along the ray
        return self.shortened(s, getattr(m, "ray", NOWHERE))

    def arrived(self, s: Server, i: int, X: Array, m: Any) -> Server:
        """The server at the i-th point that was asked for, with the metric that came with it."""
        s = replace(s, x=X[i], E=float(m.E[i]), g=m.g[i], rejected=0, t=1.0)
        if not s.request:
            return s
        metric = sketch.metric(s.basis, self.mu, False, *(getattr(m, f"{name}{i}") for name in "MTW"))
        grown = s.near and s.metric.rank > 0
        keep = 0 if metric.exact else len(s.S) if grown else 3
        return replace(s, metric=metric, since=0, S=s.S[len(s.S) - min(keep, len(s.S)) :], Y=s.Y[len(s.Y) - min(keep, len(s.Y)) :])

    def stepped(self, s: Server) -> Server:
        """The next trial x - p, and what is asked with it."""
        p = self.direction(s)
        decrement = float(s.g @ p)
        near = decrement <= 0.1 * max(abs(s.E), 0.01 * abs(s.E0))
        s = replace(s, trial=s.x - p, decrement=decrement, near=near, p=NOWHERE if near else p)
        return replace(s, request=self.due(s))

    def shortened(self, s: Server, ray: Array) -> Server:
        """The next trial on the ray that has just failed: where the losses known are lowest, or by guessing."""
        p = s.x - s.trial
        full = p / s.t
        slope = float(s.g @ full)
        best = [(float(E), t * s.t) for E, t in zip(ray, RAY) if E <= s.E - ARMIJO * t * s.t * slope]
        t = min(best)[1] if best else max(0.4 * s.t * (RAY[-1] if len(ray) else 1.0), 1e-12)
        p = t * full
        return replace(s, trial=s.x - p, p=p, t=t, near=False, request=())

    def direction(self, s: Server) -> Array:
        """p = H g by the two loops around H0^-1."""
        q, weights = np.array(s.g), []
        for u, y in zip(reversed(s.S), reversed(s.Y)):
            a = (u @ q) / (u @ y)
            weights.append(a)
            q -= a * y
        q = s.metric.solve(s.basis, q)
        for u, y, a in zip(s.S, s.Y, reversed(weights)):
            q += (a - (y @ q) / (u @ y)) * u
        return q

    def rank(self, basis: Basis, far: bool) -> int:
        """How many directions a metric should hold."""
        if basis.floats(basis.q) <= 2**18:
            return basis.q
        if far:
            return basis.largest_rank(self.far)
        matter = int((basis.variances * np.abs(basis.S).max() >= self.mu / 2).sum())
        return min(max(matter, basis.largest_rank(self.far)), basis.largest_rank(self.near))

    def due(self, s: Server) -> tuple[int, ...]:
        """The rank of the metric to ask for with the next gradient, if one is due."""
        if not s.near:
            return (self.rank(s.basis, True),)
        r, near = s.metric.rank, self.rank(s.basis, False)
        if r < near or near == s.basis.q:
            return (max(near, r),)
        affordable = s.basis.largest_rank(self.grow * s.since * len(s.x))
        if s.since >= 6 and affordable >= 1.4 * r:
            return (min(affordable, 450),)
        return ()

    def model(self, s: Server) -> Array:
        return s.trial

    def bound(self, s: Server) -> float:
        return s.bounds.bound

    # -- the clients ------------------------------------------------------------------------------

    @client_step
    def first(self, f: Any, c: Any, at: Place) -> tuple[Upload, Any]:
        zero = np.zeros(at.d)
        E, g = f.value_gradient(zero)
        C, S = f.moment(zero)
        theta = {}
        if self.local:
            more = max(1e-4 - f.mu, 0.0)
            norm = float(np.linalg.norm(g))
            theta = {"theta": f.local(more, zero, stop=GradientNorm(1e-3 * norm, cap=30)).x}
        return at.send(E=E, g=g, C=C[np.triu_indices(len(C))], S=S, **theta), c

    @client_step
    def look(self, f: Any, c: Any, at: Place, X: Array, p: Array, U: Array, B: Array, ranks: tuple[int, ...]) -> tuple[Upload, Any]:
        """E and E' at the rows of X, losses on the ray that ends in the first of them, and metrics."""
        if len(U):
            c = Local(U, B)
        values, slopes = [], []
        more: dict[str, Array] = {}
        for i, x in enumerate(X):
            E, g = f.value_gradient(x)
            values.append(E)
            slopes.append(g)
            if ranks:
                more |= {f"{name}{i}": part for name, part in zip("MTW", f.metric(x, c.U, c.B, ranks[i]))}
            if i == 0 and len(p):
                more["ray"] = f.along(x, p, [1 - t for t in RAY])
        return at.send(E=np.array(values), g=np.stack(slopes), **more), c


def square(upper: Array, D: int) -> Array:
    """The symmetric matrix with this upper triangle."""
    C = np.zeros((D, D))
    C[np.triu_indices(D)] = upper
    return C + np.triu(C, 1).T
