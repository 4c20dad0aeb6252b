"""What a function is given, checked against what its signature says: one sentence instead of a crash further down.

`@checked` on a function or a class looks at the types of its annotations and nothing else; ranges are the business of
the function. Where an annotation says number, NumPy's numbers will do, and a truth value will not.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dualfl.errors import InputError

Target = TypeVar("Target", bound=Callable[..., Any])

WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    type(None): "None",
    Path: "a path",
}
NUMBERS = "biuf"  # kinds of arrays that hold real numbers


def checked(target: Target) -> Target:
    """The same function or class, whose arguments are looked at first.

    >>> @checked
    ... def run(rounds: int, tol: float | None = None) -> None: ...
    >>> run(10, 1e-3)
    >>> run(float("nan"))
    Traceback (most recent call last):
    dualfl.errors.InputError: rounds must be a whole number, but it is nan.
    """
    plain: Any = target  # mypy distrusts what is done to __init__ here
    function = plain.__init__ if isinstance(target, type) else plain
    signature = inspect.signature(function)
    first = next(iter(signature.parameters), "") if isinstance(target, type) else ""
    hints: dict[str, Any] = {}

    @functools.wraps(function)
    def looked_at(*args: Any, **kwargs: Any) -> Any:
        if not hints:  # when it is first called: what annotations name may be imported late
            hints.update(hints_of(target))
        bound = signature.bind(*args, **kwargs)  # what is missing or too much is told by Python's own TypeError
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if name in hints and name != first and kind not in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
                check(name, value, hints[name])
                bound.arguments[name] = within_numpy(value, hints[name])
        return function(*bound.args, **bound.kwargs)

    if isinstance(target, type):
        plain.__init__ = looked_at
        return target
    return typing.cast(Target, looked_at)


def hints_of(target: Any) -> dict[str, Any]:
    """The annotations of a function, or of what makes a class; none, if they name what nobody can find."""
    if isinstance(target, type) and not hasattr(target, "__dataclass_fields__"):
        made: Any = target
        target = inspect.unwrap(made.__init__)
    try:
        return typing.get_type_hints(target)
    except NameError:
        return {}


def check(name: str, value: Any, hint: Any) -> None:
    """Raise InputError unless the value is what the annotation says."""
    if not conforms(value, hint):
        raise InputError(f"{name} must be {in_words(hint)}, but it is {shown(value)}.")


def within_numpy(value: Any, hint: Any) -> Any:
    """The same number as a float, where it is a whole one that NumPy has no type for and any number will do.

    >>> within_numpy(10**30, float | None)
    1e+30
    """
    kinds = (hint, *typing.get_args(hint))
    wide = isinstance(value, int) and not -(2**63) <= value < 2**63
    return float(value) if wide and float in kinds and int not in kinds else value


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of the kind that an annotation names; unknown kinds of annotations say nothing."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is typing.Literal:
        return any(type(value) is type(part) for part in parts)  # which of them, the function tells
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if hint is float:
        return _is_number(value)
    if origin is np.ndarray:
        return _is_array(value)
    if origin is collections.abc.Callable or origin is Callable:
        return callable(value) and takes(value, parts)
    if origin in (collections.abc.Sequence, list, tuple):
        return _is_sequence(value, origin, parts)
    if origin is collections.abc.Iterable and isinstance(value, collections.abc.Sequence | np.ndarray):
        return _is_sequence(value, origin, parts)
    if isinstance(hint, type) and not getattr(hint, "_is_protocol", False):
        return isinstance(value, hint)
    return not isinstance(origin, type) or isinstance(value, origin)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return False
    return True


def _is_array(value: Any) -> bool:
    """Whether it is, or becomes, an array of real numbers."""
    try:
        return np.asarray(value).dtype.kind in NUMBERS
    except (ValueError, TypeError, OverflowError):
        return False


def _is_sequence(value: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    if isinstance(value, str | bytes):
        return False
    if not isinstance(value, collections.abc.Sequence) and not (isinstance(value, np.ndarray) and value.ndim):
        return False
    if origin is tuple and not isinstance(value, tuple):
        return False
    of = parts[0] if parts and (origin is not tuple or parts[-1] is Ellipsis) else Any
    return of is Any or all(conforms(item, of) for item in value)


def in_words(hint: Any) -> str:
    """What an annotation asks for.

    >>> in_words(float | None)
    'a number or None'
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        words = list(dict.fromkeys(in_words(part) for part in parts))
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    if origin is typing.Literal:
        return " or ".join(repr(part) for part in parts)
    if hint in WORDS:
        return WORDS[hint]
    if origin is np.ndarray:
        return "an array of numbers"
    if origin is collections.abc.Callable or origin is Callable:
        wanted = parts[0] if parts else Ellipsis
        if isinstance(wanted, list) and wanted:
            return f"a function of {len(wanted)} argument{'s' if len(wanted) > 1 else ''}"
        return "a function"
    if origin in (collections.abc.Sequence, collections.abc.Iterable, list, tuple):
        of = [part for part in parts if part is not Ellipsis][:1]
        return f"a list of which each is {in_words(of[0])}" if of and of[0] is not Any else "a list"
    name = getattr(origin or hint, "__name__", str(hint))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def takes(function: Any, parts: tuple[Any, ...]) -> bool:
    """Whether a function can be called with as many arguments as its annotation says; a type of Python's own, such as
    int, does not tell and is none."""
    wanted = parts[0] if parts else Ellipsis
    if not isinstance(wanted, list):
        return True
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError:
        return False
    except ValueError:
        return not isinstance(function, type)
    return True


def shown(value: Any) -> str:
    """A value as a sentence can hold it."""
    try:
        text = reprlib.repr(value)
    except Exception:  # a repr may do anything
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."
