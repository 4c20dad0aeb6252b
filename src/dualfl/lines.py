"""Text for a terminal: a few lines with labels, 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

WIDTH, LABEL = 80, 13


def entry(label: str, text: str, indent: str = "") -> str:
    """A label and its text, wrapped beside it.

    >>> print(entry("rounds", "50; that was the limit"))
    rounds       50; that was the limit
    """
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"{indent}{label:<{LABEL}}",
        subsequent_indent=indent + " " * LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )


def titled(title: str, entries: Iterable[tuple[str, str]]) -> str:
    """A title and, below it, what there is to say; an entry without text is left out."""
    return "\n".join([title, *(entry(label, text, "  ") for label, text in entries if text)])


def span(values: Iterable[float], form: str = ",") -> str:
    """The smallest and the largest, or the one value that all have.

    >>> span([3, 1, 2]), span([1000, 1000])
    ('1 to 3', '1,000')
    """
    least, most = min(values := list(values)), max(values)
    return f"{least:{form}}" if least == most else f"{least:{form}} to {most:{form}}"


def plain_text(text: str, longest: int = 4000) -> str:
    """Text that came from elsewhere, as it may be shown: no control characters, which a terminal would obey.

    >>> plain_text("all\x1b[2J is\\nwell" + chr(0x202e))
    'all?[2J is\\nwell?'
    """
    shown = "".join(c if c == "\n" or c.isprintable() else "?" for c in text[:longest])
    return shown if len(text) <= longest else shown + " ..."
