"""What the clients' costs are like, found out before the first round: one exchange of a few scalars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualfl import kernels
from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Constants, Facts, Place, Round, State, Upload, ask, client_step
from dualfl.objectives import families, losses
from dualfl.objectives.base import Objective
from dualfl.objectives.cox import CoxPartialLikelihood
from dualfl.objectives.linear import LinearModel
from dualfl.objectives.ordinal import ProportionalOdds
from dualfl.objectives.site_effect import OwnIntercept
from dualfl.objectives.tilted import Tilted
from dualfl.typing import Array


@dataclass(frozen=True)
class CurvatureConstants:
    mu: float
    L: float
    L_row: float
    n: float


@dataclass(frozen=True)
class Survey(Algorithm):
    """mu = min mu_j, L = max L_j and their kin, by one exchange of maxima.

    Without `smoothness` only mu is asked for: a client knows it, while L takes passes over its data. Without
    `single_rows` L_row is not: it tells how far out the farthest row of all is, which few methods need to know.
    """

    smoothness: bool = True
    single_rows: bool = True

    name = "survey"

    def start(self, at: Place) -> Round:
        m = yield ask(self.constants, reduce="max")
        if not self.smoothness:
            return CurvatureConstants(-m.minus_mu, np.nan, np.nan, m.n)
        # An infinite L travels as 0 = 1/L: what is sent must be finite.
        L_row = inverse(-m.minus_inverse_L_row) if self.single_rows else np.inf
        return CurvatureConstants(-m.minus_mu, inverse(-m.minus_inverse_L), L_row, m.n)

    @client_step
    def constants(self, f: ClientCost, c: State, at: Place) -> tuple[Upload, State]:
        known = at.send(minus_mu=-f.mu, n=float(f.n))
        if not self.smoothness:
            return known, None
        largest = np.finfo(float).max  # stands for 1/L of a constant cost
        known = known.also(minus_inverse_L=-min(inverse(f.L), largest))
        if self.single_rows:
            known = known.also(minus_inverse_L_row=-min(inverse(f.objective.L_row), largest))
        return known, None

    def round(self, s: State, at: Place) -> Round:
        raise NotImplementedError

    def model(self, s: State) -> Array:
        raise NotImplementedError

    @staticmethod
    def to_constants(s: CurvatureConstants, at: Place) -> Constants:
        return Constants(mu=s.mu, L=s.L, N=at.N, d=at.d, L_row=s.L_row, n=int(s.n))


def inverse(x: float) -> float:
    return 1 / x if x > 0 else np.inf


# -- for an algorithm that chooses another one ---------------------------------------------------------------

NAMES = {
    cls.code: cls.__name__
    for cls in (*vars(losses).values(), *vars(families).values())
    if isinstance(getattr(cls, "code", None), int)
}
NAMES |= {cls.code: cls.__name__ for cls in (CoxPartialLikelihood, ProportionalOdds, OwnIntercept)}
MIXED = -1  # the code of what is none of these
NO_ROWS = 60  # codes from here on are no losses of a row


@dataclass(frozen=True)
class Inquiry(Survey):
    """mu, the kind of problem, and with `alike` how alike the clients are: maxima, then sums.

    If rows were dealt out at random, a client's gradient at zero would miss the common one by the standard error of
    its rows' gradients. The ratio of what is seen to what chance would give,

        sum_j w_j |g_j - g|^2  /  sum_j w_j v_j / n_j,        v_j the variance of client j's row gradients,

    is about 1 on shuffled rows and n_j times a squared difference on unlike ones.
    """

    alike: bool = False

    name = "inquiry"
    needs = frozenset()

    def start(self, at: Place) -> Round:
        m = yield ask(self.kind, reduce="max")
        # Maxima of silos that hide theirs are a percent too large: whole numbers have to be rounded.
        code = round(m.loss)
        one = code == round(-m.minus_loss) and code != MIXED
        ratio = None
        if self.alike and one and code < NO_ROWS:
            v = yield ask(self.spread)
            ratio = max(v.square - float(v.g @ v.g), 0.0) / max(v.chance, 1e-300)
        return ProblemKind(
            mu=-m.minus_mu,
            n=round(m.n),
            loss=NAMES[code] if one else "",
            smooth=m.minus_smooth < 0,
            piecewise=m.minus_dual < 0,
            moments=m.minus_moments < 0,
            free=m.free > 0,
            least=round(-m.minus_n),
            alike=ratio,
        )

    @client_step
    def kind(self, f: ClientCost, c: State, at: Place) -> tuple[Upload, State]:
        """What this client has, as numbers of which the largest is of interest."""
        g, base = f.objective, untilted(f.objective)
        rows = float(base.n) if hasattr(base, "y") or hasattr(base, "code") or isinstance(base, LinearModel) else 0.0
        code = float(base.loss.code if isinstance(base, LinearModel) else getattr(base, "code", MIXED))
        sent = at.send(
            minus_mu=-g.mu,
            n=float(g.n),
            minus_n=-rows,
            loss=code,
            minus_loss=-code,
            minus_smooth=-float("gradient" in g.offers),
            minus_dual=-float("dual" in g.offers),
            minus_moments=-float("moments" in g.offers),
            free=float(g.free is not None),
        )
        return sent, None

    @client_step
    def spread(self, f: ClientCost, c: State, at: Place) -> tuple[Upload, State]:
        """The data's gradient at zero, its square, and the square of its standard error."""
        g = untilted(f.objective)
        assert isinstance(g, LinearModel), "only linear models that share a loss are asked"
        Z = np.zeros((g.n, g.k)) if g.offset is None else g.offset[:, None]
        slopes = kernels.residual(g.loss, Z, g.y, g.s)[1]
        gradient = g.design.backward(slopes).ravel()
        squares = np.einsum("ik,ik->i", slopes, slopes) * g.design.row_norms2() / np.where(g.s > 0, g.s, 1.0)
        square = float(gradient @ gradient)
        return at.send(g=gradient, square=square, chance=max(float(squares.sum()) - square, 0.0) / g.n), None

    @staticmethod
    def to_facts(s: ProblemKind, at: Place, D: int) -> Constants:
        """What `specialise` wants to know; the server knows the shape of the model itself."""
        facts = Facts(s.loss, s.smooth, s.piecewise, s.moments, D, at.d // D, s.free, s.least, s.alike)
        return Constants(mu=s.mu, L=np.nan, N=at.N, d=at.d, L_row=np.nan, n=s.n, facts=facts)


def untilted(f: Objective) -> Objective:
    """f without a tilt: a ridge of its own for every coefficient, say, makes no other kind of problem of it."""
    while isinstance(f, Tilted):
        f = f.base
    return f


@dataclass(frozen=True)
class ProblemKind:
    mu: float
    n: int
    loss: str
    smooth: bool
    piecewise: bool
    moments: bool
    free: bool
    least: int
    alike: float | None
