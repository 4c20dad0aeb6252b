"""Dates as people write them, and the days between them.

The year has four digits and comes first (2020-04-03) or last. If it comes last, a point says that the day comes first
(3.4.2020); with a slash or a hyphen some entry of the column must say whether the day or the month does (13/4/2020).
A time of day is a part of a day; where a time zone is given, it is that of UTC.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date, datetime, timedelta
from typing import Any

WORD = "as-days-since:"  # how a rule for dates begins
DAY = timedelta(days=1)
DATE = re.compile(
    r"(\d{1,4})([-/.])(\d{1,2})\2(\d{4}|\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,6})\d*)?)? ?(Z|[+-]\d{2}:?\d{2})?)?"
)


class AmbiguousDates(ValueError):
    """Dates like 3/4/2020, and none in the column that says which of the two is the month."""


def is_date(text: str) -> bool:
    """Whether a text is a date, in whichever order.

    >>> [is_date(text) for text in ("2020-04-03", "3.4.2020", "13/4/2020", "2020-04-03 12:30", "1.5", "2020-13-41")]
    [True, True, True, True, False, False]
    """
    return any(_moment(text, order) is not None for order in ("day first", "month first"))


def order_of(texts: Collection[str]) -> str:
    """Which of day and month comes first where the year comes last; AmbiguousDates where nobody can tell."""
    possible = [order for order in ("day first", "month first") if all(_moment(text, order) for text in texts)]
    if len(possible) == 2:
        unsure = next((text for text in texts if _moment(text, possible[0]) != _moment(text, possible[1])), None)
        if unsure is not None:
            raise AmbiguousDates(unsure)
    return possible[0] if possible else ""


def days_since(texts: Collection[str], since: date) -> dict[str, float] | None:
    """The days from `since` to each, if all of them are dates in one order.

    >>> days_since(["2020-01-03", "31.12.2019"], date(2020, 1, 1))
    {'2020-01-03': 2.0, '31.12.2019': -1.0}
    >>> days_since(["3/13/2020", "2/1/2020 6:00"], date(2020, 1, 1))
    {'3/13/2020': 72.0, '2/1/2020 6:00': 31.25}
    >>> days_since(["2020-01-03", "unknown"], date(2020, 1, 1)) is None
    True
    """
    order = order_of(texts) if texts else ""
    moments = {text: _moment(text, order) for text in texts} if order else {}
    found = {text: days_between(moment, since) for text, moment in moments.items() if moment is not None}
    return found or None


def days_between(moment: Any, since: date) -> float:
    """Days from a date to a date, or to a date with its time."""
    if not isinstance(moment, datetime):
        return float((moment - since).days)
    plain = moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta(0))
    return (plain - datetime(since.year, since.month, since.day)) / DAY


def _moment(text: str, order: str) -> datetime | None:
    found = DATE.fullmatch(text)
    if found is None:
        return None
    first, sign, second, third, hour, minute, second_, part, zone = found.groups()
    if len(first) == 4:
        year, month, day = first, second, third
    elif len(third) == 4 and len(first) <= 2:
        day, month = (first, second) if sign == "." or order == "day first" else (second, first)
        year = third
    else:
        return None  # 03-04-05 may be anything
    try:
        clock = (int(hour or 0), int(minute or 0), int(second_ or 0), int((part or "0").ljust(6, "0")))
        return datetime(int(year), int(month), int(day), *clock) - _offset(zone)
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta(0)
    size = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return -size if zone[0] == "-" else size
