"""Silos that are reached by bytes give the iterates of one process, to the last bit, in whatever order they answer."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from loopback import Loopback, csv_homes, pickled_homes, run_over

from dualfl.algorithms import plugins
from dualfl.algorithms.codecs import TopK
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.data import make_problem
from dualfl.engines import Problem, run
from dualfl.engines.request import Limits, Recording
from dualfl.engines.session import Session
from dualfl.errors import InputError
from dualfl.federation.courier import Courier
from dualfl.federation.experiment import Experiment
from dualfl.federation.model import template
from dualfl.federation.remote import Federation, Remote, Terms
from dualfl.federation.silo_folder import SiloFolder
from dualfl.federation.wire import decode
from dualfl.objectives.penalties import L1

TABLE = {"loss": "auto", "ridge": 0.1, "l1": 0.0, "solver": None, "intercept": "penalised"}


def rows(history):
    return [row._replace(seconds=0.0) for row in history]


def same(a, b):
    return np.array_equal(a.theta, b.theta) and rows(a.history) == rows(b.history) and a.certificate == b.certificate


# One of each kind: all asked, a cohort, several exchanges, stochastic, sparse, low rank, uniform weights, one client.
KINDS = ["dualfl", "feddyn", "giant", "s-local-svrg", "tamuna", "fednl", "apcg-dual", "extragradient", "lbfgs"]


@pytest.mark.parametrize("name", KINDS)
def test_the_iterates_are_those_of_one_process(name, tmp_path):
    problem = make_problem("iris", clients=4)  # 38, 38, 37 and 37 rows
    expected = run(problem, make(name), rounds=3, seed=5, threads=1)
    homes = pickled_homes(tmp_path, problem)
    terms = Terms("e", tuple(home.name for home in homes), make(name), seed=5, tables=False)
    backwards = Loopback(homes, order=lambda nodes: sorted(nodes, reverse=True))
    result, _ = run_over(backwards, terms, problem.clients[0], rounds=3)
    assert same(result, expected)


@pytest.mark.parametrize("name", ["dualfl", "giant"])
def test_time_ends_the_wait_for_silos(name, tmp_path):
    """A silo that takes for ever: the run ends in time, at the last model that was measured, and can go on."""
    problem = make_problem("iris", clients=2)
    homes = pickled_homes(tmp_path, problem)
    terms = Terms("e", tuple(home.name for home in homes), make(name), tables=False)

    def slow(transport, node, request, answer):
        asked = decode(request)
        return [] if asked["kind"] == "step" and asked["round"] == 2 and node == 101 else None

    options = {"rounds": 4, "path": tmp_path / "run.npz"}
    began = time.perf_counter()
    first, _ = run_over(Loopback(homes, slow), terms, problem.clients[0], seconds=1.0, **options)
    assert time.perf_counter() - began < 10 and first.stopped == "time" and 1 <= first.rounds <= 2
    whole, _ = run_over(Loopback(homes), terms, problem.clients[0], resume=True, **options)
    assert same(whole, run(problem, make(name), rounds=4, threads=1))


@pytest.mark.parametrize("name", ["dualfl", "feddr"])
def test_a_penalty_a_start_and_a_codec_travel(name, tmp_path):
    problem = make_problem("iris", clients=3)
    problem = Problem(problem.clients, penalty=L1(0.01))
    start = np.linspace(-1, 1, problem.d)
    codec = TopK(8) if name == "dualfl" else None
    expected = run(problem, make(name), rounds=3, start=start, codec=codec, threads=1)
    homes = pickled_homes(tmp_path, problem)
    names = tuple(home.name for home in homes)
    terms = Terms("e", names, make(name), start=start, codec=codec, tables=False)
    result, _ = run_over(Loopback(homes), terms, problem.clients[0], problem.penalty, rounds=3)
    assert same(result, expected)


def test_an_algorithm_that_a_silo_has_not_installed_is_refused_by_name(tmp_path, monkeypatch):
    """And nothing is agreed: the same experiment goes on with another one."""
    monkeypatch.setattr(ALGORITHMS, "plugins", {})
    monkeypatch.setattr(plugins, "_files", {})
    (HeavyBall,) = plugins.load_plugin(Path(__file__).parents[2] / "examples" / "own_algorithm.py")
    problem = make_problem("iris", clients=2)
    homes = pickled_homes(tmp_path, problem)
    terms = Terms("e", tuple(home.name for home in homes), HeavyBall(), tables=False)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(ALGORITHMS, "plugins", {})  # as the silos would have it
        with pytest.raises(
            InputError,
            match=r"^Silo 'silo-000': the algorithm 'heavy-ball' is not installed at this silo; its operator can .*\.$",
        ):
            run_over(Loopback(homes), terms, problem.clients[0], rounds=3)
        other, _ = run_over(Loopback(homes), replace(terms, algorithm=make("gd")), problem.clients[0], rounds=3)
        assert other.rounds == 3
    again = replace(terms, experiment="f")  # installed by now
    result, _ = run_over(Loopback(homes), again, problem.clients[0], rounds=3)
    assert same(result, run(problem, HeavyBall(), rounds=3, threads=1))


def test_files_are_harmonised_and_standardised_by_sums_alone(tmp_path):
    homes = csv_homes(tmp_path)
    terms = Terms("e", ("a", "b", "c"), make("dualfl"), TABLE)
    result, engine = run_over(Loopback(homes), terms, None, rounds=4)
    objectives = [Experiment(SiloFolder(home), "e").source[0] for home in homes]
    assert same(result, run(Problem(objectives), make("dualfl"), rounds=4, threads=1))
    table = [line.split(",") for home in homes for line in (home / "data.csv").read_text().splitlines()[1:]]
    ages = np.array([float(row[0]) for row in table])
    towns = [row[2] for row in table]
    assert max(towns, key=towns.count) == "west"  # the most frequent level has no column
    assert engine.setup.schema.names == ("age", "income", "town=north", "town=south")
    assert engine.setup.schema.classes == ("no", "yes")
    assert np.isclose(engine.setup.center[0], ages.mean()) and np.isclose(engine.setup.spread[0], ages.std())
    pooled = np.concatenate([f.design.X for f in objectives])
    assert np.allclose(pooled.mean(axis=0), 0) and np.allclose(pooled.std(axis=0), 1)


def test_measuring_costs_one_exchange_in_all_and_the_file_is_read_once(tmp_path, monkeypatch):
    homes = csv_homes(tmp_path)
    result, engine = run_over(Loopback(homes), Terms("e", ("a", "b", "c"), make("dualfl"), TABLE), None, rounds=5)
    # hello, agree, moments, survey, five rounds, and the value of the last model
    assert engine.federation.post.traffic.messages == 3 * (4 + 5 + 1)
    assert result.history[-1].exchanges == 5

    def unread(*args):
        raise AssertionError("a later round reads the data file")

    monkeypatch.setattr("dualfl.federation.silo_folder.read_rows", unread)
    monkeypatch.setattr("dualfl.federation.silo_folder.digest_of", unread)
    assert Experiment(SiloFolder(homes[0]), "e").source[0].n == 40


def test_the_bytes_of_a_round_are_its_floats_times_eight(tmp_path):
    rng, d = np.random.default_rng(0), 100_000
    from dualfl.objectives import LinearModel, Squared

    clients = [LinearModel(rng.standard_normal((2, d)), np.ones(2), Squared(), 1.0) for _ in range(2)]
    homes = pickled_homes(tmp_path, Problem(clients))
    terms = Terms("e", tuple(home.name for home in homes), make("dualfl"), tables=False)
    result, engine = run_over(Loopback(homes), terms, clients[0], rounds=3)
    last, traffic = result.history[-1], engine.federation.post.traffic
    assert traffic.up <= 1.1 * 8 * last.floats_up
    # The model that is measured last goes down once more, on its own.
    assert traffic.down <= 1.1 * 8 * (last.floats_down + 2 * d)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"data.csv": "age,town,sick\n1.0,x,yes\n2.0,y,no\n"}, "Silo 'b' has no column 'income', which silo 'a' has"),
        (
            {"data.csv": "age,income,town,sick,zip\n1,2,x,yes,3\n2,1,y,no,4\n"},
            "Silo 'a' has no column 'zip', which silo 'b' has",
        ),
        (
            {"data.csv": "age,income,town,sick\n1,2,x,0.5\n2,1,y,1.7\n"},
            "a regression target and silo 'a' a classification",
        ),
        (
            {"data.csv": "age,income,town,sick\n1,2,x,yes\n2,inf,y,no\n"},
            "Silo 'b': its data file has entries in column 'income' that are neither finite numbers nor texts",
        ),
        ({"silo.json": {"minimum": 4}}, "Silo 'b': .*at least 4 silos, and the plan has 3"),
        ({"silo.json": {"secure_only": True}}, "Silo 'b': .*sends nothing without secure aggregation"),
        ({"silo.json": {"name": "a", "identity": "id-b"}}, "Two silos call themselves 'a'"),
        ({"silo.json": {"name": "z"}}, "called 'z' has joined, but it is none of a, b, c"),
        ({"silo.json": {"data": "gone.csv"}}, "Silo 'b': There is no data file"),
    ],
)
def test_what_silos_cannot_agree_on_is_said_with_the_silo(change, sentence, tmp_path):
    homes = csv_homes(tmp_path)
    for file, content in change.items():
        path = homes[1] / file
        if isinstance(content, dict):
            content = json.dumps(json.loads(path.read_text()) | content)
        path.write_text(content)
    with pytest.raises(InputError, match=sentence):
        run_over(Loopback(homes), Terms("e", ("a", "b", "c"), make("dualfl"), TABLE), None, rounds=1)


def test_an_algorithm_that_does_not_fit_is_refused_before_the_first_round(tmp_path):
    homes = csv_homes(tmp_path)
    terms = Terms("e", ("a", "b", "c"), make("dualfl"), TABLE | {"ridge": 0.0})
    with pytest.raises(InputError, match="strong"):
        run_over(Loopback(homes), terms, None, rounds=1)


@pytest.mark.parametrize("kind", ["npz", "libsvm", "parquet"])
def test_other_files_do_too(kind, tmp_path):
    rng = np.random.default_rng(0)
    homes = []
    for name, n in (("a", 20), ("b", 30)):
        home = tmp_path / name
        home.mkdir()
        X, y = rng.standard_normal((n, 3)), rng.integers(0, 2, n)
        X[:, 2] *= name == "a"  # a LIBSVM file of b does not show its last column
        write = {"npz": write_npz, "libsvm": write_libsvm, "parquet": write_parquet}[kind]
        write(home / f"data.{kind}", X, y)
        settings = {
            "name": name,
            "data": f"data.{kind}",
            "target": "y" if kind == "parquet" else None,
            "identity": name,
        }
        (home / "silo.json").write_text(json.dumps(settings))
        homes.append(home)
    result, engine = run_over(Loopback(homes), Terms("e", ("a", "b"), make("dualfl"), TABLE), None, rounds=2)
    assert engine.setup.schema.names == ("x0", "x1", "x2") and result.energy < np.log(2)
    assert (engine.setup.center is None) == (kind == "libsvm")  # sparse rows stay sparse


def write_npz(path, X, y):
    np.savez(path, X=X, y=y)


def write_libsvm(path, X, y):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(X, y, str(path), zero_based=False)


def write_parquet(path, X, y):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {f"x{i}": X[:, i] for i in range(3)} | {"y": y.astype(float)}
    parquet.write_table(pyarrow.table(columns), path)


@pytest.mark.parametrize("cost", ["exchanges", "floats"])
def test_auto_asks_the_silos_and_runs_what_one_process_would_choose(cost, tmp_path):
    homes = csv_homes(tmp_path, (60, 45, 52))
    terms = Terms("e", ("a", "b", "c"), make("auto", cost=cost), TABLE)
    result, _ = run_over(Loopback(homes), terms, None, rounds=4)
    objectives = [Experiment(SiloFolder(home), "e").source[0] for home in homes]
    expected = run(Problem(objectives), make("auto", cost=cost), rounds=4, threads=1)
    assert result.choice == expected.choice and result.algorithm.name == expected.algorithm.name
    assert (result.history[-1].exchanges, result.rounds) == (expected.history[-1].exchanges, 4)
    assert same(result, expected)


def test_auto_takes_gradients_of_a_silo_with_few_rows(tmp_path):
    homes = csv_homes(tmp_path, (60, 4, 52))
    terms = Terms("e", ("a", "b", "c"), make("auto"), TABLE)
    result, engine = run_over(Loopback(homes), terms, None, rounds=1)
    assert "fewer than 5 rows send gradients only" in result.choice and engine.algorithm.name == "sketched-newton"


@pytest.mark.parametrize("standardise", [True, False])
def test_gaps_become_the_mean_of_all_silos_or_a_level_of_their_own(standardise, tmp_path):
    homes = csv_homes(tmp_path)
    path = homes[1] / "data.csv"
    lines = path.read_text().splitlines()
    lines[3] = ",".join(["", *lines[3].split(",")[1:]])
    lines[4] = ",".join([*lines[4].split(",")[:2], "NA", "yes"])
    lines[5] = ",".join([*lines[5].split(",")[:3], "n/a"])
    path.write_text("\n".join(lines) + "\n")
    terms = Terms("e", ("a", "b", "c"), make("dualfl"), TABLE, standardise=standardise)
    _, engine = run_over(Loopback(homes), terms, None, rounds=1)
    tables = [[line.split(",") for line in (home / "data.csv").read_text().splitlines()[1:]] for home in homes]
    ages = np.array([float(row[0]) for table in tables for row in table if row[0] and row[3] != "n/a"])
    assert np.isclose(engine.setup.schema.features[0].mean, ages.mean(), rtol=1e-12)
    assert engine.setup.schema.names == ("age", "income", "town=north", "town=south", "town=(missing)")
    X = [Experiment(SiloFolder(home), "e").source[0].design.X for home in homes]
    assert [len(x) for x in X] == [40, 24, 35]  # one row has no target
    age = X[1][2, 0] * engine.setup.spread[0] + engine.setup.center[0] if standardise else X[1][2, 0]
    assert np.isclose(age, ages.mean(), rtol=1e-9)
    if standardise:
        pooled = np.concatenate(X)
        assert np.allclose(pooled.mean(axis=0), 0, atol=1e-9) and np.allclose(pooled.std(axis=0), 1, atol=1e-9)
        towns = X[1][3, 2:] * engine.setup.spread[2:] + engine.setup.center[2:]
        assert np.allclose(towns, [0, 0, 1], atol=1e-9)


@pytest.mark.parametrize(
    ("silos", "allowed", "sentence"),
    [
        (
            1,
            False,
            "Silo 'a': its data file has no entry at all in column 'age'; put 'age' under 'ig.*allow_empty",
        ),
        (3, True, "No silo has an entry in column 'age'; put 'age' under 'ignore' in the silo.json of every silo"),
        (1, True, None),
    ],
)
def test_a_column_without_an_entry_is_named_and_filled_only_if_allowed(silos, allowed, sentence, tmp_path):
    homes = csv_homes(tmp_path)
    for home in homes[:silos]:
        settings = json.loads((home / "silo.json").read_text()) | {"allow_empty": allowed}
        (home / "silo.json").write_text(json.dumps(settings))
        head, *lines = (home / "data.csv").read_text().splitlines()
        empty = [",".join(["", *line.split(",")[1:]]) for line in lines]
        (home / "data.csv").write_text("\n".join([head, *empty]) + "\n")
    terms = Terms("e", ("a", "b", "c"), make("dualfl"), TABLE)
    if sentence is None:
        _, engine = run_over(Loopback(homes), terms, None, rounds=1)
        assert "age" in engine.setup.schema.names
        return
    with pytest.raises(InputError, match=sentence):
        run_over(Loopback(homes), terms, None, rounds=1)


@pytest.mark.parametrize(("name", "rounds"), [("feddyn", 3), ("dualfl", 0)])
def test_a_value_may_be_the_first_that_silos_are_asked(name, rounds, tmp_path):
    """Known constants need no survey; then a cohort is asked first, or nobody, and the value comes before any step."""
    homes = csv_homes(tmp_path)
    terms = Terms("e", ("a", "b", "c"), make(name), TABLE)
    _, surveyed = run_over(Loopback(homes), terms, None, rounds=0)
    terms = Terms("f", ("a", "b", "c"), make(name), TABLE)
    federation = Federation(Courier(Loopback(homes), poll=0.0, patience=5.0), terms)
    setup = federation.meet()
    engine = Remote(federation, setup, *template(setup.schema, TABLE), make(name), surveyed.constants)
    result = Session(engine, Recording()).run(Limits(rounds), False)
    objectives = [Experiment(SiloFolder(home), "f").source[0] for home in homes]
    assert same(result, run(Problem(objectives), make(name), rounds=rounds, threads=1))
