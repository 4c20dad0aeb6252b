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
    """The root of all errors that dualfl raises on purpose.

    Examples
    --------
    >>> import dualfl
    >>> try:
    ...     dualfl.load("no such data")
    ... except dualfl.DualflError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(DualflError, ValueError):
    """An argument, a file or a data set is not what it must be.

    Examples
    --------
    >>> import dualfl
    >>> try:
    ...     dualfl.make_problem("iris", clients=0)
    ... except dualfl.errors.InputError as error:
    ...     print("refused")
    refused
    """


class WrongEncoding(InputError):
    """A file is text in another encoding; `where` is the first place that says so.

    Examples
    --------
    >>> import dualfl
    >>> issubclass(dualfl.errors.WrongEncoding, dualfl.DualflError)
    True
    """

    def __init__(self, sentence: str, where: str) -> None:
        super().__init__(sentence)
        self.where = where


class NoMinimiser(InputError):
    """There is no minimiser, as for classes that a hyperplane separates, without a penalty.

    `direction` is where the coefficients go, a flat model of length 1, if the method knows.

    Examples
    --------
    >>> import dualfl
    >>> issubclass(dualfl.errors.NoMinimiser, dualfl.DualflError)
    True
    """

    direction: Any = None


class NotSupported(DualflError, TypeError):
    """Two parts that do not go together, such as a smooth solver and a hinge loss.

    Examples
    --------
    >>> import dualfl
    >>> issubclass(dualfl.errors.NotSupported, dualfl.DualflError)
    True
    """


class BrokenAlgorithm(InputError):
    """An algorithm does not keep the contract between algorithms and engines.

    Examples
    --------
    >>> import dualfl
    >>> issubclass(dualfl.errors.BrokenAlgorithm, dualfl.DualflError)
    True
    """


class OutOfTime(Exception):
    """The time of a run ended inside an exchange, which is as if it had not begun. Whoever set the limit catches it."""


class Diverged(DualflError, ArithmeticError):
    """The iterates grow without bound; there is no result to report.

    Examples
    --------
    >>> import dualfl
    >>> issubclass(dualfl.errors.Diverged, dualfl.DualflError)
    True
    """
