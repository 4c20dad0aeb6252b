"""Whether the certificates of Cox, ordinal, clog-log, count, amount and site-effect fits hold, on generated problems.

    python -m benchmarks.family_certificates             # 1,000 problems; --problems and --seed choose others

Every problem is fitted as `dualfl fit` does it, over silos of unequal size. E* is the least energy that Newton's method
on the summed cost finds from the certified model on; a certificate is violated if E - E* is above it by more than
rounding of the two energies explains. Problems without a minimiser are refused by a sentence, and counted.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import numpy as np

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fitting
from dualfl.errors import DualflError
from dualfl.silos import ALL, Chamber, Cost, Exchange, Query, Sample, SilosHere, drive
from dualfl.silos.verbs import whole
from dualfl.tables.reading import Table
from dualfl.tables.schema import Request

MODELS = (
    *("cox", "ordinal", "cloglog", "poisson", "negative-binomial", "gamma", "tweedie"),
    *("logistic, fixed", "poisson, fixed", "cloglog, fixed"),
)
ROUNDING = 1e-12  # of max(1, |E|)


def drawn(model: str, rng: np.random.Generator) -> tuple[list[Table], Recipe, Request]:
    """Tables of two to five silos, with columns of very different units."""
    n, d = int(rng.integers(40, 200)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d) + 10.0 ** rng.integers(-2, 3, d)
    z = (X - X.mean(axis=0)) @ (rng.normal(size=d) / (X.std(axis=0) * np.sqrt(d)))
    columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(d)}
    kind, _, site = model.partition(", ")
    roles: dict[str, str] = {}
    if kind == "cox":
        died, left = rng.exponential(np.exp(-z)), rng.exponential(1.5, n)
        columns["t"] = np.ceil(np.minimum(died, left) * 20) / 20 + 0.01  # some are tied
        y, roles = (died <= left).astype(float), {"time": "t"}
    elif kind == "ordinal":
        y = np.digitize(z + rng.logistic(size=n), [-1.0, 0.5, 1.5]).astype(float)
    elif kind in ("cloglog", "logistic"):
        p = 1 - np.exp(-np.exp(z - 0.5)) if kind == "cloglog" else 1 / (1 + np.exp(-z))
        y = (rng.random(n) < p).astype(float)
    elif kind == "gamma":
        y = rng.gamma(2.0, np.exp(z) / 2) + 1e-6
    else:
        y = rng.poisson(np.exp(np.clip(z, -5, 3) + 0.5)).astype(float)
    columns["y"] = y
    group = rng.choice(int(rng.integers(2, 6)), n)
    tables = [Table(f"silo {j}", {k: v[group == j] for k, v in columns.items()}) for j in np.unique(group)]
    recipe = Recipe(kind, "none", dispersion=0.5, site_effect=site or "none", tol=1e-8)
    levels = () if kind == "ordinal" else None
    return tables, recipe, Request("y", not recipe.kind.classes, roles=roles, levels=levels)


def gap(silos: SilosHere, cost: Cost, mass: float, theta: Any) -> tuple[float, float]:
    """E - E* at theta, and E."""
    first, lowest = np.nan, np.inf
    for _ in range(12):
        at = {"cost": cost.as_json(), "theta": theta}
        several = {"costs": [cost.as_json()], "thetas": [theta]}
        asked = (Query("losses", several), Query("gradient", at), Query("information", at))
        losses, slope, bend = silos.carry(Exchange("reference", asked))
        value = float(losses["losses"][0]) / mass
        first = value if np.isnan(first) else first
        if not value < lowest:
            break
        lowest = value
        theta = theta - np.linalg.solve(whole(np.asarray(bend["hessian"])), np.asarray(slope["gradient"]))
    return first - lowest, first


def checked(model: str, seed: int) -> str:
    """What became of one problem."""
    tables, recipe, request = drawn(model, np.random.default_rng([28, seed]))
    silos = SilosHere([Chamber(table) for table in tables])
    try:
        fit = drive(fitting(silos, recipe, Wishes(request, influence=False)), silos)
    except DualflError:
        return "refused"
    result, certificate = fit.estimator.results_[0], fit.estimator.certificate_
    if certificate is None:
        return "untold"
    (cost,) = fit.estimator._costs(Sample(ALL, float(fit.rows), fit.rows, 0.0, 0.0))
    found, energy = gap(silos, cost, float(fit.rows), np.array(result.theta))
    if found > certificate + ROUNDING * max(1.0, abs(energy)):
        return "violated"
    return "valid" if certificate <= 1e-6 * abs(energy) + ROUNDING else "loose"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = {model: Counter() for model in MODELS}
    for k in range(given.problems):
        model = MODELS[k % len(MODELS)]
        counts[model][checked(model, given.seed + k)] += 1
        if (k + 1) % 100 == 0 or k + 1 == given.problems:
            total: Counter[str] = sum(counts.values(), Counter())
            print(f"{k + 1:,} problems: {dict(total)}", flush=True)
    words = ("valid", "loose", "untold", "refused", "violated")
    print("\n| model | " + " | ".join(words) + " |\n|---|" + "---|" * len(words))
    for model, found in counts.items():
        print(f"| {model} | " + " | ".join(str(found[word]) for word in words) + " |")


if __name__ == "__main__":
    main()
