"""Algorithms from outside the library: by one word everywhere, and refused in one sentence where they are wrong."""

import csv
import importlib.metadata
import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dualfl
from dualfl.algorithms import Algorithm, GradientDescent, plugins
from dualfl.algorithms.registry import ALGORITHMS, algorithm_class, make
from dualfl.cli import main
from dualfl.errors import InputError
from dualfl.estimators import LogisticRegression
from dualfl.experiments import matrix
from dualfl.experiments.cells import Cell
from dualfl.experiments.store import Store, run_all

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_algorithm.py"
PROBLEM = ["--dataset", "iris", "--clients", "3"]


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(ALGORITHMS, "plugins", {})
    monkeypatch.setattr(plugins, "_files", {})
    before = set(sys.modules)
    yield
    for name in [name for name in sys.modules if name.startswith(f"{plugins.__name__}.") and name not in before]:
        del sys.modules[name]


@pytest.fixture
def heavy_ball():
    (found,) = dualfl.load_plugin(EXAMPLE)
    return found


def command(*words, code=0):
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


# -- by one word --------------------------------------------------------------------------------------------


def test_register_is_a_function_and_a_decorator():
    @dualfl.register
    @dataclass(frozen=True)
    class Mine(GradientDescent):
        name = "mine"

    assert algorithm_class("mine") is Mine and make("mine", step=0.1) == Mine(step=0.1)
    assert list(ALGORITHMS)[-1] == "mine" and len(ALGORITHMS) == len(ALGORITHMS.own) + 1
    assert dualfl.register(Mine) is Mine  # once more is no mistake


def test_a_class_that_is_defined_again_takes_the_place_of_the_former():
    def define(step):
        @dualfl.register
        @dataclass(frozen=True)
        class Mine(GradientDescent):
            name = "mine"
            default = step

        return Mine

    assert define(1) is not define(2)
    assert algorithm_class("mine").default == 2


def test_a_file_that_was_changed_is_loaded_again(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(EXAMPLE.read_text())
    (first,) = dualfl.load_plugin(file)
    assert dualfl.load_plugin(file) == [first]
    file.write_text(EXAMPLE.read_text().replace('"heavy-ball"', '"heavier-ball"'))
    (second,) = dualfl.load_plugin(file)
    assert second.name == "heavier-ball" and list(ALGORITHMS.plugins) == ["heavier-ball"]


def test_the_command_line_takes_it_everywhere(tmp_path):
    given = ["--plugin", EXAMPLE]
    command("run", *PROBLEM, "--algorithm", "heavy-ball", "--rounds", 5, "--no-report", "--out", tmp_path / "r", *given)
    record = json.loads((tmp_path / "r" / "run.json").read_text())
    assert f"--plugin {EXAMPLE}" in record["command"] and record["settings"]["algorithm"] == "heavy-ball"

    words = ["--algorithms", "heavy-ball,gd", "--rounds", 5, "--no-report", "--out", tmp_path / "c"]
    command("compare", *PROBLEM, *words, *given)
    with open(tmp_path / "c" / "summary.csv", newline="") as file:
        assert [(row["name"], row["status"]) for row in csv.DictReader(file)] == [("heavy-ball", "ok"), ("gd", "ok")]

    assert "heavy-ball" in command("algorithms", *given).stdout
    assert "B. T. Polyak" in command("algorithms", "heavy-ball", *given).stdout
    checked = command("algorithms", "heavy-ball", "--check", *given).stdout
    assert checked.count(" exact\n") == 2 and "heavy-ball resumes to the same bits" in checked


def test_tune_runs_it_in_processes_and_keeps_the_path_to_itself(tmp_path):
    words = ["--algorithms", "heavy-ball", "--rounds", 4, "--processes", 2, "--out", tmp_path]
    said = command("tune", *PROBLEM, *words, "--plugin", EXAMPLE).stdout
    assert "heavy-ball" in said and "none of which works" not in said
    best = json.loads((tmp_path / "tuned.json").read_text())["best"]["heavy-ball"]
    assert best["hyperparameters"]["beta"] in algorithm_class("heavy-ball").grid["beta"]
    assert "--plugin own_algorithm.py" in best["command"]


def test_the_matrix_has_a_column_for_it(tmp_path, monkeypatch):
    small = matrix.Task("diabetes", "squared", "diabetes", 10)  # and smooth, which the heavy ball needs
    monkeypatch.setitem(matrix.TASKS, "lasso", small)
    words = ["--quick", "--rows", "lasso/shuffled/0.01", "--only", "heavy-ball,lbfgs", "--no-report", "--processes", 1]
    command("reproduce", "matrix", *words, "--out", tmp_path, "--plugin", EXAMPLE)
    with open(tmp_path / "matrix.csv", newline="") as file:
        rows = {row["algorithm"]: row["ended_by"] for row in csv.DictReader(file)}
    assert rows == {"heavy-ball": "reached", "lbfgs": "reached"}


def test_estimators_take_its_name_and_an_instance(heavy_ball):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60) > 0
    settings = {"penalize_intercept": True, "C": 0.1, "max_iter": 500}
    reference = LogisticRegression(algorithm="lbfgs", **settings).fit(X, y, groups=np.arange(60) % 3)
    for algorithm in ("heavy-ball", heavy_ball()):
        model = LogisticRegression(algorithm=algorithm, **settings)
        with pytest.warns(UserWarning, match="nothing is proven of this fit"):  # it has no certificate
            model.fit(X, y, groups=np.arange(60) % 3)
        assert np.allclose(model.coef_, reference.coef_, atol=1e-4) and model.algorithm_ == "heavy-ball"


def test_a_class_that_can_be_imported_is_known_in_other_processes(tmp_path, monkeypatch):
    """Without a plug-in file: registered from a module of one's own."""
    (tmp_path / "my_methods.py").write_text(EXAMPLE.read_text().replace('"heavy-ball"', '"from-module"'))
    monkeypatch.syspath_prepend(tmp_path)
    import my_methods

    dualfl.register(my_methods.HeavyBall)
    cells = [Cell("iris", "from-module", clients=3, rounds=n) for n in (2, 3)]
    store, told = Store(tmp_path / "cells"), []
    run_all(store, cells, processes=2, tell=lambda cell, outcome: told.append(outcome.status))
    assert told == ["ok", "ok"]


def test_what_no_other_process_can_import_is_refused_before_anything_runs(tmp_path):
    @dualfl.register
    @dataclass(frozen=True)
    class Local(GradientDescent):
        name = "local"

    cells = [Cell("iris", "local", clients=3, rounds=n) for n in (2, 3)]
    with pytest.raises(InputError, match="local is defined where other processes do not find it; put it into a file"):
        run_all(Store(tmp_path), cells, processes=2, tell=lambda cell, outcome: None)
    assert not list(tmp_path.iterdir())
    run_all(Store(tmp_path), cells, processes=1, tell=lambda cell, outcome: None)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cell_is_run_again_when_the_source_has_changed(tmp_path):
    file, store = tmp_path / "mine.py", Store(tmp_path / "cells")
    file.write_text(EXAMPLE.read_text())
    dualfl.load_plugin(file)
    cell = Cell("iris", "heavy-ball", clients=3, rounds=2)
    run_all(store, [cell], tell=lambda *_: None)
    assert store.missing([cell]) == []
    file.write_text(EXAMPLE.read_text() + "\n# another version\n")
    dualfl.load_plugin(file)
    assert store.missing([cell]) == [cell]


def test_it_is_pickled_by_reference_and_found_by_a_process_that_is_told_of_the_file(heavy_ball):
    """As a job for Flower's simulation is."""
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(heavy_ball(beta=0.5)),
        env=os.environ | plugins.environment(),
        capture_output=True,
    )
    assert done.stdout.decode().strip() == "HeavyBall(step=None, beta=0.5)", done.stderr.decode()


def test_the_environment_names_files_for_every_command(tmp_path):
    words = [sys.executable, "-m", "dualfl", "algorithms", "heavy-ball"]
    done = subprocess.run(words, env=os.environ | {plugins.VARIABLE: str(EXAMPLE)}, capture_output=True, text=True)
    assert "B. T. Polyak" in done.stdout, done.stderr
    missing = os.environ | {plugins.VARIABLE: str(tmp_path / "no.py")}
    done = subprocess.run(words, env=missing, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no plug-in file ") and done.stderr.count("\n") == 1


# -- installed packages -------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with entry points, as pip would leave it behind."""

    def install(**points):
        info = tmp_path / "others-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("[dualfl.algorithms]\n" + "\n".join(lines) + "\n")
        (tmp_path / "others.py").write_text(EXAMPLE.read_text())
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "others", raising=False)
        monkeypatch.setattr(ALGORITHMS, "_complete", False)
        assert importlib.metadata.entry_points(group=plugins.GROUP)

    return install


def test_an_installed_package_brings_its_algorithms(installed):
    installed(heavy_ball="others:HeavyBall")
    assert make("heavy-ball", beta=0.5).beta == 0.5
    assert "heavy-ball" in command("algorithms").stdout


def test_one_that_is_broken_is_left_out_with_a_warning(installed):
    installed(gone="others:Gone", heavy_ball="others:HeavyBall", server="others:Server")
    with pytest.warns(UserWarning, match="is left out") as told:
        assert "heavy-ball" in ALGORITHMS
    said = [str(each.message) for each in told]
    assert said[0].startswith("The plug-in gone (others:Gone) is left out: AttributeError: module 'others' has no")
    assert said[1].startswith("The plug-in server (others:Server) is left out: Only a class that inherits from Algor")
    assert "dualfl" in ALGORITHMS and len(said) == 2


# -- bad input ----------------------------------------------------------------------------------------------

BAD = {
    "does not import": ("import no_such_module\n", r"does not import: ModuleNotFoundError: No module .* \(line 1\)\.$"),
    "a mistake in it": (
        "x = 1\n\nraise ValueError('two\\nlines')\n",
        r"ValueError: two lines \(line 3\)",
    ),
    "not Python": ("def f(:\n", r"does not import: SyntaxError: invalid syntax \(line 1\)\.$"),
    "ends the process": ("raise SystemExit(3)\n", r"does not import: SystemExit: 3 \(line 1\)\.$"),
    "binary": ("\0", "does not import: SyntaxError|does not import: ValueError"),
    "no algorithm": ("from dualfl.algorithms import DualFL\n", "holds no algorithm; define a frozen dataclass"),
    "a name that exists": (
        EXAMPLE.read_text().replace('"heavy-ball"', '"dualfl"'),
        "is refused: There is an algorithm 'dualfl' already, dualfl.algorithms.dual.dualfl.DualFL; give HeavyBall ano",
    ),
    "a name that it registers itself": (
        "import dualfl\n" + EXAMPLE.read_text().replace('"heavy-ball"', '"gd"') + "\ndualfl.register(HeavyBall)\n",
        "is refused: There is an algorithm 'gd' already",
    ),
    "no name": (EXAMPLE.read_text().replace('name = "heavy-ball"', ""), "must have a name of letters, .* is None"),
    "a bad name": (EXAMPLE.read_text().replace('"heavy-ball"', '"a, b"'), "must have a name .* its name is 'a, b'"),
    "no card": (EXAMPLE.read_text().replace("card = Card", "cart = Card"), "HeavyBall has no card; give it one"),
    "not frozen": (
        EXAMPLE.read_text().replace("@dataclass(frozen=True)\nclass Heavy", "class Heavy"),
        r"HeavyBall must be a frozen dataclass: put @dataclass\(frozen=True\)",
    ),
    "half of it": (EXAMPLE.read_text().replace("def round(", "def ground("), "HeavyBall lacks round, without which"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_one_sentence_and_nothing_is_lost(kind, tmp_path, heavy_ball):
    text, sentence = BAD[kind]
    file = tmp_path / "bad.py"
    file.write_text(text)
    loaded, known = set(sys.modules), dict(ALGORITHMS)
    with pytest.raises(InputError, match=f"^The plug-in {file} .*{sentence}") as caught:
        dualfl.load_plugin(file)
    assert "\n" not in str(caught.value)
    assert dict(ALGORITHMS) == known and plugins.carried().files[0].path == str(EXAMPLE)
    assert not [name for name in set(sys.modules) - loaded if name.startswith(plugins.__name__)]
    done = command("run", *PROBLEM, "--plugin", file, "--out", tmp_path / "out", code=2)
    assert done.stderr == f"Error: {caught.value}\n"
    assert not (tmp_path / "out").exists()


def test_of_two_algorithms_in_a_bad_file_none_stays(tmp_path):
    good = EXAMPLE.read_text().partition('if __name__ == "__main__"')[0]
    bad = good[good.index("@dataclass(frozen=True)\nclass HeavyBall") :].replace("class HeavyBall", "class Second")
    file = tmp_path / "two.py"
    file.write_text(good + bad)
    with pytest.raises(InputError, match="There is an algorithm 'heavy-ball' already"):
        dualfl.load_plugin(file)
    assert "heavy-ball" not in ALGORITHMS
    file.write_text(good + bad.replace('"heavy-ball"', '"second"'))
    assert [each.name for each in dualfl.load_plugin(file)] == ["heavy-ball", "second"]


def test_paths_that_are_no_plugin(tmp_path):
    for path, sentence in [
        (tmp_path / "no.py", "There is no plug-in file "),
        (tmp_path, "is no plug-in; a plug-in is a Python file"),
        (tmp_path / "data.csv", "is no plug-in; a plug-in is a Python file"),
    ]:
        with pytest.raises(InputError, match=sentence):
            dualfl.load_plugin(path)


@pytest.mark.parametrize("given", [None, "dualfl", GradientDescent(), int, Algorithm])
def test_only_whole_algorithms_are_registered(given):
    with pytest.raises(
        InputError, match=r"Only a class that inherits from Algorithm|Algorithm lacks model and round and"
    ):
        dualfl.register(given)
