"""The few types that everything shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dualfl.errors import InputError

Array = npt.NDArray[np.float64]
"""A float64 array; a model is one flat vector of them."""

AnyArray = npt.NDArray[Any]
"""An array of any type, as data come in."""


def frozen(x: npt.ArrayLike) -> Array:
    """`x` as a C-contiguous, read-only float64 array; copied only if somebody could still write to it.

    Everything that is remembered or sent passes through here, so nobody can change it from afar,
    and so the same numbers always have the same memory layout: strides change the last bits of a
    matrix product.
    """
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"An array of numbers is needed, but it is a {type(x).__name__} ({error}).") from error
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, dtype=np.float64, order="C")
        array.flags.writeable = False
    return array


def sealed(x: Array) -> Array:
    """A fresh array that nobody else holds, made read-only in place."""
    x.flags.writeable = False
    return x
