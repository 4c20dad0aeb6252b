"""Why a fit without a penalty has no finite coefficients, in a sentence that says which columns separate, and how."""

from __future__ import annotations

from collections.abc import Sequence

from dualfl.analysis.agreeing import Agreed
from dualfl.analysis.fitted import Fitted
from dualfl.estimators.separation import SHOWN, Direction, separating
from dualfl.objectives import Loss, Ordered, Softmax
from dualfl.silos.costs import Sample
from dualfl.silos.questions import Conversation, Silos
from dualfl.silos.separation import COUNTS
from dualfl.tables.schema import Schema

REMEDY = "so without a penalty the coefficients would grow for ever; take --penalty l2, or leave {out} out with --drop."


def separation_sentence(
    silos: Silos, estimator: Fitted, agreed: Agreed, sample: Sample, involved: str
) -> Conversation[str]:
    """With the direction that silos say separates; without one, with the columns that sums point to."""
    return (yield from proven_separation(silos, estimator, agreed, sample)) or (
        f"The likelihood rises for ever along some combination of the columns {involved}, though no combination "
        f"was found that separates {agreed.schema.target!r}, {REMEDY.format(out='them')}"
    )


def proven_separation(silos: Silos, estimator: Fitted, agreed: Agreed, sample: Sample) -> Conversation[str]:
    """With the direction that silos say separates; empty without one."""
    back = estimator.back(agreed.scaling)
    direction = yield from separating(silos, estimator, sample, agreed.scaling.spread, back)
    schema = agreed.schema
    if direction is None:
        return ""
    if "time" in schema.roles:
        why = of_survival(direction, schema)
    elif isinstance(estimator.loss, COUNTS):
        why = of_counts(direction, schema, estimator.own_intercept)
    elif isinstance(estimator.loss, Softmax | Ordered):
        why = of_levels(direction, schema, estimator.loss)
    else:
        why = of_classes(direction, schema, estimator.own_intercept)
    names = [schema.names[i] for i in direction.columns]
    return f"{why[0].upper()}{why[1:]}, {REMEDY.format(out='it' if len(names) == 1 else 'them')}"


def of_classes(direction: Direction, schema: Schema, own: bool) -> str:
    low, high = (f"{schema.target} = {name}" for name in schema.classes)
    if direction.falls:
        low, high = high, low
    level = single_level(direction, schema)
    if level and not own:
        return f"every row with {level} has {high}"
    where = "within a silo, " if own else ""
    return f"{where}{direction.combination(schema.names)} is in no row with {low} higher than in any row with {high}"


def of_counts(direction: Direction, schema: Schema, own: bool) -> str:
    level = single_level(direction, schema)
    if level and not own:
        return f"no row with {level} has {schema.target} above 0"
    where, what = ("within a silo, " if own else ""), direction.combination(schema.names)
    ever = "lower" if direction.falls else "higher"
    return f"{where}{what} has one value in all rows with {schema.target} above 0, and is nowhere {ever}"


def of_levels(direction: Direction, schema: Schema, loss: Loss) -> str:
    if isinstance(loss, Ordered):
        low, high = ("higher", "lower") if direction.falls else ("lower", "higher")
        what = direction.combination(schema.names)
        return f"{what} is in no row with a {low} level of {schema.target} higher than in any row with a {high} one"
    names = [schema.names[i] for i in direction.columns]
    k = int(abs(direction.entries).max(axis=0).argmax())
    told, verb = f"{schema.target} = {schema.classes[k]}", "tells" if len(names) == 1 else "tell"
    return f"{listed(names)} {verb} some rows with {told} from all other classes, and never {verb} wrongly"


def of_survival(direction: Direction, schema: Schema) -> str:
    what = direction.combination(schema.names).removeprefix("the ")
    most = "lowest" if direction.falls else "highest"
    return f"whoever has the event has the {most} value of the {what} among all who are at risk in that silo then"


def single_level(direction: Direction, schema: Schema) -> str:
    """The level of a category, if the direction is nothing else; a number, or a level and the rest, are not."""
    levels = {name for feature in schema.features if feature.kind == "categorical" for name in feature.names}
    columns, beside = direction.columns, direction.entries[len(schema.names) :]
    if len(columns) != 1 or schema.names[columns[0]] not in levels or beside.any():
        return ""
    return schema.names[columns[0]]


def listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the column {names[0]} alone"
    return f"the columns {', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''} together"
