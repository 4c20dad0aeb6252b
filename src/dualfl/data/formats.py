"""A data set from a file of one's own, whatever its format: CSV, Parquet, NumPy, LIBSVM, IDX, CIFAR-10 batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dualfl.data.cifar import read_cifar
from dualfl.data.idx import labels_beside, read_images
from dualfl.errors import InputError
from dualfl.tables.arrays import read_npy, read_npz_images
from dualfl.tables.delimited import read_csv, read_parquet, split_target, targets
from dualfl.tables.formats import SUFFIXES, format_of
from dualfl.tables.libsvm import read_libsvm
from dualfl.typing import AnyArray

OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True, eq=False)
class FileContent:
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


def read_path(path: Path, target: str | None = None, task: str | None = None) -> FileContent:
    """The rows of a file, or of a folder with CIFAR-10 batches."""
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    if path.is_dir():
        return _batches(_batches_in(path))
    kind = format_of(path)
    if kind in ("CSV", "Parquet"):
        columns = (read_csv if kind == "CSV" else read_parquet)(path, target)
        parts = split_target(columns, target, path)
        y, classes = targets(parts.y, task, path)
        return FileContent(parts.X, y, classes, parts.names, dict(parts.others))
    if kind == "npz":
        X, y, images = read_npz_images(path, target)
        return FileContent(X, *targets(y, task, path), pixels=images)
    if kind == "npy":
        X, y = read_npy(path, target)
        return FileContent(X, *targets(y, task, path))
    if target is not None:
        raise InputError(f"{path} is a {kind} file, whose targets have no name; leave target={target!r} out.")
    if kind == "IDX":
        X, y = read_images(path, labels_beside(path))
        return FileContent(X, *targets(y, task, path), pixels=True)
    if kind in ("CIFAR-10", "pickle"):
        return _batches([path])
    X, y = read_libsvm(path)
    return FileContent(X, *targets(y, task, path))


def _batches_in(folder: Path) -> list[Path]:
    for pattern in ("data_batch_[1-5].bin", "data_batch_[1-5]", "data_batch_[1-5].bin.gz", "data_batch_[1-5].gz"):
        if found := sorted(folder.glob(pattern)):
            return found
    raise InputError(f"{folder} is a folder without CIFAR-10 batches; name a file in it, or a folder that has them.")


def _batches(paths: list[Path]) -> FileContent:
    return FileContent(*read_cifar(paths), OBJECTS, pixels=True)
