"""Hyperparameters for a comparison, found on its own problem: every algorithm by its grid, all in equal time.

A cell is one choice from the algorithm's grid, and theory's defaults are one more. It runs for as many rounds as the
comparison will, and counts by the mean of log10 of its errors, the area under its curve, as in `tune`. An algorithm
has an equal share of the time, and none of its cells more than three times its share of that; what there is no time
for is left out, theory's defaults never.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.engines import Problem, run
from dualfl.errors import Diverged, InputError, NotSupported
from dualfl.experiments.tune import FAIR, check_grid, score, spread_out


@dataclass(frozen=True)
class Tuned:
    """What was found for one algorithm."""

    algorithm: Algorithm  # with the best hyperparameters; as it was given if nothing is better
    found: dict[str, Any]
    tried: int
    cells: int

    @property
    def line(self) -> str:
        values = ", ".join(f"{k} = {v:.4g}" if isinstance(v, float) else f"{k} = {v}" for k, v in self.found.items())
        return f"{self.algorithm.name}: {values or 'as theory has it'} ({self.tried} of {self.cells} cells tried)"


def tuned(
    problem: Problem,
    algorithms: Iterable[Algorithm],
    *,
    minutes: float,
    rounds: int = 50,
    reference: float,
    seed: int = 0,
    tell: Callable[[Tuned], None] | None = None,
    **options: Any,
) -> list[Tuned]:
    """The best cell of every algorithm's grid within so many minutes. Hyperparameters that are given stay."""
    if not 0 < minutes < np.inf:
        raise InputError(f"The search needs a number of minutes > 0, but it is {minutes}.")
    chosen, results = list(algorithms), []
    options |= {"rounds": rounds, "reference": reference, "seed": seed}
    ends = time.perf_counter() + 60 * minutes
    for number, algorithm in enumerate(chosen):
        share = (ends - time.perf_counter()) / (len(chosen) - number)  # what one leaves over the others have
        results.append(best(problem, algorithm, max(share, 0.0), options))
        if tell is not None:
            tell(results[-1])
    return results


def candidates(algorithm: Algorithm) -> list[dict[str, Any]]:
    """Every cell of the grid that leaves alone what is given, theory's first, and soon some from all parts of it."""
    open_fields = {f.name for f in dataclasses.fields(algorithm) if getattr(algorithm, f.name) == f.default}
    grid = {name: values for name, values in algorithm.grid.items() if name in open_fields}
    check_grid(algorithm.name, grid)
    cells = [dict(zip(grid, values)) for values in itertools.product(*grid.values())] if grid else []
    return spread_out([{}, *cells])


def best(problem: Problem, algorithm: Algorithm, seconds: float, options: dict[str, Any]) -> Tuned:
    """The best cell of one algorithm, within its time."""
    cells = candidates(algorithm)
    found: dict[str, Any] = {}
    least, began, tried = np.inf, time.perf_counter(), 0
    for cell in cells:
        if tried and time.perf_counter() - began > seconds:
            break
        tried += 1
        try:
            result = run(problem, with_values(algorithm, cell), seconds=FAIR * seconds / len(cells), **options)
        except (Diverged, InputError, NotSupported):
            continue
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        errors = result.history.column("relative_error")
        if result.stopped == "diverged" or not len(errors):
            continue
        short = options["rounds"] + 1 - len(errors)  # a run that its time, or the tolerance, has ended
        (area,) = score("area", np.concatenate([errors, np.full(max(short, 0), errors[-1])]))
        if area < least:
            least, found = area, cell
    return Tuned(with_values(algorithm, found), found, tried, len(cells))


def with_values(algorithm: Algorithm, values: dict[str, Any]) -> Algorithm:
    mine: Any = algorithm
    changed: Algorithm = dataclasses.replace(mine, **values)
    return changed
