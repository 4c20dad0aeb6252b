"""The matrix: which cells it has, what it counts, and who is best."""

from dataclasses import replace

import numpy as np
import pytest

from dualfl.errors import InputError
from dualfl.experiments import matrix as experiment
from dualfl.experiments.cells import COLUMNS, Outcome
from dualfl.experiments.matrix import Matrix, MatrixRow
from dualfl.experiments.matrix_auto import certified, reached, regrets
from dualfl.experiments.matrix_auto import markdown as auto_markdown
from dualfl.experiments.matrix_scores import (
    csv_rows,
    list_of,
    markdown,
    middle,
    places,
    places_table,
    score,
    table,
    unfinished,
)
from dualfl.experiments.matrix_tuning import read_tuned, search_of, searched, tune, tuned_file
from dualfl.experiments.network import Network
from dualfl.experiments.running import run_cell
from dualfl.experiments.store import Store, pack, unpack
from dualfl.report.matrix import heat_map
from dualfl.report.matrix_answers import fastest_figure, problems_figure, profile_figure

NETWORK = Network(latency=0.1, bandwidth=8.0)
ROW = MatrixRow("svm", "labels:1", 1e-2)


def outcome(cell, errors, exchanges=1, status="ok"):
    n = np.arange(len(errors), dtype=float)
    columns = dict.fromkeys(COLUMNS, n) | {"exchanges": exchanges * n, "relative_error": np.array(errors)}
    columns |= {"floats_up": 1e6 * n, "floats_down": 0 * n, "seconds": 8 * n}
    return Outcome(cell, status, columns | {"contacts": 8 * exchanges * n, "payload": 1e6 / 8 * n}, 1.0)


def test_one_thing_is_varied_at_a_time_and_all_of_them_on_demand():
    rows, full = Matrix().chosen, Matrix(full=True).chosen
    assert len(full) == 7 * 4 * 2 + 2 * 2 and len(set(full)) == len(full)
    assert set(rows) < set(full) and {row.task for row in rows} == set(experiment.TASKS)
    for row in rows:
        assert (row.partition != "dirichlet:0.1") + (row.ridge != 1e-2) <= 1
        assert row.partition != "dirichlet:0.5"  # hyperparameters are searched there


def test_rows_are_chosen_by_words():
    assert len(Matrix(rows=("svm",), full=True).chosen) == 8
    assert Matrix(rows=("svm/labels:1/0.01",)).chosen == [ROW]
    assert len(Matrix(rows=("labels:1", "lasso"), full=True).chosen) == 14 + 6
    with pytest.raises(InputError, match="full matrix only"):
        Matrix(rows=("svm/labels:1/0.0001",))


@pytest.mark.parametrize(
    "given",
    [
        {"rows": ("sv",)},
        {"rows": ("svm/nowhere",)},
        {"only": ("dualf",)},
        {"minutes": 0},
        {"seeds": 0},
        {"size": "huge"},
    ],
)
def test_bad_input_is_one_sentence(given):
    with pytest.raises(InputError):
        Matrix(**given)


def test_one_label_a_client_needs_as_many_clients_as_labels():
    assert Matrix().cell(MatrixRow("mnist", "labels:1", 1e-2), "dualfl").clients == 10
    assert Matrix().cell(MatrixRow("mnist", "shuffled", 1e-2), "dualfl").clients == 8


def test_similarity_methods_run_as_in_practice_too():
    columns = Matrix(only=("dane", "disco", "dualfl")).algorithms
    assert columns == ("dane", "dane, mu_D = 0", "disco", "disco, mu_P = mu", "dualfl")
    cell = Matrix().cell(MatrixRow("logistic", "shuffled", 1e-4), "disco, mu_P = mu")
    assert cell.algorithm == "disco" and cell.hyperparameters["mu_P"] == 1e-4
    assert Matrix().cell(ROW, "dane").hyperparameters == {}


def test_methods_that_need_no_gradient_run_on_the_svm(tmp_path):
    """Theory's steps are those of a finite L; without a value of their own they would be said not to apply."""
    for name in experiment.WITH_KINKS:
        cell = replace(Matrix(size="quick").cell(ROW, name), dataset="breast_cancer", partition="shuffled", rounds=3)
        assert run_cell(cell).status == "ok"
    assert Matrix().cell(MatrixRow("logistic", "shuffled", 1e-2), "fedpd").hyperparameters == {}


def test_public_rows_are_not_protected():
    for name in ("auto", "sketched-newton", "prox-newton", "fedipm", "one-shot"):
        assert Matrix().cell(ROW, name).hyperparameters == {"least_rows": 1}


def test_a_score_counts_to_the_level():
    cell = Matrix().cell(ROW, "dualfl")
    found = score(outcome(cell, [1, 1e-3, 1e-4, 1e-5], exchanges=2), 1e-4, NETWORK)
    assert found[:4] == (2, 4, 32, 2e6)
    assert found.seconds == pytest.approx(4 * 0.1 + 2e6 / 8 * 64 / 8e6 + 16 / 8)
    assert np.isnan(score(outcome(cell, [1, 1e-3]), 1e-4, NETWORK).rounds)


def test_the_best_of_a_row_is_marked(tmp_path):
    matrix, store = Matrix(rows=("svm/labels:1/0.01",), only=("dualfl", "bundle", "gd")), Store(tmp_path)
    store.put(outcome(matrix.cell(ROW, "dualfl"), [1, 1e-4, 1e-6]))
    store.put(outcome(matrix.cell(ROW, "bundle"), [1, 1e-4, 1e-5]))
    store.put(outcome(matrix.cell(ROW, "gd"), [], status="does not apply: no gradient"))
    found = table(matrix, store, NETWORK)
    assert found.best(ROW, 1e-6, "exchanges") == 2 and found.used == ["dualfl", "bundle"]
    rows = {line[3]: line for line in csv_rows(found)[1:]}
    assert "exchanges" in rows["dualfl"][-4] and rows["bundle"][-4] == ""
    assert rows["gd"][-1] == "does not apply: no gradient"
    assert rows["bundle"][-3:] == ["1e-05", "2", "500 exchanges"] and rows["dualfl"][-1] == "reached"
    text = markdown(found, NETWORK)
    assert "| dualfl | **1** / **2** |" in text and "Not to 1e-4: none." in text
    assert len(heat_map(found).axes) == 2


@pytest.mark.parametrize(("seconds", "shown"), [(0.21, "0.2"), (9.4, "9"), (9.7, "10"), (43.0, "43")])
def test_seconds_are_short_numbers(tmp_path, seconds, shown):
    matrix, store = Matrix(rows=("svm/labels:1/0.01",), only=("dualfl",)), Store(tmp_path)
    store.put(outcome(matrix.cell(ROW, "dualfl"), [1, 1e-6]))
    found = table(matrix, store, NETWORK)
    levels = found.scores[ROW]["dualfl"]
    levels[1e-6] = levels[1e-6]._replace(seconds=seconds)
    assert [text.get_text() for text in heat_map(found, "seconds").axes[0].texts] == [shown]


def test_nothing_to_draw_is_an_error(tmp_path):
    matrix, store = Matrix(rows=("svm/labels:1/0.01",), only=("gd",)), Store(tmp_path)
    store.put(outcome(matrix.cell(ROW, "gd"), [], status="does not apply: no gradient"))
    with pytest.raises(InputError):
        heat_map(table(matrix, store, NETWORK))


@pytest.mark.parametrize("given", [{"latency": -1.0}, {"bandwidth": 0.0}, {"latency": float("nan")}])
def test_a_network_is_checked(given):
    with pytest.raises(InputError):
        Network(**given)


def test_a_thousand_clients_and_columns_as_they_come():
    many = Matrix().cell(MatrixRow("many", "shuffled", 1e-2), "dualfl")
    raw = Matrix().cell(MatrixRow("raw", "shuffled", 1e-2), "dualfl")
    assert many.clients == 1000 and raw.scale == "raw" and many.rows == 2000
    assert Matrix(size="whole").cell(ROW, "dualfl").rows is None


def test_who_tosses_coins_runs_once_a_seed_and_the_middle_counts(tmp_path):
    matrix, store = Matrix(rows=("svm/labels:1/0.01",), only=("dualfl", "randprox")), Store(tmp_path)
    runs = matrix.runs(ROW, "randprox")
    assert [cell.seed for cell in runs] == [0, 1, 2] and len(matrix.runs(ROW, "dualfl")) == 1
    store.put(outcome(matrix.cell(ROW, "dualfl"), [1, 1e-6]))
    for cell, errors in zip(runs, ([1, 1e-6], [1, 1e-2, 1e-3, 1e-6], [1, 1e-2, 1e-6])):
        store.put(outcome(cell, errors))
    found = table(matrix, store, NETWORK)
    assert found.scores[ROW]["randprox"][1e-6].exchanges == 2
    diverged = outcome(runs[0], [1], status="diverged at round 1")
    assert middle([diverged, store[runs[1]], store[runs[2]]], 1e-6).cell.seed == 1
    assert places(found, "dualfl") == {ROW: (1, 2)} and places(found, "randprox") == {ROW: (2, 2)}
    text = markdown(found, NETWORK)
    assert "DualFL: place 1 of 2 by exchanges." in text and f"| {ROW.title} | 1 of 2 | 1 | 1 | dualfl |" in text
    assert f"| {ROW.title} | 2 of 2 | 2 | 1 | dualfl |" in places_table(found, "randprox")


def test_who_does_not_get_there_comes_after_and_by_its_error(tmp_path):
    matrix, store = Matrix(rows=("svm/labels:1/0.01",), only=("dualfl", "bundle", "gd", "lbfgs")), Store(tmp_path)
    store.put(outcome(matrix.cell(ROW, "dualfl"), [1, 1e-3]))
    store.put(outcome(matrix.cell(ROW, "bundle"), [1, 1e-2]))
    store.put(outcome(matrix.cell(ROW, "gd"), [1], status="diverged at round 1"))
    store.put(outcome(matrix.cell(ROW, "lbfgs"), [], status="does not apply: no gradient"))
    found = table(matrix, store, NETWORK)
    crosses = [line for line in problems_figure(found, "some rows").axes[0].lines if line.get_marker() == "x"]
    assert sum(len(line.get_xdata()) for line in crosses) == 2  # DualFL, and the best of the others
    names = [text.get_text() for text in profile_figure(found, "some rows").axes[0].texts]
    assert names == ["dualfl", "bundle", "gd"]
    assert [places(found, name)[ROW] for name in matrix.algorithms] == [(1, 3), (2, 3), (3, 3), None]


def test_what_is_not_finished_is_listed(tmp_path):
    """A row of which a cell is missing, or was cut by its time, is not whole."""
    words = ("svm/labels:1/0.01", "svm/shuffled/0.01", "lasso/shuffled/0.01")
    matrix, store = Matrix(rows=words, only=("dualfl", "bundle"), minutes=1.0), Store(tmp_path)
    lasso, shuffled, labels = matrix.chosen
    for row in (shuffled, labels):
        for name in ("dualfl", "bundle"):
            store.put(outcome(matrix.cell(row, name), [1, 1e-6]))
    store.put(outcome(matrix.cell(lasso, "dualfl"), [1, 1e-6]))
    store.put(outcome(matrix.cell(lasso, "bundle"), [1, 1e-3]))  # its minute was up
    assert [(item.row, item.missing, item.cells) for item in unfinished(matrix, store)] == [(lasso, 1, 2)]
    assert "`lasso/shuffled/0.01`): 1 of 2 cells" in list_of(unfinished(matrix, store))
    whole = matrix.of([shuffled, labels])
    assert whole.chosen == [shuffled, labels] and not unfinished(whole, store)
    assert "Nothing is missing" in list_of([])


def test_auto_against_the_others(tmp_path):
    """`auto` sends ten times as much and needs half of the exchanges: a fast line decides for it, a slow one not."""
    matrix, store = Matrix(rows=("svm/labels:1/0.01",), only=("auto", "lbfgs")), Store(tmp_path)
    quiet = {"seconds": np.zeros(3)}
    auto = outcome(matrix.cell(ROW, "auto"), [1, 1e-6, 1e-8])
    auto = replace(auto, columns=auto.columns | quiet | {"certificate": np.array([np.nan, 1e-3, 1e-7])})
    rival = outcome(matrix.cell(ROW, "lbfgs"), [1, 1e-3, 1e-6])
    rival = replace(rival, columns=rival.columns | quiet | {"payload": np.array([0.0, 5e3, 1e4])})
    store.put(auto)
    store.put(rival)
    runs = reached(matrix, store)
    assert certified(auto) == 2
    (slow,), (fast,) = regrets(runs, Network(0.05, 1.0)), regrets(runs, Network(1.0, 10_000.0))
    assert (slow.fastest, fast.fastest) == ("lbfgs", "auto") and fast.factor == 1
    # auto: 1 exchange and 125,000 floats over a line; lbfgs: 2 and 10,000
    assert slow.factor == pytest.approx((0.05 + 125_000 * 64e-6) / (2 * 0.05 + 10_000 * 64e-6))
    drawn = fastest_figure(runs, "some rows").axes[0]
    assert {text.get_text() for text in drawn.texts} == {"lbfgs: 1", "auto: 1"}
    text = auto_markdown(runs)
    assert f"| {ROW.title} | 1 | 2 | lbfgs | 2 | 12 | 12 |" in text
    assert auto_markdown({ROW: {"lbfgs": rival}}).splitlines()[4] == f"| {ROW.title} | - | - | lbfgs | 2 | - | - |"


def test_a_search_finds_a_step_that_theory_does_not_take(tmp_path, monkeypatch):
    monkeypatch.setitem(experiment.TASKS, "lasso", experiment.Task("diabetes", "squared", "diabetes", 10))
    matrix = Matrix(rows=("lasso/0.01",), only=("gd", "auto"), size="quick", full=True)
    tune(matrix, tmp_path, minutes=1.0)
    assert tuned_file(tmp_path, matrix.chosen[0]).exists()
    values = read_tuned(tmp_path, matrix)
    assert list(values) == [("lasso", 0.01)] and list(values["lasso", 0.01]) == ["gd"]
    tuned = replace(matrix, tuned=values)
    cell = tuned.cell(MatrixRow("lasso", "shuffled", 1e-2), "gd")
    assert cell.hyperparameters == values["lasso", 0.01]["gd"]
    assert tuned.cell(MatrixRow("lasso", "shuffled", 1e-4), "gd").hyperparameters == {}


def test_a_thousand_clients_take_what_was_found_for_eight(tmp_path):
    (row,) = searched(Matrix(rows=("many/0.01",)))
    assert row == MatrixRow("logistic", "dirichlet:0.5", 1e-2)
    tuned_file(tmp_path, row).write_text('{"best": {"gd": {"hyperparameters": {"step": 0.5}}}}')
    values = read_tuned(tmp_path, Matrix())
    assert set(values) == {("logistic", 0.01), ("many", 0.01)} and values["many", 0.01] == {"gd": {"step": 0.5}}


def test_candidates_that_are_bad_at_first_do_not_run_to_the_end():
    matrix = Matrix(rows=("lasso/0.01",), only=("gd",))
    search = search_of(matrix, matrix.chosen[0])
    cells = [search.cell("gd", {}, rung) for rung in search.rungs]
    assert [(cell.rounds, cell.exchanges) for cell in cells] == [(8, 8), (24, 24)]
    assert {cell.rows for cell in cells} == {2000}


def test_a_search_takes_few_candidates_from_all_parts_of_a_grid():
    matrix = Matrix(rows=("lasso/0.01",), only=("gd",))
    some, all_of_them = search_of(matrix, matrix.chosen[0]), replace(search_of(matrix, matrix.chosen[0]), at_most=None)
    few, every = some.candidates("gd"), all_of_them.candidates("gd")
    assert few[0] == {} and few == every[:5] and len(every) > 5
    steps = sorted(cell["step"] for cell in every[1:])
    assert min(cell["step"] for cell in few[1:]) < np.median(steps) < max(cell["step"] for cell in few[1:])


def test_energies_measured_in_one_piece_are_those_of_the_engine(tmp_path):
    """The counts of a cell do not depend on whether its certificate is kept."""
    cell = replace(Matrix(size="quick").cell(ROW, "lbfgs"), dataset="breast_cancer", loss="logistic", clients=2)
    cell = replace(cell, l1=0.0, target=1e-9)
    fast, slow = run_cell(cell), run_cell(replace(cell, certificate=True))
    assert not cell.certificate and len(fast.errors) > 5
    np.testing.assert_allclose(fast.errors, slow.errors, rtol=1e-6, atol=1e-13)
    for name in ("exchanges", "contacts", "payload", "local_gradients", "floats_up", "floats_down"):
        np.testing.assert_array_equal(fast.columns[name], slow.columns[name])
    assert np.isnan(fast.columns["certificate"]).all() and np.isfinite(slow.columns["certificate"][-1])
    assert slow.serves(cell) and not fast.serves(replace(cell, certificate=True))
    assert cell.digest == replace(cell, certificate=True).digest


def test_a_long_run_is_kept_by_what_tells(tmp_path):
    """Counts to every power of ten are the same after the file, and the file is short."""
    cell, store = Matrix().cell(ROW, "dualfl"), Store(tmp_path)
    errors = np.geomspace(1, 1e-6, 500)
    long = outcome(cell, errors)
    store.put(long)
    for level in (1e-2, 1e-4, 1e-6):
        assert score(store[cell], level, NETWORK) == score(long, level, NETWORK)
    assert len(store[cell].errors) < 70 and store[cell].errors[-1] == errors[-1]


def test_cells_are_kept_in_one_file(tmp_path):
    cell, store = Matrix().cell(ROW, "dualfl"), Store(tmp_path / "cells")
    store.put(outcome(cell, [1, 1e-6]))
    pack(store.folder, tmp_path / "cells.zip")
    first = (tmp_path / "cells.zip").read_bytes()
    pack(store.folder, tmp_path / "cells.zip")
    assert (tmp_path / "cells.zip").read_bytes() == first
    unpack(tmp_path / "cells.zip", tmp_path / "other")
    assert Store(tmp_path / "other")[cell].errors[-1] == 1e-6
    unpack(tmp_path / "nowhere.zip", tmp_path / "other")
    (tmp_path / "cells.zip").write_bytes(first[:-30])
    with pytest.raises(InputError, match="damaged"):
        unpack(tmp_path / "cells.zip", tmp_path / "third")
