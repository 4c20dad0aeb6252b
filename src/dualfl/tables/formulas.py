"""Formulas as R writes them, "died ~ age + bs(bmi, 4) + sex:ward", taken apart and never run.

The library formulaic knows the signs (+ : * ** - and brackets). What stands between them is read here as a tree, and is
a column or one of the functions of `terms`; everything else is refused by name.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from dualfl.errors import InputError
from dualfl.tables.terms import COUNTS, FUNCTIONS, MOST_FACTORS, Factor, Term

NUMPY = re.compile(r"\b(np|numpy)\.(?=\w+\()")  # as statsmodels' formulas call functions
LOG1P = re.compile(r"\blog\(\s*(?:1\s*\+\s*([^\W\d]\w*)|([^\W\d]\w*)\s*\+\s*1)\s*\)")  # log(x + 1)
OPTIONS = {  # what is part of a formula elsewhere, and an option here
    "offset": "--offset COLUMN",
    "strata": "--strata COLUMN",
    "cluster": "--errors cluster:COLUMN",
    "Surv": "--time COLUMN --event COLUMN, and a formula that begins with ~",
}
QUOTED = re.compile(r"`([^`]*)`")
NEEDED = "--formula needs the library formulaic; install it with: pip install 'dualfl[formula]'"
ALLOWED = f"a column, I(x ** 2), or one of {', '.join(FUNCTIONS)} of a column"


@dataclass(frozen=True)
class Formula:
    """What is predicted, from which terms; and columns that it takes as levels."""

    target: str
    terms: tuple[Term, ...]
    categorical: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(factor.column for term in self.terms for factor in term.factors))


def parse_formula(text: str) -> Formula:
    """The terms of a formula, or the sentence that says which part of it is none."""
    sides = text.split("~")
    if len(sides) != 2:
        raise InputError(f"--formula is TARGET ~ TERMS, such as 'died ~ age + sex:ward', but it is {text!r:.80}.")
    names: list[str] = []  # in quotation marks `...`; formulaic and Python see a plain name

    def plain(found: re.Match[str]) -> str:
        names.append(found.group(1))
        return f"quoted_{len(names) - 1}_"

    target, right = (spelt(QUOTED.sub(plain, side)) for side in sides)
    if (function := target.partition("(")[0].strip()) in OPTIONS:
        raise InputError(f"--formula: {function}() is not part of a formula here; give {OPTIONS[function]}.")
    categorical: list[str] = []
    terms = [
        Term(tuple(factor(part, names, categorical) for part in parts))
        for parts in parsed(right, text)
        if parts != ("1",)
    ]
    if not terms:
        raise InputError(f"--formula {text!r:.80} has no term on its right side; name a column at least.")
    for term in terms:
        if len(term.factors) > MOST_FACTORS:
            raise InputError(f"--formula: {term.name} is a product of more than {MOST_FACTORS} factors; take fewer.")
    return Formula(column(target, names) if target else "", tuple(terms), tuple(dict.fromkeys(categorical)))


def spelt(side: str) -> str:
    """With the names that functions have here.

    >>> spelt("np.log(x + 1) + numpy.sqrt(z)")
    'log1p(x) + sqrt(z)'
    """
    return LOG1P.sub(r"log1p(\1\2)", NUMPY.sub("", side)).strip()


def parsed(right: str, whole: str) -> list[tuple[str, ...]]:
    """The terms, each the texts of its factors."""
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError as error:
        raise InputError(f"{NEEDED}.") from error
    if "|" in right:
        raise InputError(
            f"--formula {whole!r:.80}: there is no sign |; effects of silos are --site-effect random, or fixed."
        )
    if "." in re.sub(r"\d+\.\d*|\.\d+", "", right) or "{" in right or "%" in right:
        raise InputError(f"--formula {whole!r:.80}: the signs + : * ** - and brackets are known; name all columns.")
    try:
        found: Any = DefaultFormulaParser().get_terms(right)
        terms = [tuple(one.expr for one in term.factors) for term in found]
    except Exception as error:  # of the library, or of Python's own parser
        said = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error)).strip().split("\n")[0]
        raise InputError(f"--formula {whole!r:.80} cannot be read ({said:.100}).") from error
    if ("1",) not in terms:
        raise InputError(f"--formula {whole!r:.80}: every model has an intercept; leave out '- 1' and '0 +'.")
    return terms


def factor(text: str, names: list[str], categorical: list[str]) -> Factor:
    """A column, or a function of one."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise InputError(f"--formula: {shown(text, names)!r:.60} cannot be read; take {ALLOWED}.") from error
    match tree:
        case ast.Name():
            return Factor(column(tree.id, names))
        case ast.Call(func=ast.Name(id="I"), args=[ast.BinOp(ast.Name(id=name), ast.Pow(), ast.Constant(value=power))]):
            return Factor(column(name, names), "pow", power if isinstance(power, int) else -1)
        case ast.Call(func=ast.Name(id="C" | "factor"), args=[ast.Name(id=name)], keywords=[]):
            categorical.append(column(name, names))
            return Factor(column(name, names))
        case ast.Call(func=ast.Name(id=function), args=[ast.Name(id=name), *more], keywords=keywords):
            if function in FUNCTIONS:
                return Factor(column(name, names), function, count(text, function, more, keywords, names))
            if function in OPTIONS:
                raise InputError(f"--formula: {function}() is not part of a formula here; give {OPTIONS[function]}.")
            if function in ("C", "factor"):
                raise InputError(f"--formula: {function}() takes one column; its most frequent level is the reference.")
            raise InputError(f"--formula: {function!r} is not among the functions that are allowed; take {ALLOWED}.")
    raise InputError(f"--formula: {shown(text, names)!r:.60} is not allowed; take {ALLOWED}.")


def count(text: str, function: str, more: list[ast.expr], keywords: list[ast.keyword], names: list[str]) -> int:
    """The whole number that a function takes, `df=4` or 4."""
    given = [*more, *(one.value for one in keywords if one.arg in ("df", "degree"))]
    strange = [one.arg for one in keywords if one.arg not in ("df", "degree")]
    values = [one.value for one in given if isinstance(one, ast.Constant)]
    if strange or len(values) != len(given) or len(given) != (function in COUNTS):
        right = f"{function}(x, 4)" if function in COUNTS else f"{function}(x)"
        raise InputError(f"--formula: {shown(text, names)!r:.60} is not allowed; it is written {right}.")
    value: Any = values[0] if values else 0
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def column(name: str, names: list[str]) -> str:
    found = re.fullmatch(r"quoted_(\d+)_", name)
    if found and int(found.group(1)) < len(names):
        return names[int(found.group(1))]
    if not name.isidentifier():
        raise InputError(f"--formula: {name!r:.60} is no column; put names with other signs in `...`.")
    return name


def shown(text: str, names: list[str]) -> str:
    for i, name in enumerate(names):
        text = text.replace(f"quoted_{i}_", f"`{name}`")
    return text
