"""One silo: its rows, and what it makes of them when it is asked. No row leaves it.

A chamber has a table, of which it becomes rows of numbers once all silos have agreed how (`agreed`), or it has the rows
from the start. It deals its rows into folds by a secret of its own: who could choose the folds could ask for two that
differ by one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.errors import InputError
from dualfl.objectives import Cox, CoxPartialLikelihood, LinearModel, Ordered, OwnIntercept, ProportionalOdds
from dualfl.silos.costs import ALL, Cost, Rows
from dualfl.streams import Stream
from dualfl.tables.encoding import Scaling, features, targets
from dualfl.tables.reading import Table
from dualfl.tables.refusals import IN_FILES, Remedies, Unfit
from dualfl.tables.roles import parts
from dualfl.tables.schema import Schema
from dualfl.tables.summaries import Request, Summary, summarise, used
from dualfl.typing import AnyArray, Array

BLANK = 100  # rows of zeros that a silo has in a fit in which it has none


@dataclass(frozen=True, eq=False)
class SiloRows:
    """The rows of one silo, as numbers."""

    name: str
    X: Any  # dense or CSR
    y: AnyArray
    weights: Array | None = None
    offset: Array | None = None  # added to the predictor of each row
    more: Mapping[str, AnyArray] = field(default_factory=dict)  # `time`, `entry`, `strata`, `cluster`, by row

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def mass(self) -> float:
        """The total weight of the rows."""
        return float(self.n) if self.weights is None else float(self.weights.sum())

    def total(self, values: Array) -> float:
        """The weighted sum of one value a row."""
        return float(values.sum() if self.weights is None else self.weights @ values)

    def rows(self, which: npt.NDArray[Any]) -> SiloRows:
        """These rows only."""
        weights, offset = (None if part is None else part[which] for part in (self.weights, self.offset))
        more = {name: part[which] for name, part in self.more.items()}
        return SiloRows(self.name, self.X[which], self.y[which], weights, offset, more)

    def with_targets(self, y: AnyArray) -> SiloRows:
        return replace(self, y=y)


@dataclass(frozen=True)
class Least:
    """How many rows a level, two levels together, and a fold must have before a silo tells of them; 0: no such rule."""

    level: int = 0
    cell: int = 0
    fold: int = 0


def in_steps(below: Array, total: Array | float, least: int) -> Array:
    """How many of `total` rows are not above something, told in steps of `least`; the last step has the rest.

    It depends on the true count alone, wherever else was asked, so what two histograms with other edges differ by is
    again nothing or so many rows.
    """
    if least <= 1:
        return below
    whole = least * np.floor(np.asarray(total) / least)
    found: Array = np.where((below >= whole) & (whole > 0), total, least * np.floor(below / least))
    return found


@dataclass(frozen=True)
class Dealing:
    """How a silo deals its rows into folds: a secret, the number of the silo, and whether class by class."""

    secret: int = 0
    number: int = 0
    by_class: bool = False


class Chamber:
    """One silo.

    Parameters
    ----------
    source : the rows, or a table that becomes rows once all silos have agreed upon columns.
    dealing : how the rows are dealt into folds.
    name : what others call it; the default is the name of the source.
    remedies : what its sentences advise to do.
    """

    def __init__(
        self, source: SiloRows | Table, dealing: Dealing = Dealing(), name: str = "", remedies: Remedies = IN_FILES
    ) -> None:
        self.name, self.remedies = name or source.name, remedies
        self.table = source if isinstance(source, Table) else None
        self._rows = source if isinstance(source, SiloRows) else None
        self.dealing = dealing
        self.least = Least()
        self.by_hand = False  # whether nobody knows who made the models that are evaluated
        self._chosen: dict[Rows, SiloRows] = {}
        self._dealt: dict[int, npt.NDArray[Any]] = {}  # the fold of every row, by the number of folds
        self._models: dict[Cost, Any] = {}  # fits differ in their penalty, and share everything else
        self.request: Request | None = None

    # -- a table --------------------------------------------------------------------------------------

    def take(self, request: Request) -> None:
        """Note which columns are asked for, and which rows count."""
        if self.table is None:
            raise InputError(f"silo {self.name} has rows without names, and columns by name were asked for")
        if request != self.request:
            self.request = request
            self.__dict__.pop("used", None)

    @cached_property
    def used(self) -> tuple[Table, int, int]:
        """The rows that count; how many lack the target, and how many another entry."""
        assert self.table is not None and self.request is not None
        return used(self.table, self.request)

    def summary(self) -> Summary:
        assert self.table is not None and self.request is not None
        return summarise(self.table, self.request)

    def encode(self, schema: Schema, scaling: Scaling, unseen: str = "error") -> None:
        """From now on the rows are those of the table, as all silos have agreed upon."""
        table = self.used[0]
        X = features(table, schema, unseen)
        if schema.terms:
            self.check_cells(X, schema)
        if not schema.sparse:
            X = scaling.scaled(X)
        assert self.request is not None
        y = targets(table, replace(schema, target=self.request.target))
        rows = SiloRows(self.name, X, y, **parts(table, self.request.roles))
        self.settle(rows, by_class=bool(schema.classes))

    def reweigh(self, factors: Array) -> None:
        """From now on rows count more or less, by their class."""
        rows = self.rows
        own = np.ones(rows.n) if rows.weights is None else rows.weights
        self.settle(replace(rows, weights=own * np.asarray(factors)[rows.y]), self.dealing.by_class)

    def check_cells(self, X: Array, schema: Schema) -> None:
        """A product of levels that few rows have tells of them; which it is stays here."""
        products = np.array([":" in name for name in schema.names])
        counts = np.count_nonzero(X, axis=0)
        if bool((products & (counts > 0) & (counts < self.least.cell)).any()):
            raise Unfit(
                f"{self.name}: a product of terms is not zero in fewer than {self.least.cell} rows; take it out.",
                "a product of terms is about too few rows of this silo ('least_per_cell'); leave one of them out",
            )

    # -- rows -----------------------------------------------------------------------------------------

    def settle(self, rows: SiloRows, by_class: bool) -> None:
        self._rows, self._chosen, self._models, self._dealt = rows, {}, {}, {}
        self.dealing = replace(self.dealing, by_class=by_class)

    @property
    def rows(self) -> SiloRows:
        if self._rows is None:
            raise InputError(f"silo {self.name} was asked for sums before all silos had agreed upon columns")
        return self._rows

    def chosen(self, rows: Rows) -> SiloRows | None:
        """The rows that are meant; None if there are none that count."""
        if rows == ALL:
            return self.rows if self.rows.mass > 0 else None
        if not rows.of(self.name):
            return None
        if rows.which in ("without", "only"):
            return self.chosen(ALL)
        if rows not in self._chosen:
            self._chosen[rows] = self._fold(self.rows, rows)
        return self._told(self._chosen[rows], rows)

    def counted(self, rows: Rows) -> SiloRows | None:
        """The same without columns, where only targets and weights count: no row is copied for it."""
        if rows in (ALL, *self._chosen) or rows.which in ("without", "only"):
            return self.chosen(rows)
        if not rows.of(self.name):
            return None
        return self._told(self._fold(replace(self.rows, X=np.empty((self.rows.n, 0))), rows), rows)

    def _fold(self, source: SiloRows, rows: Rows) -> SiloRows:
        inside = self._dealt_of(rows.folds) == rows.fold
        return source.rows(np.flatnonzero(inside == (rows.which == "test")))

    def _dealt_of(self, folds: int) -> npt.NDArray[np.intp]:
        if folds not in self._dealt:
            self._dealt[folds] = dealt(self.rows, self.dealing, folds, self.least.fold)
        return self._dealt[folds]

    def _told(self, found: SiloRows, rows: Rows) -> SiloRows | None:
        """None if no row counts; refused where there are too few to be told of."""
        if self.rows.n < rows.folds * self.least.fold:  # sums over one or two rows are these rows
            told = f"one of {rows.folds} folds has too few rows of this silo ('least_per_fold' of its policy)"
            raise Unfit(f"{self.name}: {told}; take fewer folds.", f"{told}; take fewer folds")
        return found if found.mass > 0 else None

    def objective(self, cost: Cost) -> Any:
        """What this silo minimises; None if no row of it counts."""
        rows = self.chosen(cost.rows)
        if rows is None:
            return None
        bare = cost.without_penalty
        if bare not in self._models:
            self._models[bare] = model(rows, bare)
        return self._models[bare].with_ridge(cost.ridge)

    def blank(self, cost: Cost) -> Any:
        """For a silo that must answer, and whose answer is multiplied by 0."""
        return blank(cost, self.rows.X.shape[1], self.rows.y.dtype, self.rows.offset is not None)


def blank(cost: Cost, features: int, kind: Any, offset: bool = False) -> Any:
    """A cost of the right kind and shape, whose rows say nothing: zeros, enough of them for any sum."""
    y = np.ones(BLANK, dtype=kind)  # every loss takes a target of 1
    if isinstance(cost.loss, Cox):
        y = np.zeros(BLANK)  # a constant: nobody dies
    nothing = np.zeros(BLANK) if offset else None
    return model(SiloRows("", np.zeros((BLANK, features)), y, offset=nothing, more={"time": np.ones(BLANK)}), cost)


def model(rows: SiloRows, cost: Cost) -> Any:
    """What a silo with these rows minimises."""
    y: AnyArray = rows.y
    if not cost.features:
        rows = replace(rows, X=np.ones((rows.n, 1)))  # what is left is an intercept
    if isinstance(cost.loss, Cox):
        return CoxPartialLikelihood(
            rows.X, rows.more["time"], y > 0, cost.ridge, entry=rows.more.get("entry"), strata=rows.more.get("strata"),
            weights=rows.weights, offset=rows.offset, ties=cost.loss.ties,
        )  # fmt: skip
    if isinstance(cost.loss, Ordered):
        return ProportionalOdds(
            rows.X, y, cost.loss.levels, cost.ridge, weights=rows.weights, offset=rows.offset, base=cost.loss.base
        )
    if cost.positive is not None:
        y = np.where(y == cost.positive, 1.0, -1.0)
    elif cost.shift:
        y = y - cost.shift
    if cost.intercept == "own":
        return OwnIntercept(rows.X, y, cost.loss, cost.ridge, weights=rows.weights, offset=rows.offset)
    return LinearModel(
        rows.X, y, cost.loss, cost.ridge, weights=rows.weights, intercept=cost.intercept, offset=rows.offset
    )


def dealt(rows: SiloRows, dealing: Dealing, folds: int, least: int = 0) -> npt.NDArray[np.intp]:
    """The fold of each row: shuffled, sorted by class, and dealt out like cards, each silo beginning elsewhere.

    So many rows as a fold must have are dealt together, always the same ones: folds of two plans, of 5 and of 6 say,
    are made of the same small heaps, so that sums over the one and the other tell of no fewer rows.
    """
    order = Stream(dealing.secret, "folds", dealing.number, -1, 0).permutation(rows.n)
    if dealing.by_class:
        order = order[np.argsort(rows.y[order], kind="stable")]
    number = np.empty(rows.n, dtype=np.intp)
    heap = np.arange(rows.n) // max(least, 1)
    heap = np.minimum(heap, max(rows.n // max(least, 1), 1) - 1)  # what is left over goes with the last
    number[order] = (heap + dealing.number) % folds
    return number
