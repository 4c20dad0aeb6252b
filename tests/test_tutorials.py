"""The notebooks of docs/tutorials run from top to bottom, as the site runs them, and keep no output of an older run."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from dualfl.algorithms import plugins
from dualfl.algorithms.registry import ALGORITHMS

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
SECONDS = 60  # of processor time, for each; far more than it takes
needs_keys = {"hospitals"}  # those that make certificates and masks


def cells(path, kind):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem in needs_keys and os.environ.get("CI") != "true":
        pytest.importorskip("flwr", reason="needs Flower: pip install 'dualfl[flower]'")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # what it writes is not for the repository
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(ALGORITHMS, "plugins", {})
    monkeypatch.setattr(plugins, "_files", {})
    names, began = {"__name__": "__main__"}, time.process_time()
    for number, cell in enumerate(cells(path, "code"), start=1):
        lines = [line for line in cell["source"] if not line.startswith("%")]  # what only a notebook understands
        exec(compile("".join(lines), f"{path.stem}, cell {number}", "exec"), names)
    assert time.process_time() - began < SECONDS
    assert capsys.readouterr().out


def test_there_are_three_tutorials():
    assert {path.stem for path in NOTEBOOKS} == {"hospitals", "own_algorithm", "linear_probe"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_no_output(path):
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells(path, "code"))
