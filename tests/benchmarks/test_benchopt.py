"""The folder benchmarks/benchopt, run by the real benchopt: `make test-extras` installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualfl import load, make_problem, reference, run
from dualfl.algorithms import DualFL

pytestmark = pytest.mark.extras
FOLDER = Path(__file__).parents[2] / "benchmarks" / "benchopt"


def benchopt(tmp_path: Path, *words: str) -> Any:
    """The table that a run of benchopt leaves."""
    pytest.importorskip("benchopt")
    pd = pytest.importorskip("pandas")
    command = [sys.executable, "-m", "benchopt", "run", str(FOLDER), *words, "-r", "1"]
    quiet = ["--no-plot", "--no-html", "--no-display", "--output", str(tmp_path / "found")]
    done = subprocess.run([*command, *quiet], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return pd.read_parquet(tmp_path / "found.parquet")


def test_benchopt_counts_what_the_engine_counts(tmp_path: Path) -> None:
    data = "named[dataset=iris,partition=even,clients=3,ridge=0.01]"
    found = benchopt(tmp_path, "-d", data, "-s", "dualfl[algorithm=[dualfl,auto]]", "-n", "8")
    problem = make_problem("iris", 3, "even", 0.01)
    own = found[found["solver_name"].str.contains("=dualfl")].dropna(subset=["objective_exchanges"])
    rounds = int(own["objective_round"].max())
    history = run(problem, DualFL(), rounds=rounds, reference=reference(problem), threads=1).history
    assert len(own) > 3
    for _, line in own.iterrows():
        row = history[int(line["objective_round"])]
        assert line["objective_exchanges"] == row.exchanges and line["objective_contacts"] == row.contacts
        assert line["objective_value"] == pytest.approx(row.relative_error, rel=1e-6, abs=1e-12)
        if row.certificate is not None and np.isfinite(line["objective_certificate"]):
            assert line["objective_certificate"] == pytest.approx(row.certificate, rel=1e-9)
    assert found["objective_value"].min() < 1e-6  # auto's


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{'nsw'[i % 3]},{rng.normal():.3f},{rng.normal():.3f},{i % 2}" for i in range(30)]
    (tmp_path / "mine.csv").write_text("\n".join(["home,a,b,y", *rows]) + "\n")
    path = tmp_path / "mine.csv"
    assert len(set(load(path, target="y").column("home"))) == 3
    found = benchopt(
        tmp_path, "-d", f"table[path={path},target=y,column=home]", "-s", "dualfl[algorithm=lbfgs]", "-n", "6"
    )
    assert found["objective_value"].min() < 1e-3
