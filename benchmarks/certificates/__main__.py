"""Is every certificate true? Generated problems, solved as the estimators do, against a reference of 64 bits.

    python -m benchmarks.certificates [--count 5000] [--seed 1] [--out build/certificates.jsonl] [--keep]
    python -m benchmarks.certificates --share 1/4 --minutes 20 --out build/certificates-1.jsonl --keep
    python -m benchmarks.certificates --join build/certificates-*.jsonl

Every problem is solved by `auto` to tol = 1e-6, and every fourth once more to its end, where rounding stops it. One
line a problem goes to --out; with --keep a run goes on where the file ends. Several processes can share the problems,
and --join prints the figures of all their files together. Printed are, over all problems that have a
minimiser and whose rounding floor lets tol be proven,

    violations   certificates below the true gap E(theta) - E*, and lower bounds above E, which a run calls a
                 contradiction; also those of a second algorithm, drawn for each problem
    wrong        a certificate within tol was given, and the gap is above tol
    untold       the gap is above tol, and neither a warning nor an exception says so
    told         tol is not proven, and the fit says so
    tight        of the fits that ran to their end: a certificate was given, at most 10 times (gap + rounding floor)

The rounding floor is (n + D + 16) 2^-53 times the sizes of all that is added up in E (`Smooth.floor`).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.certificates.problems import case
from benchmarks.certificates.reference import LD, Reference, Smooth, reference
from dualfl.algorithms.registry import make
from dualfl.engines import run
from dualfl.errors import DualflError
from dualfl.estimators import all_rows
from dualfl.estimators.solving import FLOOR, FitLimits, solve
from dualfl.objectives import L1, BoxConstraint
from dualfl.objectives.joined import joined

TOL, ROUNDS, FURTHER = 1e-6, 100, 4
SECONDS = 2.0  # of the second algorithm: local solves by SDCA with a tiny ridge take minutes
FINER = 2.0**-11  # what the reference's roundings are to the library's
OTHERS = ("gd", "nesterov", "lbfgs", "dualfl", "bundle", "cocoa", "disco", "giant", "prox-newton", "sketched-newton")


def fit(problem: Any, tol: float) -> tuple[Any, str]:
    """A result, or the sentence of an exception; one that is no sentence of the library's begins with 'crash'."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            limits = FitLimits(tol, ROUNDS, 0, False)
            return without_messages(problem, limits) or solve(problem, "auto", limits), ""
        except DualflError as error:
            return None, str(error)
        except Exception as error:  # what it is will be printed
            return None, f"crash: {type(error).__name__}: {error}"


def without_messages(problem: Any, limits: FitLimits) -> Any:
    """As `fit(X, y, groups)` begins; None where it then goes on as all others."""
    whole, penalty = joined(problem.clients), problem.penalty
    if whole is None or not (penalty is None or type(penalty) is L1):
        return None
    l1 = 0.0 if penalty is None else penalty.alpha
    return all_rows.minimised(whole, l1, limits, problem.N) if all_rows.suits(whole, l1) else None


def another(problem: Any, rng: Any) -> Any:
    """A few rounds, or seconds, of some other algorithm that certifies, where it can."""
    name = str(rng.choice(OTHERS))
    options = {"proximal": True} if name == "bundle" else {}  # as `auto` takes it: with a free intercept, too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(problem, make(name, **options), rounds=int(rng.integers(1, 12)), seconds=SECONDS, threads=1)
        except Exception:  # many do not apply, and what they refuse is not the subject here
            return None


def judged(seed: int, number: int) -> dict[str, Any]:
    """All that is counted of one problem."""
    it = case(seed, number)
    result, sentence = fit(it.problem, TOL)
    further = fit(it.problem, 1e-15)[0] if number % FURTHER == 0 and result is not None else None
    other = another(it.problem, np.random.default_rng([seed, number, 1]))
    results = [r for r in (result, further, other) if r is not None and r.energy is not None]
    with np.errstate(all="ignore"):
        smooth, least = Smooth(it), reference(it, *(r.theta for r in results))
        line: dict[str, Any] = {"number": number, "words": it.words, "E*": float(least.E), "refused": sentence}
        line["violations"] = [r.algorithm.name for r in results if violated(smooth, least, r)]
        line["far"] = runs_away(smooth, least)
        if result is not None:
            line |= described(smooth, least.E, result)
        if further is not None and further.energy is not None:
            line["end"] = described(smooth, least.E, further)
    return line


def violated(smooth: Smooth, least: Reference, result: Any) -> bool:
    """Whether a certificate is too small, by more than the reference itself may be off."""
    if result.certificate is None:
        return bool(result.stopped == "contradiction")
    doubt = sum(FINER * smooth.floor(theta)[0] for theta in (result.theta, least.theta))
    return bool(smooth.energy(smooth.at(result.theta)) - least.E - doubt > LD(result.certificate))


def runs_away(smooth: Smooth, least: Any) -> bool:
    """Whether there is no minimiser: E* is a limit, or the reference found predictors a million times too large, or
    Newton's method that never rests."""
    case = smooth.case
    far = np.abs(smooth.raw @ least.theta).max() > 1e6 * smooth.size if smooth.loss != "Poisson" else False
    bare = case.ridge == 0 and case.penalty is None
    half_open = case.ridge == 0 and isinstance(case.penalty, BoxConstraint) and not np.isfinite(case.penalty.upper)
    return bool(limit_only(smooth) or (bare and not least.settled) or ((bare or half_open) and far))


def limit_only(smooth: Smooth) -> bool:
    """Whether a free intercept can fall for ever: that of a class that never occurs, or of counts that are all 0."""
    if smooth.case.intercept != "free":
        return False
    if smooth.loss == "Poisson":
        return bool((smooth.y == 0).all())
    return smooth.loss == "Softmax" and len(np.unique(smooth.y.astype(int))) < smooth.k


def described(smooth: Smooth, least: Any, result: Any) -> dict[str, Any]:
    gap = float(smooth.energy(smooth.at(result.theta)) - least)
    floor, price = smooth.floor(result.theta)
    met = FitLimits(TOL, ROUNDS, 0, False).met(result.certificate, result.energy, result.rounding)
    kept = {"algorithm": result.algorithm.name, "rounds": result.rounds, "stopped": result.stopped}
    return kept | {
        "E": result.energy, "gap": gap, "certificate": result.certificate, "rounding": result.rounding, "floor": floor,
        "price": price, "told": not met,
    }  # fmt: skip


# -- counting --------------------------------------------------------------------------------------------


def apart(line: dict[str, Any]) -> str:
    """Why a problem is counted apart; "" if it is not."""
    if line["far"] or "no minimiser" in line["refused"]:
        return "no minimiser"
    if "E" in line and FLOOR * max(line["floor"], line["rounding"] or 0.0) > TOL * abs(line["E"]):
        return "rounding floor above tol"
    return ""


def counts(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures."""
    inside = [line for line in lines if not apart(line)]
    solved = [line for line in inside if "E" in line]
    above = [line for line in solved if line["gap"] > TOL * abs(line["E"])]
    ends = [line["end"] for line in inside if "end" in line]
    tight = [
        e for e in ends if e["certificate"] is not None and e["certificate"] <= 10 * (max(e["gap"], 0) + e["floor"])
    ]
    told = [line for line in inside if "E" not in line or line["told"]]
    return {
        "problems": len(lines),
        "apart": dict(Counter(apart(line) for line in lines if apart(line))),
        "counted": len(inside),
        "violations": sum(len(line["violations"]) for line in lines),
        "wrong": sum(not line["told"] and line["certificate"] <= TOL * abs(line["E"]) for line in above),
        "untold": sum(not line["told"] for line in above),
        "told": len(told),
        "refused or crashed": sum("E" not in line for line in inside),
        "to their end": len(ends),
        "tight": len(tight),
    }


def report(found: dict[str, Any], seed: int) -> str:
    inside, ends = max(found["counted"], 1), max(found["to their end"], 1)
    apart_ = ", ".join(f"{number} {why}" for why, number in found["apart"].items()) or "none"
    rows = [
        f"seed {seed}: {found['problems']} problems, counted apart: {apart_}",
        f"violations   {found['violations']}",
        f"wrong        {found['wrong']}",
        f"untold       {found['untold']}",
        f"told         {found['told']} of {found['counted']} ({100 * found['told'] / inside:.1f} %), "
        f"of them {found['refused or crashed']} by an exception",
        f"tight        {found['tight']} of {found['to their end']} ({100 * found['tight'] / ends:.1f} %)",
    ]
    return "\n".join(rows)


def campaign(
    seed: int, count: int, out: Path | None = None, keep: bool = False, share: str = "1/1", minutes: float = np.inf
) -> list[dict[str, Any]]:
    """The lines of all problems; those that are in `out` already are not solved again."""
    part, parts = (int(number) for number in share.split("/"))
    until = time.monotonic() + 60 * minutes
    lines: list[dict[str, Any]] = []
    if out is not None and keep and out.exists():
        lines = [json.loads(line) for line in out.read_text().splitlines()]
    elif out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("")
    for number in range(part - 1, count, parts)[len(lines) :]:
        if time.monotonic() > until:
            break
        lines.append(judged(seed, number))
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.certificates")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/certificates.jsonl"))
    parser.add_argument("--keep", action="store_true", help="go on where --out ends")
    parser.add_argument("--share", default="1/1", help="which part of the problems, such as 1/4")
    parser.add_argument("--minutes", type=float, default=np.inf, help="no further problem is begun after that")
    parser.add_argument("--join", type=Path, nargs="+", help="print the figures of these files, and solve nothing")
    given = parser.parse_args()
    began = time.process_time()
    if given.join:
        lines = [json.loads(line) for path in given.join for line in path.read_text().splitlines()]
    else:
        lines = campaign(given.seed, given.count, given.out, given.keep, given.share, given.minutes)
    print(report(counts(lines), given.seed))
    print(f"{time.process_time() - began:.0f} s of processor time")
    for line in lines:
        if line["violations"] or (
            "E" in line and not line["told"] and not apart(line) and line["gap"] > TOL * abs(line["E"])
        ):
            print(json.dumps(line))


if __name__ == "__main__":
    main()
