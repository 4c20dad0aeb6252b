"""`dualfl describe` as it is typed."""

import pytest
from click.testing import CliRunner

from dualfl.cli import main

HOSPITALS = [f"examples/hospitals/{name}.csv" for name in ("north", "river", "hill")]


def run(*given):
    return CliRunner().invoke(main, ["describe", *map(str, given)])


def test_the_table_of_three_hospitals():
    done = run(*HOSPITALS)
    assert done.exit_code == 0
    assert "Characteristics of 460 rows of 3 silos by silo" in done.output
    assert max(map(len, done.output.split("\n"))) <= 80
    assert "63.9 (12.4)" in done.output and "63.5 (57.0, 72.0)" in done.output


@pytest.mark.parametrize("form", ["md", "tex", "html", "csv"])
def test_every_format_goes_into_a_file(tmp_path, form):
    out = tmp_path / f"table.{form}"
    done = run(*HOSPITALS, "--by", "readmitted", "--cross", "smoker,ward", "--format", form, "--out", out)
    assert done.exit_code == 0 and "456 rows" in done.output
    text = out.read_text()
    assert "0.92 (0.95)" in text and "215" in text
    assert run(*HOSPITALS, "--out", out).exit_code == 2  # not replaced
    assert out.read_text() == text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "neither was given"),
        ([*HOSPITALS, "--study", "x"], "both were given"),
        ([*HOSPITALS, "--by", "age"], "--by takes a column of levels, and 'age' is numbers"),
        ([*HOSPITALS, "--cross", "smoker"], "--cross takes two columns"),
        ([*HOSPITALS, "--drop", "q"], "There is no column 'q'"),
        (["--study", "x", "--na", "9"], "--na says how a file is read"),
    ],
)
def test_what_is_wrong_is_one_sentence(given, sentence):
    done = run(*given)
    assert done.exit_code == 2 and sentence in done.stderr and "Traceback" not in done.stderr


def test_dates_constants_and_gaps_are_described_as_what_they_are(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"2020-01-{i % 28 + 1:02d}T{i % 24:02d}:00,5,,{'u' if i % 2 else 'v'}" for i in range(80)]
    path.write_text("\n".join(["when,same,empty,kind", *rows]) + "\n")
    done = run(path)
    assert done.exit_code == 0
    assert "when, dates" in done.output and "empty, no entry" in done.output and "5 (0)" in done.output
    assert run(path, "--dates", "as-days-since:2020-01-01").output.count("when, mean (SD)") == 1


def test_a_column_of_one_number_shows_it_and_groups_need_not_be_among_the_columns(tmp_path):
    """1.5 was shown as 2, because its spread of 0 gave it no places after the point."""
    for name, age in (("a", 40), ("b", 50)):
        lines = ["dose,arm,age", *(f"1.5,{'new' if i % 2 else 'old'},{age + i}" for i in range(20))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    files = [str(tmp_path / f"{name}.csv") for name in "ab"]
    done = run(*files, "--by", "arm", "--columns", "dose")
    assert done.exit_code == 0, done.output
    assert "1.5 (0.0)" in done.stdout and "age" not in done.stdout and "new" in done.stdout
