"""E*, the minimum of the pooled problem: what relative errors are measured against.

`minimum` finds it and says how accurate it is. The value is kept in the user's cache under a digest of the data and the
settings, which does not depend on who has which rows, and computed again if the file there is not whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from dualfl.arguments import checked
from dualfl.files import cache_folder, write_atomically
from dualfl.optimum.minimum import Reference, find_minimum
from dualfl.optimum.pooled import digest
from dualfl.problem import Problem

VERSION = 2  # of the files, and of what they mean


@checked
def reference(problem: Problem, *, cache: bool = True) -> float:
    """Compute E*, the smallest value of the objective, on the rows of all clients together.

    It is for comparison only: no federated method can do this. Smooth problems are solved to 1e-14 of E*, all others to
    1e-10.

    Parameters
    ----------
    problem : Problem
        The clients and their penalty.
    cache : bool, default True
        Whether a value that was found before is taken, and this one kept.

    Returns
    -------
    float
        E*.

    Examples
    --------
    >>> from dualfl.data import make_problem
    >>> round(reference(make_problem("digits", ridge=1e-2), cache=False), 8)
    0.74105693
    """
    return find_reference(problem, cache=cache).energy


@checked
def find_reference(problem: Problem, *, cache: bool = True) -> Reference:
    """E* with its accuracy and the method that found it.

    Parameters
    ----------
    problem : Problem
        The clients and their penalty.
    cache : bool, default True
        Whether a value that was found before is taken, and this one kept.

    Returns
    -------
    Reference
        E*, its accuracy, and the method.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> dualfl.optimum.find_reference(problem).method
    "Newton's method"
    """
    path = _cache_file(problem) if cache else None
    known = None if path is None else _read(path)
    if known is not None:
        return known
    found = find_minimum(problem)
    if path is not None:
        _write(path, found)
    return found


# -- the cache --------------------------------------------------------------------------------------------


def _cache_file(problem: Problem) -> Path | None:
    """Where the value of this very problem is kept; None for costs whose content cannot be told."""
    name = digest(problem, VERSION)
    return None if name is None else cache_folder() / "reference" / f"{name}.json"


def _check(path: Path, energy: str, accuracy: str, method: str) -> str:
    text = f"{path.stem} {energy} {accuracy} {method}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _read(path: Path) -> Reference | None:
    """What is kept, or None if there is nothing or the file is damaged."""
    try:
        content = json.loads(path.read_text())
        energy, accuracy, method = content["energy"], content["accuracy"], content["method"]
        if content["check"] != _check(path, energy, accuracy, method):
            return None
        return Reference(float.fromhex(energy), float.fromhex(accuracy), method)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, found: Reference) -> None:
    energy, accuracy = found.energy.hex(), found.accuracy.hex()
    content = {
        "energy": energy,
        "accuracy": accuracy,
        "method": found.method,
        "check": _check(path, energy, accuracy, found.method),
        "decimal": repr(found.energy),
    }
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, not results
        write_atomically(path, json.dumps(content).encode())
