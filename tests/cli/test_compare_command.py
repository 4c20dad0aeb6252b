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
    said = dualfl(*SMALL, "--partition", "labels:1", "--tol", "0.5", "--out", out).stdout
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert said.splitlines()[-1] == f"page for the browser: {out / 'report.html'}"
    page = (out / "report.html").read_text()
    assert "<h1>2 algorithms on iris</h1>" in page
    assert "<span>5e-01</span>" in page and "<span>1e-08</span>" not in page  # runs end at the tolerance
    assert json.loads((out / "partition.json").read_text())["heterogeneity"] == pytest.approx(1.0)

    record = json.loads((out / "comparison.json").read_text())
    words = shlex.split(record["command"])
    assert words[:2] == ["dualfl", "compare"]
    words[words.index("--out") + 1] = str(tmp_path / "again")
    dualfl(*words[1:], "--no-report")
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == [f for f in FILES if f != "report.html"]
    assert summary(out) == summary(tmp_path / "again")
    assert record["settings"]["partition"] == "labels:1" and record["environment"]["dualfl"]


def test_hyperparameters_seeds_tolerance_and_partitions(tmp_path):
    words = "compare --dataset iris --clients 3 --rounds 30 --algorithms scaffnew,gd --seeds 2 --tol 0.5 --no-report"
    words += " --set gd.step=0.01 --partition shuffled --partition labels:1 --solver lbfgs"
    said = dualfl(*words.split(), "--out", tmp_path).stdout
    assert "(shuffled)" in said and "(labels:1)" in said and "except what --set says" in said
    for folder in ("shuffled", "labels-1"):
        scaffnew, gd = summary(tmp_path / folder)
        assert (scaffnew["seeds"], gd["seeds"], gd["given"], scaffnew["given"]) == ("2", "1", "step", "")
        assert json.loads(gd["hyperparameters"])["step"] == 0.01 and float(scaffnew["final_error"]) <= 0.5
        assert (tmp_path / folder / "seeds.csv").exists()


def test_two_settings_of_one_algorithm(tmp_path):
    words = [*SMALL[:-1], "dualfl,gd,dualfl", "--no-report", "--out", tmp_path]
    dualfl(*words, "--set", "dualfl-1.rho=0.001", "--set", "dualfl-2.rho=0.002", "--set", "dualfl.nu=0.01")
    first, gd, second = summary(tmp_path)
    assert [first["name"], gd["name"], second["name"]] == ["dualfl-1", "gd", "dualfl-2"]
    values = [json.loads(each["hyperparameters"]) for each in (first, second)]
    assert [(each["rho"], each["nu"]) for each in values] == [(0.001, 0.01), (0.002, 0.01)]
    assert "rho twice" in refused(*words, "--force", "--set", "dualfl.rho=0.1", "--set", "dualfl-2.rho=0.2")
    assert "dualfl-3 is not compared" in refused(*words, "--force", "--set", "dualfl-3.rho=0.2")


def test_a_column_says_how_many_clients_there_are(tmp_path):
    file = tmp_path / "patients.csv"
    rows = [f"{i % 7},{('north', 'south', 'east')[i % 3]},{i % 2}" for i in range(30)]
    file.write_text("\n".join(["age,hospital,sick", *rows]) + "\n")
    words = ["--dataset", file, "--target", "sick", "--rounds", "2"]
    split = ["--partition", "column:hospital", "--partition", "even"]
    out = tmp_path / "out"
    said = dualfl("compare", *words, *split, "--algorithms", "gd", "--no-report", "--out", out).stdout
    assert "patients.csv, 3 clients (column:hospital)" in said and "patients.csv, 8 clients (even)" in said
    record = json.loads((out / "column-hospital" / "comparison.json").read_text())
    assert record["settings"]["clients"] == 3
    two = dualfl("compare", *words, *split[:2], "--clients", 2, "--algorithms", "gd", "--no-report", "--out", out / "2")
    assert "2 clients (column:hospital)" in two.stdout
    for _ in range(2):  # the second time it finds its own results
        dualfl("run", *words, *split[:2], "--out", tmp_path / "run")
    assert "3 clients (column:hospital)" in (tmp_path / "run" / "report.html").read_text()
    assert "3 clients, column:hospital" in dualfl("datasets", file, "--target", "sick", *split[:2]).stdout


def test_tuned_values_are_packaged_searched_or_in_a_file(tmp_path):
    small = ["--clients", "3", "--rounds", "3", "--algorithms", "gd,dualfl", "--no-report"]
    iris = ["compare", "--dataset", "iris", *small]
    said = dualfl(*iris, "--tuned", "now", "--tune-minutes", "0.02", "--out", tmp_path / "now").stdout
    assert "tuned here, 0.02 minutes" in said
    setting = {"dataset": "iris", "clients": 3, "partition": "even", "ridge": 0.01}
    best = {"gd": {"hyperparameters": {"step": 0.125}}}
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps({"setting": setting, "best": best}))
    said = dualfl(*iris, "--tuned", file, "--out", tmp_path / "file").stdout
    assert "theory's for dualfl" in said
    assert json.loads(summary(tmp_path / "file")[0]["hyperparameters"])["step"] == 0.125
    for words, reason in (
        ((*iris, "--tuned", file, "--clients", "2"), "tuned for clients = 3"),
        ((*iris, "--tuned", "packaged"), "no packaged values for iris"),
        ((*iris, "--tuned", tmp_path / "none.json"), "packaged, now, or a file"),
        ((*iris, "--set", "K=3"), "NAME.KEY=VALUE"),
        ((*iris, "--set", "fedavg.K=3"), "fedavg is not compared"),
        ((*iris, "--seeds", "0"), "at least once"),
    ):
        done = CliRunner().invoke(main, [*map(str, words), "--out", str(tmp_path / "bad")], prog_name="dualfl")
        assert done.exit_code != 0 and reason in " ".join((done.stdout + done.stderr).split())


def test_an_old_page_does_not_outlive_its_comparison(tmp_path):
    dualfl(*SMALL, "--out", tmp_path)
    dualfl(*SMALL, "--out", tmp_path, "--force", "--no-report")
    assert not (tmp_path / "report.html").exists()


def refused(*words):
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("dualfl-2.rho=-3", "dualfl: rho = -3 is not allowed"),
        ("dualfl.nu=9", "nu = 9 is not allowed; it must lie in (0, mu], and mu = 0.01"),
        ("fedavg.K=0", "fedavg: K = 0 is not allowed; it is a number of local steps"),
    ],
)
def test_a_value_that_is_not_allowed_is_told_before_anything_runs(value, reason, tmp_path):
    words = ("compare", "--dataset", "iris", "--clients", "3", "--rounds", "2", "--algorithms", "dualfl,fedavg,dualfl")
    assert reason in refused(*words, "--set", value, "--out", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_wrong_partition_is_told_before_the_first_comparison(tmp_path):
    assert "no partition 'iid'" in refused(*SMALL, "--partition", "even", "--partition", "iid", "--out", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_comparison_of_nothing_that_applies_is_no_result(tmp_path):
    hinge = ["compare", "--dataset", "breast_cancer", "--loss", "hinge", "--algorithms", "giant,gd", "--rounds", "2"]
    assert "None of these 2 applies: giant is not compatible" in refused(*hinge, "--out", tmp_path)
    assert not list(tmp_path.glob("*.csv"))


def test_values_tuned_for_another_data_set_are_refused(tmp_path):
    file = tmp_path / "tuned.json"
    found = {"gd": {"hyperparameters": {"step": 0.1}}}
    file.write_text(json.dumps({"setting": {"dataset": "digits"}, "best": found}))
    said = refused(*SMALL, "--tuned", file, "--out", tmp_path / "out")
    assert "tuned for dataset = digits, and this comparison has iris" in said
