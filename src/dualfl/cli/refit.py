"""`dualfl fit --refit`: the columns that an l1 penalty chose, fitted again without one, and labelled as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.analysis.model_kinds import tolerance
from dualfl.errors import InputError

if TYPE_CHECKING:
    from dualfl.analysis.models import Recipe
    from dualfl.analysis.whole_fit import Fit, Wishes

LABEL = "of a refit of what an l1 penalty chose on the same rows, which they do not know of, so they are too small"


def place_of(out: Path) -> Path:
    return out.with_name(f"{out.resolve().name}-refit")


def check_refit(recipe: Recipe, out: Path, force: bool) -> None:
    """Before the first fit begins."""
    from dualfl.fits import model_folder

    if recipe.l1 == 0:
        raise InputError(
            f"--refit is for a penalty that chooses columns, l1 or elastic-net, and it is {recipe.penalty}."
        )
    if recipe.model in ("svm", "squared-hinge"):
        raise InputError(f"--refit fits without a penalty, and --model {recipe.model} needs one; leave out --refit.")
    model_folder.check_place(place_of(out), force)


def chosen(fit: Fit) -> list[str]:
    """Columns, or terms, of which a coefficient is not zero."""
    places = {name: i for i, name in enumerate(fit.schema.names)}
    return [
        name for name, columns in fit.schema.blocks.items() if np.any(fit.theta[[places[column] for column in columns]])
    ]


def unpenalised(recipe: Recipe, tol: float | None) -> Recipe:
    """The same model; lasso and elastic-net are names of linear ones with a penalty."""
    recipe = replace(recipe, model="linear", penalty="none") if recipe.kind.fixed else recipe
    tol = tolerance(recipe.model, "none", recipe.site_effect) if tol is None else tol
    return replace(recipe, penalty="none", tol=tol)


def narrowed(wishes: Wishes, names: list[str]) -> Wishes:
    """The same wishes for these columns alone."""
    terms = tuple(term for term in wishes.terms if term.name in names)
    columns = tuple(dict.fromkeys(one.column for term in terms for one in term.factors)) if terms else tuple(names)
    request = replace(wishes.request, columns=columns)
    return replace(wishes, request=request, terms=terms, coding=None, cross_validate=False)


def refit(fit: Fit, fit_them: Callable[..., Fit], given: dict[str, Any], command: str) -> str:
    """Fit what was chosen, write it beside the first model, and say so."""
    from dualfl.fits import model_folder
    from dualfl.fits.console import fit_text, places

    names, out = chosen(fit), place_of(given["out"])
    if not names:
        return "The l1 penalty chose no column, so there is nothing to refit."
    again = fit_them(unpenalised(fit.recipe, given["tol"]), lambda wishes: narrowed(wishes, names))
    if again.errors is not None:
        again = replace(again, errors=replace(again.errors, form=f"{again.errors.form}, {LABEL}"))
    written = model_folder.write(again, out, command, page=given["page"], table=given["table"])
    title = f"refit without a penalty of {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
    return "\n".join([title, "", fit_text(again), "", places(out, written, given["page"])])
