"""Table 1 of the DualFL paper: methods that accelerate communication, and in which regime.

The entries are the paper's. Two remarks of ours stand below it: they follow from theory that the paper does not cite.
"""

from __future__ import annotations

from typing import NamedTuple


class Regime(NamedTuple):
    """One row. The first three say whether communication is accelerated, the next two what local work that takes."""

    algorithm: str
    smooth: str
    nonsmooth: str
    smooth_not_strongly_convex: str
    local_smooth: str
    local_nonsmooth: str
    kind: str


TABLE1 = (
    Regime("scaffnew", "yes", "n/a", "n/a", "sqrt(kappa)", "n/a", "stochastic"),
    Regime("apda-inexact", "yes", "n/a", "n/a", "better", "n/a", "deterministic"),
    Regime("5gcs", "yes", "n/a", "n/a", "sqrt(kappa)", "n/a", "deterministic"),
    Regime("randprox", "yes", "n/a", "no", "sqrt(kappa)", "n/a", "stochastic"),
    Regime("dualfl", "yes", "yes", "yes", "sqrt(kappa)", "1/eps^2", "deterministic"),
)
REMARKS = (
    "5gcs is deterministic only with full participation, C = N.",
    "fedpd, feddr, feddyn and fedsplit with eta = 1/sqrt(mu L) need sqrt(kappa) log(1/eps) rounds too, on smooth "
    "strongly convex costs (Giselsson and Boyd, 2017); the paper does not list them.",
)


def table1() -> str:
    """The table, 80 columns wide."""
    widths = (13, 8, 11, 12, 13, 10)
    heads = (
        ("", "smooth", "nonsmooth", "smooth, not", "local work", "local work", ""),
        ("algorithm", "s.c.", "s.c.", "s.c.", "smooth", "nonsmooth", "kind"),
    )
    rows = [*heads, *TABLE1]
    lines = ["".join(f"{cell:<{width}}" for cell, width in zip(row, (*widths, 0))).rstrip() for row in rows]
    return "\n".join(lines)
