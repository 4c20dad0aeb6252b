"""The errors that dualfl raises. Every message is one sentence: what was given, and what would be right."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BrokenAlgorithm",
    "Diverged",
    "DualflError",
    "InputError",
    "NoMinimiser",
    "NotSupported",
    "WrongEncoding",
]


class DualflError(Exception):
    """The root of all errors that dualfl raises on purpose."""


class InputError(DualflError, ValueError):
    """An argument, a file or a data set is not what it must be."""


class WrongEncoding(InputError):
    """A file is text in another encoding; `where` is the first place that says so."""

    def __init__(self, sentence: str, where: str) -> None:
        super().__init__(sentence)
        self.where = where


class NoMinimiser(InputError):
    """There is no minimiser, as for classes that a hyperplane separates, without a penalty.

    `direction` is where the coefficients go, a flat model of length 1, if the method knows.
    """

    direction: Any = None


class NotSupported(DualflError, TypeError):
    """Two parts that do not go together, such as a smooth solver and a hinge loss."""


class BrokenAlgorithm(InputError):
    """An algorithm does not keep the contract between algorithms and engines."""


class OutOfTime(Exception):
    """The time of a run ended inside an exchange, which is as if it had not begun. Whoever set the limit catches it."""


class Diverged(DualflError, ArithmeticError):
    """The iterates grow without bound; there is no result to report."""
