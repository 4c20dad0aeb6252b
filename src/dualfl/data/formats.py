"""A data set from a file of one's own, whatever its format: CSV, Parquet, NumPy, LIBSVM, IDX, CIFAR-10 batches.

The first bytes say what a file is, because names lie; a name that says something else is an error, not a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dualfl.data.arrays import read_npy, read_npz_images
from dualfl.data.cifar import PICKLE, read_cifar
from dualfl.data.files import beginning
from dualfl.data.idx import labels_beside, read_images
from dualfl.data.libsvm import read_libsvm
from dualfl.data.tables import read_csv, read_parquet, split_target, targets
from dualfl.errors import InputError
from dualfl.typing import AnyArray

BYTES = {  # how a file of each format begins
    "Parquet": b"PAR1",
    "npz": b"PK\x03\x04",
    "npy": b"\x93NUMPY",
    "IDX": b"\x00\x00\x08",
    "pickle": PICKLE,
}
SUFFIXES = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".npz": "npz",
    ".npy": "npy",
    ".libsvm": "LIBSVM",
    ".svm": "LIBSVM",
    ".svmlight": "LIBSVM",
    ".bin": "CIFAR-10",
}
TEXT = ("CSV", "LIBSVM")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True, eq=False)
class Found:
    """What a file holds."""

    X: Any
    y: AnyArray
    classes: tuple[str, ...]
    names: tuple[str, ...] = ()
    columns: dict[str, AnyArray] = field(default_factory=dict)
    pixels: bool = False  # from 0 to 255, to be multiplied; all other numbers are columns of a table


def is_path(name: str) -> bool:
    """Whether a name of a data set means a file."""
    return "/" in name or "\\" in name or Path(name).suffix.lower() in (*SUFFIXES, ".gz") or Path(name).exists()


def read_path(path: Path, target: str | None = None, task: str | None = None) -> Found:
    """The rows of a file, or of a folder with CIFAR-10 batches."""
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    if path.is_dir():
        return _batches(_batches_in(path))
    kind = format_of(path)
    if kind in ("CSV", "Parquet"):
        columns = (read_csv if kind == "CSV" else read_parquet)(path)
        parts = split_target(columns, target, path)
        y, classes = targets(parts.y, task, path)
        return Found(parts.X, y, classes, parts.names, dict(parts.others))
    if kind == "npz":
        X, y, images = read_npz_images(path, target)
        return Found(X, *targets(y, task, path), pixels=images)
    if kind == "npy":
        X, y = read_npy(path, target)
        return Found(X, *targets(y, task, path))
    if target is not None:
        raise InputError(f"{path} is a {kind} file, whose targets have no name; leave target={target!r} out.")
    if kind == "IDX":
        X, y = read_images(path, labels_beside(path))
        return Found(X, *targets(y, task, path), pixels=True)
    if kind in ("CIFAR-10", "pickle"):
        return _batches([path])
    X, y = read_libsvm(path)
    return Found(X, *targets(y, task, path))


def named_format(path: Path) -> str | None:
    """What a file is by its name, if that says anything."""
    return SUFFIXES.get(Path(path.name.removesuffix(".gz")).suffix.lower())


def format_of(path: Path) -> str:
    """What a file is by its first bytes, which must not contradict its name."""
    head = beginning(path)
    named = named_format(path)
    begins = next((kind for kind, start in BYTES.items() if head.startswith(start)), None)
    if named == "CIFAR-10":  # its first byte is a label and says nothing
        return named
    if named in TEXT and begins is None and b"\x00" not in head:
        return named
    if named is None:
        return begins or "LIBSVM"
    if begins != named:
        seems = f"it begins like {begins}" if begins else f"it begins with {head[:4].hex(' ') or 'nothing'}"
        raise InputError(f"{path} is not what its name says: it should be {named}, and {seems}.")
    return named


def _batches_in(folder: Path) -> list[Path]:
    for pattern in ("data_batch_[1-5].bin", "data_batch_[1-5]", "data_batch_[1-5].bin.gz", "data_batch_[1-5].gz"):
        if found := sorted(folder.glob(pattern)):
            return found
    raise InputError(f"{folder} is a folder without CIFAR-10 batches; name a file in it, or a folder that has them.")


def _batches(paths: list[Path]) -> Found:
    return Found(*read_cifar(paths), OBJECTS, pixels=True)
