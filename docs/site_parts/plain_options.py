"""The page of commands shows options as `--help` does, and leaves out what it would say of every argument."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx


def whole_brackets(app: Sphinx, ctx: Any, lines: list[str]) -> None:
    """sphinx-click cuts the bracket off that `[COLUMN=]VALUE` begins with."""
    lines[:] = [re.sub(r"<([^<>\[]*\][^<>]*)>", r"<[\1>", line) for line in lines]


def no_arguments(app: Sphinx, ctx: Any, lines: list[str]) -> None:
    """What is optional stands in brackets in the line of usage already."""
    lines.clear()


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("sphinx-click-process-options", whole_brackets)
    app.connect("sphinx-click-process-arguments", no_arguments)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
