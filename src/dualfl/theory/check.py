"""What a check is, and how a statement is measured.

A statement is a function that yields one `Found` for each thing it measures: a number, and the bound that the
statement puts on it. Whether it holds follows; nobody says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from dualfl.errors import DualflError


class Measured(NamedTuple):
    """A measured value, which must be at most, or at least, its bound.

    Parameters
    ----------
    measured : str
        What was measured.
    value : float
        The number.
    bound : float
        Its bound.
    relation : {'<=', '>='}, default '<='
        Which side of the bound it must be on.

    Examples
    --------
    >>> from dualfl.theory import Measured
    >>> Measured("a length", 0.5, 1.0).value
    0.5
    """

    measured: str
    value: float
    bound: float
    relation: Literal["<=", ">="] = "<="

    @property
    def holds(self) -> bool:
        """NaN holds nowhere."""
        return bool(self.value <= self.bound if self.relation == "<=" else self.value >= self.bound)


@dataclass(frozen=True)
class Check:
    """One line of the table: the statement, what was measured, and whether it holds.

    Parameters
    ----------
    statement : str
        The statement's name.
    measured : str
        What was measured.
    value : float
        The number.
    bound : float
        Its bound.
    relation : str
        Which side of the bound it must be on.
    holds : bool
        Whether it is there.
    seconds : float
        How long it took.

    Examples
    --------
    >>> from dualfl.theory import run_all
    >>> all(check.holds for check in run_all(only="Lemma 6.4"))
    True
    """

    statement: str
    measured: str
    value: float
    bound: float
    relation: str
    holds: bool
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


Statement = Callable[[], Iterator[Measured]]
Progress = Callable[[str, int, int], None]


def checks(name: str, statement: Statement) -> Iterator[Check]:
    """Everything that a statement measures, each with its time. One that breaks down does not hold."""
    began = time.perf_counter()
    try:
        for found in statement():
            now = time.perf_counter()
            value, bound = float(found.value), float(found.bound)
            yield Check(name, found.measured, value, bound, found.relation, found.holds, now - began)
            began = time.perf_counter()
    except (DualflError, ArithmeticError) as error:
        yield Check(name, str(error), np.nan, np.nan, "<=", False, time.perf_counter() - began)
