"""Models of `dualfl fit` over silos against R and statsmodels on public tables: the worst relative difference of each.

    python -m benchmarks.oracles                         # all, 20 seconds; --out results/models.md keeps the table
    python -m benchmarks.oracles --only cox --only gamma
    python -m benchmarks.oracles --tol 1e-6              # the table is made with the default of `dualfl fit`

What R and statsmodels say is stored in tests/fixtures/models (`oracles.R` and `oracles.py` there made it). The fit is
that of the command: files in, columns standardised, sums over three silos. Rows are dealt out, sorted by outcome, or
all but four in one silo; Cox models are stratified by silo in R too, by two splits that R knows.

    coefficient   max |b - r| / max(|r|, standard error of r)
    error         max |se/r - 1|
    test          max |z - r| / max(|r|, 1), for the statistics of all coefficients
    likelihood    |L/r - 1|, and of deviance and null deviance, the largest
    exchanges     of the run and its proof; those of other software are iterations of IRLS
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.analysis.fit_result import Fit
from dualfl.analysis.model_kinds import tolerance
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fit_tables
from dualfl.tables.reading import Table
from dualfl.tables.schema import Request

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "models"
SPLITS = ("shuffled", "by outcome", "tiny silo")
WITHIN = 1e-6
SPECIAL = ("y", "event", "silo", "cut", "weight", "entry", "offset")
COUNTS, AMOUNTS = ("quine", "warpbreaks", "insects"), ("ozone", "trees", "mtcars")
CLASSES, LEVELS, SURVIVAL = ("birthwt", "pima", "infert"), ("housing", "gears", "visits"), ("lung", "veteran", "pbc")


@dataclass(frozen=True)
class Case:
    """A model of a table, what is known of it, and how its rows are dealt out."""

    recipe: Recipe
    table: str
    oracle: str
    split: str

    @property
    def name(self) -> str:
        how = {"tweedie": f" {self.recipe.power:g}", "cox": f", {self.recipe.ties}"}.get(self.recipe.model, "")
        searched = ", searched" if "searched" in self.oracle else ""
        return f"{self.recipe.model}{how}{searched}{', weighted' if 'weighted' in self.oracle else ''}"


def cases() -> list[Case]:
    found = []
    for split in SPLITS:
        for table in COUNTS:
            found.append(Case(made("poisson"), table, f"poisson {table}", split))
            found.append(Case(made("negative-binomial", dispersion=0.5), table, f"negative-binomial {table}", split))
            for power in (1.3, 1.7):
                found.append(Case(made("tweedie", power=power), table, f"tweedie {power} {table}", split))
        found += [Case(made("gamma"), table, f"gamma {table}", split) for table in AMOUNTS]
        found += [Case(made(kind), t, f"{kind} {t}", split) for kind in ("logistic", "cloglog") for t in CLASSES]
        found += [Case(made("ordinal"), table, f"ordinal {table}", split) for table in LEVELS]
    for table in COUNTS:
        found.append(Case(made("negative-binomial"), table, f"negative-binomial searched {table}", "shuffled"))
    found.append(Case(made("poisson"), "ships", "poisson ships", "shuffled"))
    for table in SURVIVAL:
        for ties in ("efron", "breslow"):
            found += [Case(made("cox", ties=ties), table, f"{table} {s} {ties}", s) for s in ("silo", "cut")]
        found.append(Case(made("cox"), table, f"{table} weighted", "silo"))
    found += [Case(made("cox", ties=ties), "heart", f"heart {ties}", "silo") for ties in ("efron", "breslow")]
    return found


def made(model: str, **more: Any) -> Recipe:
    return Recipe(model, "none", tol=tolerance(model, "none"), **more)


def columns_of(table: str) -> dict[str, Any]:
    with (FOLDER / f"{table}.csv").open() as file:
        return {key: np.array(values, dtype=float) for key, *values in zip(*csv.reader(file))}


def dealt(n: int, split: str, columns: dict[str, Any]) -> Any:
    """Which row belongs to whom."""
    if split in ("silo", "cut"):
        return columns[split].astype(int)
    if split == "shuffled":
        return (np.arange(n) * 7919) % 3
    if split == "by outcome":
        return (np.argsort(np.argsort(columns["y"], kind="stable")) * 3) // n
    return np.where(np.arange(n) < 4, 1, 0)


def fitted(case: Case) -> Fit:
    columns, survival = columns_of(case.table), case.recipe.model == "cox"
    features = tuple(name for name in columns if name not in SPECIAL)
    roles = {"time": "y"} if survival else {}
    roles |= {role: role for role in ("entry", "offset") if role in columns}
    if "weighted" in case.oracle or case.recipe.model == "ordinal":
        roles["weights"] = "weight"
    numeric = not case.recipe.kind.classes
    levels = () if case.recipe.model == "ordinal" else None
    request = Request("event" if survival else "y", numeric, columns=features, roles=roles, levels=levels)
    group = dealt(len(columns["y"]), case.split, columns)
    tables = [Table(f"silo {j}", {k: v[group == j] for k, v in columns.items()}) for j in np.unique(group)]
    return fit_tables(tables, case.recipe, Wishes(request, influence=False))


@dataclass(frozen=True)
class Found:
    coefficient: float
    error: float
    test: float
    likelihood: float
    exchanges: int
    certificate: float
    iterations: int | None

    @property
    def worst(self) -> float:
        return max(self.coefficient, self.error, self.test, self.likelihood)


def compared(case: Case, oracles: dict[str, Any]) -> Found:
    r = {key: np.array(value, dtype=float) for key, value in oracles[case.oracle].items()}
    fit = fitted(case)
    assert fit.coefficients is not None and fit.statistics is not None
    b, se = fit.coefficients.estimate, fit.coefficients.error
    count = len(r["coef"])
    if count == len(b) and fit.recipe.model not in ("cox", "ordinal"):  # R has the intercept first
        b, se = np.roll(b, 1), np.roll(se, 1)
    b, se = b[:count], se[:count]
    known = r["se"] if "se" in r else r["naive"]
    test, expected = b / se, r["coef"] / known
    statistics, pairs = fit.statistics, []
    if "loglik" in r:
        pairs.append((statistics.log_likelihood, r["loglik"][-1]))
    pairs += [(statistics.deviance, r["deviance"][0])] if "deviance" in r else []
    pairs += [(statistics.null_deviance, r["null"][0])] if "null" in r else []
    result = fit.estimator.results_[0]
    certificate = np.inf if result.certificate is None else result.certificate
    return Found(
        float((np.abs(b - r["coef"]) / np.maximum(np.abs(r["coef"]), known)).max()),
        float(np.abs(se / known - 1).max()),
        float((np.abs(test - expected) / np.maximum(np.abs(expected), 1)).max()),
        max(abs(a / c - 1) for a, c in pairs),
        result.history[-1].exchanges + 2 * fit.estimator.proof_follows,
        certificate / max(abs(fit.estimator.objective_), 1e-300),
        int(r["iterations"][0]) if "iterations" in r else None,
    )


def exchanges(counts: list[tuple[int, int | None]]) -> str:
    """The most that fits take, and how that compares with IRLS where its iterations are known."""
    said = f"At most {max(own for own, _ in counts)} exchanges a fit"
    known = [(own, irls) for own, irls in counts if irls is not None]
    if known:
        more = max(own - irls for own, irls in known)
        said += f"; where IRLS takes at most {max(irls for _, irls in known)} iterations, at most "
        said += f"{max(own for own, _ in known)}, and at most {more} more than it on the same table"
    return f"{said}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a model; repeatable")
    parser.add_argument("--out", type=Path, help="write the table here")
    parser.add_argument("--tol", type=float, help="of the fits, unless that of the command")
    given = parser.parse_args()
    oracles = json.loads((FOLDER / "oracles.json").read_text())
    head = ("model", "table", "split", "coefficient", "error", "test", "likelihood", "exchanges", "IRLS", "certificate")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    print("\n".join(lines))
    worst, counts = [], []
    for case in cases():
        if given.only and case.recipe.model not in given.only:
            continue
        if given.tol is not None:
            case = replace(case, recipe=replace(case.recipe, tol=given.tol))
        found = compared(case, oracles)
        worst.append((found.worst, f"{case.name}, {case.table}, {case.split}"))
        counts.append((found.exchanges, found.iterations))
        numbers = [f"{x:.0e}" for x in (found.coefficient, found.error, found.test, found.likelihood)]
        irls = "" if found.iterations is None else str(found.iterations)
        row = [case.name, case.table, case.split, *numbers, str(found.exchanges), irls, f"{found.certificate:.0e}"]
        lines.append("| " + " | ".join(row) + " |")
        print(lines[-1], flush=True)
    beyond = [name for value, name in worst if value > WITHIN]
    said = f"{len(worst)} fits; beyond {WITHIN:g}: {', '.join(beyond) if beyond else 'none'}. {exchanges(counts)}"
    print(f"\n{said}")
    if given.out is not None:
        given.out.write_text("\n".join(["Made by `python -m benchmarks.oracles`.", "", said, "", *lines]) + "\n")


if __name__ == "__main__":
    main()
