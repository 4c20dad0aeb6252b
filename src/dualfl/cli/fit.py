"""`dualfl fit`."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dualfl.analysis.model_kinds import MODELS, PENALTIES, SMALL_RIDGE, TOL, WITHOUT_ERRORS, WITHOUT_OFFSET
from dualfl.cli.command_line import check_fresh, command_line, connected, fresh_option, say
from dualfl.cli.formula import terms_of
from dualfl.cli.model_options import (
    SURVIVAL,
    levels_of,
    model_options,
    recipe_of,
    role_of,
    roles_of,
    target_of,
)
from dualfl.cli.options import page_option
from dualfl.cli.reading import check_columns, refuse_reading, rules_for, table_options
from dualfl.cli.refit import check_refit, refit
from dualfl.errors import InputError

if TYPE_CHECKING:
    from dualfl.analysis.models import Recipe
    from dualfl.analysis.whole_fit import Fit, Wishes


def parse_alpha(text: str | None, penalty: str) -> tuple[float, bool]:
    """A number, or whether cross-validation is to choose it. A ridge is small unless told; an l1 part depends on the
    unit of the target, so there is no number that is small for all."""
    if text is None:
        return SMALL_RIDGE, penalty in ("l1", "elastic-net")
    if text == "cv":
        return SMALL_RIDGE, True
    try:
        return float(text), False
    except ValueError:
        raise InputError(f"--alpha must be a number greater than 0, or cv, but it is {text!r}.") from None


def parse_folds(text: str) -> int | str:
    if text == "silo":
        return text
    if text.isascii() and text.isdecimal() and len(text) <= 7 and int(text) >= 2:
        return int(text)
    raise InputError(
        f"--cv must be a number of folds, 2 or more and less than ten million, or silo, but it is {text!r}."
    )


def check_used(ctx: click.Context, model: str, penalty: str, alpha: float, choose: bool) -> None:
    """Refuse options that this fit has no use for: somebody believes that they do something."""
    penalised, modelled = f"the penalty is {penalty}", f"the model is {model}"
    choice = penalised if penalty == "none" else f"alpha is {alpha:g}"
    certain = penalty in ("none", "l2") or ctx.params["refit"]
    for option, useful, purpose, instead in (
        ("alpha", penalty != "none" or alpha == 0, "--penalty l2, l1 or elastic-net", penalised),
        ("l1_ratio", penalty == "elastic-net", "--penalty elastic-net", penalised),
        ("quantile", model == "quantile", "--model quantile", modelled),
        ("delta", model == "huber", "--model huber", modelled),
        ("power", model == "tweedie", "--model tweedie", modelled),
        ("dispersion", model == "negative-binomial", "--model negative-binomial", modelled),
        ("levels", model == "ordinal", "--model ordinal", modelled),
        *((word, model == "cox", "--model cox", modelled) for word in SURVIVAL),
        *((word, model not in WITHOUT_OFFSET, "other models", modelled) for word in ("offset", "exposure")),
        ("errors", model not in WITHOUT_ERRORS, "models that have standard errors", modelled),
        ("errors", certain, "--penalty none or l2", penalised),
        ("target", model != "cox", "other models", "the model is cox, whose target are --time and --event"),
        ("cv", choose, "--alpha cv", choice),
        ("rule", choose, "--alpha cv", choice),
    ):
        if not useful and ctx.get_parameter_source(option) is not ParameterSource.DEFAULT:
            said = f"--{option.replace('_', '-')} {ctx.params[option]}"
            raise InputError(f"{said} is for {purpose}, and {instead}; leave it out, or take {purpose}.")


@click.command("fit", context_settings={"show_default": True})
@click.argument("files", nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path))
@click.option(
    "--study", metavar="FOLDER", type=click.Path(path_type=Path), help="Fit to the silos of this deployment instead."
)
@click.option("--target", help="The column to predict.")
@click.option("--formula", metavar="'Y ~ A + B:C'", help="Target and terms, in place of --target and --columns.")
@click.option("--model", required=True, type=click.Choice(list(MODELS)), metavar="NAME", help="See above.")
@click.option(
    "--penalty", type=click.Choice(PENALTIES), help="Kind of penalty.  [default: l2, unless --model implies another]"
)
@click.option("--alpha", help=f"Strength of the penalty, or cv.  [default: {SMALL_RIDGE:g} for l2, cv with l1]")
@click.option("--l1-ratio", default=0.5, help="Share of l1 in elastic-net.")
@click.option("--quantile", default=0.5, help="For quantile: which quantile.")
@click.option(
    "--delta", type=float, help="For huber: the residual beyond which the loss is linear.  [default: 1.35 spreads]"
)
@model_options
@click.option(
    "--tol",
    type=float,
    help=f"Stop when E - E* <= TOL |E| is proven.  [default: {TOL:g}; 1e-12 for most "
    "models without a penalty, so that they agree with R]",
)
@click.option(
    "--standardise/--no-standardise",
    default=True,
    help="Whether columns are scaled to unit spread before the penalty acts.",
)
@table_options
@click.option(
    "--missing",
    type=click.Choice(["fill", "indicator", "drop"]),
    default="fill",
    help="Missing numbers: fill in the mean of all files, add an indicator column as well, or drop the rows.",
)
@click.option("--allow-empty", is_flag=True, help="Allow files that have no entry in some column.")
@click.option(
    "--coding",
    type=click.Choice(["reference", "full"]),
    help="Coding of text columns: without the reference level, or with all.  [default: reference; full with l1]",
)
@click.option("--positive", metavar="CLASS", help="The class to model, if there are two.  [default: the last]")
@click.option(
    "--cv",
    default="5",
    help="With --alpha cv: the number of folds in every file, or `silo` to leave out one file at a time.",
)
@click.option(
    "--rule",
    type=click.Choice(["min", "1se"]),
    default="min",
    help="With --alpha cv: the best penalty, or the strongest within one standard error of it.",
)
@click.option("--level", default=0.95, help="Level of the confidence intervals.")
@click.option(
    "--influence/--no-influence", default=True, help="Whether to report how the result would change without each silo."
)
@page_option
@click.option("--refit", is_flag=True, help="Fit the columns that l1 chose again without a penalty, into OUT-refit.")
@click.option("--table", type=click.Choice(["md", "tex", "html", "csv"]), help="Also write the table for a paper.")
@click.option("--force", is_flag=True, help="Replace the model in --out.")
@fresh_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("model"), help="Folder of the model.")
@click.pass_context
def fit_command(ctx: click.Context, /, **given: Any) -> None:
    """Fit a model to files, or to silos elsewhere; no row leaves its silo.

    FILE is CSV or Parquet, with named columns of numbers or text; each is
    a silo. With --study the silos are those of a deployment (`dualfl
    deploy`), and the model is the same. The coefficients are those of the
    pooled table; only sums, and the names of columns and levels, pass
    between silos. These are the names for --model:

    \b
      logistic, multinomial        two classes; any number of classes
      svm, squared-hinge           support vector machines
      linear, ridge, lasso, elastic-net, huber, quantile    numbers
      poisson, negative-binomial   counts
      gamma, tweedie               amounts
      cloglog, ordinal             two classes, another link; ordered levels
      cox                          survival: --time and --event

    Rows without a target are left out. A missing number becomes the mean
    of all files, a missing text the level "(missing)". The objective is
    the mean loss plus alpha (|w|^2/2, |w|_1, or a mix); coefficients are
    reported for the columns as they are.

    \b
    Examples:
      dualfl fit a.csv b.csv c.csv --target outcome --model logistic
      dualfl fit --study study --target outcome --model logistic
      dualfl fit a.csv b.csv --model cox --time days --event died
    """
    from dualfl.fits import model_folder
    from dualfl.fits.console import fit_text, places
    from dualfl.outputs import alone

    study = given["study"]
    if bool(given["files"]) == (study is not None):
        raise InputError(
            "Give files to fit, or --study with the folder of a deployment; "
            + ("both were given." if study else "neither was given.")
        )
    check_fresh(given["fresh"], study)
    recipe, wishes = recipe_and_wishes(ctx, given)
    out = given["out"]
    model_folder.check_place(out, given["force"])
    if given["refit"]:
        check_refit(recipe, out, given["force"])
    fit_them = prepared_files(given, wishes) if study is None else prepared_study(ctx, given, wishes)
    with alone(out):
        model_folder.check_place(out, given["force"])  # again: another fit may have ended just now
        fit = fit_them(recipe)
        written = model_folder.write(fit, out, command_line(ctx), page=given["page"], table=given["table"])
    click.echo(fit_text(fit))
    click.echo("\n" + places(out, written, given["page"]))
    if given["refit"]:
        click.echo("\n" + refit(fit, fit_them, given, command_line(ctx)))


def recipe_and_wishes(ctx: click.Context, given: dict[str, Any]) -> tuple[Recipe, Wishes]:
    """What the options say, wherever the silos are."""
    from dualfl.analysis.whole_fit import Wishes
    from dualfl.tables.schema import Request

    kind = MODELS[given["model"]]
    terms = terms_of(given) if given["formula"] is not None else ()
    given["target"] = target_of(given)
    penalty = given["penalty"] or kind.penalty
    alpha, choose = parse_alpha(given["alpha"], penalty)
    folds = parse_folds(given["cv"])
    check_used(ctx, given["model"], penalty, alpha, choose)
    if not 0 < given["level"] < 1:
        raise InputError(f"--level must be between 0 and 1, but it is {given['level']:g}.")
    recipe = recipe_of(given, penalty, alpha)
    roles = roles_of(given)
    rules, _ = rules_for(given, given["files"])
    features = "columns" if given["formula"] is None else "formula"
    for word, named in (("drop", given["drop"]), ("id", given["id"]), (features, rules.columns)):
        for name in (given["target"], *roles.values()):
            if name in named:
                role = "" if name == given["target"] else role_of(name, roles).replace("cluster", "errors cluster")
                what = f"used by the model, as --{role}" if role else "the target"
                raise InputError(f"--{word} {name!r} is {what}; take other columns only.")
    levels = levels_of(given) if given["model"] == "ordinal" else None
    request = Request(
        given["target"], not kind.classes, rules.drop, rules.categorical, given["missing"], roles=roles, levels=levels
    )
    spelling, positive = rules.spelling(given["target"]), given["positive"]
    wishes = Wishes(
        request,
        coding=given["coding"],
        positive=None if positive is None else spelling.level(spelling.meant(positive.strip())),
        allow_empty=given["allow_empty"],
        standardise=given["standardise"],
        cross_validate=choose,
        cv=folds,
        rule=given["rule"],
        level=given["level"],
        influence=given["influence"],
        said_nothing=penalty == "l2" and given["alpha"] is None,
        terms=terms,
        rules=rules,
    )
    return recipe, wishes


def unchanged(wishes: Wishes) -> Wishes:
    return wishes


def prepared_files(given: dict[str, Any], wishes: Wishes) -> Callable[..., Fit]:
    """Read the files, so that what is wrong with them is said first."""
    from dualfl.analysis.whole_fit import fit_tables
    from dualfl.tables.advice import warned
    from dualfl.tables.comparison import compare
    from dualfl.tables.idle_rules import idle_rules
    from dualfl.tables.inspection import inspect
    from dualfl.tables.reading import read_tables
    from dualfl.tables.roles import shared_clusters

    _, each = rules_for(given, given["files"])
    roles = tuple(wishes.request.roles.values())
    tables = read_tables(given["files"], each, (given["target"], *roles))
    check_columns(each, tables)
    classes = MODELS[given["model"]].classes
    features = [replace(table, columns={k: v for k, v in table.columns.items() if k not in roles}) for table in tables]
    silos = [inspect(table, own, given["target"], classes) for table, own in zip(features, each)]
    found = [*compare(silos), *idle_rules(each, tables), *shared_clusters(tables, wishes.request.roles)]
    wishes = replace(wishes, warnings=tuple(warned(silos, found)))
    return lambda recipe, change=unchanged: fit_tables(tables, recipe, change(wishes), progress=True, say=say)


def prepared_study(ctx: click.Context, given: dict[str, Any], wishes: Wishes) -> Callable[..., Fit]:
    """The silos of a deployment; how their files are read is their operators' to say."""
    from dualfl.deploy.service import end_politely

    refuse_reading(ctx)
    columns = wishes.rules.columns
    request = replace(wishes.request, columns=columns)
    signal.signal(signal.SIGTERM, end_politely)  # what silos have answered is kept
    study = connected(given["study"], given["fresh"])
    wishes = replace(wishes, request=request)
    return lambda recipe, change=unchanged: study.fit(recipe, change(wishes))
