"""Help, lists, the demo, and what importing the package costs."""

import csv
import io
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import dualfl
from dualfl.algorithms.registry import ALGORITHMS
from dualfl.cli import main
from dualfl.cli.commands import COMMANDS


def run(*words, code=0):
    done = CliRunner().invoke(main, list(words), prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_reads_well_at_80_columns(words):
    text = run(*words).stdout
    assert text.startswith("Usage: dualfl")
    assert max(map(len, text.splitlines())) <= 80


def test_help_lists_every_command():
    text = run("--help").stdout
    assert all(name in text for name in COMMANDS)


def test_version():
    assert run("--version").stdout == f"dualfl {dualfl.__version__}\n"


def test_an_unknown_command_is_one_line():
    assert run("rnu", code=2).stderr == "Error: There is no command 'rnu'; did you mean run?\n"


def test_algorithms_are_listed_in_80_columns():
    text = run("algorithms").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"\n{name} " in text for name in ALGORITHMS)
    assert "Park and Xu" in text


def test_algorithms_as_csv():
    rows = list(csv.DictReader(io.StringIO(run("algorithms", "--csv").stdout)))
    assert [row["name"] for row in rows] == list(ALGORITHMS)
    assert rows[0]["up"] == "d + 3" and rows[0]["accelerated"] == "yes"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_can_be_explained(name):
    text = run("algorithms", name).stdout
    assert "Hyperparameters" in text and "<factory>" not in text


def test_an_algorithm_is_explained_with_its_formulas():
    text = run("algorithms", "dualfl").stdout
    assert "J. Park and J. Xu" in text and "nu / L" in text
    assert "did you mean dualfl" in run("algorithms", "dualfll", code=2).stderr


def test_datasets_say_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_DATA", str(tmp_path))
    (tmp_path / "a8a").write_text("+1 1:1\n")
    text = run("datasets").stdout
    assert "comes with scikit-learn" in text
    assert str(tmp_path / "a8a") in text
    assert "mnist/train-images-idx3-ubyte" in text and "DUALFL_DATA" in text


def test_datasets_that_are_damaged_are_not_listed_as_found(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    images, labels = (tmp_path / "mnist" / f"train-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1"))
    images.write_bytes(bytes(4096))
    labels.write_bytes(bytes.fromhex("00000801 0000ea60") + bytes(60_000))
    text = run("datasets").stdout
    assert "mnist            60,000       784       10   damaged, see below\n" in text
    assert f"  {images}\n    has 4,096 bytes, and should have 47,040,016\n" in text
    assert str(labels) not in text


def test_datasets_read_well_at_80_columns(tmp_path, monkeypatch):
    deep = tmp_path / "a-folder-with-a-long-name" / "and-another-one-below-it-which-is-even-longer"
    deep.mkdir(parents=True)
    monkeypatch.setenv("DUALFL_DATA", str(deep))
    (deep / "a8a").write_text("+1 1:1\n")
    (deep / "mine.csv").write_text("x,y\n1,no\n2,yes\n")
    shown = run("datasets", str(deep / "mine.csv"), "--clients", "2").stdout
    for line in (run("datasets").stdout + shown).splitlines():
        assert len(line) <= 80 or len(line.split()) == 1, line  # paths and addresses are not broken
    assert f"2 classes, from\n  {deep / 'mine.csv'}\n" in shown


def test_the_demo_ends_by_saying_where_everything_is(tmp_path):
    out = tmp_path / "demo"
    done = run("demo", "--out", str(out), "--rounds", "2", "--processes", "1")
    last = done.stdout.splitlines()[-1]
    assert str(out) in last and str(out / "figure1.png") in last
    assert (out / "figure1.png").exists()
    assert "DualFL is below the others throughout" in done.stdout
    verdicts = list(csv.DictReader((out / "verdicts.csv").read_text().splitlines()))
    assert {v["verdict"] for v in verdicts} <= {"holds", "does not hold", "cannot be told"}


# -- the package itself -----------------------------------------------------------------------------------

CODE = """
import json, sys, time
start = time.process_time()
import dualfl
seconds = time.process_time() - start
light = [m for m in sys.modules if m.split(".")[0] in {heavy!r}]
dualfl.DualFL, dualfl.run, dualfl.Problem, dualfl.LinearModel, dualfl.load, dualfl.make_problem, dualfl.kernels.describe
names = [m for m in sys.modules if m.split(".")[0] in {heavy!r}]
print(json.dumps([seconds, light, names]))
"""


def test_import_is_quick_and_light():
    heavy = ("matplotlib", "plotly", "sklearn", "torch", "pandas", "jax", "pooch", "pyarrow")
    done = subprocess.run([sys.executable, "-c", CODE.format(heavy=heavy)], capture_output=True, text=True, check=True)
    seconds, at_import, after_use = json.loads(done.stdout)
    assert at_import == after_use == []
    assert seconds < 1.0


def test_the_help_of_commands_on_tables_waits_for_no_library():
    heavy = ("scipy", "sklearn", "matplotlib", "plotly", "pandas", "pyarrow", "flwr", "formulaic")
    commands = "check, compare, deploy, describe, evaluate, fit, km, operate, predict, report, run, table, test, tune"
    code = f"import sys\nfrom dualfl.cli import {commands}\nprint([m for m in sys.modules if m in {heavy!r}])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_every_public_name_is_there():
    for name in dualfl.__all__:
        assert getattr(dualfl, name) is not None
    assert set(dir(dualfl)) == set(dualfl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dualfl.nothing  # noqa: B018
