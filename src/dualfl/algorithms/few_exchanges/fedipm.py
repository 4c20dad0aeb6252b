"""FedIPM: an interior point method whose per-sample variables never leave the clients.

Linear models with hinge, absolute, quantile or epsilon-insensitive loss, l_i = max over a in [lo, hi] of a u_i with
u = b - Z theta (interior_point.py), and any ridge and penalty R (regulariser.py):

    E(theta) = sum_i s_i l_i + R(theta),     D(a) = sum_i s_i a_i b_i - R*(v),  v = Z'Sa,  for every a in the box,
    E - D    = comp + res,    comp = sum_i s_i (l_i - a_i u_i) >= 0,    res = R(theta) + R*(v) - v'theta >= 0.

One exchange, given theta, t and theta_0; a, D are the client's own from before, S the row weights:

    a_0    = a + D (b - Z theta_0),  at most as far as the bounds
    a     <- a + D (u - t/p + t/q),  at most 0.9 (close by, 0.98) of the way to either bound,  p = hi - a, q = a - lo
    D     <- 1/(xi/p + s/q),  (xi, s) with xi - s = u and xi s = t^2/(p q)
    up       loss, comp, a'Sb, v, r0 = Z'S(a + D u), r1 = Z'SD(1/q - 1/p), H = Z'SDZ, a_0'Sb, v_0 = Z'Sa_0

    server   far away    sigma = 0.1, 0.3 or 0.5 if res < comp, res < 10 comp, or not
             close by    sigma = 0.02, 0.1 or 0.5 if res < 0.01 comp, res < 0.3 comp, or not;  t+ = min(t, sigma comp)
             theta+(t) = argmin (z - theta)'H(z - theta)/2 - (r0 + t r1)'(z - theta) + R(z);  theta+(t+), theta+(0)

Newton's system for the central path, with xi, s and a eliminated. D belongs to the old t, so that H does not depend on
the new one, and r0 + t r1 is affine in it: the server chooses t after it has seen comp and res, in the same exchange.
Every sample is clipped on its own, so no step length, a minimum over all samples, has to be agreed on. What clipping
takes away from v counts as res, 1/ridge times its square: close by, with a small ridge, a few samples are all that res
consists of. They come from t falling faster than res does, hence the larger sigma there.

Race. In exchange 1 every client also solves its own problem. The mean theta_B of the solutions is a model at once, and
their dual variables a bound of E*. Exchange 2 answers at both theta_A and theta_B, there with a on the central path of
t_B = bound d/(2 n_j), about how much too well d coefficients fit n_j rows. B goes on if its gap is at most 0.3 of its
energy. Alike clients save a few exchanges, others lose one vector.

Certificate. The better of D(a) and D(a_0), scaled and balanced as R demands; piecewise_sums.py has that, and all that
a client computes.

Clients with fewer rows than `least_rows` send losses and the slope v of their smoothed loss, a being on the central
path at theta, and no metric: r0 = v, r1 = 0, H = 0. While their rows are off their kinks, or weigh little, that
changes nothing. A row that ends on its kink is as stiff as 1/t, H does not know it, and the safeguard takes over, where
secant pairs at equal t teach H the missing ranks.

Safeguard. No theorem covers clipped steps. If comp + res has not fallen for `patience` exchanges, t falls slowly for a
few; if that does not help, the method changes to one that has a proof: damped Newton steps on

    E_t = sum_i s_i max_a (a u_i + t log((a - lo)(hi - a))) + R,

which is convex and self-concordant but for a factor, with Armijo's condition from a few values on the way (they cost a
scalar each), and t is cut whenever res <= comp, so that the gap follows t to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, Round, Upload, ask, client_step
from dualfl.algorithms.few_exchanges import dependence
from dualfl.algorithms.few_exchanges.centring import KEEP, ROUNDING, centring, lowered, lowest, reach
from dualfl.algorithms.few_exchanges.dependence import NONE
from dualfl.algorithms.few_exchanges.dual_bound import Doubt
from dualfl.algorithms.few_exchanges.interior_point import central, first, metric, smoothed
from dualfl.algorithms.few_exchanges.piecewise_sums import (
    PiecewiseSilo,
    far_origin,
    lower_bound,
    of_few_rows,
    reach_of,
)
from dualfl.algorithms.few_exchanges.regulariser import Regulariser
from dualfl.algorithms.few_exchanges.secants import seen_from, updated
from dualfl.algorithms.few_exchanges.upload_limits import check_size, has_few_rows
from dualfl.algorithms.packing import part, symmetric
from dualfl.algorithms.states import replace
from dualfl.algorithms.two_loops import Vectors
from dualfl.typing import Array

LARGEST = 2000
CALM = 3  # exchanges in which t falls slowly, before the method is given up
CUT = 0.2  # of t, on the path that is proven
PAIRS = 60  # that are kept
RAY = (1.0, 0.5, 0.25, 0.125, 0.0625, *(2.0**-i for i in (6, 9, 12, 16, 20, 25, 30)), 0.0)


@dataclass(frozen=True)
class Local:
    """The dual variables of one client, pieces by rows, and their metric; those of the rival during the race."""

    a: Array
    D: Array
    rival_a: Array | None = None
    rival_D: Array | None = None


@dataclass(frozen=True)
class Server:
    th: Array  # where to ask next
    t: float
    model: Array  # what to deploy
    centre: Array  # of the columns beside a free intercept, as the last H has it; 0 where there is none
    origin: Array  # where columns have their zeros in H: see `far_origin`
    end: Array | None = None  # theta_0: where the same step would lead for t = 0
    keep: float = KEEP  # how far samples may go towards their bounds
    bound: float = -np.inf
    M: Array | None = None  # ridge and tilt, as the clients told
    c: Array | None = None
    size: float = 1.0  # mean |b|, the scale of the loss
    optimism: float = 0.0  # about how much better, relatively, clients fit their own rows than those of others
    rival: Array | None = None
    switch: bool = False  # the clients go on with the rival
    sizes2: Array | None = None  # of the columns, and what else tells the rounding errors of sums: see `Doubt`
    spread: float = 0.0
    grid: float = 0.0
    reach: Array | None = None  # how far out a minimiser may be where nothing is regularised; None if anywhere
    least: float = np.inf  # the smallest comp + res
    idle: int = 0  # exchanges since then
    calm: int = 0  # exchanges in which t still falls slowly
    warned: bool = False  # it has done so before
    guesses: Array | None = None  # of columns that are others: see `dependence`
    copies: Array | None = None  # those that are
    base: Array | None = None  # of the current step on E_t; then the safeguard is on
    part: bool = False  # some clients send no second-order sums
    S: Vectors = ()  # secant pairs, which teach H what it lacks then
    Y: Vectors = ()


@dataclass(frozen=True)
class FedIPM(Algorithm):
    """FedIPM: an interior point method for hinge, absolute, quantile and epsilon-insensitive losses.

    Parameters
    ----------
    race : bool, default True
        Whether several trial points travel in one exchange.
    least_rows : int, default 5
        Clients with fewer rows send losses and gradients, and no second-order sums.
    patience : int, default 5
        Exchanges without progress until it ends.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("breast_cancer", clients=3, loss="hinge", ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.FedIPM(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    race: bool = True
    least_rows: int = 5
    patience: int = 5

    name = "fedipm"
    needs = frozenset({"dual"})
    penalty = "server"
    strongly_convex = False
    warm = True
    tries = True
    no_certificate = "nothing is regularised"
    grid: ClassVar = {"race": [True, False]}
    card = Card(
        "FedIPM",
        2026,
        "this library",
        up="d (d + 1)/2 + 4d + 4, in exchanges 1 and 2 once or twice more",
        needs="piecewise linear loss of a linear model, d <= 2000",
        rate="not known; 6 to 16 exchanges to 1e-6 where measured",
    )

    @property
    def additive(self) -> bool:
        return not self.race

    def check(self, k: Constants) -> None:
        self.require(self.least_rows >= 1, "least_rows", "it must be at least 1 row")
        self.require(self.patience >= 1, "patience", "it must be at least 1 exchange")
        check_size(self.name, k.d, LARGEST, "bundle, dualfl or feddr with a balanced penalty")

    # -- the server --------------------------------------------------------------------------------

    def start(self, at: Place) -> Server:
        th = np.zeros(at.d) if at.start is None else at.start
        th = th if at.penalty is None else at.penalty.penalised.nearest(th)  # into a box, if there is one
        return Server(th=th, t=np.inf, model=th, centre=np.zeros(at.d), origin=np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Round:
        if s.M is None:
            m = yield ask(self.begin, th=s.th)
            return self.opened(s, m, at)
        guesses = NONE if s.guesses is None else s.guesses
        if s.rival is not None:
            m = yield ask(
                self.both, th=s.th, t=s.t, end=s.end, keep=s.keep, centre=s.centre, origin=s.origin,
                rival=s.rival, rival_t=self.rival_t(s), guesses=guesses,
            )  # fmt: skip
            return self.raced(self.known(s, m), m, at)
        if s.base is not None:
            m = yield ask(self.follow, th=s.th, t=s.t, base=s.base, origin=s.origin, pair=s.part)
            return self.followed(s, m, at)
        m = yield ask(
            self.step, th=s.th, t=s.t, end=s.end, keep=s.keep, centre=s.centre, origin=s.origin, switch=s.switch,
            guesses=guesses,
        )  # fmt: skip
        return self.stepped(self.known(replace(s, switch=False), m), m, at)

    @staticmethod
    def known(s: Server, m: Any) -> Server:
        """With the guesses that the clients confirmed."""
        return s if s.guesses is None else replace(s, guesses=None, copies=dependence.proven(s.guesses, m.unlike))

    def opened(self, s: Server, m: Any, at: Place) -> Server:
        s = replace(s, M=m.M, c=m.tilt, size=m.size, optimism=at.d * m.row / 2, t=m.size)
        s = replace(s, sizes2=m.sizes2, spread=float(m.spread), grid=float(m.grid))
        R = self.regulariser(s, at)
        guesses = dependence.guessed(symmetric(m.h, at.d), R.m == 0)
        guesses = guesses[R.m[guesses[:, 0].astype(int)] == 0]
        s = replace(s, part=bool(m.few > 0))
        s = replace(s, reach=reach_of(R, m, s.th), guesses=guesses if len(guesses) else None)
        origin = far_origin(R, symmetric(m.h, at.d))
        if not self.race or s.part:
            return replace(self.stepped(s, m, at), origin=origin)
        bound = self.proven(s, part(m, "local_"), at, None)
        s = replace(self.stepped(replace(s, bound=bound), m, at), origin=origin)
        local = self.regulariser(s, at).nearest(m.local)
        return replace(s, rival=local, model=local)

    def raced(self, s: Server, m: Any, at: Place) -> Server:
        assert s.rival is not None
        R, rival = self.regulariser(s, at), part(m, "rival_")
        bound = max(self.proven(s, m, at, s.reach), self.proven(s, rival, at, None), s.bound)
        E, there = rival.loss + R.value(s.rival), s.rival
        s = replace(s, bound=bound, rival=None)
        if E - bound <= 0.3 * E:
            return self.stepped(replace(s, th=there, t=self.rival_t(s), switch=True), rival, at)
        return self.stepped(s, m, at)

    def rival_t(self, s: Server) -> float:
        """t for the mean of the local solutions: about its gap, as far as d coefficients on n_j rows let one guess."""
        if s.bound <= 0:
            return 0.01 * s.size
        return s.bound * min(max(s.optimism, 0.02), 0.3)

    def stepped(self, s: Server, m: Any, at: Place) -> Server:
        """The state after sums at s.th for s.t."""
        R = self.regulariser(s, at)
        H = symmetric(m.h, at.d)
        res = R.residual_beside(H, s.th, m.v, s.origin)
        s = self.watched(s, m.comp + res, abs(m.loss + R.value(s.th)))
        bound = max(s.bound, self.proven(s, m, at, s.reach))
        sigma = centring(m.comp, res, m.loss + R.value(s.th), s.calm > 0)
        t = lowered(s.t, sigma, m.comp, res, lowest(m.loss, s.size))
        th, end = s.th, s.end
        if s.base is not None:  # the safeguard begins, where the method stands and with a t that fits that
            t = max(t, CUT * (m.comp + res))
        else:
            th, end = (R.newton_beside(H, pull, s.th, s.origin) for pull in (m.r0 + t * m.r1, m.r0))
        if R.flat[-1] and H[-1, -1] > 0:
            s = replace(s, centre=s.origin + np.append(H[:-1, -1] / H[-1, -1], 0.0))
        ended = s.end is not None and hasattr(m, "end_loss") and m.end_loss + R.value(s.end) < m.loss + R.value(s.th)
        model = end if ended and end is not None else th
        return replace(s, th=th, t=t, end=end, keep=reach(sigma), model=model, bound=bound, calm=max(s.calm - 1, 0))

    def watched(self, s: Server, gap: float, E: float) -> Server:
        """The safeguard: calm down when comp + res stops falling, and change the method when that does not help."""
        if gap < 0.9 * s.least or gap <= ROUNDING * E:
            return replace(s, least=min(gap, s.least), idle=0)
        if s.idle + 1 < self.patience:
            return replace(s, idle=s.idle + 1)
        if not s.warned:
            return replace(s, idle=0, calm=CALM, warned=True)
        return replace(s, base=s.th, idle=0)

    def followed(self, s: Server, m: Any, at: Place) -> Server:
        """The safeguard: a damped Newton step on E_t, or the next trial of one."""
        R = self.regulariser(s, at)
        base, bound = s.base, max(s.bound, self.proven(s, m, at, None))
        assert base is not None
        points = [R.between(base, s.th, r) for r in RAY]
        values = m.ray + np.array([R.value(x) for x in points])
        predicted = m.slope + R.value(s.th) - R.value(base)
        enough = values <= values[-1] + 1e-4 * np.array(RAY) * predicted
        if s.part and not np.array_equal(s.th, base):
            s = replace(s, S=(*s.S, s.th - base)[-PAIRS:], Y=(*s.Y, m.base_v - m.v)[-PAIRS:])
        if not enough[0]:
            best = int(np.argmin(np.where(enough, values, np.inf)))
            # 0 only by rounding: then nothing is left to gain for this t
            return replace(
                s, th=points[best], t=s.t if RAY[best] > 0 else max(CUT * s.t, lowest(m.loss, s.size)), bound=bound
            )
        H = updated(symmetric(m.h, at.d), R.m, *seen_from(s.origin, s.S, s.Y))
        # so that the gap is 2 comp at most, and comp falls with t
        central = R.residual_beside(H, s.th, m.v, s.origin) <= m.comp
        t = max(CUT * s.t, lowest(m.loss, s.size)) if central else s.t
        th = R.newton_beside(H, m.r0 + t * m.r1, s.th, s.origin)
        return replace(s, base=s.th, th=th, t=t, model=th, bound=bound)

    def proven(self, s: Server, m: Any, at: Place, far: Array | None) -> float:
        """What sums prove of E*."""
        assert s.sizes2 is not None
        return lower_bound(
            self.regulariser(s, at),
            m,
            Doubt(s.sizes2, s.grid, at.N),
            s.spread,
            far,
            s.end,
            s.centre,
            NONE if s.copies is None else s.copies,
        )

    def regulariser(self, s: Server, at: Place) -> Regulariser:
        assert s.M is not None and s.c is not None
        return Regulariser.at(at, s.M, s.c)

    def model(self, s: Server) -> Array:
        return s.model

    def bound(self, s: Server) -> float:
        return s.bound

    # -- a client ----------------------------------------------------------------------------------

    @client_step
    def begin(self, f: ClientCost, c: Any, at: Place, th: Array) -> tuple[Upload, Local]:
        """Exchange 1: what the client regularises, its dual variables at theta, and its own solution."""
        few, silo = has_few_rows(f.objective, self.least_rows), PiecewiseSilo(f, at)
        size = float(silo.s @ np.abs(silo.P.b).mean(axis=0))
        u = silo.margins(th)
        a = first(silo.P, u, size or 1.0)
        D = metric(silo.P, u, a, size or 1.0)
        sums = silo.sums(u, a, D, np.zeros(at.d)) | {"M": silo.R.M, "tilt": silo.R.c, "size": size, "row": 1 / f.n}
        sums |= silo.doubts(at, D) | {"few": float(few)}
        if self.race:
            sums |= dict.fromkeys(("local", "local_v"), np.zeros(at.d)) | {"local_ab": 0.0} if few else silo.alone()
        return at.send(**(of_few_rows(sums) if few else sums)), Local(a, D)

    @client_step
    def both(
        self,
        f: ClientCost,
        c: Local,
        at: Place,
        th: Array,
        t: float,
        end: Array,
        keep: float,
        centre: Array,
        origin: Array,
        rival: Array,
        rival_t: float,
        guesses: Array,
    ) -> tuple[Upload, Local]:
        """Exchange 2: at theta, and at the mean of the clients' own solutions."""
        silo = PiecewiseSilo(f, at)
        ends = silo.at_the_end(end, c.a, c.D, centre)
        sums, a, D = silo.step(th, t, keep, c.a, c.D, origin)
        sums |= ends | silo.copies(guesses)
        u = silo.margins(rival)
        b = central(silo.P, u, rival_t)
        E = metric(silo.P, u, b, rival_t)
        sums |= {f"rival_{k}": v for k, v in silo.sums(u, b, E, origin).items()}
        return at.send(**sums), Local(a, D, b, E)

    @client_step
    def step(
        self, f: ClientCost, c: Local, at: Place, th: Array, t: float, end: Array, keep: float, centre: Array,
        origin: Array, switch: bool, guesses: Array,
    ) -> tuple[Upload, Local]:  # fmt: skip
        a, D = (c.rival_a, c.rival_D) if switch else (c.a, c.D)
        assert a is not None and D is not None
        silo = PiecewiseSilo(f, at)
        if has_few_rows(f.objective, self.least_rows):
            return at.send(**silo.slope(th, t, end, origin), **silo.no_copies(guesses)), Local(a, D)
        ends = silo.at_the_end(end, a, D, centre)
        sums, a, D = silo.step(th, t, keep, a, D, origin)
        return at.send(**sums, **ends, **silo.copies(guesses)), Local(a, D)

    @client_step
    def follow(
        self, f: ClientCost, c: Local, at: Place, th: Array, t: float, base: Array, origin: Array, pair: bool
    ) -> tuple[Upload, Local]:
        """The safeguard: a on the central path at theta, and E_t on the way there from `base`."""
        silo = PiecewiseSilo(f, at)
        u, begun = silo.margins(th), silo.margins(base)
        a = central(silo.P, u, t)
        D = metric(silo.P, u, a, t)
        ray = [float(silo.s @ smoothed(silo.P, begun + r * (u - begun), t).sum(axis=0)) for r in RAY]
        slope = float(silo.s @ (central(silo.P, begun, t) * (u - begun)).sum(axis=0))
        sums = silo.sums(u, a, D, origin) | {"ray": np.array(ray), "slope": slope}
        if pair:
            (sums["base_v"],) = silo.pull(central(silo.P, begun, t))
        return at.send(**(of_few_rows(sums) if has_few_rows(f.objective, self.least_rows) else sums)), Local(a, D)
