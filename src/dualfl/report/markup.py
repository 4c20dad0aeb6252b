"""HTML from Python values: whatever comes from data is escaped here, and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Markup(str):
    """Text that is HTML already."""


def text(content: object) -> Markup:
    """HTML as it is, anything else escaped."""
    return content if isinstance(content, Markup) else Markup(html.escape(str(content)))


def element(name: str, *content: object, **attributes: object) -> Markup:
    """An element; `class_` is the attribute class, `data_count` is data-count, and what is None is left out.

    >>> element("th", "a < b", scope="row", class_=None)
    '<th scope="row">a &lt; b</th>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(content)}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Markup:
    return Markup(between.join(text(part) for part in parts))


def table(caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], **attributes: object) -> Markup:
    """A table whose first column names its rows, in a box that scrolls by itself on a narrow screen."""
    columns = element("tr", *(element("th", cell, scope="col") for cell in head))
    top = [element("thead", columns)] if head else []
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    whole = element("table", element("caption", caption), *top, element("tbody", *body), **attributes)
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)
