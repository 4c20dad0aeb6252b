"""Whether an algorithm suits a problem, and a client's cost as the algorithm wants it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm
from dualfl.errors import NotSupported
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalised, Penalty
from dualfl.typing import Array


def bound(
    f: Objective,
    weight: float,
    N: int,
    algorithm: Algorithm,
    penalty: Penalty | None,
    ridge: float | Array | None = None,
) -> Objective:
    """A client's objective as this algorithm wants it, with an account of its own.

    For equal weights the data part is multiplied by N w_j. The clients' own ridges then do if they are all the same;
    where they are not, `ridge` is what each must have instead, the `common_ridge` of all.
    """
    mine = f.scaled(N * weight) if algorithm.uniform and N * weight != 1.0 else f.fresh()
    if algorithm.uniform and ridge is not None:
        mine = mine.tilted(ridge - mine.convexity)
    if penalty is not None and algorithm.penalty == "client":
        mine = Penalised(mine, penalty)
    return mine


# What an objective may offer, as a sentence says it.
OFFERS = {
    "gradient": "a gradient",
    "hessian": "a Hessian",
    "projected": "a projected Hessian",
    "moments": "second moments",
    "samples": "gradients of single samples",
    "dual": "a dual",
    "prox": "a prox",
}


def check_fit(clients: Sequence[Objective], penalty: Penalty | None, algorithm: Algorithm, codec: Codec | None) -> None:
    """Refuse, in one sentence, an algorithm that cannot solve this problem."""
    if penalty is not None and algorithm.penalty is None:
        raise NotSupported(
            f"{algorithm.name} is for smooth problems, and this one has the penalty {penalty}; "
            f"{names_of(lambda a: a.penalty is not None)} accept one."
        )
    if codec is not None and not algorithm.compresses:
        raise NotSupported(
            f"{algorithm.name} does not support a codec, because a client would have to remember what it sent; "
            f"{names_of(lambda a: a.compresses)} can."
        )
    for j, f in enumerate(clients):
        if not f.convex and not algorithm.nonconvex:
            raise NotSupported(
                f"{algorithm.name} is for convex costs, and client {j}'s {f.name} is not (convex=False); "
                f"{names_of(lambda a: a.nonconvex)} run on it."
            )
        missing = [need for need in sorted(algorithm.needs - {"local"}) if need not in f.offers]
        if missing:
            raise NotSupported(
                f"{algorithm.name} is not compatible with client {j}'s {f.name}: it must offer {OFFERS[missing[0]]}; "
                f"{names_of(lambda a: a.penalty == 'client')} need none."
            )


def names_of(fit: Callable[[type[Algorithm]], bool]) -> str:
    """The names of the algorithms that would do, for a sentence."""
    from dualfl.algorithms.registry import ALGORITHMS

    names = [name for name, algorithm in ALGORITHMS.items() if fit(algorithm)]
    return f"{', '.join(names[:-1])} and {names[-1]}"
