"""All data sets by name. A new one is a reader, if its format is new, and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from dualfl.data.bundled import read_bundled
from dualfl.data.cifar import read_cifar
from dualfl.data.dataset import Dataset, Task, is_sparse
from dualfl.data.files import find
from dualfl.data.idx import read_mnist
from dualfl.data.libsvm import read_signs
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.typing import AnyArray

Layout = Literal["auto", "dense", "sparse"]

MNIST = ("mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte")
CIFAR10 = tuple(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6))
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DIGITS = tuple("0123456789")


class Table(NamedTuple):
    X: Any
    y: AnyArray
    classes: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Entry:
    """What is known of a set before it is read.

    scale : what models multiply the features with; None standardises every column instead.
    sparse : keep the rows sparse, where most entries are zero and the kernels are faster for it.
    files : what must lie in a data folder; nothing for the sets that come with scikit-learn.
    """

    read: Callable[[], Table]
    rows: int
    features: int
    classes: int
    scale: float | None = None
    sparse: bool = False
    files: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        return "classification" if self.classes else "regression"

    @property
    def missing(self) -> list[str]:
        return [file for file in self.files if find(file) is None]


def _bundled(name: str) -> Callable[[], Table]:
    return lambda: Table(*read_bundled(name), "scikit-learn")


def _mnist() -> Table:
    X, y, path = read_mnist(*MNIST)
    return Table(X, y, DIGITS, str(path))


def _cifar10() -> Table:
    X, y, path = read_cifar(CIFAR10)
    return Table(X, y, OBJECTS, str(path.parent))


def _a8a() -> Table:
    X, y, path = read_signs("a8a", "a8a", 123)
    return Table(X, y, ("-1", "+1"), str(path))


DATASETS: dict[str, Entry] = {
    "digits": Entry(_bundled("digits"), 1_797, 64, 10, scale=1 / 16),
    "iris": Entry(_bundled("iris"), 150, 4, 3),
    "wine": Entry(_bundled("wine"), 178, 13, 3),
    "breast_cancer": Entry(_bundled("breast_cancer"), 569, 30, 2),
    "diabetes": Entry(_bundled("diabetes"), 442, 10, 0),
    # 19 % of the pixels are not zero, and sparse rows take half the time: python -m benchmarks.layouts
    "mnist": Entry(_mnist, 60_000, 784, 10, scale=1 / 255, sparse=True, files=MNIST),
    "cifar10": Entry(_cifar10, 50_000, 3_072, 10, scale=1 / 255, files=CIFAR10),
    "a8a": Entry(_a8a, 22_696, 123, 2, scale=1.0, sparse=True, files=("a8a",)),
}


def load(name: str, *, scale: float | str = "default", layout: Layout = "auto") -> Dataset:
    """The data set of that name.

    Parameters
    ----------
    scale : "default" is what suits the set: pixels between 0 and 1, tables with standardised columns; "raw" takes the
        numbers as they are; a number multiplies them. Nothing is copied for it: bytes stay bytes.
    layout : "dense", "sparse", or "auto" for the one that is faster.

    >>> digits = load("digits")
    >>> print(digits)
    digits, 1,797 rows x 64 features, 10 classes
    >>> digits.X.dtype, digits.scale
    (dtype('uint8'), 0.0625)
    """
    if name not in DATASETS:
        raise InputError(nearest("data set", name, DATASETS))
    if layout not in ("auto", "dense", "sparse"):
        raise InputError(nearest("layout", layout, ("auto", "dense", "sparse")))
    entry = DATASETS[name]
    factor = _factor(scale, entry)
    X, y, classes, source = entry.read()
    center = spread = None
    if factor is None:
        center, spread = X.mean(axis=0), X.std(axis=0)
        spread[spread == 0] = 1.0
        X = (X - center) / spread
    X = _laid_out(X, entry.sparse if layout == "auto" else layout == "sparse")
    return Dataset(X, y, classes, name, 1.0 if factor is None else factor, source, entry.task, center, spread)


def _factor(scale: float | str, entry: Entry) -> float | None:
    """The factor of the features; None if the columns are to be standardised."""
    if scale == "default":
        return entry.scale
    if scale == "raw":
        return 1.0
    try:
        factor = float(scale)
    except ValueError:
        factor = np.nan
    if not 0 < factor < np.inf:
        raise InputError(f'scale must be "default", "raw" or a positive number, and it is {scale!r}.')
    return factor


def _laid_out(X: Any, sparse: bool) -> Any:
    if sparse == is_sparse(X):
        return X
    return sp.csr_array(X) if sparse else X.toarray()
