"""The pages of the reference: one a module, and one for every name that a module exports.

They are written anew whenever the site is built, so a name that is exported has a page and nothing else has one.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from dualfl.algorithms.registry import ALGORITHMS
from site_parts.names import MODULES, exported, methods, public

FOLDER = Path(__file__).parents[1] / "reference" / "api"
FORMULAS = re.compile(r"((?:^ {4}.*(?:\n|\Z)|^\n(?= {4}))+)", re.MULTILINE)  # lines that are indented
SIGNS = re.compile(r"`([^`]+)`|(?!^\* )([*`|_])", re.MULTILINE)  # names in backticks, and what would be markup
WIDE = ":html_theme.sidebar_secondary.remove: true\n\n"  # no contents beside a short page with long lines


def page(name: str, thing: Any) -> str:
    """The page of one name."""
    module, _, leaf = name.rpartition(".")
    title = f"{WIDE}{leaf}\n{'=' * len(leaf)}\n\n.. currentmodule:: {module}\n\n"
    if inspect.isclass(thing):
        shown = "".join(f"   .. automethod:: {method}\n" for method in methods(thing) if not is_property(thing, method))
        shown += "".join(f"   .. autoproperty:: {each}\n" for each in methods(thing) if is_property(thing, each))
        return f"{title}{origin(thing)}.. autoclass:: {leaf}\n\n{shown}{update(thing)}"
    if callable(thing):
        return f"{title}.. autofunction:: {leaf}\n"
    return f"{title}.. autodata:: {leaf}\n   :no-value:\n"


def is_algorithm(thing: type) -> bool:
    return ALGORITHMS.own.get(getattr(thing, "name", "")) is thing


def update(thing: type) -> str:
    """How an algorithm of the library works, in the symbols of its paper: what its file begins with."""
    told = inspect.getdoc(sys.modules[thing.__module__]) if is_algorithm(thing) else None
    if not told:
        return ""
    parts = ["\n.. rubric:: How it works\n"]
    for number, part in enumerate(FORMULAS.split(told)):  # words and formulas in turn
        words = SIGNS.sub(lambda found: f"``{found[1]}``" if found[1] else "\\" + found[2], part)
        parts.append(f".. code-block:: text\n\n{part.rstrip()}\n" if number % 2 else words)
    return "\n".join(parts) + "\n"


def origin(thing: type) -> str:
    """Of an algorithm of the library: its name for commands, and its paper."""
    if not is_algorithm(thing):
        return ""
    card = thing.card  # type: ignore[attr-defined]
    paper = f", `{card.paper.rpartition('/papers/')[2]} <{card.link}>`__" if card.link else ""
    return f"*{card.reference}, {card.year}*{paper}. Its name in commands is ``{thing.name}``.\n\n"  # type: ignore[attr-defined]


def is_property(thing: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(thing, name), property)


def contents(module: str, known: dict[str, Any]) -> str:
    """The page of a module: what it is for, and its names with a line each."""
    names = [f"{module}.{name}" for name in exported(module)]
    own = [name for name in names if name in known]
    by_id = {id(thing): name for name, thing in known.items()}
    elsewhere = [by_id[id(thing)] for name, thing in exported(module).items() if f"{module}.{name}" not in known]
    lines = [module, "=" * len(module), "", f".. automodule:: {module}", "   :no-members:", ""]
    lines += [f".. currentmodule:: {module}", ""]
    if own:
        leaves = [name.removeprefix(module + ".") for name in sorted_names(own)]
        lines += [".. autosummary::", "   :nosignatures:", "", *(f"   {leaf}" for leaf in leaves), ""]
        lines += [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in sorted_names(own)), ""]
    if elsewhere:
        lines += [f"``{module}`` also exports:", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in sorted_names(elsewhere)]
    return "\n".join(lines) + "\n"


def sorted_names(names: list[str]) -> list[str]:
    return sorted(names, key=str.lower)


def write(path: Path, text: str) -> None:
    """Only where it changed, so that Sphinx reads again what is new."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_pages(app: Sphinx) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    known = public()
    wanted = {f"{name}.rst": page(name, thing) for name, thing in known.items()}
    wanted |= {f"{module}.names.rst": contents(module, known) for module in MODULES}
    for old in FOLDER.glob("*.rst"):
        if old.name not in wanted:
            old.unlink()
    for file, text in wanted.items():
        write(FOLDER / file, text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_pages, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
