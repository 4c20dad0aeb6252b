"""What a request may hold: every number has a shape, a type and a range, checked before anything is computed.

The questions of an analysis need no table: a silo knows each of them beforehand (`replica`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.typing import Array

LARGEST = 1e100  # of a number in a broadcast; a run that sends more has diverged
ROUNDS = 10**9


def vector(name: str, x: Any, size: int) -> Array:
    """So many numbers, finite, one behind the other."""
    if not isinstance(x, np.ndarray) or x.dtype != np.float64 or x.shape != (size,):
        raise InputError(f"{name!r} of the request must be {size} numbers, and it is {described(x)}")
    if not bool((np.abs(x) <= LARGEST).all()):
        raise InputError(f"{name!r} of the request holds NaN, infinity, or a number beyond {LARGEST:g}")
    return x


def check_step(request: Mapping[str, Any]) -> None:
    """A client step: which one, when, and with which numbers."""
    for name in ("round", "exchange"):
        if type(request[name]) is not int or not -1 <= request[name] <= ROUNDS:
            raise InputError(f"{name!r} of the request must be a whole number, and it is {described(request[name])}")
    if request["reduce"] not in ("sum", "max") or not isinstance(request["step"], str):
        raise InputError("a step has a name, and its answers are added up or compared")
    if not isinstance(request["message"], Mapping):
        raise InputError("the message of a step is a record")
    for name, value in request["message"].items():
        check_value(str(name), value)


def check_value(name: str, value: Any) -> None:
    """Numbers, texts, and tuples of them; arrays are finite."""
    if isinstance(value, tuple | list):
        for one in value:
            check_value(name, one)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not bool((np.abs(value) <= LARGEST).all()):
            raise InputError(f"{name!r} of the request holds NaN, infinity, or a number beyond {LARGEST:g}")
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise InputError(f"{name!r} of the request is {described(value)}, which no step takes")


def described(x: Any) -> str:
    return f"an array of shape {x.shape} of {x.dtype}" if isinstance(x, np.ndarray) else f"{x!r:.40}"
