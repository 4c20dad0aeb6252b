"""The terms of a formula: products of columns, of functions of columns and of levels, as columns of numbers.

A factor is a function of one column, from a list of a few; nothing else is ever computed, and no code is run:

    x                      a column of numbers, or of levels
    log(x), log2(x), log10(x), log1p(x), sqrt(x)
    pow(x, k)              k = 2, 3, 4; a formula writes I(x ** 2)
    poly(x, k)             powers 1 to k of (x - mean)/deviation
    center(x), scale(x)    x - mean, and that divided by the deviation
    bs(x, k)               a cubic B-spline of k columns: k - 3 knots at quantiles, between outer knots at 5 % and 95 %
    ns(x, k)               a natural cubic spline of k columns: k - 1 knots at quantiles, the same outer knots

What a factor must know of all rows (mean, deviation, knots) is its state, which comes from sums. Exponentials and high
powers are not on the list: they are about the largest row alone. Nor are knots of one's own, which could lie around one
patient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.refusals import Unfit
from dualfl.typing import AnyArray, Array

SIMPLE = {"log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt}
DOMAIN = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}  # what numbers must be above
COUNTS = {"pow": (2, 4), "poly": (2, 4), "bs": (3, 10), "ns": (1, 10)}  # functions with a whole number, and its range
FUNCTIONS = ("center", "scale", *SIMPLE, *(name for name in COUNTS if name != "pow"))
MOST_FACTORS = 3  # of a term
HIGHEST = 4  # power of a column in it
OUTER = (0.05, 0.95)


@dataclass(frozen=True)
class Factor:
    """A function of a column. `state` is what it knows of all rows: mean and deviation, or knots."""

    column: str
    function: str = ""
    count: int = 0
    state: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.function not in ("", "pow", *FUNCTIONS):
            raise InputError(f"A formula: {nearest('function', self.function, FUNCTIONS)}")
        least, most = COUNTS.get(self.function, (0, 0))
        if not isinstance(self.count, int) or not least <= self.count <= most:
            right = f"a whole number from {least} to {most}" if most else "no number"
            raise InputError(
                f"A formula: {self.function}({self.column}, ...) takes {right}, but it has {self.count!r}."
            )

    @property
    def name(self) -> str:
        if self.function == "pow":
            return f"{self.column}^{self.count}"
        inside = f"{self.column}, {self.count}" if self.count else self.column
        return f"{self.function}({inside})" if self.function else self.column

    @property
    def shares(self) -> tuple[float, ...]:
        """The quantiles that it needs: inner knots, and the outer ones at both ends."""
        inner = {"bs": self.count - 3, "ns": self.count - 1}.get(self.function)
        if inner is None:
            return ()
        return (OUTER[0], *(float(p) for p in np.linspace(0, 1, inner + 2)[1:-1]), OUTER[1])

    @property
    def needs_moments(self) -> bool:
        return self.function in ("center", "scale", "poly")

    def names(self) -> tuple[str, ...]:
        several = self.function in ("poly", "bs", "ns") and self.count > 1
        return tuple(f"{self.name}[{i}]" for i in range(1, self.count + 1)) if several else (self.name,)

    def values(self, x: Array) -> Array:
        """The columns that it makes of numbers without gaps."""
        if self.function in SIMPLE:
            self._check_domain(x)
            return SIMPLE[self.function](x)[:, None]
        match self.function:
            case "pow":
                return np.asarray(x[:, None] ** self.count)
            case "center":
                return x[:, None] - self.state[0]
            case "scale":
                return (x[:, None] - self.state[0]) / self.state[1]
            case "poly":
                z = (x - self.state[0]) / self.state[1]
                return np.column_stack([z**k for k in range(1, self.count + 1)])
            case "bs":
                return spline(x, self.state)
            case "ns":
                return natural_spline(x, self.state)
        return x[:, None]

    def _check_domain(self, x: Array) -> None:
        least = DOMAIN.get(self.function)
        wrong = (x <= least) if least is not None else (x < 0)
        if bool(wrong.any()):
            right = f"> {least:g}" if least is not None else ">= 0"
            raise Unfit(
                f"Column {self.column!r} has {x[wrong][0]:g} in row {int(np.flatnonzero(wrong)[0]) + 1}, and "
                f"{self.name} is for numbers {right}; take another term, or correct it.",
                f"column {self.column!r} has numbers for which {self.name} is not defined; take another term",
            )


def spline(x: Array, knots: Sequence[float]) -> Array:
    """Cubic B-splines without the first, which the intercept has; beyond the outer knots their polynomials go on."""
    from scipy.interpolate import BSpline  # here: the help of `dualfl fit` needs none

    low, *inner, high = knots
    t = np.array([low] * 4 + inner + [high] * 4)
    basis = BSpline(t, np.eye(len(t) - 4), 3, extrapolate=True)
    return np.asarray(basis(x))[:, 1:]


def natural_spline(x: Array, knots: Sequence[float]) -> Array:
    """Truncated cubes that are linear beyond the outer knots (Harrell's restricted cubic splines), in a unit free of x:
    x itself first, then one column for each inner knot."""
    t = np.asarray(knots, dtype=np.float64)
    width = t[-1] - t[0]

    def cube(k: float) -> Array:
        return np.asarray(np.maximum((x - k) / width, 0.0) ** 3)

    last, before = cube(t[-1]), cube(t[-2])
    gap = t[-1] - t[-2]
    columns = [x]
    for k in t[:-2]:
        columns.append(cube(k) - before * (t[-1] - k) / gap + last * (t[-2] - k) / gap)
    return np.column_stack(columns)


@dataclass(frozen=True)
class Term:
    """A product of factors."""

    factors: tuple[Factor, ...]
    full: tuple[bool, ...] = ()  # of each factor of levels, whether every level has a column; others: False
    part_of: str = ""  # the term of the formula, where this is a part of it

    def __post_init__(self) -> None:
        powers: dict[str, int] = {}
        for one in self.factors:
            powers[one.column] = powers.get(one.column, 0) + (one.count if one.function in ("pow", "poly") else 1)
        column = max(powers, key=lambda name: powers[name], default="")
        if powers.get(column, 0) > HIGHEST:
            raise InputError(
                f"A formula: {self.name} has column {column!r} to the power {powers[column]}, which is about its "
                f"largest numbers alone; {HIGHEST} is the most."
            )

    @property
    def name(self) -> str:
        """As the formula has it."""
        return self.part_of or ":".join(factor.name for factor in self.factors)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Term:
        factors = [Factor(**{**one, "state": tuple(one["state"])}) for one in content["factors"]]
        if not 1 <= len(factors) <= MOST_FACTORS:
            raise InputError(f"A term has 1 to {MOST_FACTORS} factors, and one has {len(factors)}.")
        return Term(tuple(factors), tuple(map(bool, content["full"])), str(content["part_of"]))


def products(blocks: Sequence[tuple[tuple[str, ...], Array]]) -> tuple[tuple[str, ...], Array]:
    """All products of a column of each block, the last block fastest."""
    names = tuple(":".join(parts) for parts in product(*(own for own, _ in blocks)))
    columns = blocks[0][1]
    for _, more in blocks[1:]:
        columns = (columns[:, :, None] * more[:, None, :]).reshape(len(columns), -1)
    return names, columns


# -- which levels need a column ---------------------------------------------------------------------------


def coded(terms: Sequence[Term], categorical: AnyArray | Sequence[str]) -> tuple[Term, ...]:
    """Terms with the coding of their levels: the reference level is left out wherever the columns of earlier terms and
    the intercept have its part already (the rule of R and patsy), so that no column follows from the others."""
    levels = set(categorical)
    used: set[tuple[frozenset[str], frozenset[str]]] = {(frozenset(), frozenset())}
    found = []
    for term in sorted(terms, key=lambda one: len(one.factors)):
        names = [one.column for one in term.factors if one.column in levels and not one.function]
        rest = frozenset(one.name for one in term.factors if one.column not in levels or one.function)
        for full in codings(names, rest, used):
            found.append(Term(kept(term, levels, full), fullness(term, levels, full), term.name))
        used |= {(rest, subset) for subset in subsets(names)}
    return tuple(found)


def subsets(names: Sequence[str]) -> list[frozenset[str]]:
    return [
        frozenset(name for name, taken in zip(names, choice) if taken)
        for choice in sorted(product([False, True], repeat=len(names)), key=sum)
    ]


def codings(
    names: Sequence[str], rest: frozenset[str], used: set[tuple[frozenset[str], frozenset[str]]]
) -> list[dict[str, bool]]:
    """Parts of a term that are new, each {factor: whether all of its levels count}; neighbours are joined."""
    parts = [dict.fromkeys(subset, False) for subset in subsets(names) if (rest, subset) not in used]
    joined = True
    while joined:
        joined = False
        for short in parts:
            for long in parts:
                more = set(long) - set(short)
                if len(more) == 1 and all(long.get(name) == value for name, value in short.items()):
                    if long[next(iter(more))]:
                        continue
                    parts = [one for one in parts if one is not short and one is not long]
                    parts.append({**long, next(iter(more)): True})
                    joined = True
                    break
            if joined:
                break
    return parts


def kept(term: Term, levels: set[str], full: Mapping[str, bool]) -> tuple[Factor, ...]:
    return tuple(one for one in term.factors if one.column not in levels or one.function or one.column in full)


def fullness(term: Term, levels: set[str], full: Mapping[str, bool]) -> tuple[bool, ...]:
    return tuple(bool(full.get(one.column)) and not one.function for one in kept(term, levels, full))
