"""A fit in words and tables, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dualfl.analysis.influence import Without
from dualfl.analysis.whole_fit import Fit
from dualfl.estimators.statistics import FitStatistics, TestResult
from dualfl.lines import LABEL, WIDTH, entry, number, p_value, short, table
from dualfl.objectives import Squared
from dualfl.silos.ledger import in_words
from dualfl.tables.schema import MISSING

SHOWN = 40  # coefficients in a table
WARNED = 8  # warnings
NAME = 40  # characters of a name in a sentence


def fit_text(fit: Fit) -> str:
    """All that a fit says on the screen."""
    lines = [entry(label, with_room(text)) for label, text in entries(fit) if text]
    return "\n".join([*lines, "", *coefficient_table(fit), "", *silo_table(fit)])


def entries(fit: Fit) -> Iterator[tuple[str, str]]:
    yield "data", data_line(fit)
    yield "model", model_line(fit)
    yield "penalty", penalty_line(fit)
    yield "with", "" if "time" in fit.schema.roles else roles_line(fit)
    yield "site effect", site_line(fit)
    yield "missing", missing_line(fit)
    yield "categories", categories_line(fit)
    yield "left out", left_out_line(fit)
    yield from (("warning", one) for one in fit.wishes.warnings[:WARNED])
    if len(fit.wishes.warnings) > WARNED:
        yield "warning", f"and {len(fit.wishes.warnings) - WARNED} more; `dualfl check` says all"
    yield "algorithm", fit.estimator.algorithm_.rstrip(".")
    yield "exchanges", exchanges_line(fit)
    yield "certificate", certificate(fit)
    perfect = abs(fit.estimator.objective_) <= rounding(fit)  # then nothing is left to prove
    yield from (("note", note) for note in fit.notes if not perfect)
    yield "errors", errors_line(fit)
    yield "likelihood", statistics_line(fit)
    yield "terms", terms_line(fit)
    yield "hazards", checks_line(fit)


def data_line(fit: Fit) -> str:
    silos, lost, gaps = len(fit.silos), fit.overview.without_target, fit.overview.with_gaps
    text = f"{silos} {fit.place}{'s' * (silos > 1)}{'' if fit.far else ', each a silo'}; {fit.rows:,} rows"
    text += f", {lost:,} more without a target were left out" if lost else ""
    text += f", {gaps:,} more with other gaps were left out" if gaps else ""
    columns = len(fit.schema.features)
    return f"{text}; {columns:,} column{'s' * (columns > 1)}, {coefficient_count(fit)}"


def coefficient_count(fit: Fit) -> str:
    """How many, and what else the model is made of."""
    count = len(fit.schema.names)
    text, beside = f"{count:,} coefficient{'s' * (count > 1)}", len(fit.names) - count
    if "time" in fit.schema.roles:
        return f"{text}, and a baseline hazard in every silo"
    if fit.recipe.site_effect == "fixed":
        return f"{text}, and an intercept in every silo"
    return f"{text} and the intercept" if fit.recipe.model != "ordinal" else f"{text} and {beside} thresholds"


def model_line(fit: Fit) -> str:
    recipe, schema, target = fit.recipe, fit.schema, short(fit.schema.target, NAME)
    text = f"{recipe.model}: {recipe.kind.about}"
    if recipe.model == "huber":
        text += f", linear beyond {recipe.delta:.4g}"
    if recipe.model == "quantile":
        text += f", the {recipe.quantile:g} quantile"
    if recipe.model == "tweedie":
        text += f", variance the mean to the power {recipe.power:g}"
    if recipe.model == "negative-binomial":
        text += f", dispersion {recipe.dispersion:.6g}"
    if "time" in schema.roles:
        return f"{text}; {roles_line(fit)}, event {target}, {fit.events:,} events, ties by {recipe.ties.title()}"
    if recipe.model == "ordinal":
        return f"{text}; {target} from {' < '.join(short(name, NAME) for name in schema.classes)}"
    if len(schema.classes) == 2:
        return f"{text}; the coefficients are for {target} = {short(schema.classes[1], NAME)}"
    if schema.classes:
        return f"{text}; {target} is one of {', '.join(short(name, NAME) for name in schema.classes)}"
    return f"{text}; it predicts {target}"


def roles_line(fit: Fit) -> str:
    """Which columns are neither the target nor features."""
    return ", ".join(f"{role} {short(name, NAME)}" for role, name in fit.schema.roles.items())


def site_line(fit: Fit) -> str:
    """What the site effect is, or came to."""
    random = fit.more.get("site effect")
    if random is not None:
        share = random.variance / (random.variance + random.residual)
        text = f"random: variance {random.variance:.4g} of sites and {random.residual:.4g} within, {share:.1%} of both"
        likelihood = random.log_likelihood - float(np.log(fit.scaling.spread).sum())  # for the columns as they are
        return f"{text}; restricted log-likelihood {likelihood:.7g}"
    return "fixed: one intercept a silo, which stays there" if fit.recipe.site_effect == "fixed" else ""


def statistics_line(fit: Fit) -> str:
    """Likelihood, deviance and their kin; what depends on a count of parameters without a penalty only."""
    found = fit.statistics
    if found is None:
        return ""
    parts = [("log-likelihood", found.log_likelihood, 7)]
    if not np.isnan(found.deviance) and "time" not in fit.schema.roles:
        parts += [(f"deviance on {found.df_residual:,.6g} df", found.deviance, 6)]
        parts += [(f"null deviance on {found.df_null:,.6g} df", found.null_deviance, 6)]
    if fit.recipe.penalty == "none":
        parts += [("AIC", found.aic, 7), ("BIC", found.bic, 7)]
    if found.parameters > found.coefficients and fit.recipe.model != "negative-binomial":
        parts.append(("dispersion", found.dispersion, 5))
    said = [f"{name} {value:.{digits}g}" for name, value, digits in parts if np.isfinite(value)]
    return ", ".join([*said, *against_no_column(fit, found)])


def against_no_column(fit: Fit, found: FitStatistics) -> Iterator[str]:
    """The likelihood-ratio test of the whole Cox model, which has no null deviance to be read from."""
    if "time" in fit.schema.roles and fit.recipe.penalty == "none":
        test = TestResult(found.null_deviance - found.deviance, found.coefficients)
        yield f"against no column chi-square {test.statistic:.4g} on {test.df} df, p {p_value(test.p)}"


def terms_line(fit: Fit) -> str:
    """Whether terms with several coefficients say anything."""
    from dualfl.fits.term_tests import in_words, term_tests

    found = [in_words(short(name, NAME), result) for name, result in term_tests(fit).items()]
    return f"Wald tests of all coefficients of a term: {'; '.join(found[:WARNED])}" if found else ""


def checks_line(fit: Fit) -> str:
    """Whether hazards are proportional, by the score test of R's cox.zph."""
    if not fit.checks:
        return ""
    parts = [f"{short(one.name, NAME)} {one.statistic:.4g} on {one.df} df, p {p_value(one.p)}" for one in fit.checks]
    return f"score test against time, chi-square: {'; '.join(parts)}"


def penalty_line(fit: Fit) -> str:
    recipe = fit.recipe
    if recipe.penalty == "none":
        return "none"
    text = f"{recipe.penalty}, alpha = {recipe.alpha:.4g}"
    if recipe.penalty == "elastic-net":
        text += f", l1 share {recipe.l1_ratio:g}"
    if fit.wishes.said_nothing:
        text += ", the default, a small ridge"
    if fit.path is not None:
        left_out = f"leaving one {fit.place} out at a time"
        by = left_out if fit.wishes.cv == "silo" else f"{fit.wishes.cv} folds in every {fit.place}"
        text += f", chosen among {len(fit.path.values)} by cross-validation, {by}"
    return text + (", on standardised columns" if fit.wishes.standardise else ", on the columns as they are")


def missing_line(fit: Fit) -> str:
    """Which rule was applied to how many entries."""
    kinds = {feature.name: feature.kind for feature in fit.schema.features}
    gaps = {"numeric": 0, "categorical": 0}
    for name, kind in kinds.items():
        gaps[kind] += fit.overview.columns[name].missing
    parts = []
    if gaps["numeric"]:
        extra = ", with a column that says so" if fit.wishes.request.missing == "indicator" else ""
        parts.append(f"{gaps['numeric']:,} numbers became the mean of all {fit.place}s{extra}")
    if gaps["categorical"]:
        parts.append(f'{gaps["categorical"]:,} categories became the level "{MISSING}"')
    return "; ".join(parts)


def categories_line(fit: Fit) -> str:
    categories = [feature for feature in fit.schema.features if feature.kind == "categorical"]
    if not categories:
        return ""
    if fit.coding == "full":
        return "every level has a coefficient"
    levels = ", ".join(short(f"{one.name}={one.reference}", NAME) for one in categories)
    return f"compared with {levels}, the most frequent"


def left_out_line(fit: Fit) -> str:
    names = fit.schema.constant
    if not names:
        return ""
    gaps = any(fit.overview.columns[name].missing for name in names)
    where = f"every row of every {fit.place}" + (" that has an entry" if gaps else "")
    return f"{', '.join(short(name, NAME) for name in names)}: the same in {where}"


def exchanges_line(fit: Fit) -> str:
    """All exchanges by their purpose, and all numbers that silos and server sent."""
    return in_words(fit.spent)


def certificate(fit: Fit) -> str:
    """How far the objective E, the mean loss with its penalty, can be from the best that there is."""
    bound, energy = fit.estimator.certificate_, fit.estimator.objective_
    if bound is None:
        return f"none: {fit.estimator.certificate_reason_}"
    share = f" = {bound / abs(energy):.1e} |E|" if abs(energy) > rounding(fit) else ""
    return f"E - E* <= {bound:.2e}{share}, proven: the distance to the pooled table's optimum"


def rounding(fit: Fit) -> float:
    """An objective that is no larger, as that of a perfect fit, is zero but for rounding."""
    scale, total = 1.0, fit.evaluation.overall
    if not fit.schema.classes:
        square = total.y_squares / total.mass + total.y_mean**2
        scale = square if isinstance(fit.estimator.loss, Squared) else np.sqrt(square)
    return 100 * float(np.finfo(float).eps * scale)


def errors_line(fit: Fit) -> str:
    if fit.errors is None:
        return f"none: {fit.no_errors}"
    return f"{fit.errors.form}, from sums over silos; intervals at {100 * fit.wishes.level:.12g}%"


# -- tables -----------------------------------------------------------------------------------------------


def coefficient_table(fit: Fit) -> list[str]:
    """A line for each; where there are many, the largest in units of the columns' spread."""
    names = fit.names
    several = len(fit.outputs) > 1
    beside = np.full(len(names) - len(fit.schema.names), np.inf)  # intercepts and thresholds are always shown
    weight = np.abs(fit.theta) * np.append(fit.scaling.spread, beside)[:, None]
    if not fit.wishes.standardise:
        weight = np.abs(fit.theta)
    places = [(i, k) for k in range(len(fit.outputs)) for i in range(len(names))]
    if len(places) > SHOWN:
        places = sorted(sorted(places, key=lambda place: -weight[place])[:SHOWN], key=lambda place: place[::-1])
    head = ["coefficient", *(["class"] if several else []), "estimate", *numbers_head(fit, several)]
    rows = []
    for i, k in places:
        last = i >= len(fit.schema.names)  # no ratio: an intercept, or a threshold
        row = [names[i], *([fit.outputs[k]] if several else []), f"{fit.theta[i, k]:.4g}"]
        rows.append([*row, *numbers(fit, i * len(fit.outputs) + k, several, last)])
    lines = table(head, rows, texts=2 if several else 1, whole=True)
    total = len(names) * len(fit.outputs)
    return [*lines, *([f"The {SHOWN} largest of {total:,}; all are in coefficients.csv."] if total > SHOWN else [])]


def numbers_head(fit: Fit, several: bool) -> list[str]:
    """What stands beside an estimate: error, test, and exp of it where that means something, else its interval."""
    if fit.errors is None:
        return []
    test = "z" if np.isinf(fit.errors.df) else "t"
    interval = ["low", "high"] if not several else []
    return ["std err", test, "p", *([fit.ratio_name] if fit.ratio_name else []), *interval]


def numbers(fit: Fit, place: int, several: bool, beside: bool) -> list[str]:
    found = fit.coefficients
    if found is None:
        return []
    test = float(found.statistic[place])
    said = [
        number(float(found.error[place])),
        f"{test:.2f}" if abs(test) < 1e4 else f"{test:.3g}",
        p_value(float(found.p[place])),
    ]
    ends = [found.lower, found.upper]
    if fit.ratio_name:
        ratio, *ends = found.ratio
        said += [""] if beside else [number(float(ratio[place]))]
    if several:
        return said
    return [*said, *(["", ""] if beside and fit.ratio_name else [number(float(end[place])) for end in ends])]


def score_of(fit: Fit) -> str:
    """What says in one number how good the model is."""
    if "time" in fit.schema.roles:
        return "concordance"
    return "accuracy" if fit.schema.classes else "r2"


def silo_table(fit: Fit) -> list[str]:
    """How the model fits each silo, and what the fit without it would have changed."""
    score = score_of(fit)
    name = "R2" if score == "r2" else score
    head = ["silo", "rows", "loss", name]
    rows = []
    for silo, own, loss in zip(fit.silos, fit.own, fit.losses):
        sums = fit.evaluation.silos.get(silo)
        scores = [f"{loss:.4g}", f"{getattr(sums, score):.4g}"] if sums is not None and loss is not None else ["-", "-"]
        rows.append([silo, "withheld" if own is None else f"{own.rows:,}", *scores])
    rows.append(["all", f"{fit.rows:,}", f"{fit.loss:.4g}", f"{getattr(fit.evaluation.overall, score):.4g}"])
    if fit.without:
        head.append("without it, moves most")
        rows = [[*row, moved] for row, moved in zip(rows, [*(moves(fit, one) for one in fit.without), ""])]
    lines = table(head, rows, last_text=bool(fit.without))
    for each in fit.without:
        if each.theta is None:
            lines.append(entry("", with_room(f"{each.silo}: no fit without it: {each.reason.rstrip('.')}.")))
    return lines


def moves(fit: Fit, without: Without) -> str:
    """The coefficient that leaving the silo out changes most: in standard errors, or else by itself."""
    change = fit.moved(without)
    if change is None:
        return "-"
    in_errors = fit.in_errors(change)
    names = fit.names
    if np.isnan(in_errors).all():
        size = np.abs(change[: len(fit.schema.names)]) * fit.scaling.spread[:, None]
        i, k = np.unravel_index(int(np.argmax(size)), size.shape)
        return f"{short(names[i], NAME)} by {change[i, k]:+.2g}"
    i, k = np.unravel_index(int(np.nanargmax(np.abs(in_errors))), in_errors.shape)
    return f"{short(names[i], NAME)} by {in_errors[i, k]:+.2f} std errors"


def with_room(text: str) -> str:
    """Words that no line has room for are cut; paths are not, because one may want to copy them."""
    words = [word if "/" in word or "\\" in word else short(word, WIDTH - LABEL) for word in text.split()]
    return " ".join(words)


def places(out: Path, files: Sequence[str], page: bool) -> str:
    """Where everything is, and what one may do with it."""
    lines = [entry("files", f"in {out}: {', '.join(files)}")]
    if page:
        lines.append(entry("page", f"{out / 'report.html'}, for the browser"))
    return "\n".join([*lines, entry("next", f"dualfl predict {out} NEW.csv")])
