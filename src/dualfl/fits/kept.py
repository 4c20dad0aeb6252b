"""A finished fit as its folder tells it: coefficients with their tests, and the statistics of the whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators.statistics import Coefficients, coefficients
from dualfl.fits.model_folder import RECORD, Model, read
from dualfl.report.results import COEFFICIENTS, Coefficient, read_coefficients
from dualfl.typing import Array


@dataclass(frozen=True, eq=False)
class Kept:
    """What a model's folder says of its fit."""

    folder: Path
    model: Model
    record: Mapping[str, Any]
    lines: tuple[Coefficient, ...]  # of coefficients.csv

    @property
    def statistics(self) -> Mapping[str, Any]:
        """By name, as fit.json has them; empty where a fit of before kept none."""
        found = self.record.get("statistics")
        return found if isinstance(found, Mapping) else {}

    @property
    def ratio(self) -> str:
        """What exp of a coefficient is called; empty where it means nothing."""
        return str(self.statistics.get("ratio", ""))

    @property
    def level(self) -> float:
        found = self.record["settings"].get("level of the intervals")
        return float(found) if isinstance(found, int | float) else 0.95

    @property
    def df(self) -> float:
        """Of Student's distribution; infinite for the normal one. Fits of before did not keep it."""
        found = self.statistics.get("degrees of freedom of the tests")
        return float(found) if isinstance(found, int | float) else np.inf

    @property
    def estimates(self) -> Array:
        return np.array([one.value for one in self.lines])

    @property
    def tests(self) -> Coefficients | None:
        """Statistics, p-values and intervals, line by line; None where there are no errors."""
        if any(one.error is None for one in self.lines):
            return None
        errors = np.array([one.error for one in self.lines], dtype=float)
        return coefficients(self.estimates, np.diag(errors**2), self.df, self.level)

    @property
    def covariance(self) -> Array:
        """Of the lines of coefficients.csv, in their order."""
        found = self.statistics.get("covariance")
        if found is None:
            raise InputError(f"{self.folder} keeps no covariance of its coefficients: {self.why_no_errors}.")
        V = np.array(found, dtype=np.float64)
        if V.shape != (len(self.lines), len(self.lines)):
            raise InputError(f"{self.folder / RECORD} is damaged: its covariance is {V.shape}; fit the model again.")
        outputs = len(dict.fromkeys(one.label for one in self.lines))
        # fit.json goes feature by feature, coefficients.csv class by class
        order = np.arange(len(V)).reshape(-1, outputs).T.ravel()
        return np.asarray(V[np.ix_(order, order)])

    @property
    def why_no_errors(self) -> str:
        said = str(self.record["settings"].get("standard errors", ""))
        return said.removeprefix("none: ") if said.startswith("none: ") else "it was fitted by an earlier version"


def kept(folder: Path) -> Kept:
    """Read a folder that `dualfl fit` wrote."""
    model = read(folder)
    for name in (RECORD, COEFFICIENTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}; give the whole folder that `dualfl fit --out` wrote.")
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        record["settings"]["penalty"], record["data"]["rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / RECORD} is damaged ({error}); fit the model again.") from error
    return Kept(folder, model, record, read_coefficients(folder / COEFFICIENTS))


def named(found: Sequence[Kept]) -> list[str]:
    """The folders by their names, or by their paths where names are the same."""
    names = [one.folder.resolve().name for one in found]
    return names if len(set(names)) == len(names) else [str(one.folder) for one in found]
