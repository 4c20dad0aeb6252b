"""What a silo's operator insists on: the object "policy" of silo.json. Defaults are safe; every word is checked.

The numbers are like those of DataSHIELD and v6-glm: at least 10 rows, 5 of every level and 3 of every two levels
together, and at most one coefficient for every 3 rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.refusals import Unfit

if TYPE_CHECKING:
    from dualfl.objectives.losses import Loss

APPROVALS = ("ask", "none")
TASKS = ("classification", "regression")
RARE = "(rare)"  # what rare levels are called together
KINKED = frozenset({  # models of fits, estimators and losses of runs, whose plans nobody has to read to refuse them
    "svm", "LinearSVC", "hinge", "squared-hinge", "huber", "HuberRegressor", "quantile", "QuantileRegressor",
    "absolute", "epsilon-insensitive",
})  # fmt: skip


@dataclass(frozen=True)
class Policy:
    """A silo's rules.

    approval : "ask": every plan waits for `dualfl deploy approve`, unless such plans were approved for always.
    least_rows : of this silo; and two experiments use the same rows, or sets of rows that differ by so many at least.
    least_per_level, least_per_cell : rows that have a level of a text, and two levels of two texts. Rarer levels of a
        text are joined; rarer cells are refused. In histograms of scores, so many rows of one class share a score.
    least_per_fold : rows of this silo in every fold of a cross-validation.
    rows_per_coefficient : of this silo.
    kinks : whether losses with kinks may be fitted: sums at two points that lie close together differ by single rows.
    models, algorithms : losses and methods that may be run; None: all that are installed.
    columns, forbidden_columns : those that may be used, None for all; and those that may not.
    exchanges : of one experiment at most. experiments_per_day : how many may begin.
    keep_days : how long what is kept of an experiment outlives its last question.
    whole_roster : whether every plan must name all silos of the roster. Sums with and without one tell that one's.
    task, classes : what the target is, fixed when the silo joined; no other is told to anybody.
    """

    approval: str = "ask"
    least_rows: int = 10
    least_per_level: int = 5
    least_per_cell: int = 3
    least_per_fold: int = 3
    rows_per_coefficient: float = 3.0
    kinks: bool = False
    models: tuple[str, ...] | None = None
    algorithms: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    forbidden_columns: tuple[str, ...] = ()
    exchanges: int = 2000
    experiments_per_day: int = 20
    keep_days: int = 30
    whole_roster: bool = True
    task: str | None = None
    classes: tuple[str, ...] | None = None

    @staticmethod
    def from_json(content: Any, where: str) -> Policy:
        """As silo.json has it; a sentence that names what is wrong."""
        if not isinstance(content, dict):
            raise InputError(f'{where}: "policy" must be an object, {{...}}, but it is {json.dumps(content)[:20]}.')
        known = {field.name: str(field.type) for field in fields(Policy)}
        given: dict[str, Any] = {}
        for name, value in content.items():
            if name not in known:
                raise InputError(f"{where}: " + nearest("word of a policy", name, tuple(known)))
            what, fits = KINDS[known[name]]
            if not fits(value):
                raise InputError(f"{where}: {name} must be {what}, but it is {json.dumps(value)[:40]}.")
            given[name] = tuple(value) if isinstance(value, list) else value
        made = Policy(**given)
        if made.approval not in APPROVALS:
            raise InputError(f"{where}: " + nearest("approval", made.approval, APPROVALS))
        if made.task is not None and made.task not in TASKS:
            raise InputError(f"{where}: " + nearest("task", made.task, TASKS))
        return made

    def as_json(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # -- what is refused --------------------------------------------------------------------------------

    def check_names(self, names: Sequence[str], roster: Sequence[str]) -> None:
        missing = sorted(set(roster) - set(names))
        if self.whole_roster and missing:
            raise InputError(
                f"the plan leaves out silo {missing[0]!r} of this silo's roster, and sums with and without one silo "
                "tell what it has; name all of them, or every operator trusts a roster without it"
            )

    def check_method(self, algorithm: str, model: str) -> None:
        for what, given, allowed in (
            ("algorithm", algorithm, self.algorithms),
            ("model", model, self.models),
        ):
            if allowed is not None and given not in allowed:
                raise InputError(
                    f"the {what} {given!r} is not among those that this silo's operator allows: "
                    f"{', '.join(allowed) or 'none'}"
                )
        if model.partition(":")[0].removesuffix("CV") in KINKED:
            self._refuse_kinks(model)

    def check_kinks(self, loss: Loss) -> None:
        """Of these the gradient jumps, or its slope does, where a row crosses an edge."""
        # Only here: operators' commands need no models.
        from dualfl.objectives.losses import Huber, PiecewiseLinear, SquaredHinge

        if isinstance(loss, PiecewiseLinear | Huber | SquaredHinge):
            self._refuse_kinks(type(loss).__name__)

    def _refuse_kinks(self, name: str) -> None:
        if not self.kinks:
            raise InputError(
                f"{name} has kinks, so sums at two points close to each other differ by single rows; take a smooth "
                "model, or the operator of this silo sets 'kinks' to true in the policy of its silo.json"
            )

    def check_size(self, rows: int, coefficients: int) -> None:
        if rows < self.least_rows:
            raise InputError("this silo has fewer rows than its policy wants for any plan ('least_rows')")
        if coefficients * self.rows_per_coefficient > rows:
            raise InputError(
                f"the plan has {coefficients} coefficients, and this silo's policy wants "
                f"{self.rows_per_coefficient:g} of its rows for each ('rows_per_coefficient')"
            )

    def check_batch(self, algorithm: Any) -> None:
        """A step on one row of every silo is a sum of as few rows as there are silos."""
        batch = getattr(algorithm, "batch", None)
        if batch is not None and batch < self.least_rows:
            raise InputError(
                f"{algorithm.name} looks at batches of {batch} rows, and this silo's policy wants {self.least_rows} "
                f"for any sum ('least_rows'); ask for batch={self.least_rows} or more"
            )

    def check_numbers(self, column: str, least: int) -> None:
        """`least`: rows that have the rarer of the two numbers of a column."""
        if 0 < least < self.least_per_level:
            raise Unfit(
                f"Column {column!r} has two different numbers, and {least} rows have one of them; leave it out "
                "('forbidden_columns' of the policy in silo.json), or write them as texts: rare texts are joined.",
                "a column of its data file has two different numbers, one of which few rows have ('least_per_level'), "
                "and products of columns would tell of them",
            )

    def check_levels(self, column: str, least: int) -> None:
        """`least`: rows that count and have the rarest level of a text, or the rarest class."""
        if 0 < least < self.least_per_level:
            raise Unfit(
                f"Of the rows that count, {least} have one of the levels of column {column!r}, and sums would tell of "
                "them; leave rows or the column out in another way, or lower 'least_per_level' of the policy.",
                f"few of its rows that count have some level of column {column!r} ('least_per_level'), and sums would "
                "tell of them",
            )

    def check_gaps(self, column: str, least: int) -> None:
        """`least`: rows without a number in a column, where a column of the plan says which these are."""
        if 0 < least < self.least_per_level:
            raise Unfit(
                f"Column {column!r} has {least} gaps, and the plan makes a column that says where they are "
                "(`--missing indicator`); the analyst may ask for `--missing fill`, which needs no such column.",
                "a column of its data file has gaps in few rows ('least_per_level'), and a column that says where they "
                "are would tell of these; ask for `--missing fill`",
            )

    def check_cells(self, least: int) -> None:
        """`least`: rows of the rarest two levels of two texts that occur together."""
        if 0 < least < self.least_per_cell:
            raise InputError(
                "two levels of two columns occur together in too few rows of this silo ('least_per_cell'), or a text "
                "has few gaps, and products of columns would tell of them; leave one of the columns out "
                "('forbidden_columns')"
            )


Fits = Any
KINDS: Mapping[str, tuple[str, Fits]] = {
    "str": ("text", lambda x: isinstance(x, str)),
    "str | None": ("text or null", lambda x: x is None or isinstance(x, str)),
    "int": ("a whole number >= 0", lambda x: isinstance(x, int) and not isinstance(x, bool) and x >= 0),
    "float": ("a number >= 0", lambda x: isinstance(x, int | float) and not isinstance(x, bool) and x >= 0),
    "bool": ("true or false", lambda x: isinstance(x, bool)),
    "tuple[str, ...]": ("a list of names", lambda x: isinstance(x, list) and all(isinstance(y, str) for y in x)),
    "tuple[str, ...] | None": (
        "a list of names or null",
        lambda x: x is None or (isinstance(x, list) and all(isinstance(y, str) for y in x)),
    ),
}

# Where there is no certificate the federation is one user's own, as in a simulation or a test.
OPEN = Policy("none", 0, 0, 0, 0, 0.0, kinks=True, exchanges=10**9, experiments_per_day=10**9, whole_roster=False)
