"""A plan in the words of a person who has to say yes or no to it.

Every sentence takes what it tells out of the description. What nobody took is shown as it stands, so no part of a plan
can go unsaid, not even one that a later version adds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dualfl.analysis.model_kinds import MODELS
from dualfl.lines import entry, plain_text
from dualfl.tables.terms import Term

LONGEST = 20_000  # characters that are shown
CUT = (
    "TAKE CARE: this plan is longer than what is shown of it. All of it is in approvals/waiting of the silo's folder;\n"
    "say yes only if you have read it there.\n"
)
Content = dict[str, Any]
Entries = Iterator[tuple[str, str]]


def in_words(waiting: Mapping[str, Any], coordinator: str) -> str:
    """A plan as its operator reads it, 80 columns wide."""
    plan = waiting["plan"]
    analysis: Content = json.loads(json.dumps(plan["analysis"] or {}))
    kind = analysis.pop("analysis", "")
    lines = [
        f"Experiment {waiting['experiment']}",
        *_wrapped(
            [
                ("asked by", f"the coordinator at {coordinator}, since {waiting['since']}"),
                ("silos", ", ".join(plan["silos"])),
                *KINDS.get(kind, _anything)(analysis, plan),
                ("columns", ", ".join(plan["columns"]) or "those that all silos agree upon"),
                ("also", ", ".join(f"{name} {json.dumps(value)}" for name, value in _left(analysis))),
                ("learned", _learned(kind, plan["masks"])),
            ]
        ),
    ]
    text = "\n".join(lines)
    return plain_text(text if len(text) <= LONGEST else CUT + text, LONGEST)


def _wrapped(entries: Sequence[tuple[str, str]]) -> list[str]:
    return [entry(label, text, "  ") for label, text in entries if text]


# -- what is done ----------------------------------------------------------------------------------------


def _fit(analysis: Content, plan: Content) -> Entries:
    recipe, wishes = analysis.get("recipe", {}), analysis.get("wishes", {})
    name, target = recipe.pop("model"), analysis.get("request", {}).pop("target", "")
    about = MODELS[name].about if name in MODELS else "a model that this version does not know"
    yield "what", f"a fit: --model {name}, {about}"
    yield "target", target
    yield from _roles(analysis)
    # By what they compute: a name of its own is the coordinator's to write.
    terms = [replace(Term.from_json(one), part_of="") for one in analysis.pop("terms", [])]
    yield "terms", ", ".join(dict.fromkeys(one.name for one in terms))
    yield "penalty", _penalty(recipe, wishes, name)
    yield "details", "; ".join(_details(recipe, wishes, analysis.get("request", {}), name))
    told = "standard errors, and how well the model fits these rows (loss, ROC, calibration)"
    if wishes.pop("influence", False):
        told += "; how the fit changes without each silo, if no silo, or at least two, withhold their numbers"
    yield "with it", told
    method = plan["method"] or "auto, which chooses by sums over all silos"
    yield "method", f"{method}; it ends at a tolerance of {recipe.pop('tol'):g}"
    for name in ("level", "said_nothing", "first"):  # how results are shown, and in which order
        wishes.pop(name, None)


def _penalty(recipe: Content, wishes: Content, model: str) -> str:
    penalty, alpha, ratio = recipe.pop("penalty"), recipe.pop("alpha"), recipe.pop("l1_ratio")
    folds, rule = wishes.pop("cv", 5), wishes.pop("rule", "min")
    beside = " beside the sum of the losses" if wishes.pop("alpha_of_sum", False) else ""
    if penalty == "none":
        wishes.pop("cross_validate", None)
        return "none"
    text = penalty + (f" with a share of l1 of {ratio:g}" if penalty == "elastic-net" else "")
    if not wishes.pop("cross_validate", False):
        return f"{text}, alpha {alpha:g}{beside}"
    how = "leaving out one silo at a time" if folds == "silo" else f"{folds} folds inside each silo, by its own secret"
    return f"{text}, alpha chosen by cross-validation: {how}; rule {rule}"


def _details(recipe: Content, wishes: Content, request: Content, model: str) -> Iterator[str]:
    for field, models, text in (
        ("quantile", ("quantile",), "the quantile {:g}"),
        ("delta", ("huber",), "residuals beyond {:g} count linearly"),
        ("power", ("tweedie",), "power {:g}"),
        ("dispersion", ("negative-binomial",), "dispersion {:g}"),
        ("ties", ("cox",), "ties by {}"),
    ):
        value = recipe.pop(field, None)
        if model in models and value is not None:
            yield text.format(value)
    effect, errors, weights = (recipe.pop(one, None) for one in ("site_effect", "errors", "class_weight"))
    if effect not in (None, "none"):
        yield f"a {effect} effect of each silo"
    if errors not in (None, "model"):
        yield f"standard errors: {errors}"
    if weights is not None:
        yield f"weights of classes: {weights if isinstance(weights, str) else json.dumps(weights)}"
    if not wishes.pop("standardise", True):
        yield "columns are not standardised"
    if wishes.pop("allow_empty", False):
        yield "a column may be empty in a silo"
    coding, positive = wishes.pop("coding", None), wishes.pop("positive", None)
    if coding is not None:
        yield f"levels coded as {coding}"
    if positive is not None:
        yield f"the event is {positive}"
    yield from _request(request)


def _request(request: Content) -> Iterator[str]:
    request.pop("numeric_target", None)
    missing = request.pop("missing", "fill")
    if missing != "fill":
        yield f"gaps: {missing}"
    for field, text in (
        ("columns", "only the columns {}"),
        ("drop", "without the columns {}"),
        ("categorical", "as levels, not numbers: {}"),
        ("levels", "levels of the target from low to high: {}"),
    ):
        names = request.pop(field, None)
        if names:
            yield text.format(", ".join(map(str, names)))


def _roles(analysis: Content) -> Entries:
    roles = analysis.get("request", {}).pop("roles", {})
    yield "roles", ", ".join(f"{name} as {role}" for role, name in roles.items())


def _describe(analysis: Content, plan: Content) -> Entries:
    request = analysis.get("request", {})
    request.pop("target", None)
    yield "what", "a table that describes the silos' rows: numbers, means, spreads, quartiles, levels, gaps"
    yield "by group", analysis.pop("by", None) or ""
    yield "cross tables", ", ".join(" by ".join(pair) for pair in analysis.pop("crosses", []))
    small, cut = analysis.pop("small"), analysis.pop("cut", None)
    narrow = 2 * (small if cut is None else cut)
    yield "hidden", f"cells of fewer than {small} rows; quartiles come from ranges of at least {narrow} rows"
    yield "details", "; ".join(_request(request))


def _km(analysis: Content, plan: Content) -> Entries:
    wishes, request = analysis.get("wishes", {}), analysis.get("request", {})
    yield "what", "survival curves and a log-rank test: how many are at risk, and how many have the event"
    yield "event", request.pop("target", "")
    yield from _roles(analysis)
    yield "by group", wishes.pop("by", None) or ""
    until = wishes.pop("until", None)
    grid = f"{wishes.pop('intervals')} intervals" + ("" if until is None else f" until {until:g}")
    yield "grid", f"{grid}; those with fewer than {wishes.pop('small')} rows are joined"
    wishes.pop("level", None)
    yield "details", "; ".join(_request(request))


BY_HAND = (
    "whoever writes coefficients by hand can count patients on one side of any line. Say yes if this is a model that "
    "was fitted with this silo, or one that you trust: `dualfl evaluate MODEL --digest` prints a model's digest"
)
LEVELLED = (
    "after each silo has given neighbouring rows of a class one score, as many as 'least_per_cell' of its policy says"
)


def _evaluate(analysis: Content, plan: Content) -> Entries:
    predictor, schema = analysis.pop("predictor"), analysis.pop("schema")
    digest = digest_of_model(predictor, schema)
    yield "what", "how good a model, which was fitted before, is on the rows that silos have now"
    yield "target", str(schema.get("target", ""))
    yield "model", f"{predictor.get('kind')}, {_coefficients(predictor)}, digest {digest}"
    yield "take care", BY_HAND
    yield "grid", f"predictions are counted in {analysis.pop('bins')} ranges, {LEVELLED}"
    if analysis.pop("unseen", "error") != "error":
        yield "levels", "those that the model does not know count as the reference level"
    if analysis.get("quantile") == 0.5:
        analysis.pop("quantile")


def _coefficients(predictor: Mapping[str, Any]) -> str:
    numbers = [abs(float(one)) for one in np.ravel(predictor.get("W", []))]
    return f"{len(numbers)} coefficients of up to {max(numbers, default=0.0):.3g}"


def digest_of_model(predictor: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The first digits of a digest of what a model predicts with; two people can compare them.

    How columns become numbers belongs to it: the same coefficients of other columns or terms are another model.
    """
    return hashlib.sha256(json.dumps(_in_digits([predictor, schema]), sort_keys=True).encode()).hexdigest()[:24]


def _in_digits(x: Any) -> Any:
    """Numbers with the digits that survive a file."""
    if isinstance(x, Mapping):
        return {str(name): _in_digits(one) for name, one in x.items()}
    if isinstance(x, np.ndarray | list | tuple):
        return [_in_digits(one) for one in x]
    number = isinstance(x, int | float | np.number) and not isinstance(x, bool)
    return f"{float(x):.12g}" if number else x


def _estimator(analysis: Content, plan: Content) -> Entries:
    yield "what", f"a fit of the estimator {analysis.pop('estimator')} to all columns, as they are"
    yield "target", analysis.pop("target", "")
    parameters = {name: value for name, value in analysis.pop("parameters").items() if not _unsaid(value)}
    yield "parameters", ", ".join(f"{name} {value}" for name, value in parameters.items())
    yield "method", plan["method"]


def _run(analysis: Content, plan: Content) -> Entries:
    problem = plan["problem"]
    penalty = ", ".join(f"{name} {problem[name]:g}" for name in ("ridge", "l1") if problem.get(name))
    yield "what", f"a run of the algorithm {plan['method']}, at most {analysis.pop('rounds', 0):,} rounds"
    yield "model", f"loss {plan['model']}" + (f", with {penalty}" if penalty else ", without a penalty")
    settings = analysis.pop("algorithm", {})
    given = {name: value for name, value in settings.items() if name != "algorithm" and value is not None}
    given |= {name: value for name in ("tol", "seed") if (value := analysis.pop(name, None))}
    given |= {name: problem[name] for name in ("intercept", "solver") if problem.get(name)}
    yield "settings", ", ".join(f"{name} {json.dumps(value)}" for name, value in given.items())
    if not analysis.pop("standardise", True):
        yield "details", "columns are not standardised"
    for name in ("problem", "task"):
        analysis.pop(name, None)


def _check(analysis: Content, plan: Content) -> Entries:
    yield "what", "a check of the silos' tables, before any fit"
    yield "target", analysis.pop("target", "")
    analysis.pop("classes", None)


def _anything(analysis: Content, plan: Content) -> Entries:
    yield "what", plan["model"] or "an analysis"
    yield "method", plan["method"]


KINDS: dict[str, Callable[[Content, Content], Entries]] = {
    "fit": _fit,
    "describe": _describe,
    "km": _km,
    "evaluate": _evaluate,
    "estimator": _estimator,
    "run": _run,
    "check": _check,
}


def _left(analysis: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """What no sentence has told."""
    for name, value in analysis.items():
        if isinstance(value, dict):
            yield from _left(value, f"{before}{name}.")
        elif not _unsaid(value):
            yield before + name, value


def _unsaid(value: Any) -> bool:
    """What stands for nothing; 0 is said."""
    return value is None or value is False or value in ([], "")


# -- what is learned -------------------------------------------------------------------------------------


SUMS = {
    "describe": "the numbers of that table, each a sum over all silos",
    "km": "how many rows are at risk and have the event in each interval",
    "evaluate": "the number of rows, the model's loss, and how many rows of each class each range of predictions has",
}


def _learned(kind: str, masks: bool) -> str:
    if kind == "check":
        return (
            "by the coordinator and all silos: the names of this silo's columns and of levels that the policy lets "
            "out, which columns have which faults (gaps, odd entries, dates, an identifier, ...), which are constant, "
            "and which are 0 and 1: no entry, no row, no count. `dualfl deploy check` shows all of it here."
        )
    if not masks:
        return "Nothing is masked: the coordinator will see what this silo alone sends."
    sums = SUMS.get(
        kind,
        "the number of rows, of each column its mean, spread and gaps, how many rows have each level, and gradients "
        "and the like on the way to the model",
    )
    return (
        f"by the coordinator and all silos: sums over all silos, which are masked: {sums}. Nobody learns what this "
        "silo alone has sent."
    )
