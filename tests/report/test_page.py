"""The page as a file: what is in it, what it refuses, and that nothing from data becomes HTML."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from importlib import resources

import numpy as np
import pytest
from click.testing import CliRunner
from contrast import contrast
from folders import (
    EVIL,
    curve,
    write_coefficients,
    write_comparison,
    write_everything,
    write_fit,
    write_partition,
    write_run,
)
from reader import SCRIPT, Reader, without_library

from dualfl.cli import main
from dualfl.colours import COLOURS, DARK
from dualfl.data import Mix
from dualfl.engines.history import History, Row
from dualfl.errors import InputError
from dualfl.report.page import numbers, page, safe_json, thinned, write_page
from dualfl.report.results import labels, partition_file, read, read_partition

ASSETS = resources.files("dualfl.report") / "assets"


def report(*words, code=0):
    done = CliRunner().invoke(main, ["report", *map(str, words)], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = write_everything(tmp_path_factory.mktemp("page"))
    return page([read(folder)])


def test_the_page_is_one_file_that_may_fetch_nothing(everything):
    tags = Reader(without_library(everything)).tags
    assert not [attributes for _, attributes in tags if "src" in attributes]
    links = [attributes["href"] for _, attributes in tags if "href" in attributes]
    assert all(link.startswith("#") or link == "data:," for link in links)
    policy = next(a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    for script in SCRIPT.findall(everything):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def test_nothing_from_data_becomes_html(everything):
    ours = without_library(everything)
    assert EVIL not in ours and "<img" not in ours
    assert [tag for tag, _ in Reader(ours).tags].count("script") == 3
    assert EVIL in Reader(ours).text  # shown as it is


def test_json_cannot_end_its_element():
    text = safe_json({"name": "</script><script>"})
    assert "<" not in text and json.loads(text) == {"name": "</script><script>"}


def test_costs_of_accuracy_are_those_of_the_history(everything):
    rows = Reader(without_library(everything)).rows
    tables = [row for row in rows if row and row[0] == "dualfl" and len(row) == 6]
    # 2 * 0.5^n <= level, with 2 exchanges, 4 contacts, 40 floats, 1 gradient and 0.1 s a round
    rounds = [int(np.ceil(np.log(level / 2) / np.log(0.5))) for level in (1e-2, 1e-4)]
    network = 2 * 0.05 + 20 * 64 / 10e6  # 50 ms a round trip, 10 Mbit/s a client
    for row, cost in zip(tables, (1, 2, 4, 40, network, 1, 0.1), strict=True):
        assert [float(cell) for cell in row[1:3]] == pytest.approx([cost * n for n in rounds], rel=5e-3)
        assert row[3:5] == ["\N{EN DASH}"] * 2
        assert float(row[5]) == pytest.approx(2 * 0.5**20, rel=5e-3)
    assert [row[0] for row in rows if len(row) == 6 and row[0]][:3] == ["dualfl", "lbfgs", EVIL]  # best first


def test_what_did_not_run_says_why(everything):
    text = Reader(without_library(everything)).text
    assert "1 without a result" in text and "gd does not apply: it needs a smooth loss" in text


def test_without_a_minimum_what_is_proven_counts(tmp_path):
    found = read(write_run(tmp_path, curve(error=False)))
    rows = Reader(without_library(page([found]))).rows
    # proven: 20 * 0.5^n of an energy near 1
    assert next(row for row in rows if row and row[0] == "dualfl")[1:3] == ["11", "18"]
    assert any(row[-1].endswith(" proven") for row in rows if row)


def test_hyperparameters_come_with_their_formulas(tmp_path):
    rows = Reader(without_library(page([read(write_run(tmp_path))]))).rows
    assert ["dualfl", "nu = 0.01 (mu)"] in rows  # and gamma, which has no value, is left out


def test_a_formula_is_shown_only_where_theory_chose(tmp_path):
    folder = write_run(tmp_path)
    record = json.loads((folder / "run.json").read_text())
    record["settings"] |= {"algorithm": "dualfl", "hyperparameters": {"rho": 0.5}}
    record["algorithm"] |= {"rho": 0.5}
    assert shown_hyperparameters(folder, record) == "nu = 0.01 (mu) rho = 0.5 (given)"
    record["settings"]["algorithm"] = "auto"  # which may give values of its own
    assert shown_hyperparameters(folder, record) == "nu = 0.01 rho = 0.5 (given)"
    record["by theory"] = ["nu"]
    assert shown_hyperparameters(folder, record) == "nu = 0.01 (mu) rho = 0.5 (given)"
    assert shown_hyperparameters(folder, {"algorithm": record["algorithm"]}) == "nu = 0.01 rho = 0.5"


def shown_hyperparameters(folder, record):
    (folder / "run.json").write_text(json.dumps(record))
    return next(row[1] for row in Reader(without_library(page([read(folder)]))).rows if row[-1].startswith("nu = "))


def test_a_run_tells_what_was_given_and_what_auto_gave(tmp_path):
    words = ["run", "--clients", "2", "--rounds", "1", "--no-report", "--out"]
    for name, more in {"one": ["--set", "nu=0.005"], "two": ["--algorithm", "auto", "--set", "cost=floats"]}.items():
        CliRunner().invoke(main, [*words, str(tmp_path / name), *more], catch_exceptions=False)
    (one,), (two,) = (read(tmp_path / name).curves for name in ("one", "two"))
    assert one.sources == {"nu": "given", "rho": "by theory"}
    assert two.name == "lbfgs" and "metric" in two.hyperparameters and "metric" not in two.sources


def test_of_a_comparison_without_a_record_nobody_knows_what_theory_chose(tmp_path):
    folder = write_comparison(tmp_path, {"dualfl": curve()})
    assert "rho = 0.1 (nu / L)" in Reader(without_library(page([read(folder)]))).text.replace("\xa0", " ")
    (folder / "comparison.json").unlink()
    assert "(nu / L)" not in Reader(without_library(page([read(folder)]))).text


def test_partition_and_coefficients(everything):
    rows = Reader(without_library(everything)).rows
    assert ["a", "5", "0", "7"] in rows and [EVIL, "1", "9", "2"] in rows
    assert ["age", "yes", "1.5", "0.25", "1", "2"] in rows
    assert [EVIL, "no", "0.5", "", "", ""] in rows
    assert "heterogeneity 0.250" in everything


def test_what_would_change_without_a_silo(tmp_path):
    folder = write_everything(tmp_path)
    lines = ["silo,feature,class,change,in_std_errors", "a,age,,0.5,2", "a,bmi,,3,0.1", "a,sex,,0,0", "a,town,,-0.4,-4"]
    (folder / "influence.csv").write_text("\n".join([*lines, f"{EVIL},age,,,"]) + "\n")
    rows = Reader(without_library(page([read(folder)]))).rows
    at = rows.index(["a", "town", "-0.4", "-4"])  # in standard errors, not in size
    assert rows[at + 1 : at + 3] == [["a", "age", "0.5", "2"], ["a", "bmi", "3", "0.1"]]
    assert rows[at + 3] == [EVIL, "no model without it", "", ""]


def test_runs_side_by_side(tmp_path):
    one, two = write_run(tmp_path / "one"), write_run(tmp_path / "two", curve(0.6))
    out = tmp_path / "both.html"
    assert str(out) in report(one, two, "--out", out, "--title", "Both & more").stdout
    text = out.read_text()
    assert "<h1>Both &amp; more</h1>" in text
    rows = Reader(without_library(text)).rows
    assert [row[0] for row in rows if len(row) == 6 and row[0]][:2] == ["dualfl · one", "dualfl · two"]
    assert ["dataset", "digits", "digits"] in rows


def test_a_folder_of_folders(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name)
    report(tmp_path)
    assert "dualfl · a" in (tmp_path / "report.html").read_text()


def test_a_page_may_be_made_again_and_other_files_are_kept(tmp_path):
    write_run(tmp_path)
    assert write_page([tmp_path]) == write_page([tmp_path]) == tmp_path / "report.html"
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    assert "not a page of dualfl" in report(tmp_path, "--out", mine, code=2).stderr
    assert mine.read_text() == "mine"
    assert "is a folder" in report(tmp_path, "--out", tmp_path, code=2).stderr


def test_labels_are_as_short_as_they_may_be(tmp_path):
    assert labels([tmp_path / "x" / "run", tmp_path / "y" / "run"]) == ["x/run", "y/run"]


def test_the_partition_file_is_read_back(tmp_path):
    mix = Mix(np.array([[3, 1], [1, 3]]), ("a", "b"))
    (tmp_path / "partition.json").write_bytes(partition_file(mix))
    found = read_partition(tmp_path / "partition.json")
    assert found.clients == ("0", "1") and found.labels == ("a", "b")
    assert found.counts == ((3, 1), (1, 3)) and found.heterogeneity == 0.5


def test_long_curves_are_thinned_but_keep_their_ends():
    some = thinned(100_000)
    assert len(some) <= 600 and some[0] == 0 and some[-1] == 99_999 and (np.diff(some) > 0).all()
    assert list(some[:4]) == [0, 1, 2, 3]
    assert list(thinned(5)) == [0, 1, 2, 3, 4]


def test_every_curve_is_seen_on_a_dark_ground():
    ground = re.search(r"--panel: (#\w+);", (ASSETS / "page.css").read_text().split("color-scheme: dark;")[1]).group(1)
    colours = [DARK.get(colour, colour) for colour in COLOURS]
    assert min(contrast(colour, ground) for colour in colours) >= 4
    assert len(set(colours)) == len(COLOURS)


def test_numbers_that_json_does_not_know():
    assert numbers([1.0, np.nan, np.inf, 0.123456789], 3) == [1, None, None, 0.123]


def test_a_run_that_diverged_has_a_page(tmp_path):
    rows = [Row(0, 0, 0, 0, 0.0, 0.0, 1.0, 0.5, None, 1, 0), Row(1, 1, 1, 1, 1.0, 0.1, np.inf, np.inf, None, 1, 0)]
    text = page([read(write_run(tmp_path, History(rows)))])
    assert "Infinity" not in without_library(text).split('id="data">')[1].split("</script>")[0]


def test_a_record_that_says_other_things_is_no_obstacle(tmp_path):
    folder = write_run(tmp_path)
    record = {
        "algorithm": "mine",
        "results": {"certificate": "none", "best energy": None, "floats_up": "x"},
        "settings": 3,
    }
    (folder / "run.json").write_text(json.dumps(record))
    assert tmp_path.name in page([read(folder)])


# -- bad input --------------------------------------------------------------------------------------------


def damage(name, change):
    def apply(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return apply


BAD = {
    "no such folder": (lambda f: [p.unlink() for p in f.iterdir()] and f.rmdir(), "does not exist"),
    "empty folder": (lambda f: [p.unlink() for p in f.iterdir()], "has no results"),
    "empty history": (damage("history.csv", lambda b: b""), "has no column 'round'"),
    "no rounds": (damage("history.csv", lambda b: b.split(b"\n")[0] + b"\n"), "has no round"),
    "another version": (damage("history.csv", lambda b: b.replace(b"floats_up", b"bytes")), "no column 'floats_up'"),
    "cut off": (damage("history.csv", lambda b: b[:-30]), "line 22: there are"),
    "a word": (damage("history.csv", lambda b: b.replace(b"\n1,", b"\nmany,", 1)), "line 3: round must be a number"),
    "not text": (damage("history.csv", lambda b: b"\xff\xfe" + b), "not UTF-8"),
    "run.json cut off": (damage("run.json", lambda b: b[:40]), "run.json is damaged"),
    "run.json a list": (damage("run.json", lambda b: b"[]"), "must hold a JSON object"),
    "partition": (damage("partition.json", lambda b: b.replace(b"[5, 0, 7]", b"[5, 0]")), "2 rows of 3 counts"),
    "partition of words": (damage("partition.json", lambda b: b.replace(b"[5,", b'["x",')), "is not a partition"),
    "no coefficients": (damage("coefficients.csv", lambda b: b.splitlines()[0]), "no coefficient"),
    "coefficient missing": (damage("coefficients.csv", lambda b: b.replace(b"1.5", b"")), "coefficient is missing"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_folders_are_a_sentence_and_nothing_is_written(kind, tmp_path):
    spoil, words = BAD[kind]
    folder = write_run(tmp_path / "run")
    write_partition(folder)
    write_coefficients(folder)
    spoil(folder)
    before = sorted(tmp_path.rglob("*"))
    error = report(folder, code=2).stderr
    assert words in error and error.count("\n") == 1 and str(folder) in error
    assert sorted(tmp_path.rglob("*")) == before


def test_versions_are_not_mixed_unless_asked_for(tmp_path):
    one, two = write_run(tmp_path / "one"), write_run(tmp_path / "two", version="0.0.9")
    out = tmp_path / "both.html"
    error = report(one, two, "--out", out, code=2).stderr
    assert "dualfl 0.1.0" in error and "dualfl 0.0.9" in error and "--any-version" in error
    assert not out.exists()
    report(one, two, "--out", out, "--any-version")
    assert out.exists()


def test_a_folder_given_twice(tmp_path):
    folder = write_run(tmp_path / "run")
    assert "given twice" in report(folder, folder / ".." / "run", code=2).stderr


def test_hyperparameters_that_are_not_json(tmp_path):
    folder = write_comparison(tmp_path, {"dualfl": curve()})
    damage("summary.csv", lambda b: b.replace(b"{}", b"{"))(folder)
    assert "hyperparameters are not JSON" in report(folder, code=2).stderr


def test_plotly_is_imported_only_when_a_page_is_made():
    code = "import sys, dualfl.report.page, dualfl.cli.report; assert 'plotly' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("predicted", [[{}, {}], 3, None])
def test_a_record_that_was_edited_is_refused_in_a_sentence_and_leaves_no_page(tmp_path, predicted):
    folder = write_fit(tmp_path)
    record = json.loads((folder / "fit.json").read_text())
    record["curves"][0]["predicted"] = predicted
    (folder / "fit.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="are not as they were written"):
        write_page([folder])
    assert not (folder / "report.html").exists()
