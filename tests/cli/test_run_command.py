"""`dualfl run`: what it writes, what it says, what it refuses."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from dualfl.cli import main

FIRST = ["round", "exchanges", "floats_up", "floats_down", "local_gradients", "seconds"]
FIRST += ["energy", "relative_error", "certificate"]
SMALL = ["run", "--dataset", "iris", "--clients", "3", "--rounds", "6"]


def dualfl(*words, code=0):
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def history(folder):
    with open(folder / "history.csv", newline="") as file:
        return list(csv.DictReader(file))


def measured(folder):
    """The history without the clock."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history(folder)]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """One run that several tests look at."""
    out = tmp_path_factory.mktemp("run") / "a" / "b"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALFL_CACHE", str(out.parent / "cache"))
        done = dualfl(*SMALL, "--ridge", "0.05", "--set", "certificate=vector", "--out", out)
    return out, done


def test_history_has_one_row_a_round(once):
    rows = history(once[0])
    assert list(rows[0])[: len(FIRST)] == FIRST
    assert [int(row["round"]) for row in rows] == list(range(7))
    errors = [float(row["relative_error"]) for row in rows]
    assert 0 < errors[-1] < errors[0] / 10
    assert rows[0]["certificate"] == "" and float(rows[-1]["certificate"]) > 0


def test_run_json_is_enough_to_repeat_the_run(once, tmp_path):
    out, _ = once
    record = json.loads((out / "run.json").read_text())
    words = shlex.split(record["command"])
    assert words[:2] == ["dualfl", "run"]
    words[words.index("--out") + 1] = str(tmp_path / "again")
    dualfl(*words[1:])
    assert measured(tmp_path / "again") == measured(out)
    assert record["settings"]["ridge"] == 0.05
    assert record["algorithm"]["certificate"] == "vector"
    assert record["algorithm"]["nu"] == record["constants"]["mu"] == 0.05
    assert record["environment"]["kernels"].startswith("kernels: ")
    assert record["results"]["round"] == 6
    assert record["data"]["rows of each client"] == [50, 50, 50]


def test_the_model_predicts(once):
    record = json.loads((once[0] / "run.json").read_text())
    with np.load(once[0] / "model.npz", allow_pickle=False) as model:
        assert model["theta"].shape == tuple(model["shape"]) == (5, 3)
        assert model["classes"].tolist() == ["setosa", "versicolor", "virginica"]
        from dualfl.data import load

        raw = load("iris", scale="raw")
        x = model["scale"] * (raw.X - model["center"]) / model["spread"]
        guess = (x @ model["theta"][:-1] + model["theta"][-1]).argmax(axis=1)
    assert (guess == raw.y).mean() == record["results"]["training accuracy"]


def test_the_folder_has_a_picture_and_nothing_half_done(once):
    assert (once[0] / "convergence.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in once[0].iterdir()) == [
        "convergence.png",
        "history.csv",
        "model.npz",
        "partition.json",
        "report.html",
        "run.json",
    ]


def test_the_summary_fits_80_columns_and_says_it_all(once):
    out, done = once
    lines = [line for line in done.stdout.splitlines() if str(out) not in line]
    assert max(map(len, lines)) <= 80
    text = " ".join(done.stdout.split())
    for words in (
        "iris, 150 rows x 4 features, 3 classes",
        "3 with 50 rows each (even, heterogeneity 1.00), Softmax, ridge 0.05",
        "dualfl: nu = 0.05 (mu), rho = ",
        "(nu / L)",
        "certificate = vector",
        "6; that was the limit",
        "contacts of clients",
        "gradients in",
        "(E - E*)/|E*| = ",
        "proven, without knowing E*",
        "of the training rows",
        f"in {out}: history.csv, run.json, model.npz, convergence.png, partition.json, report.html",
        f"{out / 'report.html'}, for the browser",
    ):
        assert words in text


def test_who_has_what_is_shown_where_a_partition_asks_for_unlike_clients(tmp_path):
    words = ["run", "--dataset", "iris", "--rounds", "1", "--clients", "3", "--out", str(tmp_path)]
    assert "Heterogeneity" not in CliRunner().invoke(main, words).stdout
    shown = CliRunner().invoke(main, [*words, "--partition", "labels:1", "--force"]).stdout
    assert "client    rows seto vers virg" in shown and "Heterogeneity 1.000" in shown


def test_the_page_is_made_unless_nobody_wants_it_and_is_never_of_an_older_run(tmp_path):
    assert "report.html" in dualfl(*SMALL, "--out", tmp_path).stdout
    assert b"<h1>DualFL on iris</h1>" in (tmp_path / "report.html").read_bytes()
    assert "report.html" not in dualfl(*SMALL, "--out", tmp_path, "--no-report").stdout
    assert not (tmp_path / "report.html").exists()
    assert "--no-report" not in json.loads((tmp_path / "run.json").read_text())["command"]


def test_equal_settings_may_be_run_again_and_others_are_refused(tmp_path):
    base = [*SMALL, "--no-reference", "--out", tmp_path / "x"]
    dualfl(*base)
    before = (tmp_path / "x" / "history.csv").read_bytes()
    dualfl(*base)
    done = dualfl(*base, "--ridge", "0.1", code=2)
    assert done.stdout == ""
    assert "has the results of another run" in done.stderr
    assert "--out" in done.stderr and "--force" in done.stderr
    assert len(history(tmp_path / "x")) == 7 and before[:50] == (tmp_path / "x" / "history.csv").read_bytes()[:50]
    dualfl(*base, "--ridge", "0.1", "--force")
    assert json.loads((tmp_path / "x" / "run.json").read_text())["settings"]["ridge"] == 0.1


def test_a_damaged_run_json_is_not_overwritten(tmp_path):
    (tmp_path / "run.json").write_text("{")
    assert "another run" in dualfl(*SMALL, "--out", tmp_path, code=2).stderr
    assert (tmp_path / "run.json").read_text() == "{"


def test_resuming_gives_the_same_bits(tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    words = ["run", "--dataset", "wine", "--clients", "4", "--codec", "top:20"]
    dualfl(*words, "--rounds", "8", "--out", straight)
    dualfl(*words, "--rounds", "3", "--checkpoint-every", "1", "--out", broken)
    assert "--force" in dualfl(*words, "--rounds", "8", "--out", broken, code=2).stderr
    dualfl(*words, "--rounds", "8", "--resume", "--out", broken)
    assert measured(broken) == measured(straight)
    with np.load(straight / "model.npz") as a, np.load(broken / "model.npz") as b:
        np.testing.assert_array_equal(a["theta"], b["theta"])


def test_a_lone_checkpoint_asks_what_to_do(tmp_path):
    (tmp_path / "checkpoint.npz").write_bytes(b"")
    assert "go on with --resume" in dualfl(*SMALL, "--out", tmp_path, code=2).stderr
    assert "is not a whole checkpoint" in dualfl(*SMALL, "--resume", "--out", tmp_path, code=2).stderr
    dualfl(*SMALL, "--no-reference", "--force", "--out", tmp_path)
    assert not (tmp_path / "checkpoint.npz").exists()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    dualfl(*SMALL, "--checkpoint-every", "2", "--out", tmp_path)
    done = dualfl(*SMALL, "--ridge", "0.5", "--resume", "--out", tmp_path, code=2)
    assert "belongs to another run" in done.stderr


def test_without_a_reference_there_is_still_a_certificate(tmp_path):
    done = dualfl(*SMALL, "--no-reference", "--out", tmp_path)
    assert "there is no E*: it was not asked for" in done.stdout
    assert history(tmp_path)[-1]["relative_error"] == ""
    assert "proven, without knowing E*" in done.stdout


def test_tol_stops_early(tmp_path):
    done = dualfl("run", "--dataset", "iris", "--tol", "0.1", "--rounds", "500", "--out", tmp_path)
    assert "the tolerance is reached" in done.stdout
    assert len(history(tmp_path)) < 400


def test_hyperparameters_solver_and_notes_reach_the_run(tmp_path):
    done = dualfl(*SMALL, "--rho", "0.3", "--nu", "0.005", "--solver", "FISTA", "--out", tmp_path)
    assert "no theorem covers it" in " ".join(done.stdout.split())
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["local solver"].startswith("FISTA")
    assert (record["algorithm"]["rho"], record["algorithm"]["nu"]) == (0.3, 0.005)


def test_no_ridge_is_for_epsilon(tmp_path):
    flat = ["run", "--dataset", "iris", "--clients", "3", "--ridge", "0"]
    assert "strongly convex" in dualfl(*flat, "--out", tmp_path, code=2).stderr
    done = dualfl(*flat, "--epsilon", "0.02", "--out", tmp_path)
    assert "of the problem itself" in done.stdout and "regularised" in done.stdout
    assert "none: the cost is not strongly convex" in done.stdout
    other = dualfl(*flat, "--epsilon", "0.02", "--checkpoint-every", "1", "--out", tmp_path, "--force", code=2)
    assert "leave one of them out" in other.stderr


def test_a_loss_with_kinks_has_a_reference_too(tmp_path):
    done = dualfl("run", "--dataset", "breast_cancer", "--loss", "hinge", "--rounds", "3", "--out", tmp_path)
    assert "by dual coordinate ascent" in " ".join(done.stdout.split())
    assert "proven, without knowing E*" in done.stdout
    flat = dualfl("run", "--dataset", "breast_cancer", "--ridge", "0", "--algorithm", "lbfgs", "--rounds", "3",
                  "--out", tmp_path, "--force")  # fmt: skip
    assert "not known, there is no E*: Logistic has no minimum" in " ".join(flat.stdout.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--dataset", "digit"], "There is no data set 'digit'; did you mean digits?"),
        (["--dataset", "mnist"], "mnist needs the file mnist/train-images-idx3-ubyte"),
        (["--algorithm", "dualfll"], "There is no algorithm 'dualfll'; did you mean dualfl"),
        (["--partition", "evn"], "There is no partition 'evn'; did you mean even?"),
        (["--solver", "lbgfs"], "There is no solver 'lbgfs'; did you mean lbfgs"),
        (["--loss", "hinge"], "does not suit iris"),
        (["--clients", "1000"], "150 rows cannot be split among 1,000 clients"),
        (["--codec", "zip:3"], "top:K, rand:K or bits:B"),
        (["--codec", "bits:99"], "bits must lie between 2 and 32"),
        (["--rounds", "-1"], "rounds must be >= 0"),
        (["--tol", "0"], "tol must be positive"),
        (["--ridge", "-1"], "ridge must be a finite number >= 0"),
        (["--rho", "2"], "rho = 2.0 is not allowed"),
        (["--rho", "0.1", "--set", "rho=0.2"], "rho is given twice"),
        (["--set", "rho"], "--set takes KEY=VALUE"),
        (["--set", "gama=1"], "dualfl has no hyperparameter 'gama'; it has nu, rho"),
        (["--set", "G0=big"], "G0 must be a number, but it is 'big'"),
        (["--set", "upload=post"], 'it is "plain" or "corrected"'),
        (["--set", "name=x"], "dualfl has no hyperparameter 'name'"),
        (["--set", "rho=[1]"], "rho must be a number, but it is [1]"),
        (["--set", "rho=true"], "rho must be a number, but it is True"),
        (["--codec", "top:²"], "top:K, rand:K or bits:B"),
        (["--threads", "0"], "threads must be from 1 to 4,096"),
        (["--resume"], "There is no checkpoint at"),
        (["--epsilon", "1", "--alpha", "1"], "Give either alpha"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(words, says, tmp_path, monkeypatch):
    monkeypatch.delenv("DUALFL_DATA", raising=False)
    out = tmp_path / "out"
    done = dualfl(*SMALL, *words, "--out", out, code=2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ") and says in line
    assert not out.exists()


def test_out_must_not_be_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        assert "is a file, and results need a folder" in dualfl(*SMALL, "--out", out, code=2).stderr


def start(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "dualfl", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_process_fails_with_code_2_and_no_traceback(tmp_path):
    process = start("run", "--dataset", "digit", "--out", tmp_path / "x")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err == "Error: There is no data set 'digit'; did you mean digits?\n"


@pytest.mark.skipif(os.name == "nt", reason="signals are another matter there")
def test_an_interrupt_keeps_what_there_is(tmp_path):
    # A shell's background jobs ignore SIGINT, and so would their children: this one must listen.
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = start(*SMALL[:-1], 10**6, "--checkpoint-every", "1", "--out", tmp_path, preexec_fn=listening)
    deadline = time.monotonic() + 120
    while not (tmp_path / "checkpoint.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "interrupted" in out and "Traceback" not in err
    assert len(history(tmp_path)) >= 1
    assert json.loads((tmp_path / "run.json").read_text())["results"]["stopped"] == "interrupted"


@pytest.mark.skipif(os.name == "nt", reason="permissions are another matter there")
def test_results_are_as_readable_as_other_files(once, tmp_path):
    (tmp_path / "plain").write_text("")
    expected = (tmp_path / "plain").stat().st_mode
    assert {path.stat().st_mode for path in once[0].iterdir()} == {expected}
