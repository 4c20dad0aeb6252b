"""The questions that a silo knows how to answer. Every answer is a record of numbers that are sums over its rows.

Each verb is a function of the silo's chamber and of what the question gives. What it gives is plain: numbers, texts,
arrays, and records of them, because it may come from far away; what a verb cannot make sense of, it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dualfl import kernels
from dualfl.errors import InputError
from dualfl.kernels import is_sparse
from dualfl.objectives import LinearModel, Squared, curvature
from dualfl.objectives.losses import Loss
from dualfl.silos.chamber import Chamber, SiloRows
from dualfl.silos.classification_scores import classification_sums
from dualfl.silos.costs import Cost, Rows, loss_from_json
from dualfl.silos.predictor import Predictor
from dualfl.silos.regression_scores import regression_sums
from dualfl.silos.scores import to_wire
from dualfl.silos.survival_scores import survival_sums
from dualfl.tables.dates import is_date
from dualfl.tables.encoding import Scaling
from dualfl.tables.refusals import Remedies, Unfit
from dualfl.tables.schema import MOST_LEVELS, Draft, Schema
from dualfl.tables.summaries import ColumnSummary, Request
from dualfl.tables.sums import counted, deviations
from dualfl.typing import AnyArray, Array

Wire = dict[str, Any]
BLOCK = 2048  # rows at a time
FAR = 30.0  # an intercept that stands for an infinite one
LEAST = (0.0, 5e-324)  # what targets may be asked not to be below: 0, or the least number above it
VERBS: dict[str, Callable[..., Wire]] = {}


def verb(answer: Callable[..., Wire]) -> Callable[..., Wire]:
    """Makes the function known by its name."""
    VERBS[answer.__name__] = answer
    return answer


def answered(chamber: Chamber, name: str, given: Mapping[str, Any]) -> Wire:
    """The silo's answer to a question."""
    if name not in VERBS:
        raise InputError(f"nobody here knows how to answer {name!r}; see that all run one version")
    return VERBS[name](chamber, **given)


# -- tables -----------------------------------------------------------------------------------------------


@verb
def describe(chamber: Chamber, request: Mapping[str, Any], least: float | None) -> Wire:
    """Names of columns, levels and classes: no row, no number of a row, no count. Targets must be at least `least`."""
    chamber.take(request_from_json(request, chamber.remedies))
    told = chamber.summary()
    for name, column in told.columns.items():
        check_levels(told.name, name, column, chamber.remedies)
    if least is not None and told.target.least < least:
        right, other = (">= 0", "linear") if least == 0 else ("> 0", "tweedie" if told.target.least == 0 else "linear")
        raise Unfit(
            f"{told.name} has {told.target.least:g} in column {request['target']!r}, the target, and this model is for "
            f"numbers {right}; correct the file, or take another model, such as --model {other}.",
            f"the target has numbers that are not {right}, which this model cannot take",
        )
    return told.names()


def check_levels(file: str, name: str, column: ColumnSummary, remedies: Remedies) -> None:
    """So many names are not levels, and may be people's: they do not leave."""
    if len(column.levels) > MOST_LEVELS:
        what = f"{len(column.levels)} different texts"
        limit = f"and {MOST_LEVELS} are the most a category may have"
        others = "group its levels, or make it numbers"
        if is_date(column.example):
            others = f"or {remedies.dates}"
        elif len(column.levels) == column.present:
            others = f"or {remedies.names.format(name)}"
        remedy = f"{remedies.everywhere(name)}, {others}"
        raise Unfit(
            f"{file} has {what} in column {name!r}, such as {column.example!r:.40}, {limit}; {remedy}.",
            f"column {name!r} of its data file holds {what}, {limit}; {remedy}",
        )


@verb
def count(chamber: Chamber, draft: Mapping[str, Any]) -> Wire:
    """Rows, entries and levels, sums of numbers; and of the target its classes, or its sum and how many are below 0."""
    agreed = Draft.from_json(draft)
    table, without_target, with_gaps = chamber.used
    assert chamber.request is not None
    sums = counted(table, agreed) | {"without_target": float(without_target), "with_gaps": float(with_gaps)}
    target = table.columns[chamber.request.target]
    if agreed.classes:
        text = table.levels(chamber.request.target)
        sums["classes"] = np.array([np.count_nonzero(text == label) for label in agreed.classes], dtype=np.float64)
    else:
        sums |= {"target": float(target.sum()), "negative": float(np.count_nonzero(target < 0))}
    return sums


@verb
def deviate(chamber: Chamber, draft: Mapping[str, Any], columns: bool, center: Array, target: float) -> Wire:
    """How far numbers are from a centre, and the squares of that; of the target, too."""
    table = chamber.used[0]
    sums = deviations(table, Draft.from_json(draft), center) if columns else {}
    assert chamber.request is not None
    y = table.columns[chamber.request.target]
    apart = y - target if y.dtype.kind == "f" else np.zeros(1)
    return sums | {"target": float(apart.sum()), "target_squares": float((apart**2).sum())}


@verb
def own(chamber: Chamber, draft: Mapping[str, Any], target: float) -> Wire:
    """What a silo shows of itself, if it does: rows, rows left out, and rows of every class or sums of targets."""
    sums = count(chamber, draft)
    shown = {name: sums[name] for name in ("size", "without_target", "with_gaps", "classes", "target") if name in sums}
    assert chamber.request is not None
    y = chamber.used[0].columns[chamber.request.target]
    return shown | {"target_squares": float(((y - target) ** 2).sum()) if "target" in shown else 0.0}


@verb
def encode(chamber: Chamber, schema: Mapping[str, Any], mean: Array, spread: Array, unseen: str = "error") -> Wire:
    """Make rows of the table, as all have agreed; nothing is said."""
    chamber.encode(Schema.from_json(schema), Scaling(mean, spread), unseen)
    return {}


@verb
def reweigh(chamber: Chamber, factors: Array) -> Wire:
    """Let rows count by their class from now on; nothing is said."""
    chamber.reweigh(factors)
    return {}


def request_to_json(request: Request) -> dict[str, Any]:
    """Without the remedies, which everybody has his own of."""
    names = ("target", "numeric_target", "drop", "categorical", "missing", "columns")
    content = {name: getattr(request, name) for name in names}
    content |= {"roles": dict(request.roles)} if request.roles else {}
    return content | ({"levels": request.levels} if request.levels is not None else {})


def request_from_json(content: Mapping[str, Any], remedies: Remedies) -> Request:
    names = ("drop", "categorical", "columns", "levels")
    lists = {name: tuple(content[name]) for name in names if content.get(name) is not None}
    return Request(**{**content, **lists}, remedies=remedies)


# -- rows -------------------------------------------------------------------------------------------------


@verb
def measure(
    chamber: Chamber, rows: Sequence[Mapping[str, Any]], classes: int, loss: Mapping[str, Any], centre: float
) -> Wire:
    """For each of several choices of rows: their weight and number, the sum of targets, of least losses, and of squares
    of targets around a centre; and the weight of every class."""
    how = loss_from_json(loss)
    lines = np.zeros((len(rows), 5 + classes))
    for line, one in zip(lines, rows):
        found = chamber.counted(Rows(**one))
        if found is None:
            continue
        y = np.asarray(found.y, dtype=np.float64)
        squares = found.total((y - centre) ** 2)
        line[:5] = found.mass, found.n, found.total(y), found.total(least_losses(how, y)), squares
        if classes:
            line[5:] = np.bincount(found.y, found.weights, minlength=classes)
    return {"lines": lines}


def least_losses(loss: Loss, y: Array) -> Array:
    """What no predictor gets below, row by row, -l*(0): 0, but for counts and amounts."""
    return np.zeros(len(y)) if loss.nonnegative else -loss.conjugate(np.zeros(len(y)), loss.targets(y))


@verb
def columns(chamber: Chamber, rows: Mapping[str, Any], center: Array | None) -> Wire:
    """The weighted sums of all columns, or of their squares around a centre."""
    found = chamber.chosen(Rows(**rows))
    if found is None:
        return {"sums": np.zeros(chamber.rows.X.shape[1])}
    if center is None:
        return {"sums": weighted(found, found.X)}
    if is_sparse(found.X):
        entries = found.X.copy()
        held = np.asarray(center)[entries.indices]
        entries.data = (entries.data - held) ** 2 - held**2  # zeros that are not stored give center^2 each
        return {"sums": weighted(found, entries) + found.mass * np.asarray(center) ** 2}
    return {"sums": weighted(found, (found.X - center) ** 2)}


def weighted(rows: SiloRows, X: Any) -> Array:
    w = np.ones(rows.n) if rows.weights is None else rows.weights
    sums: Array = np.asarray(X.T @ w, dtype=np.float64)
    return sums


# -- models -----------------------------------------------------------------------------------------------


def with_model(chamber: Chamber, cost: Mapping[str, Any]) -> tuple[Any, float]:
    """The cost of these rows, and their weight; one of weight 0 where there are none."""
    wanted = Cost.from_json(cost)
    found = chamber.objective(wanted)
    return (chamber.blank(wanted), 0.0) if found is None else (found, found.mass)


@verb
def gradient(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """Of the summed loss."""
    f, mass = with_model(chamber, cost)
    return {"gradient": mass * f.gradient(theta)}


@verb
def losses(chamber: Chamber, costs: Sequence[Mapping[str, Any]], thetas: Sequence[Array]) -> Wire:
    """The summed losses of several models, each on rows of its own."""
    sums = np.zeros(len(costs))
    for i, (cost, theta) in enumerate(zip(costs, thetas)):
        f, mass = with_model(chamber, cost)
        sums[i] = mass * f.value(theta) if mass else 0.0
    return {"losses": sums}


@verb
def curvatures(
    chamber: Chamber,
    costs: Sequence[Mapping[str, Any]],
    thetas: Sequence[Array],
    second: bool | Sequence[Array] = True,
) -> Wire:
    """The summed losses of several models on each of several choices of rows; with `second` their gradients and the
    halves of their Hessians, too, or of those models alone that it names. One pass over the rows serves all models of a
    choice."""
    return looks([with_model(chamber, cost) for cost in costs], thetas, second)


def looks(
    models: Sequence[tuple[LinearModel, float]], thetas: Sequence[Array], second: bool | Sequence[Array] = True
) -> Wire:
    chosen: Sequence[bool | Array] = [second] * len(models) if isinstance(second, bool) else second
    parts = [looked_at(f, mass, np.asarray(points), one) for (f, mass), points, one in zip(models, thetas, chosen)]
    names = ("losses",) if second is False else ("losses", "gradients", "hessians")
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def looked_at(f: LinearModel, mass: float, points: Array, second: bool | Array) -> Wire:
    """A model at several points."""
    if f.k > 1:
        return looked_at_classes(f, mass, points, second)
    Z = f.design.forward(np.ascontiguousarray(points.T))
    if f.offset is not None:
        Z += f.offset[:, None]
    columns = np.ascontiguousarray(Z.T)[:, :, None]
    if second is False:
        return {"losses": mass * np.array([kernels.value(f.loss, z, f.y, f.s) for z in columns])}
    found = [kernels.residual(f.loss, z, f.y, f.s) for z in columns]
    R = np.column_stack([slopes[:, 0] for _, slopes in found])
    ones = np.ones((f.n, 1))
    some = range(len(points)) if second is True else second
    weights = [kernels.curvature_times(f.loss, columns[i], ones, f.y, f.s)[:, 0] for i in some]
    return {
        "losses": mass * np.array([value for value, _ in found]),
        "gradients": mass * f.design.backward(R).T,
        "hessians": mass * np.array([half(f.design.gram(w)) for w in weights]),
    }


def looked_at_classes(f: LinearModel, mass: float, points: Array, second: bool | Array) -> Wire:
    """A softmax at several points. Of a Hessian the halves of its blocks go, and none of the last class: every row of
    blocks adds up to 0."""
    predictors = [f.design.forward(np.ascontiguousarray(x.reshape(f.design.D, f.k))) for x in points]
    if second is False:
        return {"losses": mass * np.array([kernels.value(f.loss, Z, f.y, f.s) for Z in predictors])}
    found = [kernels.residual(f.loss, Z, f.y, f.s) for Z in predictors]
    rows, columns = np.triu_indices(f.k - 1)
    some = range(len(points)) if second is True else second
    halves = np.zeros((len(some), len(rows) * f.design.D * (f.design.D + 1) // 2))
    for line, i in zip(halves, some):
        W = curvature.curvatures(f.loss, predictors[i], f.y, f.s)
        line[:] = f.design.grams(np.ascontiguousarray(W[rows, columns].T)).T.ravel()
    return {
        "losses": mass * np.array([value for value, _ in found]),
        "gradients": mass * np.array([f.design.backward(slopes).ravel() for _, slopes in found]),
        "hessians": mass * halves,
    }


@verb
def information(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """The Hessian of the summed loss; for least squares the squared residuals, too."""
    f, mass = with_model(chamber, cost)
    residuals = 2 * mass * f.value(theta) if isinstance(Cost.from_json(cost).loss, Squared) else 0.0
    return {"hessian": half(mass * f.hessian(theta)), "residuals": residuals}


def half(H: Array) -> Array:
    """A symmetric matrix as it is sent: its upper half, row by row."""
    found: Array = H[np.triu_indices(len(H))]
    return found


def whole(entries: Array) -> Array:
    """The way back."""
    n = int((np.sqrt(8 * len(entries) + 1) - 1) / 2 + 0.5)
    H = np.zeros((n, n))
    H[np.triu_indices(n)] = entries
    symmetric: Array = H + np.triu(H, 1).T
    return symmetric


@verb
def products(chamber: Chamber, rows: Mapping[str, Any], within: bool = False) -> Wire:
    """Of the columns with each other, the intercept last; or, `within`, around the silo's own means, which stay."""
    if within:
        found = chamber.chosen(Rows(**rows)) or blank_rows(chamber)
        labels = found.more.get("strata", np.zeros(found.n))
        strata = [found.rows(np.flatnonzero(labels == label)) for label in np.unique(labels)]
        return {"products": half(np.sum([around_means(one) for one in strata], axis=0))}
    f, mass = with_model(chamber, Cost(Squared(), rows=Rows(**rows)).as_json())
    return {"products": half(mass * f.hessian(np.zeros(f.d)))}


def around_means(rows: SiloRows) -> Array:
    """Products of the columns around their means."""
    means = weighted(rows, rows.X) / rows.mass if rows.mass > 0 else np.zeros(rows.X.shape[1])
    return products_around(rows, np.append(means, 0.0))[:-2, :-2]


@verb
def moments(chamber: Chamber, rows: Sequence[Mapping[str, Any]], center: Array, target: float) -> Wire:
    """For each of several choices of rows: the products of [X - center, y - target, 1] with each other."""
    width = len(center) + 2
    sums = np.zeros((len(rows), width * (width + 1) // 2))
    for line, one in zip(sums, rows):
        found = chamber.chosen(Rows(**one))
        if found is not None:
            line[:] = half(products_around(found, np.append(np.asarray(center), target)))
    return {"moments": sums}


def products_around(rows: SiloRows, center: Array) -> Array:
    """Z'WZ, Z = [X - c, y - t, 1], some rows at a time; an offset is taken off the targets."""
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    y = np.asarray(rows.y, dtype=np.float64) - (0.0 if rows.offset is None else rows.offset)
    total = np.zeros((len(center) + 1, len(center) + 1))
    for first in range(0, rows.n, BLOCK):
        part = slice(first, first + BLOCK)
        X = rows.X[part]
        X = X.toarray() if is_sparse(X) else np.asarray(X)
        Z = np.column_stack([X - center[:-1], y[part] - center[-1], np.ones(len(y[part]))])
        Z *= np.sqrt(weights[part])[:, None]
        total += Z.T @ Z
    return total


@verb
def wrong(chamber: Chamber, cost: Mapping[str, Any], theta: Array) -> Wire:
    """How many rows are not strictly on the right side."""
    wanted = Cost.from_json(cost)
    rows = chamber.chosen(wanted.rows)
    if rows is None:
        return {"wrong": 0.0}
    counts = slice(None) if rows.weights is None else rows.weights > 0
    y: AnyArray = rows.y[counts]
    intercept = int(bool(wanted.intercept))
    theta = theta.reshape(rows.X.shape[1] + intercept, -1)
    W, b = (theta[:-1], theta[-1]) if intercept else (theta, 0.0)
    z = np.asarray(rows.X @ W)[counts] + b
    if wanted.positive is not None:
        right = np.where(y == wanted.positive, z[:, 0] > 0, z[:, 0] < 0)
    else:
        own = z[np.arange(len(y)), y.astype(int)].copy()
        z[np.arange(len(y)), y.astype(int)] = -np.inf
        right = own > z.max(axis=1)
    return {"wrong": float(np.count_nonzero(~right))}


@verb
def evaluate(
    chamber: Chamber,
    model: Mapping[str, Any],
    rows: Mapping[str, Any],
    bins: int,
    quantile: float,
    centre: float,
    own: Mapping[str, Any] | None = None,
) -> Wire:
    """How well a model does: counts, losses and histograms of scores (`scores`). `own`: the cost whose intercept is the
    silo's own, and its coefficients."""
    predictor = Predictor.from_json(model)
    found = chamber.chosen(Rows(**rows)) or blank_rows(chamber)
    if own is not None:
        predictor.b = np.atleast_1d(own_intercept(chamber, own, found))
    predictor, X = predictor.with_offset(found.offset, found.X)
    found = replace(found, X=X)
    if predictor.kind == "hazards":
        return to_wire(survival_sums(predictor, found, together=chamber.least.cell), centre, counts=False)
    if len(predictor.classes_):
        sums = classification_sums(predictor, found, bins, together=chamber.least.cell, by_hand=chamber.by_hand)
        return to_wire(sums, centre, counts=False)
    regressed = regression_sums(predictor, found, quantile, chamber.least.cell, chamber.by_hand)
    return to_wire(regressed, centre, counts=predictor.kind == "counts")


def own_intercept(chamber: Chamber, given: Mapping[str, Any], rows: SiloRows) -> float:
    """The silo's own, or, where its targets are all of one kind, one that is far out."""
    f = chamber.objective(Cost.from_json(given["cost"]))
    if f is None:
        return 0.0
    if not f.silent:
        return float(f.own_intercept(np.asarray(given["theta"])))
    return FAR if float(np.mean(rows.y)) > 0 else -FAR


def blank_rows(chamber: Chamber) -> SiloRows:
    """One row that weighs nothing."""
    y, nothing = np.zeros(1, dtype=chamber.rows.y.dtype), np.zeros(1)
    more = {name: part[:1] * 0 + 1 for name, part in chamber.rows.more.items() if part.dtype.kind == "f"}
    offset = None if chamber.rows.offset is None else nothing
    return SiloRows(chamber.name, np.zeros((1, chamber.rows.X.shape[1])), y, nothing, offset, more)
