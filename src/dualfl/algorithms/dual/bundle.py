"""A multi-cut bundle method: a lower model of E from subgradients, from sums only.

C. H. Teo, S. V. N. Vishwanathan, A. Smola and Q. V. Le, "Bundle methods for regularized risk minimization", 2010, with
several cuts an exchange.

Write E = G + (mu/2)|.|^2. A subgradient q_k of G at x_k, with b_k = G(x_k) - <q_k, x_k>, is a cut G >= <q_k, .> + b_k.
The model of all cuts plus the ridge has the dual

    LB = max over the simplex of  beta'b - |sum_k beta_k q_k|^2/(2 mu),        minimiser  -sum_k beta_k q_k / mu,

and LB <= E*. Each round cuts at several points on the way from the best point so far to that minimiser, all in ONE
exchange. E_best - LB is a certificate that needs nothing else (`cuts` computes LB). For nonsmooth costs of moderate
kappa.

A point where a cost overflows, as a Poisson loss can, gives no cut. Where all of them do, the next round looks closer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Algorithm, Card, Constants, Means, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.cuts import mean_cut, proven
from dualfl.algorithms.dual.simplex import minimise_on_simplex
from dualfl.errors import InputError, NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import BoxConstraint, Penalised
from dualfl.typing import Array

FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
FAR = 1e12  # times the best energy: beside a cut that high, rounding leaves nothing of the others in the model
BEYOND = 1e100  # an energy above it gives no cut; its square is sent for what overflows


@dataclass(frozen=True)
class Server:
    best: Array
    E_best: float
    target: Array  # minimiser of the model
    X: Array  # cuts by d: where they were made
    Q: Array  # their slopes
    G: Array  # their heights, and how far off both may be
    off: Array
    off_g: Array
    beta: Array
    bound: float


@dataclass(frozen=True)
class Bundle(Algorithm):
    """Multi-cut bundle method; `most` cuts are kept, those that carry the model first.

    Parameters
    ----------
    most : int, default 300
        How many cuts are kept.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.Bundle(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    most: int = 300
    mu: float = theory("mu", lambda k, a: k.mu)

    name = "bundle"
    needs = frozenset({"local"})
    penalty = "client"
    grid: ClassVar = {"most": [100, 300]}
    card = Card(
        "Multi-cut bundle",
        2010,
        "Teo, Vishwanathan, Smola and Le",
        up="6d + 18",
        down="6d",
        needs="strongly convex",
        rate="1/(mu eps)",
        paper="https://jmlr.org/papers/v11/teo10a.html",
    )

    def check(self, k: Constants) -> None:
        self.require(self.most >= 2 * len(FRACTIONS), "most", f"it must be at least {2 * len(FRACTIONS)} cuts")
        self.require(0 < self.mu <= k.mu * (1 + 1e-12) or np.isnan(k.mu), "mu", f"it must lie in (0, {k.mu:g}]")

    def start(self, at: Place) -> Round:
        x = np.zeros((1, at.d))
        m = yield ask(self.cuts, X=x)
        if not m.G[0] < BEYOND:
            raise InputError("bundle needs a start where E is finite, but it is not; give another `start`.")
        none, flat = np.zeros(0), np.zeros((0, at.d))
        return self.with_cuts(Server(x[0], np.inf, x[0], flat, flat, none, none, none, none, -np.inf), x, m, at)

    def round(self, s: Server, at: Place) -> Round:
        X = np.stack([s.best + t * (s.target - s.best) for t in FRACTIONS])
        m = yield ask(self.cuts, X=X)
        return self.with_cuts(s, X, m, at)

    @np.errstate(over="ignore", invalid="ignore")
    def with_cuts(self, s: Server, X: Array, m: Any, at: Place) -> Server:
        """The model with new cuts at the rows of X, its minimiser and its minimum."""
        sound = m.G < min(BEYOND, FAR * (1 + abs(s.E_best)))
        if not sound.any():
            return replace(s, target=X[0])
        X, m = X[sound], Means(G=m.G[sound], Q=m.Q[sound], off=m.off[sound], off_g=m.off_g[sound])
        energies = m.G + self.mu / 2 * np.einsum("ij,ij->i", X, X)
        lowest = int(np.argmin(energies))
        best, E_best = (X[lowest], float(energies[lowest])) if energies[lowest] < s.E_best else (s.best, s.E_best)
        keep = np.sort(np.argsort(-s.beta, kind="stable")[: self.most - len(X)])
        new = (X, m.Q, m.G, m.off, m.off_g)
        cuts = [np.concatenate([old[keep], more]) for old, more in zip((s.X, s.Q, s.G, s.off, s.off_g), new)]
        X, Q, G, off, off_g = cuts
        gram, b = Q @ Q.T / self.mu, G - np.einsum("ij,ij->i", Q, X)
        beta = minimise_on_simplex(gram, b, np.concatenate([s.beta[keep], np.full(len(m.G), 0.0)]))
        bound = max(s.bound, self.proven(beta, cuts, at.N))
        return Server(best, E_best, -(beta @ Q) / self.mu, X, Q, G, off, off_g, beta, bound)

    def proven(self, beta: Array, cuts: list[Array], silos: int) -> float:
        """What the cuts that carry the model prove, rounding included; the ridge belongs to each of them there."""
        mu = self.mu
        parabolas = [
            mean_cut(x, G + mu / 2 * float(x @ x), q + mu * x, off, off_g, silos)
            for x, q, G, off, off_g in zip(*(part[beta > 0] for part in cuts))
        ]
        return proven(mu, parabolas, beta[beta > 0])

    def model(self, s: Server) -> Array:
        return s.best

    def bound(self, s: Server) -> float:
        return s.bound

    @client_step
    def cuts(self, f: ClientCost, c: Any, at: Place, X: Array) -> tuple[Upload, Any]:
        """G_j and a subgradient of it at the rows of X."""
        check_penalty(f.objective)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.array([f.value(x) - self.mu / 2 * float(x @ x) for x in X])
            slopes = np.stack([f.subgradient(x) - self.mu * x for x in X])
        sound = (values < BEYOND) & np.isfinite(slopes).all(axis=1)
        errors = [at.measured(f, x, G) if ok else {"off": 0.0, "off_g": 0.0} for x, G, ok in zip(X, values, sound)]
        off, off_g = (np.array([error[name] + at.grid for error in errors]) for name in ("off", "off_g"))
        G, Q = np.where(sound, values, BEYOND**2), np.where(sound[:, None], slopes, 0.0)
        return at.send(G=G, Q=Q, off=off, off_g=off_g), c


def check_penalty(f: Objective) -> None:
    """Refuse bounds: a cut at a point outside of them would be infinite."""
    penalty = f.penalty if isinstance(f, Penalised) else None
    if isinstance(penalty, BoxConstraint) and np.isfinite([penalty.lower, penalty.upper]).any():
        raise NotSupported(
            f"bundle evaluates the cost anywhere, and outside of {penalty} the cost is infinite; "
            "use dualfl, prox-newton or fedipm, which stay inside."
        )
