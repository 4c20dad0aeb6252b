"""How fast the t of an interior point method falls, and how close to their bounds samples may follow it.

A file of its own because two follow a central path: FedIPM's server that of all rows, and in exchange 1 every client
that of its own. Both decide by comp and res, whose sum is the gap.
"""

from __future__ import annotations

KEEP = 0.9  # of the way to a bound
ROUNDING = 1e-8  # part of E; gaps below it are not worth a safeguard, and end in rounding
AHEAD = 1e-5  # of res, by which t may be ahead of it
NEAR = 1e-3  # part of E; closer than this, and well centred, t may fall faster


def centring(comp: float, res: float, E: float, calm: bool) -> float:
    """sigma: how much closer to the boundary to aim, less while R and the losses still disagree.

    Close by, where samples have to settle for a bound or against it, t must not run ahead of res: theta then moves
    by many t, samples overshoot, and clipping them makes new res.
    """
    if res >= comp and comp <= ROUNDING * abs(E):
        return 1.0  # the digits end here
    if calm:
        return 0.7
    if comp > NEAR * abs(E):
        return 0.1 if res < comp else 0.3 if res < 10 * comp else 0.5
    if res < 0.01 * comp:
        return 0.02
    return 0.1 if res < 0.3 * comp else 0.5


def lowered(t: float, sigma: float, comp: float, res: float, least: float) -> float:
    """The next t: sigma comp, but never above t.

    Samples that were clipped to their bounds have next to no comp, wherever the others are. So t stays above a share
    of res, too: a t far below it makes steps that are a thousand times too long, which nothing takes back.
    """
    return max(min(t, max(sigma * comp, AHEAD * res)), least)


def reach(sigma: float) -> float:
    """How far a sample may go towards its bound: as far as t falls, but at least KEEP."""
    return max(KEEP, 1 - sigma)


def lowest(loss: float, size: float) -> float:
    """The smallest t: a loss may be zero, t may not."""
    return 1e-14 * loss + 1e-18 * (size or 1.0)
