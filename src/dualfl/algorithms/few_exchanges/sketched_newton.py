"""Sketched Newton: few exchanges on clients however unlike, for smooth linear models.

Newton's method needs few rounds on any partition, because sums of Hessians are pooled Hessians; but a Hessian has
d(d+1)/2 numbers. Here clients send what fits into a message (see `metric`), and secant pairs learn the rest:

    exchange 1   E(0), E'(0), the second moment C of the features, and the mean theta_bar of the clients' own minimisers
                 (DualFL's first round). At 0 the Hessian is C (x) S + mu I exactly, so  x_N = -E''(0)^-1 E'(0)
    exchange 2   E, E' and a metric H0 at both points; the better one is kept, theta_bar only if its decrement is not
                 larger than its energy
    then         x+ = x - p,   p = two-loop L-BFGS(pairs) with first metric H0^-1 applied to g,   one exchange each:
                 E, E' at x+, losses along the ray x - t p while far away, and a new H0 when one is due (see `budget`)

A point is accepted if E(x+) <= E(x) + 1e-4 <g, x+ - x>. Beside a whole Hessian there are no pairs: a step that was too
long is followed by the best point of its ray. Otherwise rejected points still give a secant pair. A rejection far away,
or a second one, falls back along the ray, where the losses already known pick t; a third one drops all pairs; and after
the first one every exchange carries two trials, t = 1 and t = 0.4. So E falls monotonically whatever H0 is, and H0
only decides how fast; docs/auto.md has the proof. Nothing depends on the units of columns, nor, beside a free
intercept, on where they have their zeros (see `coordinates`).

Clients with fewer rows than `least_rows` send no curvature. Then H0 is never taken to be the Hessian, and secant pairs
learn what it lacks, a matrix of as many ranks as these clients have rows.

More features than `widest`: C does not travel. Clients send C Omega for a common random Omega of a few hundred columns,
more of them while the last eigenvalue of the sketch is still felt beside mu. They sketch in units in which the ridge is
the same everywhere, and the server centres the columns by their means, which it has. Without a ridge nobody knows the
units before the first exchange, so the sketch comes with the second.

E* is bounded by all gradients seen (see `bundle_bound`), where a ridge acts on every coefficient; and by a whole
Hessian (see `metric_bound`), whatever is regularised. Near the minimiser directions are chosen in which the last
Hessian was the identity. What clients compute is in sketched_sums.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import MomentCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step
from dualfl.algorithms.coordinates import Coordinates, chosen_by, ridge_scale
from dualfl.algorithms.cuts import mean_cut
from dualfl.algorithms.few_exchanges import dependence, metric_bound
from dualfl.algorithms.few_exchanges import sketched_metric as sketch
from dualfl.algorithms.few_exchanges.dual_bound import Doubt
from dualfl.algorithms.few_exchanges.secants import learnt, two_loops
from dualfl.algorithms.few_exchanges.self_concordance import (
    FARTHEST,
    POWER,
    inner_of,
    largest_of,
)
from dualfl.algorithms.few_exchanges.sketch_size import Budget, heaviest, more_columns
from dualfl.algorithms.few_exchanges.sketched_state import Local, Server, radius, scale, share
from dualfl.algorithms.few_exchanges.sketched_sums import (
    BEYOND,
    RAY,
    Wanted,
    directions,
    first_sums,
    in_few_bits,
    scaled_directions,
    sums_at,
    without_second_order,
)
from dualfl.algorithms.few_exchanges.straight_pieces import just_beyond, kept_promise
from dualfl.algorithms.few_exchanges.upload_limits import has_few_rows
from dualfl.algorithms.messages import floats
from dualfl.algorithms.packing import symmetric
from dualfl.algorithms.states import replace
from dualfl.errors import InputError, NoMinimiser
from dualfl.typing import Array

ARMIJO = 1e-4
FLAT = 1.9  # times half its decrement: a step that gains more met no curvature
SHORTER = 0.4  # the second trial, once one has failed
NEAR = 0.1  # of the energy: a decrement below it is near the minimiser
LASTING = 0.05  # of the decrement before: below it Newton's method converges
CLOSE = 0.02  # of the energy: where exchanges cost nothing, a proof is tried only below such a decrement
SETTLED = 0.005  # of the energy: below such a decrement the Hessian hardly changes, and a dear one is worth its price
PATIENCE = 3  # exchanges with one metric before a dear one is asked for
LARGEST = 4_000_000
NONE = np.zeros(0)


@dataclass(frozen=True)
class SketchedNewton(Algorithm):
    """Newton's method with a sketched Hessian and limited-memory corrections.

    Parameters
    ----------
    far, near : int
        Numbers in a metric while far from the minimiser, and near it; 0 for max(4d, 2^15), max(16d, 2^20).
    grow : float, default 1.0
        Close to the minimiser a metric may weigh so many times what a client has sent before.
    memory, cuts : int
        Secant pairs, and gradients that are kept for the bound of E*.
    local : bool, default True
        Whether the clients' own minimisers are raced as a start.
    widest : int, default 4000
        Features up to which their second moment travels as a whole; beyond, a sketch of it.
    columns : int, default 256
        Of the sketch, at first.
    least_rows : int, default 5
        Clients with fewer rows send energies and gradients, and no second-order sums.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.SketchedNewton(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    far: int = 0
    near: int = 0
    grow: float = 1.0
    memory: int = 60
    cuts: int = 40
    local: bool = True
    widest: int = 4000
    columns: int = 256
    least_rows: int = 5

    name = "sketched-newton"
    needs = frozenset({"gradient", "moments"})
    strongly_convex = False
    tries = True
    no_certificate = "E is not strongly convex"
    grid: ClassVar = {"local": [True, False]}
    card = Card(
        "Sketched Newton",
        2026,
        "this library",
        up="d + 8, a metric when one is due; at first D(D+1)/2",
        needs="smooth linear model or quadratic",
        rate="local quadratic for small d; beyond, linear with secant pairs",
    )

    @property
    def additive(self) -> bool:
        return not self.local

    def check(self, k: Constants) -> None:
        self.require(self.far >= 0 and self.near >= 0, "near", "near and far are numbers of floats; 0 for the default")
        self.require(self.grow >= 0, "grow", "it must be >= 0")
        self.require(self.memory >= 1, "memory", "it must be at least 1 pair")
        self.require(self.cuts >= 2, "cuts", "it must be at least 2 gradients")
        self.require(self.widest >= 1, "widest", "it must be at least 1 feature")
        self.require(self.columns >= 2, "columns", "it must be at least 2")
        self.require(self.least_rows >= 1, "least_rows", "it must be at least 1 row")
        if k.d > LARGEST:
            raise InputError(
                f"sketched-newton keeps a basis of {self.columns} directions and {self.memory} pairs of vectors, and "
                f"d = {k.d:,} makes that {8e-9 * k.d * (self.columns + 2 * self.memory):.0f} GB; "
                f"it takes d up to {LARGEST:,}, so use lbfgs instead."
            )

    # -- the server -------------------------------------------------------------------------------

    def start(self, at: Place) -> Round:
        m = yield ask(self.first, columns=self.columns)
        M, Omega, CO, own, C = m.M.reshape(-1, len(m.S)), 0, None, None, None
        if hasattr(m, "C"):
            C = symmetric(m.C, len(M))
            basis = sketch.basis_of(C, m.S, M)
        else:
            where = chosen_by(m.own, m.cross, M, float(np.abs(m.S).max()), whole=False)
            basis, CO, own = self.sketched(where, m, M, at)
            Omega = 0 if CO is None else self.columns
        metric = sketch.first_metric(basis, C)
        newton = metric.solve(basis, getattr(m, "q", -m.g))
        rivals = np.stack([newton, m.theta]) if self.local else newton[None]
        s = Server(
            np.zeros(at.d), float(m.E), m.g, rivals[-1], rivals, -newton, basis, metric, float(m.E), float(m.mu),
            m.sizes2, float(m.grid), Omega=Omega, CO=CO, own=own, spent=floats(vars(m)), heaviest=heaviest(at.N),
            part=bool(m.few > 0),
        )  # fmt: skip
        budget = self.budget(s)
        sketched = C is not None or CO is not None
        more = more_columns(basis, Omega, self.columns) if sketched else self.columns
        whole = C is not None and budget.small
        guesses = dependence.guessed(C, ~basis.M.any(axis=1)) if C is not None and whole else None
        s = replace(s, more=more, request=(budget.far_rank, budget.near_rank)[: len(rivals)], prove=whole)
        s = replace(s, close=self.local or -float(m.g @ newton) <= CLOSE * abs(s.E))
        s = replace(s, guesses=guesses if guesses is not None and len(guesses) else None)
        return replace(s, bounds=s.bounds.with_point(s.mu, mean_cut(s.x, s.E, s.g, m.off, m.off_g, at.N), self.cuts))

    def sketched(self, where: Coordinates, m: Any, M: Array, at: Place) -> tuple[sketch.Basis, Array | None, Array]:
        """The basis of the first sketch, the sketch, and the diagonal of the moment, all in these coordinates.

        Clients have sketched in units of the ridge. If these are not enough, because a column has none, it is asked
        for once more.
        """
        own, W = where.diagonal(m.own), scaled_directions(at, M, self.columns)
        if M[: len(M) - where.apart].all() and where.agrees(ridge_scale(M)):
            CO, noise = where.sketched(m.CO, m.cross, W)
            Omega = directions(at, len(M), 0, self.columns, where.apart)
            try:
                return sketch.nystroem(CO, Omega, own, m.S, where, M, noise), CO, own
            except np.linalg.LinAlgError:  # clients with ridges that differ have sketched different things
                pass
        return sketch.diagonal(own, m.S, where, M), None, own

    def round(self, s: Server, at: Place) -> Round:
        X = s.rivals if len(s.rivals) else self.trials(s)
        prove = s.prove and s.close
        if prove and not s.reach < np.inf:
            s = replace(s, sent=False)  # the rows' reach comes with a basis
        if not s.sent:
            s = replace(s, reach=np.inf, inner=inner_of(sketch.whole_matrix(s.metric), s.basis.m) if prove else None)
        U, B = (NONE, NONE) if s.sent else (s.basis.U, s.basis.B)
        inner = NONE if s.inner is None or s.sent else s.inner
        where = (s.basis.at.scale, s.basis.at.centre) if s.more else (NONE, NONE)
        short: dict[str, Any] = {} if s.prove else {"short": True}
        m = yield ask(
            self.look, X=X, p=s.p, U=U, B=B, ranks=s.request, straight=share(s), columns=(s.Omega, s.Omega + s.more),
            scale=where[0], centre=where[1], prove=prove, radius=radius(s), inner=inner,
            guesses=NONE if s.guesses is None else s.guesses, **short,
        )  # fmt: skip
        s = replace(s, sent=True, since=s.since + 1, spent=s.spent + floats(vars(m)))
        if s.guesses is not None:
            s, m = self.without_copies(s, m)
        s = self.bounded(s, X, m, at)
        after = self.raced(s, m) if len(s.rivals) else self.moved(s, m)
        return self.widened(after, m, at) if s.more else after

    @staticmethod
    def without_copies(s: Server, m: Any) -> tuple[Server, Any]:
        """Columns that are others need not move: their coefficients go to the others, which changes no prediction."""
        assert s.guesses is not None
        copies, s = dependence.proven(s.guesses, m.unlike), replace(s, guesses=None)
        held = np.asarray(s.basis.M.any(axis=1))[copies[:, 0].astype(int)]
        dull = tuple((float(k), float(c)) for k, other, c in copies[held] if other == s.basis.D - 1)
        s, copies = replace(s, basis=replace(s.basis, dull=dull)), copies[~held]
        if not len(copies) or not s.request:
            return s, m
        basis, metric, keep = sketch.without(s.basis, s.metric, tuple(int(k) for k in copies[:, 0]))
        sums: dict[str, Any] = {f"M{i}": sketch.kept_sums(getattr(m, f"M{i}"), keep) for i in range(len(s.request))}
        request = tuple(min(rank, basis.q) for rank in s.request)
        rivals = np.stack([dependence.joined(x.reshape(basis.D, -1), copies).ravel() for x in s.rivals])
        s = replace(s, basis=basis, metric=metric, sent=False, request=request, rivals=rivals)
        if s.inner is not None and len(s.inner):  # it was that of more columns
            s, sums = replace(s, inner=None), sums | {"reach": FARTHEST**POWER}
        return s, SimpleNamespace(**(vars(m) | sums))

    def bounded(self, s: Server, X: Array, m: Any, at: Place) -> Server:
        """What the points prove of E*."""
        bounds, proven, reach = s.bounds, s.proven, largest_of(m.reach) if hasattr(m, "reach") else s.reach
        for i, (x, E, g, off, off_g) in enumerate(zip(X, m.E, m.g, m.off, m.off_g)):
            if E < BEYOND:
                cut = mean_cut(x, E, g, off, off_g, at.N)
                bounds = bounds.with_point(s.mu, cut, self.cuts)
                sums = metric_bound.of(m, i, reach, radius(s), s.grid, NONE if s.inner is None else s.inner)
                if sums is not None:
                    # twice: a ridge's part of g is at most |g| and the data's, and its rounding half of theirs
                    doubt = 2 * Doubt(s.sizes2, s.grid, at.N).off(getattr(m, f"spread{i}"), g)
                    proven = max(proven, metric_bound.proven(s.basis, cut, doubt, sums, at.N))
        return replace(s, bounds=bounds.tightened(s.mu), proven=proven, reach=reach)

    def raced(self, s: Server, m: Any) -> Server:
        """Exchange 2: which of the two points is it?"""
        chosen = self.arrived(s, 0, s.rivals, m)
        if len(s.rivals) > 1:
            mean = self.arrived(s, 1, s.rivals, m)
            decrement = float(mean.g @ mean.metric.solve(mean.basis, mean.g))
            if mean.E <= chosen.E and decrement <= abs(mean.E):
                chosen = mean
        if not chosen.E < s.E0:  # neither: shorter along the ray to x_N
            return self.shortened(replace(s, rivals=NONE, trial=s.rivals[0]), m.ray)
        return self.stepped(replace(chosen, rivals=NONE))

    def moved(self, s: Server, m: Any) -> Server:
        """What the trials teach: secant pairs, and the best one is the next point if it keeps its promise."""
        X = self.trials(s)
        best = int(np.argmin(m.E))
        s = self.paired(s, X, m)
        if self.accepts(s, X[best], float(m.E[best]), m.g[best]):
            s = replace(s, trusted=best == 0 and s.t == 1 and kept_promise(s.E - float(m.E[best]), s.decrement))
            return self.stepped(self.arrived(s, best, X, m))
        s = replace(s, rejected=s.rejected + 1, request=(), slow=not s.exact, trusted=False)
        if s.exact:  # Newton's direction; how far to go is known from the ray
            return replace(self.shortened(s, getattr(m, "ray", NONE)), request=(s.basis.q,))
        if s.rejected >= 3:
            s = replace(s, S=(), Y=())
        if s.near and s.rejected == 1:
            return self.stepped(s)  # the new pairs know the curvature along the ray
        return self.shortened(s, getattr(m, "ray", NONE))

    def paired(self, s: Server, X: Array, m: Any) -> Server:
        """With the secant pairs of the trials.

        Beside a whole Hessian they are chords that lie behind, and none is kept; unless a step has gained about all of
        its decrement, twice what it should: then there was next to no curvature where the metric has some.
        """
        if s.exact and not 2 * (s.E - float(np.min(m.E))) > FLAT * s.decrement * s.t:
            return replace(s, S=(), Y=())
        S, Y = s.S, s.Y
        for i in np.argsort(-m.E, kind="stable"):  # the best last, where it counts most
            if m.E[i] < BEYOND:
                S, Y = learnt(S, Y, X[i] - s.x, m.g[i] - s.g, s.basis.at, self.memory)
        return replace(s, S=S, Y=Y)

    @staticmethod
    def accepts(s: Server, x: Array, E: float, g: Array) -> bool:
        """Armijo's condition; where energies no longer tell, gradients still do."""
        if E <= s.E + ARMIJO * min(0.0, float(s.g @ (x - s.x))):
            return True
        if not abs(E - s.E) <= 1e-14 * abs(s.E):
            return False
        return float(g @ s.metric.solve(s.basis, g)) <= float(s.g @ s.metric.solve(s.basis, s.g))

    @staticmethod
    def trials(s: Server) -> Array:
        """The trial, and a shorter one once a trial has failed."""
        return np.stack([s.trial, s.x + SHORTER * (s.trial - s.x)]) if s.slow else s.trial[None]

    def arrived(self, s: Server, i: int, X: Array, m: Any) -> Server:
        """The server at the i-th point that was asked for, with the metric that came with it."""
        s = replace(s, x=X[i], E=float(m.E[i]), g=m.g[i], rejected=0, t=1.0)
        if not s.request:
            return s
        i = min(i, len(s.request) - 1)  # of two trials on a ray only the first has one, and it is near enough
        metric = sketch.metric(s.basis, *(getattr(m, f"{name}{i}") for name in "MTW"))
        grown = s.near and metric.rank > s.metric.rank > 0
        if metric.exact and not s.part and (s.trusted or grown):
            keep = 0  # the pairs are chords of Hessians that lie behind
        else:
            keep = len(s.S) if grown or s.part else min(3, len(s.S))
        return replace(s, metric=metric, since=0, S=s.S[len(s.S) - keep :], Y=s.Y[len(s.Y) - keep :])

    def stepped(self, s: Server) -> Server:
        """The next trial x - p, and what is asked with it."""
        p = two_loops(s.g, s.S, s.Y, lambda g: s.metric.solve(s.basis, g))
        decrement = float(s.g @ p)
        if s.exact and len(s.S) and decrement > 2 * scale(s):  # more than there is: pairs of a straight piece
            p = s.metric.solve(s.basis, s.g)
            decrement = float(s.g @ p)
        self.check_minimiser(s, p, decrement)
        near = decrement <= NEAR * scale(s)
        close = decrement <= (NEAR if self.local else CLOSE) * scale(s)
        along = self.local or not close if s.exact else not near
        s = replace(s, trial=s.x - p, decrement=decrement, near=near, close=close, p=p if along else NONE)
        if close and s.prove and s.basis.spans and s.basis.q == s.metric.rank:
            basis, metric = sketch.whitened(s.basis, s.metric)
            s = replace(s, basis=basis, metric=metric, sent=s.sent and basis is s.basis)
        due = self.due(s)
        return replace(s, request=due, metrics=s.metrics + (len(due) > 0 and not near))

    def shortened(self, s: Server, ray: Array) -> Server:
        """The next trial on the ray that has just failed: where the losses known are lowest, or by guessing."""
        full = (s.x - s.trial) / s.t
        slope = float(s.g @ full)
        steps = [(float(E), t * s.t) for E, t in zip(ray, RAY)]
        good = [(E, t) for E, t in steps if E <= s.E - ARMIJO * t * slope]
        t = min(good)[1] if good else SHORTER * (steps[-1][1] if steps else s.t)
        if s.exact and good:
            t = just_beyond(s.E, slope, t, steps)
        p = t * full
        return replace(s, trial=s.x - p, p=p, t=t, near=False, close=False, request=())

    def check_minimiser(self, s: Server, p: Array, decrement: float) -> None:
        """Without a ridge there may be none: then energies have converged and the model still grows.

        Far out along a direction that has no end, each decrement is 0.37 of the one before. It falls faster where there
        is a minimiser; a run that begins next to it has hardly moved, so that its steps seem long.
        """
        still = s.basis.at.norm(p) >= 0.02 * s.basis.at.norm(s.x) and decrement > LASTING * s.decrement
        perfect = 0 <= s.E <= 1e-20 * abs(s.E0)  # 0 but for rounding, as a squared hinge can be
        if not s.basis.M.any() and s.x.any() and still and not perfect and decrement <= 1e-7 * abs(s.E0):
            error = NoMinimiser(
                "Without a ridge this problem has no minimiser: its energy converges while its coefficients grow, as "
                "they do where a hyperplane separates the classes; add a ridge such as 1e-6."
            )
            error.direction = -p / float(np.linalg.norm(p))
            raise error

    # -- what is asked for ------------------------------------------------------------------------

    def budget(self, s: Server) -> Budget:
        return Budget(s.basis, self.far, self.near, self.grow, s.heaviest)

    def due(self, s: Server) -> tuple[int, ...]:
        """The rank of the metric to ask for with the next gradient, if one is due."""
        if not s.near:
            return (self.budget(s).far_away(s.metrics),)
        settled = s.since >= PATIENCE and not s.decrement > SETTLED * scale(s)
        return self.budget(s).close_by(s.metric.rank, settled, s.spent)

    def widened(self, s: Server, m: Any, at: Place) -> Server:
        """The basis of a larger sketch; the metric of the start serves until the one asked for with it comes."""
        basis, columns = s.basis, s.Omega + s.more
        fresh_columns = basis.at.pull(m.CO)
        CO = fresh_columns if s.CO is None else np.concatenate([s.CO, fresh_columns], axis=1)
        Omega = directions(at, len(CO), 0, columns, basis.at.apart)
        assert s.own is not None
        basis = sketch.nystroem(CO, Omega, s.own, basis.S, basis.at, basis.M)
        fresh = replace(s, basis=basis, metric=sketch.first_metric(basis), Omega=columns, CO=CO, sent=False)
        more = more_columns(basis, columns, self.columns)
        return replace(fresh, more=more, request=(self.budget(fresh).near_rank,))

    def model(self, s: Server) -> Array:
        return s.trial

    def bound(self, s: Server) -> float:
        return max(s.bounds.bound, s.proven)

    # -- the clients ------------------------------------------------------------------------------

    @client_step
    def first(self, f: MomentCost, c: Any, at: Place, columns: int) -> tuple[Upload, Any]:
        """E, E' and the second moment at the start, what is regularised, and this client's own minimiser."""
        widest = max(self.widest, columns)  # a sketch with a column for every feature would be C itself
        sums, few = first_sums(f, at, columns, widest, self.local), has_few_rows(f.objective, self.least_rows)
        ridge = sums["M"]  # which is no secret, and everybody's
        sums = without_second_order(sums) | {"M": ridge} if few else sums
        return at.send(**sums, few=float(few)), c

    @client_step
    def look(self, f: MomentCost, c: Any, at: Place, **asked: Any) -> tuple[Upload, Any]:
        """E and E' at the rows of X, losses on the ray that ends in the first of them, metrics, and more of C Omega."""
        if len(asked["U"]):
            c = Local(asked["U"], asked["B"])
        sums = sums_at(f, at, c.U, c.B, Wanted(**asked))
        sums = without_second_order(sums) if has_few_rows(f.objective, self.least_rows) else sums
        return at.send(**(in_few_bits(sums) if "short" in asked else sums)), c
