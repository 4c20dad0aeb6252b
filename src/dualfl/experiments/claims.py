"""What the paper says about its Figure 1, measured on curves.

A curve holds the relative energy errors of rounds 0, 1, 2, ... Each claim is a function of curves that gives a number,
whether the claim holds for it, and a sentence for a reader. The paper gives no numbers, so every bar is ours, and is
stated. Errors below FLOOR are called equal: local solves to 1e-12 leave noise there. Curves that their time has cut say
nothing of what came later: a benchmark among them is not judged, and of a cut DualFL only the rounds that it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualfl.typing import Array

Curves = Mapping[str, Array]

FLOOR = 1e-11
FIRST = 5  # "the first several iterations"
SIMILAR = 2.0  # within this factor, two things are alike
FAR = 10.0  # beyond this factor, a method is not competitive
OURS = "dualfl"


class Verdict(NamedTuple):
    """One claim: `number` is what was measured, `holds` is None where the curves cannot tell."""

    panel: str
    claim: str
    number: float
    holds: bool | None
    sentence: str

    @property
    def word(self) -> str:
        return "cannot be told" if self.holds is None else "holds" if self.holds else "does not hold"


def above_floor(curve: Array) -> Array:
    return np.maximum(curve, FLOOR)


def untold(panel: str, claim: str, why: str) -> Verdict:
    return Verdict(panel, claim, math.nan, None, why)


def rate(curve: Array, later: bool = False) -> float:
    """Decimal digits gained a round, by least squares, from round 1 (`later`: from the middle) to where FLOOR is met.

    >>> round(rate(0.1 ** np.arange(9.0)), 6)
    1.0
    """
    errors = curve[np.isfinite(curve)]
    above = np.nonzero(errors > FLOOR)[0]
    last = int(above[-1]) + 1 if above.size else 0
    part = errors[last // 2 if later else 1 : last]
    if len(part) < 3:
        return math.nan
    return float(-np.polyfit(np.arange(len(part)), np.log10(part), 1)[0])


# -- (a, d): against the benchmarks -----------------------------------------------------------------------


def below_the_others(curves: Curves, panel: str, cut: Sequence[str] = ()) -> Verdict:
    """In every round DualFL's error is below that of every benchmark. The number: the share of comparisons it wins."""
    claim = "DualFL is below the others throughout"
    ours, others = above_floor(curves[OURS]), {k: v for k, v in curves.items() if k != OURS}
    if not others:
        return untold(panel, claim, "There is no other curve.")
    lost: list[tuple[float, str, int]] = []
    total = 0
    for name, curve in others.items():
        both = min(len(ours), len(curve))
        ratio = ours[1:both] / above_floor(curve)[1:both]
        total += len(ratio)
        lost += [(float(r), name, n + 1) for n, r in enumerate(ratio) if r > 1]
    if not total:
        return untold(panel, claim, "No curve has a round.")
    share = 1 - len(lost) / total
    without = _without(cut, len(ours) - 1)
    if not lost:
        sentence = f"Lower in all {total} comparisons of a round with a benchmark.{without}"
        return Verdict(panel, claim, share, True, sentence)
    worst, name, n = max(lost)
    losers = ", ".join(dict.fromkeys(k for _, k, _ in sorted(lost, reverse=True)))
    return Verdict(
        panel,
        claim,
        share,
        False,
        f"Lower in {total - len(lost)} of {total} comparisons; below it get {losers}; {name} by most, "
        f"{worst:.2g} times in round {n}.{without}",
    )


def _without(cut: Sequence[str], rounds: int) -> str:
    """Who is not judged, and how much of DualFL is, where there is no whole curve."""
    others = [name for name in cut if name != OURS]
    text = f" Without {', '.join(others)}, of which there is no whole curve." if others else ""
    return text + (f" Of DualFL, which has no whole curve, {rounds} rounds." if OURS in cut else "")


def as_fast_as_feddyn(curves: Curves, panel: str) -> Verdict:
    """Over the first rounds DualFL's error is at most SIMILAR times FedDyn's. The number: the mean ratio."""
    claim = f"DualFL falls as fast as FedDyn in the first {FIRST} rounds"
    if "feddyn" not in curves:
        return untold(panel, claim, "There is no curve of FedDyn.")
    ours, theirs = above_floor(curves[OURS])[1 : FIRST + 1], above_floor(curves["feddyn"])[1 : FIRST + 1]
    both = min(len(ours), len(theirs))
    if not both:
        return untold(panel, claim, "The curves have no round.")
    ratio = float(np.exp(np.mean(np.log(ours[:both] / theirs[:both]))))
    sentence = f"Its error is {ratio:.2g} times FedDyn's there (geometric mean; at most {SIMILAR:g} is as fast)."
    if ratio < 1 / SIMILAR:
        sentence = f"It is faster: its error is {ratio:.2g} times FedDyn's there (geometric mean)."
    return Verdict(panel, claim, ratio, ratio <= SIMILAR, sentence)


def similar_rates(curves: Curves, panel: str, cut: Sequence[str] = ()) -> Verdict:
    """DualFL's later rate is within SIMILAR of those of FedPD, FedDR and Scaffnew. The number: the worst ratio."""
    claim = "Its rate is later like FedPD's, FedDR's, Scaffnew's"
    named = ("fedpd", "feddr", "scaffnew")
    if short := [name for name in (OURS, *named) if name in cut]:
        return untold(panel, claim, f"There is no whole curve of {', '.join(short)}.")
    ours = rate(curves[OURS], later=True)
    theirs = {name: rate(curves[name], later=True) for name in named if name in curves}
    theirs = {name: r for name, r in theirs.items() if np.isfinite(r)}
    if not theirs or not np.isfinite(ours):
        return untold(panel, claim, "The curves are too short, or at the floor too soon, to have a rate.")
    ratios = {name: ours / r if r > 0 else math.inf for name, r in theirs.items()}
    name = max(ratios, key=lambda k: abs(math.log(ratios[k])) if 0 < ratios[k] < math.inf else math.inf)
    listed = ", ".join(f"{k} {r:.3g}" for k, r in theirs.items())
    holds = all(1 / SIMILAR <= ratio <= SIMILAR for ratio in ratios.values())
    sentence = f"Digits gained a round in the second half: dualfl {ours:.3g}, {listed}."
    if not holds:
        sentence += f" It is {'faster' if ratios[name] > 1 else 'slower'} than {name} by most."
    return Verdict(panel, claim, ratios[name], holds, sentence)


def primal_methods(curves: Curves, primal: Curves, panel: str) -> Verdict:
    """FedAvg, FedCM and FedSAM end FAR above DualFL, and above the median of the drawn methods. The number: the best of
    them over DualFL, in DualFL's last round."""
    claim = "FedAvg, FedCM and FedSAM are not competitive"
    last = len(curves[OURS])
    ends = {name: float(above_floor(curve[:last])[-1]) for name, curve in primal.items() if len(curve)}
    if not ends or not last:
        return untold(panel, claim, "None of them came to a result.")
    drawn = {name: float(above_floor(curve[:last])[-1]) for name, curve in curves.items() if len(curve)}
    best = min(ends, key=lambda k: ends[k])
    over_ours, over_median = ends[best] / drawn[OURS], ends[best] / float(np.median(list(drawn.values())))
    worse = [name for name, end in drawn.items() if end > ends[best]]
    return Verdict(
        panel,
        claim,
        over_ours,
        over_ours >= FAR and over_median >= FAR,
        f"The best of them, {best}, ends at {ends[best]:.1e}: {over_ours:.3g} times DualFL's error and "
        f"{over_median:.2g} times the median of the drawn methods ({FAR:g} or more of both is not competitive)."
        + (f" It is below {', '.join(worse)}." if worse else ""),
    )


# -- (b, e) and (c, f): DualFL alone ----------------------------------------------------------------------


def many_clients(curves: Mapping[int, Array], panel: str, absent: Sequence[int] = ()) -> Verdict:
    """The rate with many clients is at least 1/SIMILAR of that with few. The number: the smallest share. `absent` have
    no whole curve."""
    claim = "The rate is not worse for many clients"
    if absent and max(absent) > max(curves, default=0):
        return untold(panel, claim, f"There is no whole curve for N = {max(absent)}, the largest.")
    rates = {N: r for N, curve in sorted(curves.items()) if np.isfinite(r := rate(curve))}
    if len(rates) < 2:
        return untold(panel, claim, "Fewer than two curves are long enough to have a rate.")
    few = min(rates)
    shares = {N: r / rates[few] for N, r in rates.items() if few != N}
    worst = min(shares, key=lambda N: shares[N])
    ends = {N: float(curves[N][-1]) for N in (few, max(rates))}
    gained = ", ".join(f"{rates[N]:.3g} for N = {N}" for N in sorted({few, worst, max(rates)}))
    return Verdict(
        panel,
        claim,
        shares[worst],
        shares[worst] >= 1 / SIMILAR,
        f"At worst {shares[worst]:.2g} times the rate of N = {few} ({1 / SIMILAR:g} is asked): decimal digits gained a "
        f"round {gained}. The level is another matter: errors end at {ends[few]:.1e} and {ends[max(rates)]:.1e} for "
        f"N = {few} and {max(rates)}." + (f" Without N = {', '.join(map(str, sorted(absent)))}." if absent else ""),
    )


def robust_to_rho(curves: Mapping[float, Array], panel: str, absent: Sequence[float] = ()) -> Verdict:
    """No rho of the list has a rate below 1/SIMILAR of the best. The number: the smallest share. `absent` have no whole
    curve, and any of them might be the exception."""
    claim = "The rate is robust to rho"
    if absent:
        return untold(panel, claim, f"There is no whole curve for rho = {', '.join(f'{rho:g}' for rho in absent)}.")
    rates = {rho: r for rho, curve in sorted(curves.items()) if np.isfinite(r := rate(curve))}
    if len(rates) < 2:
        return untold(panel, claim, "Fewer than two curves are long enough to have a rate.")
    best, worst = max(rates, key=lambda k: rates[k]), min(rates, key=lambda k: rates[k])
    share = rates[worst] / rates[best] if rates[best] > 0 else math.nan
    ends = sorted((float(above_floor(curve)[-1]), rho) for rho, curve in curves.items() if len(curve))
    return Verdict(
        panel,
        claim,
        share,
        bool(share >= 1 / SIMILAR),
        f"At worst {share:.2g} times the best rate ({1 / SIMILAR:g} is asked): digits gained a round "
        f"{rates[best]:.3g} for rho = {best:g}, {rates[worst]:.3g} for rho = {worst:g}. The errors end "
        f"between {ends[0][0]:.1e} (rho = {ends[0][1]:g}) and {ends[-1][0]:.1e} (rho = {ends[-1][1]:g}).",
    )


def against_benchmarks(curves: Curves, primal: Curves, panel: str, cut: Sequence[str] = ()) -> list[Verdict]:
    """All claims about panel (a) or (d); `cut` are drawn methods without a whole curve."""
    if not len(curves.get(OURS, ())):
        return [untold(panel, "DualFL is below the others throughout", "DualFL came to no result.")]
    present = {name: curve for name, curve in curves.items() if len(curve)}
    found = [
        below_the_others(present, panel, cut),
        as_fast_as_feddyn(present, panel),
        similar_rates(present, panel, cut),
    ]
    return [*found, primal_methods(present, primal, panel)] if primal else found


def table(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Rows for a CSV file."""
    head = ["panel", "claim", "number", "verdict", "finding"]
    return [head, *([v.panel, v.claim, f"{v.number:.6g}", v.word, v.sentence] for v in verdicts)]
