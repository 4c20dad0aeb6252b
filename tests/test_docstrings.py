"""Whoever asks `help` of a public name is told what it takes, what it returns, and how it is used. Doctests run the
examples; here it is only seen that they are there. The names are those of the site's reference."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import dualfl

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
from site_parts.names import MODULES, exported, methods, public

NAMES = {name: thing for name, thing in public().items() if callable(thing)}
SECTION = r"^{}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)"


def section(doc, title):
    found = re.search(SECTION.format(title), doc, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def described(doc):
    """The names of all parameters and attributes that it describes, each with a type and a sentence."""
    lines = (section(doc, "Parameters") + section(doc, "Attributes")).splitlines()
    names = set()
    for line, after in zip(lines, [*lines[1:], ""]):
        if " : " in line and not line.startswith(" ") and after.startswith("    "):
            names |= {name.strip(" *") for name in line.split(" : ")[0].split(",")}
    return names


def taken(thing):
    """What a caller may give. Results, errors and contracts are not made by callers."""
    if inspect.isabstract(thing) or getattr(thing, "_is_protocol", False):
        return set()
    if inspect.isclass(thing) and (issubclass(thing, BaseException) or thing is dualfl.Result):
        return set()
    return {name for name in inspect.signature(thing).parameters if not name.startswith("_")}


@pytest.mark.parametrize("name", list(NAMES))
def test_a_public_name_is_described(name):
    thing = NAMES[name]
    doc = inspect.cleandoc(thing.__doc__ or "")
    assert doc, "it has no docstring of its own"
    assert "ForwardRef" not in doc, "a type is written as Python's machinery writes it"
    assert taken(thing) <= described(doc), f"not described: {sorted(taken(thing) - described(doc))}"
    assert ">>> " in section(doc, "Examples"), "it has no example"
    if inspect.isfunction(thing) and thing.__annotations__.get("return") not in ("None", None):
        assert section(doc, "Returns"), "it does not say what it returns"


def all_docs():
    """Of every public name and of every method that the site shows."""
    for name, thing in NAMES.items():
        yield name, inspect.cleandoc(thing.__doc__ or "")
        for method in methods(thing) if inspect.isclass(thing) else []:
            yield f"{name}.{method}", inspect.getdoc(getattr(thing, method))


def entries_in_one_line(doc):
    """Entries such as `name : what it is`: the site would set the words in the place of the type."""
    lines = doc.splitlines()
    return [
        line
        for line, after in zip(lines, [*lines[1:], ""])
        if re.match(r"[A-Za-z_][\w, ]* : ", line) and not after.startswith("    ")
    ]


def test_an_entry_has_its_type_and_below_it_a_sentence():
    assert {name: found for name, doc in all_docs() if (found := entries_in_one_line(doc))} == {}
    assert entries_in_one_line("x : int\n    A number.\ny : another one.") == ["y : another one."]


def test_the_names_are_those_that_are_exported():
    assert len(NAMES) > 180 and "dualfl.DualFL" in NAMES and "dualfl.estimators.Ridge" in NAMES
    for module in MODULES:
        assert all(any(thing is other for other in public().values()) for thing in exported(module).values()), module


def test_help_answers_a_stranger():
    doc = inspect.cleandoc(dualfl.DualFL.__doc__)
    for word in ("arXiv:2305.10294", "certificate", "strongly convex", "nu : float", "rho : float", ">>> result ="):
        assert word in doc
