"""`--formula` among the other options of a fit."""

from __future__ import annotations

import csv
import io
from typing import Any

from dualfl.errors import InputError
from dualfl.tables.formulas import parse_formula
from dualfl.tables.terms import Term


def terms_of(given: dict[str, Any]) -> tuple[Term, ...]:
    """The terms of the formula; its target, columns and categories go where other options would have put them."""
    formula = parse_formula(given["formula"])
    for word in ("columns", "drop"):
        if given[word]:
            raise InputError(f"--formula names its columns, so --{word} has no use beside it; leave --{word} out.")
    for word, wrong in (("missing", "indicator"), ("coding", "full")):
        if given[word] == wrong:
            raise InputError(f"--{word} {wrong} makes columns of its own, and --formula names all terms; leave it out.")
    explained = given["event"] if given["model"] == "cox" else given["target"]
    if explained is not None and formula.target not in ("", explained):
        raise InputError(
            f"--formula is about {formula.target!r} and {'--event' if given['model'] == 'cox' else '--target'} about "
            f"{explained!r}; name one of them."
        )
    if formula.target and given["model"] != "cox":
        given["target"] = formula.target
    for name in formula.columns:
        if name == given["target"] or name in given["id"]:
            raise InputError(
                f"--formula: {name!r} is {'the target' if name == given['target'] else 'an --id'}; take it out."
            )
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(formula.columns)
    given["columns"] = (line.getvalue(),)
    given["categorical"] = (*given["categorical"], *formula.categorical)
    return formula.terms
