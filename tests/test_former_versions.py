"""What version 0.1.0 wrote is still read: a checkpoint goes on to the same bits, a model folder predicts the same."""

import csv
import shutil
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import dualfl
from dualfl.cli.commands import main
from dualfl.objectives import LinearModel, Squared

WRITTEN = Path(__file__).parent / "fixtures" / "version-0.1.0"


def problem():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    clients = [LinearModel(X[rows], y[rows], Squared(), ridge=0.1) for rows in (slice(0, 10), slice(10, 40))]
    return dualfl.Problem(clients)


def test_a_checkpoint_goes_on(tmp_path):
    """To the same model but for rounding: its first rounds were summed by the kernels of that version."""
    path = tmp_path / "checkpoint.npz"
    shutil.copy(WRITTEN / "checkpoint.npz", path)
    algorithm = dualfl.DualFL(rho=0.0, nu=0.1)
    resumed = dualfl.run(problem(), algorithm, rounds=10, checkpoint=path, resume=True)
    whole = dualfl.run(problem(), algorithm, rounds=10)
    assert len(resumed.history) == 11
    np.testing.assert_allclose(resumed.theta, whole.theta, rtol=1e-13)


def test_a_model_folder_predicts_the_same(tmp_path):
    out = tmp_path / "predictions.csv"
    done = CliRunner().invoke(main, ["predict", str(WRITTEN / "model"), str(WRITTEN / "new.csv"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    with open(out, newline="") as mine, open(WRITTEN / "predictions.csv", newline="") as theirs:
        now, then = list(csv.DictReader(mine)), list(csv.DictReader(theirs))
    assert len(now) == len(then) > 0
    for a, b in zip(now, then):
        assert a["prediction"] == b["prediction"]
        np.testing.assert_allclose(float(a["probability yes"]), float(b["probability yes"]), rtol=1e-12)
