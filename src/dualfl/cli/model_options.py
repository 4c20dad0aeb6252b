"""Options of `dualfl fit` that say more of a model than its name: roles of columns, families, site effects, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dualfl.analysis.model_kinds import tolerance
from dualfl.cli.command_line import Command
from dualfl.cli.reading import parts
from dualfl.errors import InputError
from dualfl.tables.roles import ROLES

if TYPE_CHECKING:
    from dualfl.analysis.models import Recipe

SURVIVAL = ("time", "event", "entry", "strata", "ties")
OPTIONS = (
    click.option("--power", default=1.5, help="For tweedie: the variance is the mean to this power."),
    click.option(
        "--dispersion",
        type=float,
        help="For negative-binomial: variance m + DISPERSION m^2.  [default: the most likely]",
    ),
    click.option(
        "--levels",
        metavar="LOW,...,HIGH",
        help="For ordinal: the levels in their order.  [default: the order of numbers]",
    ),
    click.option("--time", metavar="COLUMN", help="For cox: when the event happened, or the row was last seen."),
    click.option("--event", metavar="COLUMN", help="For cox: 1 if the event happened, 0 if the row was censored."),
    click.option("--entry", metavar="COLUMN", help="For cox: when observation of the row began."),
    click.option("--strata", metavar="COLUMN", help="For cox: each label has a baseline hazard of its own."),
    click.option(
        "--ties", type=click.Choice(["efron", "breslow"]), default="efron", help="For cox: how equal times are handled."
    ),
    click.option("--offset", metavar="COLUMN", help="A number that is added to the predictor."),
    click.option("--exposure", metavar="COLUMN", help="A number > 0 whose logarithm is added to the predictor."),
    click.option("--weights", metavar="COLUMN", help="How much each row counts."),
    click.option(
        "--class-weight",
        metavar="CLASS:W,...",
        help="How much each class counts; `balanced` makes all classes count alike.",
    ),
    click.option(
        "--site-effect",
        type=click.Choice(["none", "fixed", "random"]),
        default="none",
        help="Give every silo its own intercept: fixed, or random (normal, for linear only).",
    ),
    click.option(
        "--errors",
        default="model",
        metavar="KIND",
        help="Kind of standard errors: model, robust, cluster:COLUMN or silo.",
    ),
)


def model_options(command: Command) -> Command:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def target_of(given: Mapping[str, Any]) -> str:
    """The column that is explained: of survival the event."""
    if given["model"] != "cox":
        if given["target"] is None:
            raise InputError("--target is missing: name the column to predict.")
        return str(given["target"])
    for word in ("time", "event"):
        if given[word] is None:
            raise InputError(f"--model cox needs --time and --event, and --{word} is missing: name its column.")
    return str(given["event"])


def roles_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The columns that are neither the target nor features."""
    roles = {role: str(given[role]) for role in ROLES if given.get(role) is not None}
    kind, colon, column = given.get("errors", "model").partition(":")
    if (
        kind not in ("model", "robust", "cluster", "silo")
        or bool(colon) != (kind == "cluster")
        or (colon and not column)
    ):
        raise InputError(f"--errors must be model, robust, cluster:COLUMN or silo, but it is {given['errors']!r}.")
    if colon:
        roles["cluster"] = column
    for name in roles.values():
        if list(roles.values()).count(name) > 1 and role_of(name, roles) != "cluster" and "cluster" not in roles:
            raise InputError(f"Column {name!r} has two roles, {roles_like(name, roles)}; give each its own.")
    return roles


def roles_like(name: str, roles: Mapping[str, str]) -> str:
    return " and ".join(f"--{role}" for role, column in roles.items() if column == name)


def role_of(name: str, roles: Mapping[str, str]) -> str:
    return next(role for role, column in roles.items() if column == name)


def levels_of(given: Mapping[str, Any]) -> tuple[str, ...]:
    """From low to high; empty if nobody says it."""
    text = given["levels"]
    levels = () if text is None else tuple(parts("--levels", text))
    if len(set(levels)) < len(levels):
        raise InputError(f"--levels names a level twice: {text!r}.")
    return levels


def recipe_of(given: Mapping[str, Any], penalty: str, alpha: float) -> Recipe:
    from dualfl.analysis.models import Recipe

    return Recipe(
        given["model"],
        penalty,
        alpha,
        given["l1_ratio"],
        given["quantile"],
        given["delta"],
        tolerance(given["model"], penalty, given["site_effect"]) if given["tol"] is None else given["tol"],
        power=given["power"],
        dispersion=given["dispersion"],
        ties=given["ties"],
        site_effect=given["site_effect"],
        class_weight=class_weight_of(given),
        errors=given["errors"],
    )


def class_weight_of(given: Mapping[str, Any]) -> str | tuple[tuple[str, float], ...] | None:
    from dualfl.analysis.model_kinds import MODELS

    text = given["class_weight"]
    if text is None:
        return None
    if not MODELS[given["model"]].classes or given["model"] == "cox":
        raise InputError(f"--class-weight is for models of classes, and --model is {given['model']}; take --weights.")
    if text == "balanced":
        return "balanced"
    pairs = []
    for part in parts("--class-weight", text):
        name, colon, number = part.rpartition(":")
        try:
            pairs.append((name.strip(), float(number)))
        except ValueError:
            colon = ""
        if not colon or not 0 <= pairs[-1][1] < float("inf"):
            raise InputError(
                f"--class-weight must be balanced, or CLASS:WEIGHT,... with weights of 0 or more, but it is {text!r}."
            )
    return tuple(pairs)
