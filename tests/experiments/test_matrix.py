"""The matrix: which cells it has, what it counts, and who is best."""

from dataclasses import replace

import numpy as np
import pytest

from dualfl.errors import InputError
from dualfl.experiments import matrix as experiment
from dualfl.experiments.cells import COLUMNS, Outcome
from dualfl.experiments.matrix import Matrix, MatrixRow, score, table
from dualfl.experiments.network import Network
from dualfl.experiments.running import run_cell
from dualfl.experiments.store import Store
from dualfl.report.matrix import heat_map

NETWORK = Network(latency=0.1, bandwidth=8.0)
ROW = MatrixRow("svm", "labels:1", 1e-2)


def outcome(cell, errors, exchanges=1, status="ok"):
    n = np.arange(len(errors), dtype=float)
    columns = dict.fromkeys(COLUMNS, n) | {"exchanges": exchanges * n, "relative_error": np.array(errors)}
    columns |= {"floats_up": 1e6 * n, "floats_down": 0 * n, "seconds": 8 * n}
    return Outcome(cell, status, columns | {"contacts": 8 * exchanges * n, "payload": 1e6 / 8 * n}, 1.0)


def test_forty_rows():
    assert len(Matrix().chosen) == 40 and len(set(Matrix().chosen)) == 40


def test_rows_are_chosen_by_words():
    assert len(Matrix(rows=("svm",)).chosen) == 8
    assert Matrix(rows=("svm/labels:1/0.01",)).chosen == [ROW]
    assert len(Matrix(rows=("labels:1", "lasso")).chosen) == 10 + 6


@pytest.mark.parametrize("given", [{"rows": ("sv",)}, {"rows": ("svm/nowhere",)}, {"only": ("dualf",)}, {"minutes": 0}])
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
        cell = replace(Matrix(quick=True).cell(ROW, name), dataset="breast_cancer", partition="shuffled", rounds=3)
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
    rows = {line[3]: line for line in experiment.csv_rows(found)[1:]}
    assert "exchanges" in rows["dualfl"][-4] and rows["bundle"][-4] == ""
    assert rows["gd"][-1] == "does not apply: no gradient"
    assert rows["bundle"][-3:] == ["1e-05", "2", "time"] and rows["dualfl"][-1] == "reached"
    text = experiment.markdown(found, NETWORK)
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
