"""Which rows earlier experiments used: two whose rows differ by a few would tell those few.

A row is remembered as 64 bits that depend on the silo's salt, so the file tells nothing without it; only the rows of
the last experiments are kept, each set once.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from dualfl.errors import InputError
from dualfl.federation.field import Words
from dualfl.files import write_atomically
from dualfl.tables.reading import Table
from dualfl.typing import AnyArray

PRIVATE = 0o600
FOLDER, KEPT = "row-sets", 50


def digests(table: Table, salt: bytes) -> Words:
    """One number a row, sorted. Equal rows have equal numbers; the order of columns does not matter."""
    total = np.zeros(table.rows, dtype=np.uint64)
    for name in sorted(table.columns):
        total += _mixed(_codes(table.columns[name]), salt, name)
    if table.matrix is not None:
        X = table.matrix
        if hasattr(X, "indptr"):
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            entries = _mixed(_codes(np.asarray(X.data, dtype=float)), salt, "entry") * _mixed(
                np.asarray(X.indices, dtype=np.uint64), salt, "place"
            )
            np.add.at(total, rows, entries)
        else:
            for i, column in enumerate(np.asarray(X, dtype=float).T):
                total += _mixed(_codes(column), salt, f"column {i}")
    return np.sort(total)


def _codes(values: AnyArray) -> Words:
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    levels, places = np.unique(values.astype(np.str_), return_inverse=True)
    names = [int.from_bytes(hashlib.blake2b(str(one).encode(), digest_size=8).digest(), "little") for one in levels]
    return np.asarray(np.array(names, dtype=np.uint64)[places])


def _mixed(codes: Words, salt: bytes, name: str) -> Words:
    """A number for each that looks random to whoever has no salt."""
    key = np.frombuffer(hashlib.blake2b(name.encode(), key=salt[:64], digest_size=24).digest(), dtype=np.uint64)
    found = (codes ^ key[0]) * (key[1] | np.uint64(1))
    found ^= found >> np.uint64(29)
    found *= key[2] | np.uint64(1)
    found ^= found >> np.uint64(32)
    return np.asarray(found)


def difference(a: Words, b: Words) -> int:
    """How many rows one set has and the other has not, both ways."""
    (in_a, of_a), (in_b, of_b) = np.unique(a, return_counts=True), np.unique(b, return_counts=True)
    _, at_a, at_b = np.intersect1d(in_a, in_b, assume_unique=True, return_indices=True)
    return len(a) + len(b) - 2 * int(np.minimum(of_a[at_a], of_b[at_b]).sum())


def check(folder: Path, mine: Words, least: int) -> None:
    """Note this set of rows; refuse it if it differs a little from one that was used before."""
    place = folder / FOLDER
    name = hashlib.sha256(mine.tobytes()).hexdigest()[:32]
    if (place / name).exists() or least <= 0:
        return
    known = sorted(place.glob("*"), key=lambda path: path.stat().st_mtime) if place.exists() else []
    for path in known:
        if difference(mine, np.frombuffer(path.read_bytes(), dtype=np.uint64)) < least:
            raise InputError(
                f"the rows of this silo differ by fewer than {least} from those of an earlier experiment, and the two "
                "together would tell of these few; put the earlier data file back, or wait until more rows differ"
            )
    for old in known[: max(0, len(known) - KEPT + 1)]:
        old.unlink()
    write_atomically(place / name, mine.tobytes(), PRIVATE)
