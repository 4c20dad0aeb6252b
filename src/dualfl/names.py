"""What to say when a name is not known: the nearest ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

ROOM, FEW = 400, 8  # characters that a list of names may take, and how many names are given of a longer one


def nearest(kind: str, given: str, known: Iterable[str]) -> str:
    """A sentence: there is no such thing, but something like it.

    >>> nearest("data set", "digit", ["digits", "iris"])
    "There is no data set 'digit'; did you mean digits?"
    >>> nearest("partition", "zzz", ["even", "shuffled"])
    "There is no partition 'zzz'; there are even, shuffled."
    >>> nearest("column", "zzz", [f"x{i}" for i in range(100, 900)])
    "There is no column 'zzz'; there are x100, x101, x102, x103, x104, x105, x106, x107, ... (800 in all)."
    """
    known = sorted(known)
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {_listed(known)}."
    return f"There is no {kind} {given!r}; {hint}"


def _listed(names: Sequence[str]) -> str:
    whole = ", ".join(names)
    return whole if len(whole) <= ROOM else f"{', '.join(names[:FEW])}, ... ({len(names):,} in all)"
