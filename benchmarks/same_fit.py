"""A fit is a fit, wherever the silos are: the same files, fitted here and at the silos of a federation.

    DUALFL_DATA=... python -m benchmarks.same_fit [--save] [--sample] [--jobs=4] [WORD ...]

Every model on every table. The silos answer in this process, by the messages, keys and masks of a deployment. Folds are
dealt by the same secret, tol = 1e-12. Compared are levels, the chosen alpha, coefficients, errors, losses, evaluation,
and the fits without each silo. Without masks they must be the same to the last bit (`bits`). Under masks coefficients
must agree to 1e-9 of a standard error, or of the largest coefficient where the model has none (`masks`). Words choose
rows by their titles; --sample leaves out what takes long, and --jobs has so many processes work side by side.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "DUALFL_THREADS"):
    os.environ.setdefault(name, "1")  # before NumPy is imported

import numpy as np  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_diabetes  # noqa: E402

from benchmarks.near_silos import make_homes, near_silos  # noqa: E402
from dualfl.analysis.descriptions import WholeFit  # noqa: E402
from dualfl.analysis.model_kinds import MODELS  # noqa: E402
from dualfl.analysis.models import Recipe  # noqa: E402
from dualfl.analysis.whole_fit import Fit, Wishes, fitting  # noqa: E402
from dualfl.data import load  # noqa: E402
from dualfl.errors import DualflError  # noqa: E402
from dualfl.federation.chambers import fold_dealing  # noqa: E402
from dualfl.federation.silo_folder import SiloFolder  # noqa: E402
from dualfl.silos import Chamber, SilosHere, drive  # noqa: E402
from dualfl.tables.reading import read_table  # noqa: E402
from dualfl.tables.schema import Request  # noqa: E402

PLACE = Path(__file__).parents[1] / "results" / "same-fit.md"
HOSPITALS = Path(__file__).parents[1] / "examples" / "hospitals"
LIMIT, TIGHT = 1e-9, 1e-12
Files = Callable[[Path], list[Path]]


# -- tables ---------------------------------------------------------------------------------------------------


def write(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def hospitals(folder: Path) -> list[Path]:
    for name in ("north", "river", "hill"):
        (folder / f"{name}.csv").write_bytes((HOSPITALS / f"{name}.csv").read_bytes())
    return [folder / f"{name}.csv" for name in ("north", "river", "hill")]


def dealt(folder: Path, names: Sequence[str], X: Any, y: Any, silos: int = 4) -> list[Path]:
    """Silos that are not alike: rows in the order of a column, but for some."""
    order = np.argsort(X[:, 0] + np.random.default_rng(1).normal(0, X[:, 0].std(), len(y)), kind="stable")
    return [
        write(folder / f"silo-{j}.csv", [*names, "y"], [[*X[i].tolist(), y[i].item()] for i in part])
        for j, part in enumerate(np.array_split(order, silos))
    ]


def breast_cancer(folder: Path) -> list[Path]:
    table = load_breast_cancer()
    return dealt(folder, [name.replace(" ", "_") for name in table.feature_names], table.data, table.target)


def diabetes(folder: Path) -> list[Path]:
    table = load_diabetes(scaled=False)
    return dealt(folder, table.feature_names, table.data, table.target)


def a8a(folder: Path) -> list[Path]:
    table = load("a8a")
    X = np.asarray(table.X.toarray() if hasattr(table.X, "toarray") else table.X).astype(int)
    return dealt(folder, [f"x{i}" for i in range(X.shape[1])], X, (np.asarray(table.y) > 0).astype(int))


def gaps(folder: Path) -> list[Path]:
    """Gaps in numbers and texts, categories, three classes of which one silo lacks one; a raw column of 1e6."""
    rng, paths = np.random.default_rng(7), []
    for name, n, classes in (("one", 90, "ABC"), ("two", 61, "AB"), ("three", 75, "ABC")):
        rows = []
        for _ in range(n):
            label = str(rng.choice(list(classes)))
            place = "ABC".index(label)
            number = "" if rng.random() < 0.2 else repr(float(rng.normal(1e6 + place, 1.0)))
            small = "NA" if rng.random() < 0.1 else repr(float(rng.normal(place, 2.0) * 1e-7))
            count = int(rng.poisson(1.0 + place))
            rows.append([number, rng.choice(["x", "y", "z", "n/a"]), small, rng.choice(["7", "8", ""]), count, label])
        paths.append(write(folder / f"{name}.csv", ["large", "text", "small", "code", "count", "class"], rows))
    return paths


@dataclass(frozen=True)
class Table:
    files: Files
    target: str
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    classes: int = 0
    slow: bool = False
    also: tuple[str, ...] = ()  # models that have no penalty unless told so, and need other targets than most


TABLES = {
    "hospitals": Table(hospitals, "readmitted", classes=2, also=("cloglog",)),
    "hospitals, days": Table(hospitals, "days", ("readmitted",)),
    "breast cancer": Table(breast_cancer, "y", classes=2),
    "diabetes": Table(diabetes, "y", also=("negative-binomial", "gamma", "tweedie")),
    "gaps": Table(gaps, "class", ("count",), ("code",), 3, also=("ordinal",)),
    "gaps, count": Table(gaps, "count", ("class",), ("code",)),
    "a8a": Table(a8a, "y", classes=2, slow=True),
}


# -- fits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    title: str
    table: str
    recipe: Recipe
    wishes: Wishes


def cases(sample: bool) -> Iterator[Case]:
    """Every model with the penalty that it has unless told otherwise, then what else there is."""
    for name, table in TABLES.items():
        if sample and table.slow:
            continue
        request = Request(table.target, not table.classes, drop=table.drop, categorical=table.categorical)
        usual = Wishes(request, influence=not table.slow)
        for model, kind in MODELS.items():
            if kind.classes != bool(table.classes) or (model == "logistic" and table.classes > 2):
                continue
            if kind.penalty == "none" and model not in table.also:
                continue
            recipe = Recipe(model, kind.penalty, tol=TIGHT)
            ordered = replace(usual, request=replace(request, levels=("A", "B", "C")))
            yield Case(f"{name}: {model}", name, recipe, ordered if model == "ordinal" else usual)
        if table.slow:
            continue
        first = {0: "linear", 2: "logistic"}.get(table.classes, "multinomial")
        # Breast cancer is separable, so without a penalty there is no model.
        if name not in ("breast cancer", "gaps"):
            yield Case(f"{name}: {first}, no penalty", name, Recipe(first, "none", tol=TIGHT), usual)
            raw = replace(usual, standardise=False)
            yield Case(f"{name}: {first}, raw columns", name, Recipe(first, tol=TIGHT), raw)
        chosen = replace(usual, cross_validate=True, influence=False)
        yield Case(f"{name}: {first}, l1, 5 folds", name, Recipe(first, "l1", tol=1e-9), chosen)
        by_silo = replace(chosen, cv="silo")
        if table.classes < 3:  # without one silo a class would be missing
            yield Case(f"{name}: {first}, l2, a silo left out", name, Recipe(first, tol=TIGHT), by_silo)


@dataclass(frozen=True)
class Compared:
    """How far the fits at the silos are from the fit of the files."""

    algorithm: str
    exchanges: int
    bits: bool
    off: float  # under masks, in standard errors or of the largest coefficient
    errors: float  # of the standard errors, relative
    rest: float  # of losses, of the fits without a silo, and of alpha, relative
    seconds: tuple[float, float, float]  # files, silos, silos with masks

    @property
    def holds(self) -> bool:
        return self.bits and max(self.off, self.errors, self.rest) <= LIMIT


def compared(case: Case) -> Compared:
    table, analysis = TABLES[case.table], WholeFit(case.recipe, case.wishes)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths = table.files(folder)
        homes = make_homes(
            folder / "silos",
            paths,
            table.target,
            categorical=list(table.categorical),
            policy={"approval": "none", "kinks": True, "least_rows": 0, "least_per_level": 0, "least_per_cell": 0}
            | {"least_per_fold": 0, "rows_per_coefficient": 0, "experiments_per_day": 1000, "exchanges": 10000},
        )
        dealing = fold_dealing(SiloFolder(homes[0]))
        tables = {path.stem: read_table(path) for path in paths}
        here = SilosHere([Chamber(tables[name], dealing, name) for name in sorted(tables)])
        times, fits = [], []
        asked: list[Any] = [here, *(near_silos(homes, analysis, masks, f"e{int(masks)}") for masks in (False, True))]
        for silos in asked:
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fits.append(drive(fitting(silos, case.recipe, case.wishes), silos))
            times.append(time.perf_counter() - began)
    files, plain, masked = fits
    off, errors, rest = apart(masked, files)
    return Compared(
        str(files.estimator.algorithm_).removeprefix("auto runs ").partition(":")[0],
        here.ledger.exchanges,
        same_bits(plain, files),
        off,
        errors,
        rest,
        (times[0], times[1], times[2]),
    )


def numbers(fit: Fit) -> list[Any]:
    """All that must be the same, without what names the silos."""
    without = [None if one.theta is None else one.theta.tobytes() for one in fit.without]
    covariance = None if fit.errors is None else fit.errors.covariance.tobytes()
    path = None if fit.path is None else fit.path.losses.tobytes()
    levels = [(one.name, getattr(one, "reference", None)) for one in fit.schema.features]
    return [fit.theta.tobytes(), fit.recipe, covariance, path, fit.losses, fit.loss, levels, without] + [
        fit.schema.names,
        str(fit.evaluation),
    ]


def same_bits(found: Fit, expected: Fit) -> bool:
    return numbers(found) == numbers(expected)


def apart(found: Fit, expected: Fit) -> tuple[float, float, float]:
    if found.schema.names != expected.schema.names:
        return np.inf, np.inf, np.inf
    spread = expected.standard_errors
    unit = np.abs(expected.theta).max() if spread is None else spread
    off = float(np.max(np.abs(found.theta - expected.theta) / unit))
    errors = 0.0 if spread is None else relative(found.standard_errors, spread)
    rest = [relative(found.losses, expected.losses), relative(found.recipe.alpha, expected.recipe.alpha)]
    for one, other in zip(found.without, expected.without, strict=True):
        if other.theta is not None:
            rest.append(np.inf if one.theta is None else relative(one.theta, other.theta))
    return off, errors, max(rest)


def relative(found: Any, expected: Any) -> float:
    """The largest difference, of the largest number."""
    expected = np.asarray(expected, dtype=float)
    return float(np.max(np.abs(np.asarray(found, dtype=float) - expected)) / max(np.abs(expected).max(), 1e-300))


# -- the command ----------------------------------------------------------------------------------------------


def main(given: Sequence[str]) -> None:
    words = [word for word in given if not word.startswith("--")]
    lines = [
        "# The same fit, here and at silos",
        "",
        f"`python -m benchmarks.same_fit{''.join(f' {word}' for word in given if word != '--save')}`",
        "",
        "| fit | algorithm | exchanges | bits | masks: coefficients | errors | rest | seconds | |",
        "|---|---|---:|---|---:|---:|---:|---:|---|",
    ]
    print("\n".join(lines), flush=True)
    missed = 0
    chosen = [case for case in cases("--sample" in given) if all(word in case.title for word in words)]
    jobs = next((int(word.partition("=")[2]) for word in given if word.startswith("--jobs=")), 1)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for line, holds in pool.map(judged, chosen):
            missed += not holds
            lines.append(line)
            print(line, flush=True)
    lines += ["", f"{missed} of {len(lines) - 6} missed. Seconds: the files, silos without masks, silos with masks."]
    print("\n".join(lines[-2:]))
    if "--save" in given:
        PLACE.write_text("\n".join(lines) + "\n")


def judged(case: Case) -> tuple[str, bool]:
    try:
        return row(case, compared(case))
    except DualflError as error:
        return f"| {case.title} | | | | | | | | refused: {error} |", False


def row(case: Case, found: Compared) -> tuple[str, bool]:
    seconds = ", ".join(f"{one:.1f}" for one in found.seconds)
    return (
        f"| {case.title} | {found.algorithm} | {found.exchanges} | {'same' if found.bits else 'OTHER'} | "
        f"{found.off:.0e} | {found.errors:.0e} | {found.rest:.0e} | {seconds} | {'' if found.holds else 'missed'} |"
    ), found.holds


if __name__ == "__main__":
    main(sys.argv[1:])
