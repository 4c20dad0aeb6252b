"""What to say when a name is not known: the nearest ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(kind: str, given: str, known: Iterable[str]) -> str:
    """A sentence: there is no such thing, but something like it.

    >>> nearest("data set", "digit", ["digits", "iris"])
    "There is no data set 'digit'; did you mean digits?"
    >>> nearest("partition", "zzz", ["even", "shuffled"])
    "There is no partition 'zzz'; there are even, shuffled."
    """
    known = sorted(known)
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}."
    return f"There is no {kind} {given!r}; {hint}"
