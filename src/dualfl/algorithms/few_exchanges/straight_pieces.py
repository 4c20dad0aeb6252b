"""Newton's method on losses with straight pieces, such as Huber's.

Beyond delta Huber's loss has no curvature. Where most residuals lie there, l'' knows next to nothing of the way down,
and Newton steps are a hundred times too long. The parabola that touches the loss at the residual r and lies above it,
delta/|r|, as in iteratively reweighted least squares, is safe from anywhere, and slow in the end. So

    far away                                  straight pieces count as all of the parabola (sketched-newton)
    near, or where nothing better is known    as a tenth of it; 0.3 and 0.03 need more exchanges
    where a step gains more than it promised  as an eighth of what they were: the parabola hides the way
    once steps are short and keep promises    as nothing: Newton's method ends exactly, since pieces no longer change
"""

from __future__ import annotations

import math
from collections.abc import Sequence

STRAIGHT = 0.1
SURE = 1e-3  # of the energy: a decrement below it is short
LIKE = (0.9, 2.0)  # a third point, relative to where a kink that begins there would have it; more rows may follow
TRUST = (0.5, 1.5)  # of the decrease that was promised


def lighter(share: float, gained: float, decrement: float) -> float:
    """What straight pieces count for after a step that is not short or did not keep its promise."""
    return share / 8 if share and 2 * gained > TRUST[1] * decrement else STRAIGHT


def kept_promise(gained: float, decrement: float) -> bool:
    """Whether a step gained about half its decrement, as it does on the quadratic that it was made for."""
    return TRUST[0] <= 2 * gained / max(decrement, 1e-300) <= TRUST[1]


def just_beyond(E: float, slope: float, t: float, ray: Sequence[tuple[float, float]]) -> float:
    """How far to go on a ray on which t is the best of the steps looked at, if a row loses its straight piece after it.

    A squared hinge that begins at t_k adds a (t - t_k)^2 to the parabola of Newton's model. Steps that end before t_k
    never see its curvature, and come nearer and nearer. Two points behind tell a and t_k, and so where the minimum is;
    a third one tells whether that is what the loss looks like.
    """
    over = sorted((s, value - (E - slope * (s - s * s / 2))) for value, s in ray if s > t)[:3]
    if len(over) < 3 or not all(excess > 1e-12 * abs(E) for _, excess in over):
        return t
    (near, first), (far, second), (further, third) = ((s, math.sqrt(excess)) for s, excess in over)
    root = (second - first) / (far - near)
    kink = near - first / root if root > 0 else -1.0
    if not t <= kink < near or not LIKE[0] < third / (root * (further - kink)) < LIKE[1]:
        return t
    return (slope + 2 * root**2 * kink) / (slope + 2 * root**2)
