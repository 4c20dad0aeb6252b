"""Tests between models that were kept, and of the terms of one: likelihood ratios and joint Wald tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators.statistics import TestResult
from dualfl.fits.kept import Kept
from dualfl.fits.term_tests import wald as wald_of
from dualfl.names import nearest
from dualfl.tables.roles import ROLES
from dualfl.typing import Array

SAME = 1e-8  # relative, of two null deviances of the same rows


# -- two models -------------------------------------------------------------------------------------------


def likelihood_ratio(small: Kept, large: Kept) -> TestResult:
    """Whether the larger of two nested models says more, by 2 (l - l') and chi-square."""
    check_nested(small, large)
    gain = 2 * (number(large, "log-likelihood") - number(small, "log-likelihood"))
    df = int(number(large, "parameters") - number(small, "parameters"))
    if gain < -1e-6 * max(abs(number(small, "log-likelihood")), 1.0):
        raise InputError(
            f"{large.folder} is less likely than {small.folder}, which cannot be if they are nested; fit both anew, "
            "with a smaller --tol."
        )
    return TestResult(max(gain, 0.0), df)


def number(one: Kept, name: str) -> float:
    found = one.statistics.get(name)
    if not isinstance(found, int | float):
        raise InputError(
            f"{one.folder} has no {name}: its model, {one.model.recipe.model}, has none, or it was fitted by an "
            "earlier version; fit it anew."
        )
    return float(found)


def check_nested(small: Kept, large: Kept) -> None:
    """Refuse models that differ in more than their columns."""
    for one in (small, large):
        penalty = one.record["settings"]["penalty"]
        if penalty != "none":
            raise InputError(
                f"{one.folder} has the penalty {penalty}, so its coefficients are not those of the largest likelihood; "
                "fit it with --penalty none."
            )
    for what, a, b in differences(small, large):
        if a != b:
            a, b = ("not given" if one is None else one for one in (a, b))
            raise InputError(f"The models are not nested: {what} is {a} in {small.folder} and {b} in {large.folder}.")
    mine, theirs = (number(one, "null deviance") if has_null(one) else 0.0 for one in (small, large))
    if abs(mine - theirs) > SAME * max(abs(mine), abs(theirs)):
        raise InputError(
            f"{small.folder} and {large.folder} were not fitted to the same rows: their null deviances are {mine:.8g} "
            f"and {theirs:.8g}."
        )
    strange = [name for name in small.model.schema.names if name not in large.model.schema.names]
    if strange:
        raise InputError(
            f"The models are not nested: {small.folder} has the coefficient {strange[0]!r}, which {large.folder} has "
            "not; name the smaller model first."
        )
    if len(small.model.schema.names) == len(large.model.schema.names):
        raise InputError(f"{small.folder} and {large.folder} have the same columns, so there is nothing to test.")


def has_null(one: Kept) -> bool:
    return isinstance(one.statistics.get("null deviance"), int | float)


def differences(small: Kept, large: Kept) -> Sequence[tuple[str, object, object]]:
    """What must be the same, as it is in both."""

    def facts(one: Kept) -> dict[str, object]:
        recipe = asdict(one.model.recipe)
        kept = {name: value for name, value in recipe.items() if name not in ("tol", "alpha", "l1_ratio", "base")}
        dispersed = {"dispersion": kept.pop("dispersion", None)} if recipe["model"] != "negative-binomial" else {}
        kept.pop("dispersion", None)
        data, schema = one.record["data"], one.model.schema
        return {
            "the target": schema.target,
            "the number of rows": data["rows"],
            "the list of silos": ", ".join(sorted(data["silos"])),
            "the list of classes": ", ".join(schema.classes),
            **{f"--{name.replace('_', '-')}": value for name, value in {**kept, **dispersed}.items()},
            **{f"--{role}": schema.roles.get(role) for role in ROLES},
        }

    mine, theirs = facts(small), facts(large)
    return [(what, value, theirs.get(what)) for what, value in mine.items()]


# -- the terms of one -------------------------------------------------------------------------------------


def term_names(one: Kept, terms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The coefficients of each term: those of a column, or one by its own name; all columns where none is named."""
    blocks = one.model.schema.blocks
    if not terms:
        return dict(blocks)
    found: dict[str, tuple[str, ...]] = {}
    for term in terms:
        if term not in blocks and term not in one.model.schema.names:
            raise InputError(
                f"--terms: {nearest('term', term, tuple(dict.fromkeys((*blocks, *one.model.schema.names))))}"
            )
        found[term] = blocks.get(term, (term,))
    return found


def wald(one: Kept, names: Sequence[str]) -> TestResult:
    """Whether all these coefficients are zero; of several classes, whether they are the same for all."""
    V, contrasts = one.covariance, contrast(one, names)
    clusters = one.statistics.get("clusters")
    if isinstance(clusters, int) and len(contrasts) >= clusters:
        raise InputError(
            f"Errors of {one.folder} are from {clusters} clusters, so at most {clusters - 1} coefficients can be "
            f"tested together, and these are {len(contrasts)}; take model errors, or robust ones by row."
        )
    return wald_of(contrasts, one.estimates, V, one.df)


def contrast(one: Kept, names: Sequence[str]) -> Array:
    """A line for each number that is to be zero: a coefficient, or its difference to that of the first class."""
    places = {(each.feature, each.label): i for i, each in enumerate(one.lines)}
    labels = list(dict.fromkeys(each.label for each in one.lines))
    lines = []
    for name in names:
        for label in labels[1:] if len(labels) > 1 else labels:
            line = np.zeros(len(one.lines))
            line[places[name, label]] = 1.0
            if len(labels) > 1:
                line[places[name, labels[0]]] = -1.0
            lines.append(line)
    return np.array(lines)
