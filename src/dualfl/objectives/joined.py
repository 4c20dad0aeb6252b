"""Clients whose rows are computed as one client's: sums over rows do not care how the rows are grouped.

The mean of linear models f_j with one loss and one ridge, each counting as much as its rows weigh, is the linear model
of all rows. Where their rows lie one after the other in one array, as the slices of a sorted table do, nothing is
copied; otherwise they are, if they are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.kernels import Design
from dualfl.objectives.base import Objective
from dualfl.objectives.linear import LinearModel
from dualfl.typing import AnyArray, frozen

SMALL = 1 << 26  # bytes of rows that may be copied


def joined(clients: Sequence[Objective]) -> LinearModel | None:
    """The linear model of all rows; None if the clients are not of one kind, or too large to be copied."""
    models = [f for f in clients if type(f) is LinearModel]
    if len(models) < len(clients):
        return None
    first = models[0]
    if len(models) == 1:
        return first
    if len({kind(f) for f in models}) > 1:
        return None
    X = stacked_rows([f.design.X for f in models], copy=sum(f.design.nbytes for f in models) <= SMALL)
    if X is None:
        return None
    whole = first.fresh()
    for known in ("L_row", "_top", "column_sizes"):
        whole.__dict__.pop(known, None)
    whole.design = Design(X, scale=first.design.scale, intercept=first.design.intercept)
    whole.n = whole.design.n
    whole.y = np.concatenate([f.y for f in models])
    if first.offset is not None:
        whole.offset = np.concatenate([f.offset for f in models if f.offset is not None])
    whole._mass = float(sum(f.mass for f in models))
    whole.s = frozen(np.concatenate([f.s * (f.mass / whole._mass) for f in models]))
    return whole


def kind(f: LinearModel) -> tuple[Any, ...]:
    """What models must share to be computed as one."""
    return f.loss, f.ridge, f.intercept, f.design.scale, f.design.X.dtype, f.shape, f.offset is None


def stacked_rows(parts: Sequence[Any], copy: bool) -> Any:
    """The rows of all parts, one part after the other; None if that takes a copy that is not wanted."""
    if not all(sp.issparse(part) for part in parts):
        return None if any(sp.issparse(part) for part in parts) else stacked(parts, copy)
    data, indices = stacked([part.data for part in parts], copy), stacked([part.indices for part in parts], copy)
    if data is None or indices is None:
        return None
    ends = np.cumsum([0, *(part.nnz for part in parts)])
    starts = [part.indptr[:-1] + end for part, end in zip(parts, ends)]
    indptr = np.concatenate([*starts, ends[-1:]]).astype(indices.dtype if ends[-1] < 2**31 else np.int64, copy=False)
    shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])
    whole = type(parts[0])(shape, dtype=data.dtype)
    whole.data, whole.indices, whole.indptr = data, indices, indptr  # SciPy's constructor might copy them
    whole.has_canonical_format = True  # as all parts have
    return whole


def stacked(parts: Sequence[AnyArray], copy: bool) -> AnyArray | None:
    """Arrays as one: a view, if they are neighbours in the memory of one array."""
    base = parts[0].base
    if isinstance(base, np.ndarray) and base.flags.c_contiguous and all(neighbours(parts, base)):
        size = base.strides[0]
        first = (address(parts[0]) - address(base)) // size
        return np.asarray(base[first : first + sum(len(part) for part in parts)])
    return np.concatenate(parts) if copy else None


def neighbours(parts: Sequence[AnyArray], base: AnyArray) -> list[bool]:
    """For each part, whether it lies in `base`, whole rows of it, and begins where the one before ended."""
    places = [address(parts[0])]
    for part in parts:
        places.append(places[-1] + part.nbytes)
    return [
        part.base is base and part.flags.c_contiguous and part.shape[1:] == base.shape[1:] and address(part) == place
        for part, place in zip(parts, places)
    ]


def address(array: AnyArray) -> int:
    place: int = array.__array_interface__["data"][0]
    return place
