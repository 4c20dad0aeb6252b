"""Newton's method on losses with straight pieces, such as Huber's.

Beyond delta Huber's loss has no curvature. Where most residuals lie there, l'' knows next to nothing of the way down,
and Newton steps are a hundred times too long. The parabola that touches the loss at the residual r and lies above it,
delta/|r|, as in iteratively reweighted least squares, is safe from anywhere, and slow in the end. So

    far away                                  straight pieces count as all of the parabola (sketched-newton)
    near, or where nothing better is known    as a tenth of it; 0.3 and 0.03 need more exchanges
    once steps are short and keep promises    as nothing: Newton's method ends exactly, since pieces no longer change
"""

from __future__ import annotations

STRAIGHT = 0.1
SURE = 1e-3  # of the energy: a decrement below it is short
TRUST = (0.5, 1.5)  # of the decrease that was promised


def kept_promise(gained: float, decrement: float) -> bool:
    """Whether a step gained about half its decrement, as it does on the quadratic that it was made for."""
    return TRUST[0] <= 2 * gained / max(decrement, 1e-300) <= TRUST[1]
