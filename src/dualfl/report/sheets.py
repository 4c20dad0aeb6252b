"""A table as people paste it: into a terminal, Markdown, LaTeX, a page or a spreadsheet."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dualfl.errors import InputError
from dualfl.lines import WIDTH
from dualfl.names import nearest
from dualfl.report.markup import Markup, element, join

LABEL = 34  # characters of the first column in a terminal, at most
SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet would compute


@dataclass(frozen=True)
class Line:
    """A row of a table; one with a depth belongs to the line above it that has none, and one without cells is a
    heading."""

    label: str
    cells: tuple[str, ...] = ()
    depth: int = 0


@dataclass(frozen=True)
class Sheet:
    """A caption, the names of the columns (of the first, too), lines, and sentences below."""

    caption: str
    head: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


# -- text -------------------------------------------------------------------------------------------------


def as_text(sheet: Sheet) -> str:
    """80 columns wide; where there are too many columns for a line, the table goes on below."""
    from textwrap import fill

    width = min(LABEL, max(len(label) for label in (sheet.head[0], *map(_indented, sheet.lines))))
    columns = list(range(len(sheet.head) - 1))
    rows = [sheet.head[1:], *(padded(sheet, one) for one in sheet.lines)]
    widths = [max(len(row[i]) for row in rows) for i in columns]
    blocks: list[list[int]] = []
    room = 0
    for i in columns:
        if not blocks or room + 2 + widths[i] > WIDTH:
            blocks.append([i])
            room = width + 2 + widths[i]
        else:
            blocks[-1].append(i)
            room += 2 + widths[i]
    parts = [_block(sheet, block, width, widths) for block in blocks]
    return "\n\n".join([fill(sheet.caption, WIDTH), *parts, *(fill(note, WIDTH) for note in sheet.notes)])


def _block(sheet: Sheet, block: Sequence[int], width: int, widths: Sequence[int]) -> str:
    def row(label: str, cells: Sequence[str]) -> str:
        return "  ".join([_cut(label, width).ljust(width), *(cells[i].rjust(widths[i]) for i in block)]).rstrip()

    lines = [row(sheet.head[0], sheet.head[1:])]
    lines.append("-" * min(WIDTH, width + sum(2 + widths[i] for i in block)))
    return "\n".join([*lines, *(row(_indented(one), padded(sheet, one)) for one in sheet.lines)])


def padded(sheet: Sheet, line: Line) -> tuple[str, ...]:
    return (*line.cells, *[""] * (len(sheet.head) - 1 - len(line.cells)))


def _indented(line: Line) -> str:
    return "  " * line.depth + line.label


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


# -- markup -----------------------------------------------------------------------------------------------


def as_markdown(sheet: Sheet) -> str:
    """A table of GitHub's and Pandoc's; levels are moved in by blanks that do not break."""
    head = [*map(_markdown, sheet.head)]
    rows = [
        ["&nbsp;&nbsp;" * one.depth + _markdown(one.label), *map(_markdown, padded(sheet, one))] for one in sheet.lines
    ]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---", *["---:"] * (len(head) - 1)], *rows)]
    notes = [_markdown(note) for note in sheet.notes]
    return "\n\n".join([f"**{_markdown(sheet.caption)}**", "\n".join(lines), *notes])


def _markdown(text: str) -> str:
    """Signs that Markdown or HTML would take for its own are kept as they are."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", safe)


def as_latex(sheet: Sheet) -> str:
    """A float with the rules of the package booktabs."""
    quad = r"\quad "
    rows = [
        rf"{quad * one.depth}{_latex(one.label)} & {' & '.join(map(_latex, padded(sheet, one)))} \\"
        for one in sheet.lines
    ]
    body = [
        r"% in the preamble: \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering\footnotesize\setlength{\tabcolsep}{4pt}",
        rf"  \caption{{{_latex(sheet.caption)}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(sheet.head) - 1)}}}",
        r"    \toprule",
        rf"    {' & '.join(map(_latex, sheet.head))} \\",
        r"    \midrule",
        *(f"    {row}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip {_latex(note)}" for note in sheet.notes),
        r"\end{table}",
    ]
    return "\n".join(body)


def _latex(text: str) -> str:
    return "".join(SIGNS.get(sign, sign) for sign in text)


STYLE = Markup(
    "<style>table.sheet{border-collapse:collapse;font-family:serif;border-top:2px solid;border-bottom:2px solid}"
    "table.sheet caption{text-align:left;padding:.4em 0}table.sheet thead th{border-bottom:1px solid}"
    "table.sheet th,table.sheet td{padding:.15em .8em;text-align:right;font-weight:normal;white-space:nowrap}"
    "table.sheet th:first-child{text-align:left}table.sheet th.level{padding-left:2em}"
    "p.sheet{font-family:serif;font-size:smaller}</style>"
)


def as_html(sheet: Sheet) -> str:
    """A piece of a page, with its few rules of style."""
    head = element("tr", *(element("th", cell, scope="col") for cell in sheet.head))
    rows = [
        element(
            "tr",
            element("th", one.label, scope="row", class_="level" if one.depth else None),
            *(element("td", cell) for cell in padded(sheet, one)),
        )
        for one in sheet.lines
    ]
    table = element(
        "table", element("caption", sheet.caption), element("thead", head), element("tbody", *rows), class_="sheet"
    )
    notes = [element("p", note, class_="sheet") for note in sheet.notes]
    return str(join([STYLE, table, *notes], "\n"))


def as_csv(sheet: Sheet) -> str:
    """Cells as they are shown; a spreadsheet computes none of them. Levels repeat the name of their column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([harmless(cell) for cell in (*sheet.head[:1], "", *sheet.head[1:])])
    above = ""
    for one in sheet.lines:
        above = above if one.depth else one.label
        names = (above, one.label if one.depth else "")
        if one.cells:
            writer.writerow([harmless(cell) for cell in (*names, *padded(sheet, one))])
    return text.getvalue().rstrip("\n")


def harmless(text: str) -> str:
    """A text as a spreadsheet may open it: what looks like a formula gets an apostrophe in front. Numbers stay."""
    if not text.startswith(FORMULA) or text == "-":
        return text
    try:
        return text if math.isfinite(float(text)) and text.isascii() else f"'{text}"
    except ValueError:
        return f"'{text}"


FORMATS: dict[str, Callable[[Sheet], str]] = {
    "text": as_text,
    "md": as_markdown,
    "tex": as_latex,
    "html": as_html,
    "csv": as_csv,
}


def rendered(sheet: Sheet, form: str) -> str:
    if form not in FORMATS:
        raise InputError(nearest("format", form, FORMATS))
    return FORMATS[form](sheet)
