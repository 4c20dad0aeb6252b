"""From named sets to problems: scales, partitions, losses, and the reference value with its cache."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from dualfl.data import DATASETS, Dataset, even, load, make_problem, partition, shuffled
from dualfl.data.partitions import take
from dualfl.engines import Problem
from dualfl.errors import InputError
from dualfl.files import cache_folder
from dualfl.objectives import Huber, LinearModel, Squared
from dualfl.optimum import reference
from dualfl.solvers import GradientNorm, minimise

BUNDLED = [name for name, entry in DATASETS.items() if not entry.files]


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_sets_are_what_the_catalogue_says(name):
    data, entry = load(name), DATASETS[name]
    assert data.X.shape == (entry.rows, entry.features)
    assert len(data.classes) == entry.classes
    assert data.task == entry.task


def test_digits_are_pixels_between_0_and_1():
    data = load("digits")
    assert data.X.dtype == np.uint8
    assert (data.scale * data.X).max() == 1.0
    assert load("digits", scale="raw").scale == 1.0
    assert load("digits", scale=0.5).scale == load("digits", scale="0.5").scale == 0.5


def test_tables_are_standardised_unless_raw():
    data, raw = load("wine"), load("wine", scale="raw")
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(data.X.std(axis=0), 1)
    np.testing.assert_allclose(data.X * data.spread + data.center, raw.X)
    assert raw.center is None


@pytest.mark.parametrize("scale", ["big", 0, -1, "inf", "nan"])
def test_a_bad_scale_is_a_sentence(scale):
    with pytest.raises(InputError, match="scale must be"):
        load("iris", scale=scale)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: load("digit"), "did you mean digits"),
        (lambda: load("iris", layout="sparce"), "did you mean sparse"),
        (lambda: partition("shufled", 10, 2), "did you mean shuffled"),
        (lambda: partition("even", 3, 4), "3 rows cannot be split among 4 clients"),
        (lambda: partition("even", 3, 0), "at least one client"),
        (lambda: make_problem("iris", loss="logistc"), "did you mean logistic"),
        (lambda: make_problem("iris", loss="logistic"), "does not suit iris, which has 3 classes; take softmax"),
        (lambda: make_problem("diabetes", loss="softmax"), "real targets; take squared or huber or absolute"),
    ],
)
def test_bad_names_and_numbers_are_sentences(call, says):
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize("name", ["even", "shuffled"])
@pytest.mark.parametrize(("n", "clients"), [(10, 1), (10, 3), (7, 7), (1000, 64)])
def test_every_row_belongs_to_one_client(name, n, clients):
    parts = partition(name, n, clients, seed=3)
    assert len(parts) == clients
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_shuffles_depend_on_the_seed_and_on_nothing_else():
    assert [part.tolist() for part in shuffled(8, 2, seed=0)] == [[1, 2, 4, 5], [0, 3, 6, 7]]
    assert [part.tolist() for part in shuffled(8, 2, seed=1)] != [part.tolist() for part in shuffled(8, 2, seed=0)]


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.csr_matrix])
def test_consecutive_rows_are_views(kind):
    dense = np.random.default_rng(0).integers(0, 3, (100, 8)).astype(np.uint8)
    X = kind(dense)
    for rows in even(100, 3):
        part = take(X, rows)
        assert np.shares_memory(part.data, X.data)
        np.testing.assert_array_equal(part.toarray() if sp.issparse(part) else part, dense[rows])
    mixed = np.array([5, 1, 7])
    part = take(X, mixed)
    np.testing.assert_array_equal(part.toarray() if sp.issparse(part) else part, dense[mixed])


def test_clients_share_the_rows_of_the_set():
    data = load("digits")
    problem = make_problem(data, clients=5)
    assert all(np.shares_memory(f.design.X, data.X) for f in problem.clients)


@pytest.mark.parametrize(("name", "loss", "shape"), [("iris", "Softmax", (5, 3)), ("breast_cancer", "Logistic", (31,))])
def test_the_loss_fits_the_targets(name, loss, shape):
    problem = make_problem(name, clients=3)
    assert type(problem.clients[0].loss).__name__ == loss
    assert problem.shape == shape
    assert problem.clients[0].mu == 1e-2


def test_real_targets_give_least_squares():
    assert isinstance(make_problem("diabetes").clients[0].loss, Squared)
    assert make_problem("diabetes", loss=Huber(2.0)).clients[0].loss == Huber(2.0)


@pytest.mark.parametrize("name", ["even", "shuffled"])
def test_every_partition_has_the_pooled_cost(name):
    whole, parts = make_problem("iris", clients=1), make_problem("iris", clients=7, partition=name)
    x = np.cos(np.arange(15))
    assert parts.value(x) == pytest.approx(whole.value(x), rel=1e-14)


def test_accuracy_is_that_of_the_best_class():
    data = load("iris")
    found = minimise(make_problem(data, clients=1, ridge=1e-3).pooled)
    Z = np.c_[data.X, np.ones(150)] @ found.x.reshape(5, 3)
    assert data.accuracy(found.x.reshape(5, 3)) == (Z.argmax(axis=1) == data.y).mean() > 0.95


def test_two_classes_are_told_by_the_sign():
    data = load("breast_cancer")
    found = minimise(make_problem(data, clients=1).pooled)
    assert data.accuracy(found.x) > 0.97


# -- the reference value ----------------------------------------------------------------------------------


def test_reference_is_the_minimum():
    problem = make_problem("wine", clients=4)
    found = minimise(problem.pooled, stop=GradientNorm(1e-11))
    assert reference(problem) == pytest.approx(found.value, rel=1e-14)


def files():
    return sorted((cache_folder() / "reference").glob("*.json"))


def test_reference_is_kept_and_mended(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path))
    problem = make_problem("iris", clients=2)
    value = reference(problem)
    (path,) = files()
    with monkeypatch.context() as patch:
        module = sys.modules["dualfl.optimum.cached"]  # the name alone is the function's
        patch.setattr(module, "find_minimum", lambda problem: pytest.fail("it was known"))
        assert reference(make_problem("iris", clients=2)) == value
        for clients, partition in [(3, "even"), (7, "shuffled"), (4, "dirichlet:0.5"), (5, "quantity:9")]:
            assert reference(make_problem("iris", clients=clients, partition=partition)) == value
    whole = path.read_text()
    changed = json.loads(whole) | {"energy": (1.0).hex()}
    better = json.loads(whole) | {"accuracy": (0.0).hex()}
    for damage in (whole[:20], "", "[]", json.dumps(changed), json.dumps(better)):
        path.write_text(damage)
        assert reference(problem) == value
        assert path.read_text() == whole


def test_different_problems_have_different_files(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path))
    for problem in (
        make_problem("iris", clients=2),
        make_problem("iris", clients=2, ridge=1e-3),
        make_problem("iris", clients=2, l1=0.01),
        make_problem("iris", clients=2, l1=0.02),
        make_problem(load("iris", scale="raw"), clients=2, ridge=1.0),
        make_problem(replace(load("iris"), y=load("iris").y[::-1].copy()), clients=2),
        Problem(make_problem("iris", clients=2).clients, sizes=[1, 2]),
    ):
        reference(problem)
    assert len(files()) == 7


def test_reference_works_where_nothing_can_be_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path / "file"))
    assert reference(make_problem("iris")) > 0


def test_a_set_of_ones_own_is_a_few_words():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    own = Dataset(X, np.array([0, 0, 1, 1]), ("low", "high"), "own", 1.0, "here", "classification")
    problem = make_problem(own, clients=2)
    assert isinstance(problem.clients[0], LinearModel)
    assert own.title == "own, 4 rows x 1 features, 2 classes"
