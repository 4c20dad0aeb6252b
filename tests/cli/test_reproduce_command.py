"""`dualfl reproduce`, with the smallest settings that show everything."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dualfl.cli import main, reproduce
from dualfl.cli.command_line import below_here


def run(*words, code=0):
    done = CliRunner().invoke(main, ["reproduce", *map(str, words)], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("words", [[], *([name] for name in reproduce.reproduce_command.commands)])
def test_help_fits_80_columns(words):
    assert max(map(len, run(*words, "--help").stdout.splitlines())) <= 80


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    out = tmp_path_factory.mktemp("figure") / "one"
    words = ("figure1", "--quick", "--rounds", 3, "--seeds", 2, "--panel", "benchmarks", "--panel", "rho")
    return out, words, run(*words, "--out", out, "--processes", 1)


def test_figure1_draws_judges_and_says_what_it_did(figure):
    out, _, done = figure
    assert {path.name for path in out.iterdir()} == {
        "cells",
        "figure1.png",
        "figure1.svg",
        "figure1.csv",
        "verdicts.csv",
        "about.txt",
        "curves",
        "report.html",
    }
    assert f"Page: {out / 'report.html'}" in done.stdout.replace("\n  ", " ")
    page = (out / "report.html").read_text()
    assert "Figure 1 of the paper: digits" in page and "fedavg" in page and "rho = 0.1" in page
    assert "digits (c): DualFL, momentum parameter rho" in page and "digits-rho" not in page
    assert (
        page.index("DualFL is below the others throughout")
        < page.index("data:image/svg+xml")
        < page.index('id="chart"')
    )
    assert "scaffnew is random: shown is seed 0, one of 2 that were run." in page
    assert "<small>(given)</small>" in page and "<small>(nu / L)</small>" not in page
    assert "0 found" in done.stdout and "DualFL is below the others throughout" in done.stdout
    assert max(map(len, done.stdout.replace(str(out), "").splitlines())) <= 80
    curves = list(csv.DictReader((out / "figure1.csv").read_text().splitlines()))
    assert {row["curve"] for row in curves} >= {"dualfl", "fedavg", "rho = 0.1"}
    assert {row["panel"] for row in curves} == {"a", "c"}
    scaffnew = [row for row in curves if row["curve"] == "scaffnew" and row["round"] == "3"]
    assert float(scaffnew[0]["lowest"]) < float(scaffnew[0]["highest"])


def test_about_says_how_and_where_and_no_folder_of_this_machine(figure):
    out, _, _ = figure
    text = (out / "about.txt").read_text()
    assert "dualfl reproduce figure1" in text and "processors" in text and "numpy" in text
    assert str(out.parent) not in text


def test_figure1_goes_on_where_it_stopped(figure):
    out, words, _ = figure
    pictures = (out / "figure1.png").read_bytes(), (out / "figure1.svg").read_bytes()
    one = next((out / "cells").glob("*.json"))
    one.unlink()
    done = run(*words, "--out", out, "--processes", 1)
    assert ", 1 to run." in done.stdout and one.exists()
    assert (out / "figure1.svg").stat().st_size > 0 and pictures[0][:4] == b"\x89PNG"


def test_an_interrupted_figure_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dualfl.experiments.store.run_cell", interrupted)
    done = run("figure1", "--quick", "--rounds", 1, "--out", tmp_path, "--processes", 1, code=130)
    assert "0 of" in done.stderr and "the same command goes on" in done.stderr


def test_an_interruption_while_drawing_says_that_cells_are_kept(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dualfl.report.figure1.figure1", interrupted)
    words = ("figure1", "--quick", "--rounds", 1, "--panel", "rho", "--out", tmp_path, "--processes", 1)
    assert "all cells are kept" in run(*words, code=130).stderr


def test_tuned_values_are_taken(tmp_path):
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps({"best": {"fedpd": {"hyperparameters": {"eta": 3.0}}}}))
    assert reproduce.tuned_values("digits", file) == {"fedpd": {"eta": 3.0}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["figure1", "--dataset", "minst"], "did you mean mnist"),
        (["figure1", "--panel", "rhos"], "did you mean rho"),
        (["figure1", "--rounds", "0"], "rounds"),
        (["figure1", "--seeds", "0"], "seeds"),
        (["figure1", "--quick", "--processes", "0"], "processes"),
        (["figure1", "--tuned", "nowhere.json"], "nowhere.json"),
        (["matrix", "--rows", "svn"], "did you mean svm"),
        (["matrix", "--only", "dualf"], "did you mean dualfl"),
        (["matrix", "--cell-minutes", "0"], "cell-minutes must be a number of minutes > 0"),
        (["matrix", "--minutes", "-1"], "minutes must be a number of minutes > 0, but it is -1"),
        (["figure1", "--quick", "--cell-minutes", "-1"], "minutes"),
        (["figure1", "--quick", "--cell-minutes", "nan"], "minutes"),
        (["matrix", "--rows", "svm/lasso"], "No row is 'svm/lasso'"),
        (["matrix", "--rows", "svm/labels:1/0.0001"], "--full"),
        (["matrix", "--out", "/proc/x"], "cannot be written to"),
        (["matrix", "--bandwidth", "0"], "bandwidth"),
        (["matrix", "--whole", "--quick"], "--whole"),
        (["matrix", "--seeds", "0"], "seeds"),
        (["matrix", "--partition", "column:hospital"], "--dataset"),
        (["matrix", "--tune", "-1", "--rows", "lasso"], "budget"),
        (["figure2"], "figure1"),
    ],
)
def test_bad_input_is_one_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*words, code=2)
    assert done.stderr.startswith("Error: ") and said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("other", [{"dataset": "iris"}, {"ridge": 1e-6}, {"scale": "raw"}, {"partition": "label"}])
def test_values_tuned_on_another_problem_are_refused(tmp_path, other):
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps({"setting": other, "best": {}}))
    ((name, value),) = other.items()
    said = " ".join(run("figure1", "--quick", "--tuned", file, code=2).stderr.split())
    assert f"tuned for {name} = {value}, and Figure 1 has {name} = " in said


def test_tuned_values_come_with_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "tuned here" in run("table2").stdout


@pytest.mark.parametrize("rho", [float("nan"), [1], None])
def test_a_tuned_value_that_is_no_number(tmp_path, rho):
    file = tmp_path / "tuned.json"
    file.write_text(json.dumps({"best": {"dualfl": {"hyperparameters": {"rho": rho}}}}))
    assert "dualfl tune" in run("figure1", "--quick", "--tuned", file, code=2).stderr


def test_the_folder_of_a_kept_command_has_its_own_name_only(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    run(
        *("figure1", "--quick", "--rounds", 1, "--panel", "rho", "--cell-minutes", "0.5"),
        *("--processes", 1, "--no-report", "--out", "."),
    )
    assert "--out here --panel rho --rounds 1 --quick --cell-minutes 0.5" in (here / "about.txt").read_text()


@pytest.mark.parametrize(
    ("path", "below"), [("results/figure1", True), ("/home/me/out", False), ("../out", False), (".", False)]
)
def test_a_folder_below_this_one_is_kept_as_it_was_given(path, below):
    assert below_here(Path(path)) is below


def test_nothing_to_draw_leaves_what_was_there(tmp_path):
    words = ("matrix", "--rows", "lasso/labels:1/0.01", "--quick", "--processes", 1, "--no-report", "--out", tmp_path)
    run(*words, "--only", "prox-newton")
    before = (tmp_path / "matrix.csv").read_text()
    assert "nothing to draw" in run(*words, "--only", "fedpd", code=2).stderr
    assert (tmp_path / "matrix.csv").read_text() == before


def test_a_damaged_file_of_tuned_values(tmp_path):
    file = tmp_path / "tuned.json"
    file.write_text("[]")
    assert "dualfl tune" in run("figure1", "--quick", "--tuned", file, code=2).stderr


def test_missing_data_say_which_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DUALFL_DATA", str(tmp_path))
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path))
    monkeypatch.setattr("dualfl.data.catalogue.load", None, raising=False)
    done = run("figure1", "--dataset", "mnist", "--out", tmp_path / "out", "--processes", 1, code=2)
    assert "mnist" in done.stderr


def test_a_matrix_that_ran_out_of_time_shows_whole_rows_and_lists_the_others(tmp_path):
    words = ("matrix", "--rows", "lasso/labels:1", "--only", "prox-newton", "--minutes", "1e-9", "--processes", 1)
    done = run(*words, "--full", "--no-report", "--out", tmp_path)
    assert done.exit_code == 0 and "minutes are up" in done.stdout
    (line,) = csv.DictReader((tmp_path / "matrix.csv").read_text().splitlines())
    assert line["mu"] == "0.01"
    listed = (tmp_path / "unfinished.md").read_text()
    assert "`lasso/labels:1/0.0001`" in listed and "`mnist/shuffled/0.01`" in listed


@pytest.fixture
def patients(tmp_path):
    """Rows of four hospitals whose patients differ."""
    lines = ["age,dose,hospital,outcome"]
    for i in range(80):
        lines.append(f"{20 + 7 * i % 60},{i % 9},h{i % 4},{'yes' if (3 * i + i % 4) % 7 > 3 else 'no'}")
    file = tmp_path / "patients.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_table_of_ones_own_has_its_natural_clients(tmp_path, patients):
    out = tmp_path / "out"
    words = ("matrix", "--dataset", patients, "--target", "outcome", "--only", "dualfl,lbfgs")
    words += ("--partition", "column:hospital", "--partition", "shuffled", "--rows", "0.01", "--processes", 1)
    done = run(*words, "--no-report", "--out", out)
    assert "patients.csv, column:hospital, mu = 0.01" in done.stdout
    rows = list(csv.DictReader((out / "matrix.csv").read_text().splitlines()))
    assert {(row["task"], row["partition"]) for row in rows} == {("own", "column:hospital"), ("own", "shuffled")}
    assert all(row["ended_by"] == "reached" for row in rows)
    assert "`own/column:hospital/0.0001`" in (out / "unfinished.md").read_text()
    cells = [json.loads(file.read_text())["cell"] for file in (out / "cells").glob("*.json")]
    assert {cell["partition"]: cell["clients"] for cell in cells} == {"column:hospital": 4, "shuffled": 8}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--partition", "column:ward"], "ward"),
        (["--partition", "colum:hospital"], "did you mean column"),
        (["--clients", "0"], "clients must be at least 1"),
        (["--target", "outcom"], "outcom"),
        (["--rows", "mnist"], "row"),
    ],
)
def test_a_table_of_ones_own_that_does_not_fit(tmp_path, patients, given, says):
    words = ("matrix", "--dataset", patients, "--target", "outcome", "--only", "dualfl", "--processes", 1)
    done = run(*words, *given, "--out", tmp_path / "out", code=2)
    assert says in done.stderr and done.stderr.startswith("Error: ") and not (tmp_path / "out" / "matrix.csv").exists()


def test_the_matrix_on_one_row(tmp_path):
    words = ("matrix", "--rows", "lasso/labels:1/0.01", "--only", "prox-newton,fedpd", "--out", tmp_path)
    done = run(*words, "--quick", "--processes", 1, "--cell-minutes", 2)
    page = (tmp_path / "report.html").read_text()
    assert "prox-newton" in page and "data:image/svg+xml" in page
    assert "<legend>lasso, 200 columns, one label, mu = 0.01</legend>" in page
    assert {path.name for path in tmp_path.iterdir()} >= {"matrix.csv", "matrix.md", "exchanges.png", "time.svg"}
    assert "lasso, 200 columns, one label, mu = 0.01" in done.stdout
    rows = {row["algorithm"]: row for row in csv.DictReader((tmp_path / "matrix.csv").read_text().splitlines())}
    assert rows["fedpd"]["ended_by"].startswith("does not apply") and rows["prox-newton"]["exchanges_to_1e-06"]


def test_tables(monkeypatch, tmp_path):
    assert "randprox" in run("table1").stdout
    text = run("table2").stdout
    assert "apda-inexact  beta_y" in text and max(map(len, text.splitlines())) <= 80


def test_network_says_how_every_method_did_where_nobody_watches(tmp_path):
    """A log has a line for each, as soon as it is done, and one that does not apply says why."""
    words = ("network", "--dataset", "digits", "--rows", 60, "--hidden", 2, "--rounds", 2, "--seeds", 2)
    done = run(*words, "--clients", 3, "--only", "fedavg,gd", "--out", tmp_path)
    first, second = done.stderr.splitlines()
    assert first.startswith("3 clients, fedavg: energy ") and ", accuracy " in first and ", L times " in first
    assert second.startswith("3 clients, gd: does not apply: gd is for convex costs")
    lines = csv.DictReader((tmp_path / "network.csv").read_text().splitlines())
    ends = [line for line in lines if line["round"] == "2"]
    mean = sum(float(line["energy"]) for line in ends) / 2
    assert len(ends) == 2 and f"energy {mean:.4f}, " in first
