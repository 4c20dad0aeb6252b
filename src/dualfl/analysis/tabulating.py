"""The first table of a paper, as questions to silos: what each column holds, by silo or by group, and in all.

Names first, then counts and sums, then squares around the means, then histograms that close in on the quartiles
(`quantiles`). Groups of a column (`by`) are known from sums over all silos; what one silo has alone is asked of those
that show it, and of nobody where one alone withholds it, because the others would give it away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dualfl.analysis.quantiles import Quartiles, Search
from dualfl.errors import InputError
from dualfl.silos.chamber import Chamber
from dualfl.silos.here import SilosHere
from dualfl.silos.ledger import Spent
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, drive
from dualfl.silos.verbs import request_to_json
from dualfl.tables.moments import corrected
from dualfl.tables.outlines import Layout, agreed_layout
from dualfl.tables.reading import Table
from dualfl.tables.schema import Request
from dualfl.typing import Array

SMALL = 5  # rows that a cell has at least, if it is shown
ALL = "all"


@dataclass(frozen=True)
class TableWishes:
    """What is to be described."""

    request: Request = field(default_factory=lambda: Request(""))
    by: str | None = None
    crosses: tuple[tuple[str, str], ...] = ()
    small: int = SMALL  # cells of fewer rows are not shown
    cut: int | None = None  # no cell of fewer rows than twice that is cut to find quartiles; None: as `small`

    @property
    def cutting(self) -> int:
        return self.small if self.cut is None else self.cut


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers in one group of rows; nan where there is no such number."""

    present: int
    missing: int
    mean: float
    deviation: float  # with n - 1
    quartiles: Quartiles | None


@dataclass(frozen=True, eq=False)
class Levels:
    """A column of levels in one group, or one of texts, of which only the entries are counted."""

    present: int
    missing: int
    counts: Mapping[str, int]


Cell = Numbers | Levels


@dataclass(frozen=True, eq=False)
class Group:
    """A choice of rows, and what every column holds there."""

    name: str
    rows: int
    columns: Mapping[str, Cell]


@dataclass(frozen=True, eq=False)
class Description:
    """All that was found. Groups are silos, or the levels of `by`; the last is all rows."""

    wishes: TableWishes
    silos: tuple[str, ...]
    withheld: tuple[str, ...]  # silos whose own numbers are not shown
    layout: Layout
    groups: tuple[Group, ...]
    crosses: Mapping[tuple[str, str], Array]  # counts of rows that have both entries
    left_out: int = 0  # rows without an entry in `by`
    spent: tuple[Spent, ...] = ()


def describe_tables(tables: Sequence[Table], wishes: TableWishes) -> Description:
    """Describe the tables of silos on this machine."""
    silos = SilosHere([Chamber(table) for table in tables])
    found = drive(describing(silos, wishes), silos)
    return replace(found, spent=silos.ledger.entries)


def describing(silos: Silos, wishes: TableWishes) -> Conversation[Description]:
    """The whole description, wherever the silos are."""
    query = Query("outline", {"request": request_to_json(wishes.request), "small": wishes.cutting}, "each")
    (told,) = yield Exchange("columns and levels", (query,))
    layout = agreed_layout(silos.names, [one["columns"] for one in told], wishes.request)
    check_wishes(layout, wishes)
    own = wishes.by is None and len(silos.withheld) != 1  # groups of a column are those of all silos together
    given = {"layout": layout.as_json(), "by": wishes.by, "crosses": [list(pair) for pair in wishes.crosses]}
    total, each = yield from asked("columns and levels", Query("tally", given), own)
    tables = [Sums(layout, total)] + [Sums(layout, one) for one in each if one is not None]
    yield from centred(layout, wishes, tables, own)
    shown = [name for name, one in zip(silos.names, each) if one is not None] if own else []
    searches = [table.searches(wishes.cutting) for table in tables]
    yield from searching(layout, wishes, shown, searches)
    groups = described(layout, wishes, shown, tables, searches)
    crosses = {(a, b): np.asarray(total[f"cross {a} {b}"]).round() for a, b in wishes.crosses}
    hidden = () if wishes.by is not None else tuple(name for name in silos.names if name not in shown)
    return Description(wishes, silos.names, hidden, layout, groups, crosses, round(float(total["left_out"][0])))


def check_wishes(layout: Layout, wishes: TableWishes) -> None:
    if wishes.by is not None:
        layout.check_levels(wishes.by, "--by")
    for a, b in wishes.crosses:
        layout.check_levels(a, "--cross")
        layout.check_levels(b, "--cross")
        if a == b:
            raise InputError(f"--cross takes two columns, and both are {a!r}.")


def asked(purpose: str, query: Query, own: bool, mine: Query | None = None) -> Conversation[tuple[Any, list[Any]]]:
    """A sum over all silos, and with `own` what each shows of itself; that question may be another one."""
    if not own:
        (total,) = yield Exchange(purpose, (query,))
        return total, []
    total, each = yield Exchange(purpose, (query, replace(mine or query, reduce="each")))
    return total, list(each)


class Sums:
    """Counts and sums of all groups, of all silos together or of one."""

    def __init__(self, layout: Layout, told: Mapping[str, Any]) -> None:
        self.rows = np.asarray(told["rows"]).round()
        self.present = np.asarray(told["present"]).round()
        self.levels = {name: np.asarray(told[f"levels {name}"]).round() for name in layout.levels}
        places = [layout.columns.index(name) for name in layout.numeric]
        self.numbers = self.present[:, places]
        self.center = np.asarray(told["sums"]) / np.maximum(self.numbers, 1.0)

    def note(self, around: Mapping[str, Any]) -> None:
        deviations, squares = np.asarray(around["deviations"]), np.asarray(around["squares"])
        self.mean, self.squares = corrected(self.center, self.numbers, deviations, squares)

    def searches(self, small: int) -> dict[tuple[int, int], Search]:
        """One for each group and column of numbers that differ; by their places."""
        found = {}
        for place, n in np.ndenumerate(self.numbers):
            mean, squares = float(self.mean[place]), float(self.squares[place])
            same = squares <= (n * np.finfo(float).eps * mean) ** 2
            found[place] = Search(int(n), mean, 0.0 if same or n == 0 else float(np.sqrt(squares / n)), small)
        return found


def centred(layout: Layout, wishes: TableWishes, tables: Sequence[Sums], own: bool) -> Conversation[None]:
    """Means and squares, around the centre that is the mean but for rounding; each silo's own around that of all."""
    given = {"layout": layout.as_json(), "by": wishes.by, "center": tables[0].center}
    total, each = yield from asked("means and spreads", Query("spreads", given), own)
    tables[0].note(total)
    for table, around in zip(tables[1:], [one for one in each if one is not None]):
        table.center = tables[0].center
        table.note(around)


def searching(
    layout: Layout, wishes: TableWishes, shown: Sequence[str], searches: Sequence[Mapping[tuple[int, int], Search]]
) -> Conversation[None]:
    """Cut cells until all quartiles are found: those of all silos by sums, those of a silo by its own counts."""
    while True:
        wanted = [[(place, one, one.edges()) for place, one in own.items() if one.spread > 0] for own in searches]
        if not any(edges for own in wanted for _, _, edges in own):
            return
        questions = [
            [
                {"group": group, "column": layout.numeric[column], "edges": edges}
                for (group, column), _, several in own
                for edges in several
            ]
            for own in wanted
        ]
        given = {"layout": layout.as_json(), "by": wishes.by, "asked": questions[0]}
        mine = Query("own_cells", {"layout": layout.as_json(), "asked": dict(zip(shown, questions[1:]))})
        total, each = yield from asked("quartiles", Query("cells", given), bool(shown), mine)
        for own, answer in zip(wanted, [total, *(one for one in each if one is not None)]):
            tell(own, np.asarray(answer["below"]).round())


def tell(wanted: Sequence[tuple[Any, Search, Sequence[Array]]], counts: Array) -> None:
    """Hand every search the counts of its edges."""
    place = 0
    for _, search, edges in wanted:
        own = []
        for one in edges:
            own.append(counts[place : place + len(one)])
            place += len(one)
        if edges:
            search.told(edges, own)


def described(
    layout: Layout,
    wishes: TableWishes,
    shown: Sequence[str],
    tables: Sequence[Sums],
    searches: Sequence[Mapping[tuple[int, int], Search]],
) -> tuple[Group, ...]:
    """Silos or levels in their order, and all rows last."""
    whole = group(layout, ALL, tables[0], searches[0], 0)
    if wishes.by is None:
        return (*(group(layout, *one, 0) for one in zip(shown, tables[1:], searches[1:])), whole)
    names = enumerate(layout.levels[wishes.by], 1)
    return (*(group(layout, name, tables[0], searches[0], g) for g, name in names), whole)


def group(layout: Layout, name: str, table: Sums, searches: Mapping[tuple[int, int], Search], g: int) -> Group:
    columns: dict[str, Cell] = {}
    rows = int(table.rows[g])
    for place, column in enumerate(layout.columns):
        n = int(table.present[g, place])
        if column in layout.numeric:
            i = layout.numeric.index(column)
            deviation = float(np.sqrt(table.squares[g, i] / (n - 1))) if n > 1 else np.nan
            mean = float(table.mean[g, i]) if n else np.nan
            columns[column] = Numbers(n, rows - n, mean, deviation, searches[g, i].found())
        else:
            counts = table.levels[column][g] if column in layout.levels else ()
            named = {level: int(count) for level, count in zip(layout.levels.get(column, ()), counts)}
            columns[column] = Levels(n, rows - n, named)
    return Group(name, rows, columns)


# -- how different two groups are -----------------------------------------------------------------------------


def standardised_difference(a: Cell, b: Cell) -> float:
    """Of means in units of the root mean square of the two deviations; of levels as Yang and Dalton (2012) have it."""
    if isinstance(a, Numbers) and isinstance(b, Numbers):
        spread = np.sqrt((a.deviation**2 + b.deviation**2) / 2)
        return float((a.mean - b.mean) / spread) if spread > 0 else np.nan
    assert isinstance(a, Levels) and isinstance(b, Levels)
    if not a.present or not b.present or not a.counts:
        return float("nan")
    p, q = (np.array(list(one.counts.values()), dtype=float)[1:] / one.present for one in (a, b))
    S = (np.diag(p) - np.outer(p, p) + np.diag(q) - np.outer(q, q)) / 2
    return float(np.sqrt(max(float((p - q) @ np.linalg.pinv(S) @ (p - q)), 0.0))) if len(p) else float("nan")


def largest_difference(groups: Sequence[Group], column: str) -> float:
    """Among all pairs of groups; nan where there is none."""
    cells = [one.columns[column] for one in groups]
    found = [abs(standardised_difference(a, b)) for i, a in enumerate(cells) for b in cells[:i]]
    known = [one for one in found if not np.isnan(one)]
    return max(known) if known else float("nan")
