"""HTML from Python values: whatever comes from data is escaped here, and nowhere else."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any


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


def radios(name: str, label: str, choices: dict[str, str]) -> Markup:
    buttons = [
        element(
            "label",
            Markup(f'<input type="radio" name="{name}" value="{key}"{" checked" if number == 0 else ""}>'),
            element("span", word),
        )
        for number, (key, word) in enumerate(choices.items())
    ]
    return element("fieldset", element("legend", label), *buttons, class_="switch")


def short(value: Any) -> str:
    """A value for a person: four digits of a number, no more."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e7):
        return f"{int(value):,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {short(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(short, value))
    return str(value)


def folded(summary: str, content: Markup, **attributes: object) -> Markup:
    return element("details", element("summary", summary), content, **attributes)


def cards(facts: Iterable[tuple[str, Any, str]]) -> Markup:
    """Names, values and notes in large type; what has no value is left out."""
    shown = [
        element("div", element("dt", name), element("dd", short(value)), element("dd", note, class_="note"))
        for name, value, note in facts
        if value is not None
    ]
    return element("dl", *shown, class_="cards")
