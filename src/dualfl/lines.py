"""Text for a terminal: a few lines with labels, 80 columns wide."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO

WIDTH, LABEL = 80, 13
LEAST = 12  # characters of a text in a table, however little room there is


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


def paragraph(text: str, then: str = "") -> str:
    """Sentences, wrapped, with `then` before all lines but the first; a command in backquotes stays whole, so that it
    can be copied.

    >>> print(paragraph("Compare all fingerprints with the operators, then start by `dualfl deploy serve silo`."))
    Compare all fingerprints with the operators, then start by
    `dualfl deploy serve silo`.
    """

    def whole(command: re.Match[str]) -> str:
        fits = len(then) + len(command[0]) <= WIDTH  # what is longer has to be broken somewhere
        return command[0].replace(" ", "\N{NO-BREAK SPACE}") if fits else command[0]

    kept = re.sub("`[^`]*`[.,;:)]*", whole, text)
    filled = textwrap.fill(kept, WIDTH, subsequent_indent=then, break_long_words=False, break_on_hyphens=False)
    return filled.replace("\N{NO-BREAK SPACE}", " ")


def said_to(stream: IO[str], sentence: str) -> str:
    """Wrapped for somebody who reads it on a terminal; one line for a log."""
    return paragraph(sentence) if stream.isatty() and "\n" not in sentence else sentence


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


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    texts: int = 1,
    last_text: bool = False,
    whole: bool = False,
) -> list[str]:
    """Texts to the left, numbers to the right; the widest texts are cut where a line would be longer than 80.

    With `whole` the first text of a row is not: if there is no room for it, it stands above the others.

    >>> lines = table(["name", "number"], [["x" * 75, "1.5"]], whole=True)
    >>> [len(lines[2]), lines[3].strip()]
    [75, '1.5']
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    left = {*range(texts), *([len(head) - 1] if last_text else [])}
    for _ in range(sum(widths) + 2 * (len(widths) - 1) - WIDTH):
        widest = max(left, key=lambda i: widths[i])
        widths[widest] -= widths[widest] > LEAST

    def line(row: Sequence[str]) -> str:
        cells = [
            short(cell, w).ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))
        ]
        return "  ".join(cells).rstrip()

    def lines(row: Sequence[str]) -> list[str]:
        above = whole and len(row[0]) > widths[0]
        return [short(row[0], WIDTH), line(["", *row[1:]])] if above else [line(row)]

    rule = "-" * min(WIDTH, sum(widths) + 2 * (len(widths) - 1))
    return [line(head), rule, *(one for row in rows for one in lines(row))]


def short(text: str, width: int) -> str:
    """The text, its middle left out if it is too long: the end of a path tells more than its beginning."""
    if len(text) <= width:
        return text
    kept = width - 3
    return f"{text[: kept // 3]}...{text[len(text) - (kept - kept // 3) :]}"


def p_value(p: float) -> str:
    return "<1e-4" if p < 1e-4 else f"{p:.4f}"


def number(value: float) -> str:
    """Four digits, or two and a power of ten, which take as much room.

    >>> number(0.123456), number(0.0000123456)
    ('0.1235', '1.2e-05')
    """
    text = f"{value:.4g}"
    return f"{value:.2g}" if "e" in text else text
