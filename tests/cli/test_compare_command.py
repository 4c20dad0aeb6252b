"""`dualfl compare`: its files, its page, and the command that makes it again."""

import csv
import json
import shlex

import pytest
from click.testing import CliRunner

from dualfl.cli import main

SMALL = ["compare", "--dataset", "iris", "--clients", "3", "--rounds", "4", "--algorithms", "dualfl,gd"]
FILES = ["comparison.json", "convergence.png", "history.csv", "partition.json", "report.html", "summary.csv"]


def dualfl(*words):
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def summary(folder):
    """What came of it, without the clock."""
    with open(folder / "summary.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def test_files_page_and_command(tmp_path):
    out = tmp_path / "a"
    said = dualfl(*SMALL, "--partition", "labels:1", "--out", out).stdout
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert said.splitlines()[-1] == f"page for the browser: {out / 'report.html'}"
    assert "<h1>2 algorithms on iris</h1>" in (out / "report.html").read_text()
    assert json.loads((out / "partition.json").read_text())["heterogeneity"] == pytest.approx(1.0)

    record = json.loads((out / "comparison.json").read_text())
    words = shlex.split(record["command"])
    assert words[:2] == ["dualfl", "compare"]
    words[words.index("--out") + 1] = str(tmp_path / "again")
    dualfl(*words[1:], "--no-report")
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == [f for f in FILES if f != "report.html"]
    assert summary(out) == summary(tmp_path / "again")
    assert record["settings"]["partition"] == "labels:1" and record["environment"]["dualfl"]


def test_an_old_page_does_not_outlive_its_comparison(tmp_path):
    dualfl(*SMALL, "--out", tmp_path)
    dualfl(*SMALL, "--out", tmp_path, "--force", "--no-report")
    assert not (tmp_path / "report.html").exists()
