"""Formulas on public tables, dealt out to three silos: what `tests/fixtures/models/formulas.R` fits in R."""

from pathlib import Path

import numpy as np

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fit_tables
from dualfl.tables.formulas import parse_formula
from dualfl.tables.reading import Table, read_table
from dualfl.tables.schema import Request

FOLDER = Path(__file__).parent / "fixtures" / "models"
CASES = {
    "birthwt product and square": ("birthwt", "logistic", "y ~ age*smoke + lwt + I(lwt ** 2)"),
    "birthwt spline and logarithm": ("birthwt", "logistic", "y ~ bs(age, 5) + log(lwt) + smoke"),
    "pima natural spline": ("pima", "logistic", "y ~ ns(glu, 3) + bmi*ped"),
    "pima spline": ("pima", "cloglog", "y ~ bs(bmi, 4) + npreg"),
    "quine product": ("quine", "poisson", "y ~ SexM*EthN + AgeF2 + AgeF3"),
    "ozone spline": ("ozone", "gamma", "y ~ log(Wind) + bs(Temp, 4)"),
    "trees powers": ("trees", "linear", "y ~ Girth + I(Girth ** 2) + log(Height)"),
    "veteran natural spline": ("veteran", "cox", "event ~ ns(karno, 3) + trt*age"),
}
CLASSES = ("logistic", "cloglog", "cox")


def fitted(name):
    """The fit of the formula by dualfl."""
    table, model, formula = CASES[name]
    parsed, whole = parse_formula(formula), read_table(FOLDER / f"{table}.csv")
    silos = [
        Table(f"{j}.csv", {key: column[np.arange(whole.rows) % 3 == j] for key, column in whole.columns.items()})
        for j in range(3)
    ]
    roles = {"time": "y"} if model == "cox" else {}
    request = Request(parsed.target, model not in CLASSES, columns=parsed.columns, roles=roles)
    return fit_tables(silos, Recipe(model, "none", tol=1e-12), Wishes(request, terms=parsed.terms, influence=False))


def knots(fit):
    """Of every spline: where dualfl puts them."""
    return {one.name: one.state for term in fit.schema.terms for one in term.factors if one.function in ("bs", "ns")}
