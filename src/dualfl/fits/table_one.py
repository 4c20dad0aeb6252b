"""The first table of a paper, from a description: small cells hidden, and none that a subtraction would give back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dualfl.analysis.tabulating import ALL, Description, Group, Levels, Numbers, largest_difference
from dualfl.report.sheets import Line, Sheet
from dualfl.tables.outlines import DATES
from dualfl.typing import AnyArray, Array

NONE, HIDDEN = "-", "hidden"


# -- small cells --------------------------------------------------------------------------------------------


def hidden(counts: Array, small: int) -> AnyArray:
    """Which cells are not shown: those of 1 to small - 1 rows, and others, so that no line and no column hides only
    one. Where sums of lines or columns are shown, they are cells of this table. A zero tells of nobody, and stays."""
    cells: AnyArray = (counts > 0) & (counts < small)
    while True:
        before = int(cells.sum())
        for way, own in ((cells, counts), (cells.T, counts.T)):  # views of one array
            for line, values in zip(way, own):
                others = np.flatnonzero(~line & (values > 0))
                if line.sum() == 1 and len(others):
                    line[others[np.argmin(values[others])]] = True
        if int(cells.sum()) == before:
            return cells


def with_sums(counts: Array) -> Array:
    """The table with the sums of its lines and of its columns."""
    lines = np.column_stack([counts, counts.sum(axis=1)])
    return np.vstack([lines, lines.sum(axis=0)])


def count(value: float, out: bool, small: int) -> str:
    return fewer(small) if out and 0 < value < small else HIDDEN if out else f"{int(value):,}"


def fewer(small: int) -> str:
    return f"< {small}"


def small_cells(small: int) -> str:
    return (
        f"Cells of 1 to {small - 1} rows are shown as {fewer(small)}; '{HIDDEN}' are those from which they would "
        "follow by subtraction."
    )


# -- numbers as they are printed ----------------------------------------------------------------------------


def decimals(spread: float, mean: float) -> int:
    """Places after the point that give a spread three digits; where all numbers are one, so many as it has.

    >>> decimals(12.3, 60.0), decimals(0.0, 1.5), decimals(0.0, 3.0)
    (1, 1, 0)
    """
    if np.isfinite(spread) and spread > 0:
        return int(np.clip(2 - np.floor(np.log10(spread)), 0, 12))
    return len(f"{mean:.6g}".partition(".")[2]) if np.isfinite(mean) else 0


def number(value: float, places: int) -> str:
    if not np.isfinite(value):
        return NONE
    if abs(value) >= 1e7 or places >= 8:
        return f"{value:.4g}"
    return f"{round(value, places) + 0.0:,.{places}f}"  # no minus before a zero


def share(count: int, of: int) -> str:
    return f"{count:,} ({count / of:.1%})" if of else f"{count:,}"


# -- the table ----------------------------------------------------------------------------------------------


def table_one(found: Description) -> Sheet:
    """Silos or groups side by side, and all rows."""
    alone = found.wishes.by is None and len(found.silos) == 1
    found = replace(found, groups=found.groups[-1:] if alone else called_briefly(found.groups))
    wishes, groups = found.wishes, found.groups
    compared = [one for one in groups[:-1] if one.rows >= max(wishes.small, 2)]
    differences = len(compared) > 1
    lines = [Line("rows", tuple(rows_shown(groups, wishes.small)))]
    for name in found.layout.columns:
        if name == wishes.by:
            continue
        own = list(column_lines(found, name))
        if differences and name not in found.layout.others:
            value = largest_difference(compared, name)
            first = own[0]
            blank = first.cells or ("",) * len(groups)
            own[0] = Line(first.label, (*blank, number(value, 2)))
        lines += own
    head = ("", *(one.name for one in groups), *(["SMD"] if differences else []))
    return Sheet(caption(found), head, tuple(lines), tuple(notes(found, lines, differences)))


def called_briefly(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Files by their names alone, if these differ."""
    names = [one.name.replace("\\", "/").rpartition("/")[2] for one in groups]
    brief = (replace(one, name=own) for one, own in zip(groups, names))
    return tuple(groups if len(set(names)) < len(names) else brief)


def rows_shown(groups: Sequence[Group], small: int) -> list[str]:
    counts = np.array([[one.rows for one in groups]], dtype=float)
    return [count(value, out, small) for value, out in zip(counts[0], hidden(counts, small)[0])]


def column_lines(found: Description, name: str) -> Iterator[Line]:
    cells = [one.columns[name] for one in found.groups]
    small = found.wishes.small
    if name in found.layout.numeric:
        numbers = [one for one in cells if isinstance(one, Numbers)]
        places = decimals(numbers[-1].deviation, numbers[-1].mean)
        gone = hidden(np.array([[one.present for one in numbers]], dtype=float), small)[0]
        yield Line(f"{name}, mean (SD)", tuple(mean_deviation(*one, places, small) for one in zip(numbers, gone)))
        yield Line("median (quartiles)", tuple(quartiles(*one, places) for one in zip(numbers, gone)), 1)
    elif name in found.layout.others:
        what = "dates" if found.layout.others[name] == DATES else "texts"
        yield Line(f"{name}, {what}", tuple(f"{one.present:,} entries" for one in cells))
    else:
        yield from level_lines([one for one in cells if isinstance(one, Levels)], name, small)
    if any(one.missing for one in cells):
        yield Line("missing", tuple(share(one.missing, one.missing + one.present) for one in cells), 1)


def mean_deviation(one: Numbers, out: bool, places: int, small: int) -> str:
    if out:
        return count(one.present, out, small)
    return f"{number(one.mean, places)} ({number(one.deviation, places)})" if one.present else NONE


def quartiles(one: Numbers, out: bool, places: int) -> str:
    if one.quartiles is None or out:
        return NONE
    low, middle, high = (number(value, places) for value in one.quartiles.values)
    return f"{middle} ({low}, {high})"


def level_lines(cells: Sequence[Levels], name: str, small: int) -> Iterator[Line]:
    """A line a level. What is hidden in a group must not follow from the other groups and all rows."""
    levels = list(cells[-1].counts)
    if not levels:
        yield Line(f"{name}, no entry", tuple(NONE for _ in cells))
        return
    yield Line(f"{name}, n (%)")
    counts = np.array([[one.counts[level] for one in cells] for level in levels], dtype=float)
    for level, row, own in zip(levels, hidden(counts, small), counts):
        shown = [
            count(value, out, small) if out else share(int(value), one.present)
            for out, value, one in zip(row, own, cells)
        ]
        yield Line(level, tuple(shown), 1)


def caption(found: Description) -> str:
    rows, wishes = found.groups[-1].rows, found.wishes
    where = f"{len(found.silos)} silo{'s' * (len(found.silos) > 1)}"
    by = f" by {wishes.by}" if wishes.by is not None else " by silo" if len(found.groups) > 1 else ""
    return f"Characteristics of {rows:,} rows of {where}{by}"


def notes(found: Description, lines: Sequence[Line], differences: bool) -> Iterator[str]:
    small = found.wishes.small
    yield "SD: standard deviation. Shares are of the rows that have an entry."
    if differences:
        yield (
            "SMD: the largest standardised mean difference between two of them; of levels, the Mahalanobis distance of "
            "their shares."
        )
    off, cut = max(relative_errors(found), default=0.0), found.wishes.cutting
    if off:
        why = f", because no cell of fewer than {2 * cut} rows is cut further" if cut > 1 else ""
        yield f"Quartiles (R's type 7) are from histograms; none is off by more than {off:.1g} SD{why}."
    if found.left_out:
        yield f"{found.left_out:,} more rows without an entry in {found.wishes.by} are left out."
    if any(cell in (fewer(small), HIDDEN) for line in lines for cell in line.cells):
        yield small_cells(small)
    if found.withheld:
        which = ", ".join(found.withheld)
        yield f"Silos that withhold their own numbers, or are not shown because one alone does: {which}."


def relative_errors(found: Description) -> list[float]:
    """The errors of quartiles that are shown, in standard deviations of their column and group."""
    cells = [one for group in found.groups for one in group.columns.values() if isinstance(one, Numbers)]
    return [one.quartiles.error / one.deviation for one in cells if one.quartiles is not None and one.deviation > 0]


def cross_tables(found: Description) -> Iterator[Sheet]:
    """Each with the sums of its lines and columns."""
    small = found.wishes.small
    for (a, b), counts in found.crosses.items():
        rows, columns = found.layout.levels[a], found.layout.levels[b]
        counts = with_sums(counts)
        gone = hidden(counts, small)
        lines = [
            Line(name, tuple(count(value, out, small) for value, out in zip(own, off)))
            for name, own, off in zip([*rows, ALL], counts, gone)
        ]
        said = (small_cells(small),) if gone.any() else ()
        yield Sheet(f"{a} by {b}, rows that have both", (a, *columns, ALL), tuple(lines), said)
