"""Silos: tables of rows that stay apart, made alike enough to be fitted together.

A silo is (X, y) or (X, y, weights); a `Silo` has been checked. Rows of different silos are never put into one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from dualfl.errors import InputError
from dualfl.objectives.inputs import check_offset
from dualfl.silos.chamber import SiloRows
from dualfl.typing import AnyArray, Array

KINDS = (np.float64, np.float32, np.uint8)  # what the kernels read without a copy
LARGEST_WEIGHT = 1e100  # of a row, and the smallest is one over it


Parts = dict[str, npt.NDArray[np.intp]]  # the rows of each silo, by name


def one_table(
    estimator: Any, X: Any, y: Any, groups: Any, sample_weight: Any, offset: Any = None
) -> tuple[SiloRows, AnyArray | None]:
    """One table, and the silo of each of its rows; None: all rows are one silo."""
    X, y = _checked(estimator, X, y, reset=True)
    weights = row_weights(sample_weight, X)
    whole = SiloRows("all", X, y, weights, None if offset is None else check_offset(offset, X.shape[0]))
    return whole, None if groups is None else silo_labels(groups, whole.n)


def split(whole: SiloRows, labels: AnyArray | None) -> list[SiloRows]:
    """The silos of a table that have a row which counts."""
    return counting([whole] if labels is None else _slices(whole, rows_by_silo(labels, whole.n)))


def how_many(whole: SiloRows, labels: AnyArray | None) -> int:
    """The number of these silos."""
    if labels is None:
        return 1
    return len(_distinct(labels if whole.weights is None else labels[whole.weights > 0]))


def _slices(whole: SiloRows, parts: Parts) -> list[SiloRows]:
    """The silos as neighbours in one table that is sorted by them, copied once, and not at all if it is sorted."""
    order = np.concatenate(list(parts.values()))
    if not np.array_equal(order, np.arange(whole.n)):
        whole = whole.rows(order)
    ends = np.cumsum([0, *map(len, parts.values())])
    return [
        SiloRows(
            name,
            _row_slice(whole.X, first, last),
            whole.y[first:last],
            None if whole.weights is None else whole.weights[first:last],
            None if whole.offset is None else whole.offset[first:last],
        )
        for name, first, last in zip(parts, ends, ends[1:])
    ]


def _row_slice(X: Any, first: int, last: int) -> Any:
    """Rows of a table, not copied; SciPy copies what is a small part of something larger, unless it is not told."""
    if not bool(sp.issparse(X)):
        return X[first:last]
    inside = slice(X.indptr[first], X.indptr[last])
    part = type(X)((last - first, X.shape[1]), dtype=X.dtype)
    part.indptr = X.indptr[first : last + 1] - X.indptr[first]
    part.data, part.indices = X.data[inside], X.indices[inside]
    return part


def rows_by_silo(groups: Any, n: int) -> Parts:
    """The rows of each silo, in the order of their names."""
    names, number = _distinct(silo_labels(groups, n), inverse=True)
    order = np.argsort(number, kind="stable")
    return dict(zip(map(str, names), np.split(order, np.cumsum(np.bincount(number))[:-1])))


def silo_labels(groups: Any, n: int) -> AnyArray:
    """The silo of each row, or a sentence."""
    labels: AnyArray = groups
    if not isinstance(groups, np.ndarray) or groups.ndim != 1:
        labels = column_or_1d(np.array(groups, dtype=object) if isinstance(groups, list | tuple) else groups)
    if len(labels) != n:
        raise InputError(f"groups names the silo of each row, but it has {len(labels)} entries for {n} rows.")
    missing = _unnamed(labels)
    if len(missing):
        raise InputError(
            f"groups names the silo of each row, and row {missing[0]} has {labels[missing[0]]}; name its silo, or "
            "leave the row out."
        )
    return labels


def _distinct(labels: AnyArray, inverse: bool = False) -> Any:
    """The names of the silos in order, and which of them each row has."""
    try:
        return np.unique(labels, return_inverse=True) if inverse else np.unique(labels)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise InputError(f"groups mixes labels that have no common order ({kinds}); give all as text.") from None


def _unnamed(labels: AnyArray) -> npt.NDArray[np.intp]:
    """Where a label is None, or nan."""
    if labels.dtype.kind in "biuUS":
        return np.zeros(0, dtype=np.intp)
    if labels.dtype.kind == "f":
        return np.flatnonzero(np.isnan(labels))
    return np.flatnonzero([label is None or label != label for label in labels])


def checked_silos(estimator: Any, silos: Sequence[Any], names: Sequence[str] | None = None) -> list[SiloRows]:
    """A list of (X, y) or (X, y, weights). All must have the columns of the first."""
    if len(silos) == 0:
        raise InputError("fit_silos needs at least one silo (X, y), and the list is empty.")
    names = [str(j) for j in range(len(silos))] if names is None else [str(name) for name in names]
    if len(names) != len(silos):
        raise InputError(f"There are {len(silos)} silos and {len(names)} names; give one each.")
    return counting([_one(estimator, silo, name, first=j == 0) for j, (silo, name) in enumerate(zip(silos, names))])


def _one(estimator: Any, silo: Any, name: str, first: bool) -> SiloRows:
    if not isinstance(silo, tuple | list) or len(silo) not in (2, 3):
        raise InputError(f"Silo {name} must be a pair (X, y) or (X, y, weights), but it is {type(silo).__name__!r}.")
    try:
        X, y = _checked(estimator, silo[0], silo[1], reset=first)
        return SiloRows(name, X, y, row_weights(silo[2] if len(silo) == 3 else None, X))
    except ValueError as error:
        raise InputError(f"Silo {name}: {error}") from error


def _checked(estimator: Any, X: Any, y: Any, reset: bool) -> tuple[Any, AnyArray]:
    numeric = is_regressor(estimator)
    try:
        X, y = validate_data(estimator, X, y, reset=reset, accept_sparse="csr", dtype=KINDS, y_numeric=numeric)
    except OverflowError as error:
        raise InputError(f"A number among the features or targets is too large for a float ({error}).") from error
    return X, y


def row_weights(given: Any, X: Any) -> Array | None:
    if given is None:
        return None
    try:
        weights: Array = _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)
    except OverflowError as error:
        raise InputError(f"A sample weight is too large for a float ({error}).") from error
    strange = np.flatnonzero((weights > LARGEST_WEIGHT) | ((weights > 0) & (weights < 1 / LARGEST_WEIGHT)))
    if len(strange):  # their sum, or what is divided by it, would be no number
        raise InputError(
            f"sample_weight[{strange[0]}] is {weights[strange[0]]:g}; weights must be 0, or between "
            f"{1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}; multiply all of them by one number."
        )
    return weights


def counting(silos: list[SiloRows]) -> list[SiloRows]:
    """Those with a row that counts; a silo whose weights are all zero has nothing to say."""
    some = [silo for silo in silos if silo.mass > 0]
    if not some:
        raise InputError("All sample weights are zero, so no row counts; give some rows a positive weight.")
    return some


def tables(X: Any, groups: Any) -> list[Any]:
    """The parts of a table without targets, one a silo, in the order of their names."""
    if groups is None:
        return [X]
    return [_safe_indexing(X, rows) for rows in rows_by_silo(groups, X.shape[0]).values()]
