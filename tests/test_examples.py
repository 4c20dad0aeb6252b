"""The quick scripts in examples/ run, in an empty folder, and say something."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
NAMES = ("own_algorithm", "own_data", "pooled_equals_federated", "quantile_regression", "sparse_l1")
EXAMPLES = [FOLDER / f"{name}.py" for name in NAMES]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # what an example writes is not for the repository
    monkeypatch.delenv("DUALFL_DATA", raising=False)  # bundled data will do, and are small
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.count("\n") >= 2
