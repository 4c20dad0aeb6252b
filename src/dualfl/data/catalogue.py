"""All data sets by name. A new one is a reader, if its format is new, and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from dualfl.arguments import checked
from dualfl.data.bundled import read_bundled
from dualfl.data.cifar import read_cifar
from dualfl.data.dataset import Dataset, Task
from dualfl.data.download import Download, fetch
from dualfl.data.file_signatures import fault
from dualfl.data.folders import find
from dualfl.data.formats import OBJECTS, FileContent, is_path, read_path
from dualfl.data.idx import read_images
from dualfl.errors import InputError
from dualfl.kernels import is_sparse
from dualfl.names import nearest
from dualfl.objectives.inputs import check_features
from dualfl.tables.libsvm import read_libsvm, signs
from dualfl.typing import AnyArray

Layout = Literal["auto", "dense", "sparse"]

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
MNIST = tuple(f"mnist/{file}" for file in IDX)
FASHION = tuple(f"fashion-mnist/{file}" for file in IDX)
CIFAR10 = tuple(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6))
CIFAR10_PYTHON = tuple(f"cifar-10-batches-py/data_batch_{i}" for i in range(1, 6))
DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

# Where the files are, and what their publishers or many users say of them. The bytes of a8a and those of the unpacked
# MNIST files were also compared with copies at hand.
MNIST_HOMES = ("https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")
FASHION_HOMES = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)


def _images(file: str, homes: tuple[str, ...], size: int, checksum: str) -> Download:
    name = file.rsplit("/", 1)[-1]
    return Download(f"{file}.gz", tuple(f"{home}/{name}.gz" for home in homes), size, checksum)


MNIST_DOWNLOADS = (
    _images(
        MNIST[0],
        MNIST_HOMES,
        9_912_422,
        "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    _images(
        MNIST[1],
        MNIST_HOMES,
        28_881,
        "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
)
FASHION_DOWNLOADS = (
    _images(FASHION[0], FASHION_HOMES, 26_421_880, "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    _images(FASHION[1], FASHION_HOMES, 29_515, "md5:25c81989df183df01b3e8a0aad5dffbe"),
)
CIFAR10_DOWNLOADS = (
    Download(
        CIFAR10,
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        170_052_171,
        "md5:c32a1d4ab5d03f1284b67883e8d87530",
        archive=True,
    ),
)
A8A_DOWNLOADS = (
    Download(
        "a8a",
        ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/a8a",),
        1_624_166,
        "sha256:d08a37b3fadd4bd3c8b3fc30bdc93b54d7c0f371265c90cbfb931a7efe97cd28",
    ),
)


class Table(NamedTuple):
    X: Any
    y: AnyArray
    classes: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """What is known of a set before it is read.

    read : from the paths of its files.
    scale : what models multiply the features with; None standardises every column instead.
    sparse : keep the rows sparse, where most entries are zero and the kernels are faster for it.
    files : what must lie in a data folder; nothing for the sets that come with scikit-learn.
    instead : files that would do as well.
    downloads : where the files can be had.
    """

    read: Callable[[list[Path]], Table]
    rows: int
    features: int
    classes: int
    scale: float | None = None
    sparse: bool = False
    files: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()

    @property
    def task(self) -> Task:
        return "classification" if self.classes else "regression"

    @property
    def found(self) -> list[Path] | None:
        """Where the files lie; None if one is missing."""
        for files in (self.files, self.instead):
            paths = [path for file in files if (path := find(file)) is not None]
            if files and len(paths) == len(files):
                return paths
        return None if self.files else []

    @property
    def missing(self) -> list[str]:
        return [] if self.found is not None else [file for file in self.files if find(file) is None]

    @property
    def damaged(self) -> dict[Path, str]:
        """The files that cannot be what their names say, and what a glance tells of each."""
        there = [path for file in self.files if (path := find(file)) is not None] if self.found is None else self.found
        return {path: why for path in there if (why := fault(path))}


def _bundled(name: str) -> Callable[[list[Path]], Table]:
    return lambda paths: Table(*read_bundled(name))


def _mnist(paths: list[Path]) -> Table:
    return Table(*read_images(*paths), DIGITS)


def _fashion(paths: list[Path]) -> Table:
    return Table(*read_images(*paths), CLOTHES)


def _cifar10(paths: list[Path]) -> Table:
    return Table(*read_cifar(paths, DATASETS["cifar10"].rows // len(paths)), OBJECTS)


def _a8a(paths: list[Path]) -> Table:
    X, y = read_libsvm(paths[0], 123)
    return Table(X, signs(y, paths[0]), ("-1", "+1"))


# 19 % of MNIST's pixels are not zero, and sparse rows take half the time: python -m benchmarks.layouts
DATASETS: dict[str, Entry] = {
    "digits": Entry(_bundled("digits"), 1_797, 64, 10, scale=1 / 16),
    "iris": Entry(_bundled("iris"), 150, 4, 3),
    "wine": Entry(_bundled("wine"), 178, 13, 3),
    "breast_cancer": Entry(_bundled("breast_cancer"), 569, 30, 2),
    "diabetes": Entry(_bundled("diabetes"), 442, 10, 0),
    "mnist": Entry(_mnist, 60_000, 784, 10, 1 / 255, sparse=True, files=MNIST, downloads=MNIST_DOWNLOADS),
    "fashion-mnist": Entry(_fashion, 60_000, 784, 10, 1 / 255, files=FASHION, downloads=FASHION_DOWNLOADS),
    "cifar10": Entry(
        _cifar10,
        50_000,
        3_072,
        10,
        1 / 255,
        files=CIFAR10,
        instead=CIFAR10_PYTHON,
        downloads=CIFAR10_DOWNLOADS,
    ),
    "a8a": Entry(_a8a, 22_696, 123, 2, 1.0, sparse=True, files=("a8a",), downloads=A8A_DOWNLOADS),
}


@checked
def load(
    name: str | Path,
    *,
    scale: float | str = "default",
    layout: Layout = "auto",
    target: str | None = None,
    task: str | None = None,
) -> Dataset:
    """Load a data set by its name, or from a file.

    A named set is read from the folder that DUALFL_DATA names or from the user's cache; otherwise it is downloaded.

    Parameters
    ----------
    name : str or Path
        See `DATASETS`; or the path of a CSV, Parquet, .npz, .npy, LIBSVM or IDX file, or of CIFAR-10 batches.
    scale : float or str, default 'default'
        "default" suits the set: pixels between 0 and 1, tables with standardised columns; "raw" takes the numbers
        as they are; a number multiplies them. The data are not copied: bytes stay bytes.
    layout : Layout, default 'auto'
        "dense", "sparse", or "auto" for the one that is faster.
    target : str, optional
        For a file, the column (or array) to predict.
    task : str, optional
        For a file, "classification" or "regression"; by default text and whole numbers with few values are classes.

    Returns
    -------
    Dataset
        The rows and targets.

    Examples
    --------
    >>> digits = load("digits")
    >>> print(digits)
    digits, 1,797 rows x 64 features, 10 classes
      classes      0, 1, 2, 3, 4, 5, 6, 7, 8, 9
      ...
    >>> digits.X.dtype, digits.scale
    (dtype('uint8'), 0.0625)
    """
    if layout not in ("auto", "dense", "sparse"):
        raise InputError(nearest("layout", layout, ("auto", "dense", "sparse")))
    if task not in (None, "classification", "regression"):
        raise InputError(nearest("task", str(task), ("classification", "regression")))
    if isinstance(name, str) and name in DATASETS:
        if target is not None or task is not None:
            raise InputError(f"{name} has a target of its own; target and task are for files.")
        return _named(name, scale, layout)
    if isinstance(name, str) and not is_path(name):
        raise InputError(nearest("data set", name, DATASETS))
    return _from_file(Path(name).expanduser(), scale, layout, target, task)


def _named(name: str, scale: float | str, layout: Layout) -> Dataset:
    entry = DATASETS[name]
    factor = _factor(scale, entry.scale)
    paths = entry.found
    if paths is None:
        for download in entry.downloads:
            if any(find(file.removesuffix(".gz")) is None for file in download.files):
                fetch(download, name)
        paths = entry.found
        assert paths is not None
    X, y, classes, names = entry.read(paths)
    if paths:
        _check_kind(name, X, y, paths)
    where = "scikit-learn" if not paths else str(paths[0] if len(paths) < 3 else paths[0].parent)
    sparse = entry.sparse if layout == "auto" else layout == "sparse"
    return _finished(FileContent(X, y, classes, names), factor, sparse, name, where)


def _check_kind(name: str, X: Any, y: AnyArray, paths: list[Path]) -> None:
    """A file that was cut, or another one under the name of a known set, would run and mean nothing."""
    entry = DATASETS[name]
    files = ", ".join(map(str, paths))
    if X.shape != (entry.rows, entry.features):
        raise InputError(
            f"{name} has {entry.rows:,} rows x {entry.features:,} features, and there are {X.shape[0]:,} x "
            f"{X.shape[1]:,} in {files}; get {_them(paths)} again."
        )
    if entry.classes and y.max() >= entry.classes:
        raise InputError(
            f"{name} has the labels 0 to {entry.classes - 1}, and there is the label {y.max()} in {files}; get "
            f"{_them(paths)} again."
        )


def _them(paths: list[Path]) -> str:
    return "the file" if len(paths) == 1 else "the files"


def _from_file(path: Path, scale: float | str, layout: Layout, target: str | None, task: str | None) -> Dataset:
    found = read_path(path, target, task)
    suits = 1 / 255 if found.pixels else 1.0 if is_sparse(found.X) else None
    sparse = is_sparse(found.X) if layout == "auto" else layout == "sparse"
    return _finished(found, _factor(scale, suits), sparse, path.name, str(path))


def _finished(found: FileContent, factor: float | None, sparse: bool, name: str, source: str) -> Dataset:
    """Standardised if no factor is given, and laid out."""
    _check_finite(found, source)
    X, center, spread = found.X, None, None
    if factor is None:
        X = check_features(X)
        center, spread = X.mean(axis=0), X.std(axis=0)
        spread[spread == 0] = 1.0
        X = (X - center) / spread
    task: Task = "classification" if found.classes else "regression"
    return Dataset(
        _laid_out(X, sparse),
        found.y,
        found.classes,
        name,
        1.0 if factor is None else factor,
        source,
        task,
        center,
        spread,
        found.names,
        found.columns,
    )


def _check_finite(found: FileContent, source: str) -> None:
    """A gap would spoil its column, and who finds it later knows neither the file nor the row in it."""
    values = found.X.data if is_sparse(found.X) else found.X
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if is_sparse(found.X):
        entries = found.X.tocoo()
        first = int(np.argmin(np.isfinite(entries.data)))
        row, column = int(entries.row[first]), int(entries.col[first])
    else:
        row, column = map(int, np.argwhere(~np.isfinite(values))[0])
    feature = repr(found.names[column]) if found.names else f"{column + 1:,}"
    raise InputError(
        f"{source}, row {row + 1:,} has {found.X[row, column]} as feature {feature}; features must be finite, so fill "
        "or drop what is missing."
    )


def _factor(scale: float | str, suits: float | None) -> float | None:
    """The factor of the features; None if the columns are to be standardised."""
    if scale == "default":
        return suits
    if scale == "raw":
        return 1.0
    try:
        factor = float(scale)
    except ValueError:
        factor = np.nan
    if not 0 < factor < np.inf:
        raise InputError(f'scale must be "default", "raw" or a positive number, but it is {scale!r}.')
    return factor


def _laid_out(X: Any, sparse: bool) -> Any:
    if sparse == is_sparse(X):
        return X
    return sp.csr_array(X) if sparse else X.toarray()
