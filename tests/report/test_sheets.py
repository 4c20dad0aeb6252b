"""A table in every format: nothing of its texts is taken for markup, LaTeX or a formula."""

import csv
import html.parser
import io

import pytest

from dualfl.errors import InputError
from dualfl.report.sheets import FORMATS, Line, Sheet, rendered

ODD = "a&b_50% <i>#1</i> {x} $y ~ ^2 \\ | * `z` [l]"
SHEET = Sheet(
    "Who & what",
    ("", "one", "two_three"),
    (Line("rows", ("3", "4")), Line(ODD, depth=0), Line("=SUM(A1)", ("< 5", "-1"), 1), Line("@x", ("+y", "-"), 1)),
    ("A note with 50 %.",),
)


def test_text_is_80_columns_wide_however_many_columns_there_are():
    wide = Sheet("c", ("", *(f"silo number {i}" for i in range(12))), (Line("x" * 90, ("1",) * 12),))
    lines = rendered(wide, "text").split("\n")
    assert max(map(len, lines)) <= 80
    assert sum(line.count("silo number") for line in lines) == 12


def test_latex_escapes_and_has_the_same_number_of_cells_everywhere():
    text = rendered(SHEET, "tex")
    body = [line for line in text.split("\n") if line.endswith(r"\\")]
    assert len(body) == 5
    for line in body:
        assert line.replace(r"\&", "").count("&") == 2
    for sign in ("_50", "#1", "$y", "50 %", " %"):
        assert text.replace("\\" + sign.strip(), "").count(sign) == 0 or "\\" + sign in text
    assert r"a\&b\_50\% \textless{}i\textgreater{}\#1" in text and r"\textbackslash{}" in text


def test_html_is_well_formed_and_shows_the_texts():
    class Reader(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.texts, self.tags = [], []

        def handle_starttag(self, tag, attrs):
            self.tags.append(tag)

        def handle_data(self, data):
            self.texts.append(data)

    reader = Reader()
    reader.feed(rendered(SHEET, "html"))
    assert ODD in reader.texts and "Who & what" in reader.texts and "< 5" in reader.texts
    assert "i" not in reader.tags
    assert reader.tags.count("tr") == 5 and reader.tags.count("td") == 8


def test_markdown_keeps_signs_and_cells():
    lines = rendered(SHEET, "md").split("\n")
    table = [line for line in lines if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in table} == {4}
    assert r"a&amp;b\_50%" in table[3] and "&lt;i&gt;" in table[3]


def test_csv_reads_back_and_holds_no_formula():
    rows = list(csv.reader(io.StringIO(rendered(SHEET, "csv"))))
    assert rows[0] == ["", "", "one", "two_three"]
    assert rows[2] == [ODD, "'=SUM(A1)", "< 5", "-1"]
    assert rows[3] == [ODD, "'@x", "'+y", "-"]


def test_an_unknown_format_is_named():
    assert list(FORMATS) == ["text", "md", "tex", "html", "csv"]
    with pytest.raises(InputError, match="There is no format 'docx'"):
        rendered(SHEET, "docx")
