"""E*, the minimum of the pooled problem, to rounding: what relative errors are measured against.

Damped Newton finds it and the gradient proves it, E(x) - E* <= |grad E(x)|^2/(2 mu). The value is kept in the user's
cache under a digest of the data and the settings, and computed again if the file there is not whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.data.dataset import is_sparse
from dualfl.data.files import cache_folder
from dualfl.engines.checkpoint import write_atomically
from dualfl.engines.problem import Problem
from dualfl.errors import InputError, NotSupported
from dualfl.objectives import LinearModel, Objective
from dualfl.solvers import DampedNewton, GradientNorm

ACCURACY = 1e-14  # of E*, relative


def reference(problem: Problem, *, cache: bool = True) -> float:
    """E* of a smooth, strongly convex problem.

    >>> from dualfl.data import make_problem
    >>> round(reference(make_problem("digits", ridge=1e-2), cache=False), 8)
    0.74105693
    """
    path = _cache_file(problem) if cache else None
    known = None if path is None else _read(path)
    if known is not None:
        return known
    energy = _minimum(problem)
    if path is not None:
        _write(path, energy)
    return energy


def _minimum(problem: Problem) -> float:
    if problem.penalty is not None:
        raise NotSupported(f"There is no reference value for problems with the penalty {problem.penalty}.")
    E = problem.pooled
    solver = DampedNewton(dense=100)  # beyond, Hessian products are far cheaper than a Hessian
    solver.check(E)
    E.require_strong_convexity("A reference value")
    found = solver.solve(E, None, GradientNorm(0.0, cap=200))
    if not found.gap <= ACCURACY * abs(found.value):
        raise InputError(
            f"Newton's method could not find E* to {ACCURACY:g}: it is proven to {found.gap / abs(found.value):.1e} "
            "only; a larger ridge or better scaled features would help."
        )
    return found.value


# -- the cache --------------------------------------------------------------------------------------------


def _cache_file(problem: Problem) -> Path | None:
    """Where the value of this very problem is kept; None for costs whose content cannot be told."""
    if problem.penalty is not None:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for f, weight in zip(problem.clients, problem.weights):
        if not _add(digest, f):
            return None
        digest.update(weight.hex().encode())
    return cache_folder() / "reference" / f"{digest.hexdigest()}.json"


def _add(digest: Any, f: Objective) -> bool:
    """Everything that f depends on, into the digest; False if that is not known."""
    if type(f) is not LinearModel:
        return False
    X = f.design.X
    arrays = [X.data, X.indices, X.indptr] if is_sparse(X) else [X]
    for array in (*arrays, f.y, f.s):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array))
    digest.update(repr((f.loss, f.ridge.hex(), f.intercept, f.design.scale.hex(), f.shape)).encode())
    return True


def _check(path: Path, energy: str) -> str:
    return hashlib.blake2b(f"{path.stem} {energy}".encode(), digest_size=8).hexdigest()


def _read(path: Path) -> float | None:
    """The value, or None if there is none or the file is damaged."""
    try:
        content = json.loads(path.read_text())
        energy = content["energy"]
        return float.fromhex(energy) if content["check"] == _check(path, energy) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, energy: float) -> None:
    content = {"energy": energy.hex(), "check": _check(path, energy.hex()), "decimal": repr(energy)}
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, not results
        write_atomically(path, json.dumps(content).encode())
