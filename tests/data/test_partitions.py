"""Every partition by name: that it splits the rows, that it does what its name says, and who has what in the end."""

import itertools
import re

import numpy as np
import pytest
from click.testing import CliRunner

from dualfl.cli import main
from dualfl.data import Dataset, Mix, load, make_problem, partition, rows_of_clients
from dualfl.data.partitions import _dirichlet, _stream
from dualfl.errors import InputError
from dualfl.objectives import L1, EpsilonInsensitive, Huber, Poisson, Quantile

Y = np.arange(1000) * 7 % 10  # ten labels, 100 rows each
WARDS = np.array(["north", "south", "east", "west"])[np.arange(1000) % 4]
NAMES = ["even", "shuffled", "label", "dirichlet:0.5", "dirichlet:0.05", "labels:2", "quantity:20", "column:ward"]


IMPOSSIBLE = {("labels:2", 1), ("labels:2", 4), ("column:ward", 8), ("column:ward", 64)}


def shares(parts, y=Y):
    return Mix(np.stack([np.bincount(y[rows], minlength=10) for rows in parts]), tuple("0123456789"))


def split(name, clients, seed=0, y=Y):
    return partition(name, y, clients, seed, lambda name: WARDS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("clients", [1, 4, 8, 64])
def test_every_row_belongs_to_one_client_and_every_client_has_one(name, clients):
    if (name, clients) in IMPOSSIBLE:
        pytest.skip("this cannot be, and another test hears it said")
    parts = split(name, clients)
    assert len(parts) == clients and min(map(len, parts)) >= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1000))
    assert all((np.diff(rows) > 0).all() for rows in parts)


@pytest.mark.parametrize("name", ["shuffled", "dirichlet:0.5", "labels:2", "quantity:20"])
def test_the_seed_decides_and_nothing_else_does(name):
    def flat(seed):
        return [rows.tolist() for rows in split(name, 8, seed)]

    assert flat(3) == flat(3) != flat(4)


def test_these_very_rows_are_drawn_with_any_numpy():
    y = np.arange(12) % 3
    assert [r.tolist() for r in partition("dirichlet:1", y, 3)] == DIRICHLET
    assert [r.tolist() for r in partition("labels:2", y, 3)] == LABELS
    assert [r.tolist() for r in partition("quantity:4", 7, 3)] == QUANTITY


DIRICHLET = [[4, 5], [1, 7, 8, 11], [0, 2, 3, 6, 9, 10]]
LABELS = [[1, 4, 5, 11], [2, 6, 8, 9], [0, 3, 7, 10]]
QUANTITY = [[1, 2, 4, 5], [0, 3], [6]]


def test_label_sorts():
    mix = shares(split("label", 10))
    np.testing.assert_array_equal(mix.counts, 100 * np.eye(10))
    assert mix.heterogeneity == pytest.approx(1)
    real = np.cos(np.arange(50.0))
    parts = partition("label", real, 5)
    assert all(real[a].max() <= real[b].min() for a, b in itertools.pairwise(parts))


def test_labels_gives_every_client_so_many_and_every_label_as_many_clients():
    for clients, count in [(5, 2), (8, 2), (20, 3), (100, 1), (7, 10)]:
        held = shares(split(f"labels:{count}", clients)).counts > 0
        assert (held.sum(axis=1) == count).all()
        assert np.ptp(held.sum(axis=0)) <= 1


def test_quantity_has_the_ratio():
    sizes = np.array([len(rows) for rows in split("quantity:20", 6, y=np.zeros(10_000, int))])
    assert sizes.sum() == 10_000
    np.testing.assert_allclose(sizes[1:] / sizes[:-1], 20 ** (-1 / 5), rtol=0.01)
    assert sizes[0] / sizes[-1] == pytest.approx(20, rel=0.01)


def test_columns_stay_together():
    parts = split("column:ward", 4)
    assert sorted(WARDS[rows[0]] for rows in parts) == sorted(set(WARDS))
    assert all(len(set(WARDS[rows])) == 1 for rows in parts)
    two = split("column:ward", 2)
    assert [len(rows) for rows in two] == [500, 500] and not set(WARDS[two[0]]) & set(WARDS[two[1]])
    for counts, clients in [([1, 1, 96, 1, 1], 4), ([1, 1, 98], 3), ([98, 1, 1], 3), ([50, 1, 49], 2)]:
        ages = np.repeat(np.arange(len(counts)), counts)
        parts = partition("column:age", np.zeros(100, int), clients, 0, lambda name, ages=ages: ages)
        assert min(len(rows) for rows in parts) >= 1 and sum(len(rows) for rows in parts) == 100
    assert [len(rows) for rows in parts] == [50, 50]


@pytest.mark.parametrize("A", [0.05, 0.5, 1.0, 5.0])
def test_dirichlet_has_the_moments_of_dirichlet(A):
    N = 4
    draws = np.array([_dirichlet(_stream(0, k), N, A) for k in range(4000)])
    variance = (1 / N) * (1 - 1 / N) / (N * A + 1)
    np.testing.assert_allclose(draws.mean(axis=0), 1 / N, atol=4 * np.sqrt(variance / 4000))
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.1)


def test_smaller_concentrations_are_less_even():
    found = [shares(split(f"dirichlet:{A}", 8)).heterogeneity for A in ("0.05", "0.5", "5", "500")]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.7 and found[-1] < 0.15
    assert split("dirichlet:1e-3", 8)  # Gamma(A) underflows, its logarithm does not


REAL = np.linspace(0, 1, 50)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: split("dirichlet", 2), "dirichlet needs a number after a colon, such as dirichlet:0.5, and"),
        (lambda: split("labels:1.5", 2), "labels needs a whole number after a colon, such as labels:2"),
        (lambda: split("column:", 2), "column needs a name after a colon"),
        (lambda: split("even:3", 2), "takes nothing after a colon"),
        (lambda: split("dirichlet:0", 2), "finite A > 0, and A = 0"),
        (lambda: split("dirichlet:nan", 2), "finite A > 0, and A = nan"),
        (lambda: split("labels:11", 2), "1 <= S <= 10, the number of labels, and S = 11"),
        (lambda: split("labels:2", 4), "4 clients .* cannot hold all 10 labels; take at least 5 clients, or labels:3"),
        (lambda: split("labels:2", 600), "has 100 row.*missing on a client"),
        (lambda: split("quantity:0.5", 2), "finite R >= 1, and R = 0.5"),
        (lambda: split("quantity:1000", 64), r"needs [0-9,]+ rows, so that the smallest client has one"),
        (lambda: split("column:ward", 5), "'ward' has 4 different values, too few for 5 clients"),
        (lambda: split("dirichlet:1", 1001), "1,000 rows cannot be split among 1,001 clients"),
        (lambda: partition("labels:2", REAL, 4), "needs class labels, and the targets are real numbers; take label"),
        (lambda: partition("dirichlet:1", REAL, 4), "needs class labels"),
        (lambda: partition("label", 50, 4), "needs the targets"),
        (lambda: partition("column:a", REAL, 4), "there are none"),
        (lambda: make_problem("iris", partition="column:sex"), "There is no column 'sex'; there are petal"),
        (lambda: make_problem("digits", partition="column:foo"), r"are (pixel_0_\d, ){8}\.\.\. \(64 in all\)\.$"),
        (lambda: make_problem("diabetes", loss="quantile:x"), "such as quantile:0.9"),
        (lambda: make_problem("diabetes", loss="squared:2"), "takes no number"),
        (lambda: make_problem("diabetes", loss="quantile:2"), "0 < tau < 1"),
        (lambda: make_problem("diabetes", l1=-1), "finite number >= 0, and it is -1"),
    ],
)
def test_what_cannot_be_is_a_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()


# -- who has what -----------------------------------------------------------------------------------------


def test_heterogeneity_by_its_definition():
    mix = shares(split("dirichlet:0.5", 8))
    pooled = mix.counts.sum(axis=0) / 1000
    by_hand = sum(
        row.sum() / 1000 * sum(abs(row / row.sum() - pooled)) / 2 / (1 - sum(pooled**2)) for row in mix.counts
    )
    assert mix.heterogeneity == pytest.approx(by_hand, rel=1e-12)
    assert 0 < mix.heterogeneity < 1
    one = Mix(np.array([[3], [4]]), ("a",))
    assert one.heterogeneity == 0.0


def test_shuffled_rows_are_as_unlike_as_chance_makes_them():
    y = np.arange(20_000) % 10
    found = shares(partition("shuffled", y, 8), y).heterogeneity
    assert found == pytest.approx(0.4 * np.sqrt(10 / 2500), rel=0.25)


@pytest.mark.parametrize(("labels", "clients"), [(2, 3), (10, 8), (13, 20), (14, 5), (60, 40), (200, 1000)])
def test_the_picture_fits_80_columns(labels, clients):
    y = np.arange(6000) % labels
    data = Dataset(
        np.zeros((6000, 1)), y, tuple(f"name {k}" for k in range(labels)), "own", 1.0, "here", "classification"
    )
    text = Mix.of(data, rows_of_clients(data, clients, "dirichlet:0.3")).picture()
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line[:6].strip().isdigit() for line in text.splitlines()) == min(clients, 16)
    assert ("16 of" in text) == (clients > 16)
    assert "Heterogeneity 0." in text


def test_the_picture_shows_who_has_what():
    data = Dataset(np.zeros((4, 1)), np.array([0, 0, 0, 1]), ("no", "yes"), "own", 1.0, "here", "classification")
    lines = Mix.of(data, [np.array([0, 1]), np.array([2, 3])]).picture().splitlines()
    assert lines[:3] == ["client    rows   no  yes", "     0       2 █100    .", "     1       2 ▓ 50 ▓ 50"]
    assert lines[-2] == "Each client has 2 rows and 1 to 2 of 2 labels."
    assert lines[-1].startswith("Heterogeneity 0.667 ")


def cells(line):
    return re.findall(r"([░▒▓█])? *(\d+|\.)", line[14:])


def test_shades_follow_the_numbers_beside_them():
    counts = np.array([[k, 1000 - k] for k in range(1001)])
    pairs = set()
    for row in counts:
        pairs.update(cells(Mix(row[None], ("no", "yes")).picture().splitlines()[1]))
    assert ("", ".") in pairs
    pairs.remove(("", "."))
    order = sorted((int(number), "░▒▓█".index(shade)) for shade, number in pairs)
    assert [number for number, _ in order] == list(range(1, 101))  # each number has one shade
    ranks = [rank for _, rank in order]
    assert ranks == sorted(ranks) and ranks[0] < ranks[23] and set(ranks) == {0, 1, 2, 3}


@pytest.mark.parametrize("labels", [2, 14, 60, 200])
def test_a_single_row_is_not_drawn_as_none(labels):
    counts = np.zeros((2, labels), int)
    counts[:, 0] = 100_000
    counts[0, -1] = 1
    lines = Mix(counts, tuple(map(str, range(labels)))).picture().splitlines()
    some, none = (line for line in lines if line[:6].strip() in ("0", "1"))
    assert some.rstrip(" 1").endswith("░") and none.endswith(".")
    assert some[14] == none[14] == " "  # a dot beside the number of rows would belong to it


def test_real_targets_are_binned():
    data = load("diabetes")
    assert Mix.of(data, rows_of_clients(data, 10, "label")).heterogeneity > 0.9
    assert Mix.of(data, rows_of_clients(data, 10, "shuffled")).heterogeneity < 0.35


def test_the_command_shows_it():
    done = CliRunner().invoke(main, ["datasets", "iris", "--partition", "label", "--clients", "3"])
    assert done.exit_code == 0
    assert "Heterogeneity 1.000" in done.output and "setosa"[:4] in done.output
    wrong = CliRunner().invoke(main, ["datasets", "iris", "--partition", "labels:1", "--clients", "2"])
    assert wrong.exit_code == 2 and "cannot hold all 3 labels" in wrong.stderr


# -- problems with them -----------------------------------------------------------------------------------


def test_problems_take_partitions_losses_and_l1():
    problem = make_problem("diabetes", partition="label", loss="quantile:0.9", l1=0.1)
    assert problem.clients[0].loss == Quantile(0.9) and problem.penalty == L1(0.1)
    assert make_problem("diabetes", loss="epsilon-insensitive:0.3").clients[0].loss == EpsilonInsensitive(0.3)
    assert make_problem("diabetes", loss="huber:2").clients[0].loss == Huber(2.0)
    assert make_problem("diabetes", loss="poisson").clients[0].loss == Poisson()
    assert make_problem("diabetes").penalty is None


@pytest.mark.parametrize("name", ["label", "dirichlet:0.5", "labels:2", "quantity:9"])
def test_the_pooled_cost_does_not_depend_on_who_has_what(name):
    whole, parts = make_problem("iris", clients=1), make_problem("iris", clients=7, partition=name)
    x = np.cos(np.arange(15))
    assert parts.value(x) == pytest.approx(whole.value(x), rel=1e-14)


def test_named_features_are_columns_too():
    data = Dataset(
        np.array([[1.0, 5.0], [1.0, 6.0], [2.0, 7.0]]),
        np.zeros(3),
        (),
        "own",
        1.0,
        "here",
        "regression",
        names=("site", "age"),
        columns={"ward": np.array(["x", "y", "y"])},
    )
    assert [r.tolist() for r in rows_of_clients(data, 2, "column:site")] == [[0, 1], [2]]
    assert [r.tolist() for r in rows_of_clients(data, 2, "column:ward")] == [[0], [1, 2]]
    with pytest.raises(InputError, match="did you mean ward"):
        rows_of_clients(data, 2, "column:wardd")
