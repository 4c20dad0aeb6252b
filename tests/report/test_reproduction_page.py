"""The page of a reproduction: claims and figure first, panels by their titles, and what was given is called so."""

import base64
import json

import numpy as np
import pytest
from folders import EVIL, curve, write_comparison
from reader import Reader, without_library

from dualfl.experiments.cells import COLUMNS, Cell, Outcome
from dualfl.experiments.claims import Verdict
from dualfl.experiments.figure1 import Panel
from dualfl.report.reproduction_page import FIGURE1, SEED, Part, Picture, panel_part, seed_note, write_report
from dualfl.report.results import read, read_all

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><style>*{stroke: red}</style></svg>'
VERDICTS = [
    Verdict("digits (a)", "DualFL is below the others", 0.7, False, "Lower in 7 of 10 comparisons."),
    Verdict("digits (c)", f"The rate is robust to {EVIL}", 0.9, True, "At worst 0.9 times the best rate."),
    Verdict("digits (c)", "There is a rate", np.nan, None, "No curve has a round."),
]


def outcome(algorithm="dualfl", seed=0, **given):
    columns = {name: np.arange(4.0) for name in COLUMNS} | {"relative_error": 0.5 ** np.arange(4.0)}
    return Outcome(Cell("digits", algorithm, given, seed=seed), "ok", columns)


def written(folder, parts, picture=FIGURE1, **more):
    (folder / picture.file).write_bytes(SVG)
    return write_report(folder, parts, "dualfl reproduce figure1", "Figure 1", picture, **more).read_text()


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    parts = [
        Part("z", "digits (a)", {"dualfl": outcome(rho=0.1), "fedpd": outcome("fedpd")}, "Benchmarks", "Only seed 0."),
        Part("a/b", "digits (c)", {"rho = 0": outcome(rho=0.0), "rho = 1": outcome(rho=1.0)}, "Momentum"),
        Part("none", "digits (b)", {}, "Nothing applied"),
    ]
    folder = tmp_path_factory.mktemp("reproduction")
    return Reader(without_library(written(folder, parts, verdicts=VERDICTS, notes=[f"Quick: {EVIL}"])))


def test_claims_come_first_with_their_verdicts(reader):
    assert [attributes["id"] for tag, attributes in reader.tags if tag == "section"][:3] == [
        "claims",
        "figure",
        "convergence",
    ]
    assert reader.rows[:4] == [["panel", "claim", "verdict", "measured"]] + [
        [v.panel, v.claim, word, v.sentence]
        for v, word in zip(VERDICTS, ("does not hold", "holds", "cannot be told"), strict=True)
    ]
    assert "1 of 3 hold" in reader.text


def test_the_figure_is_in_the_page_and_keeps_its_styles_to_itself(reader):
    (image,) = (attributes for tag, attributes in reader.tags if tag == "img")
    kind, _, content = image["src"].partition(",")
    assert kind == "data:image/svg+xml;base64" and base64.b64decode(content) == SVG
    assert "Figure 1" in image["alt"] and f"Quick: {EVIL}" in reader.text
    assert [tag for tag, _ in reader.tags].count("style") == 1  # the page's own


def test_panels_have_their_letters_and_titles_in_the_order_of_the_figure(reader):
    assert "digits (a): Benchmarks" in reader.text and "digits (c): Momentum" in reader.text
    assert reader.text.index("digits (a): Benchmarks") < reader.text.index("digits (c): Momentum")
    assert "dualfl · digits (a)" in [row[0] for row in reader.rows]
    assert "Nothing applied" not in reader.text
    assert "digits (a): Only seed 0." in reader.text


def test_what_was_given_is_not_said_to_be_theorys(reader):
    assert ["dualfl · digits (a)", "rho = 0.1 (given)"] in reader.rows and ["fedpd · digits (a)", ""] in reader.rows
    assert "nu / L" not in reader.text and "What is not listed has its default" in reader.text


def test_a_row_that_stands_alone_has_its_name(tmp_path):
    part = Part("svm", "SVM, one label", {"dualfl": outcome()}, note=SEED)
    text = Reader(without_library(written(tmp_path, [part], Picture("Exchanges", "exchanges.svg")))).text
    assert "SVM, one labeldualfl" in text and SEED in text and "The paper's claims" not in text


def test_the_page_is_of_this_run_only(tmp_path):
    written(tmp_path, [Part("one", "digits (a)", {"dualfl": outcome()})])
    assert "fedpd" in (page := without_library(written(tmp_path, [Part("two", "digits (b)", {"fedpd": outcome()})])))
    assert "digits (a)" not in page


def test_of_several_seeds_the_first_is_shown_and_the_page_says_so():
    lines = {"dualfl": [outcome().cell], "scaffnew": [outcome("scaffnew", seed).cell for seed in range(5)]}
    store = {cell: Outcome(cell, "ok", outcome().columns) for cells in lines.values() for cell in cells}
    part = panel_part(Panel("digits", "paper", "a'", "raw pixels", ()), lines, store)
    assert (part.name, part.label, part.title) == ("digits-paper", "digits (a')", "raw pixels")
    assert part.outcomes["scaffnew"].cell.seed == 0
    assert part.note == "scaffnew is random: shown is seed 0, one of 5 that were run."
    assert seed_note({"scaffnew": lines["scaffnew"][:1]}) == "scaffnew is random: it was run with seed 0 only."
    assert seed_note({"dualfl": lines["dualfl"]}) == ""


def test_labels_of_the_records_are_taken_only_if_they_tell_apart(tmp_path):
    for name in ("one", "two"):
        write_comparison(tmp_path / name, {"dualfl": curve()})
        path = tmp_path / name / "comparison.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "label": "digits (a)"}))
    assert [one.label for one in read_all([tmp_path])] == ["one", "two"]
    assert [one.label for one in read_all([tmp_path / "one"])] == ["digits (a)"]
    assert read(tmp_path / "one").label == "one"
