"""Docstrings are plain text for `help`, where |x| is a length, E* a minimum and `name` a name. Sphinx takes the same
signs for its own marks, so they are protected before it reads them."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"(?<![`:\w])(`+)([^`]+)\1(?!_)")
# A sign that would be a mark, and the colon of FILE:COLUMN, which would be an address. Not sphinx-click's own mark.
MARKS = re.compile(r"(?<!\*)\*\*Required\*\*|([|*\\])|_(?=[\s,.;:)\]']|$)|(?<=\bFILE):")

# sphinx-click makes a line block of what click prints as it stands.
AS_IT_STANDS = re.compile(r"\s*\| ?(.*)")


def protected(line: str) -> str:
    """A line of prose, with names as code and every other sign as itself."""
    pieces, at = [], 0
    for found in CODE.finditer(line):
        pieces += [MARKS.sub(escaped, line[at : found.start()]), f"``{found[2]}``"]
        at = found.end()
    return "".join([*pieces, MARKS.sub(escaped, line[at:])])


def escaped(found: re.Match[str]) -> str:
    return found[0] if found[0] == "**Required**" else "\\" + found[0]


def prose(lines: list[str]) -> list[str]:
    """All lines but examples: a prompt opens one, and an empty line ends it. A line after `::` is code as well."""
    done, example, block = [], False, None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if block is not None and line.strip() and indent <= block:
            block = None
        keep = example or block is not None
        if not keep and line.lstrip().startswith("* "):  # an entry of a list stays one
            done.append(line[: indent + 2] + protected(line[indent + 2 :]))
        else:
            done.append(line if keep else protected(line))
        if not keep and line.rstrip().endswith("::"):
            block = indent
    return done


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = prose(lines)


def process_command(app: Sphinx, context: Any, lines: list[str]) -> None:
    """What click says of a command and its options is plain text as well."""
    done: list[str] = []
    for kind, group in groupby(lines, key=kind_of):
        run = list(group)
        if kind == "as it stands":
            run = ["", ".. code-block:: text", "", *("   " + AS_IT_STANDS.sub(r"\1", line) for line in run), ""]
        elif kind == "prose":  # a name may go on in the next line
            run = protected("\n".join(run)).split("\n")
        done += run
    lines[:] = done


def kind_of(line: str) -> str:
    if AS_IT_STANDS.match(line):
        return "as it stands"
    return "a directive" if line.lstrip().startswith((".. ", ":")) else "prose"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process, priority=100)  # before numpydoc
    for part in ("description", "options", "arguments", "epilog"):
        app.connect(f"sphinx-click-process-{part}", process_command)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
