"""Ray's actors give the iterates of one process, to the last bit, and remember what clients remember."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("ray", "ray")

# ruff: noqa: E402 (nothing below can be imported without it)
import toys

from dualfl.algorithms import plugins
from dualfl.algorithms.codecs import TopK
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.data import make_problem
from dualfl.engines import Problem, run
from dualfl.engines.ray import deal
from dualfl.errors import InputError
from dualfl.objectives import LinearModel, Squared
from dualfl.solvers import GradientDescent

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)  # where workers find the toys
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
        yield ray
        ray.shutdown()


def same(a, b):
    rows = [[row._replace(seconds=0.0) for row in result.history] for result in (a, b)]
    states = [[silo.answered for silo in result.silos] for result in (a, b)]
    return np.array_equal(a.theta, b.theta) and rows[0] == rows[1] and states[0] == states[1]


@pytest.mark.parametrize("name", ["dualfl", "feddyn", "giant", "s-local-svrg"])
def test_the_iterates_are_those_of_one_process(name):
    problem = make_problem("iris", clients=5)
    options = {"rounds": 3, "seed": 4, "threads": 2}
    assert same(run(problem, make(name), engine="ray", **options), run(problem, make(name), **options))


def test_an_algorithm_from_a_file_runs_where_nobody_else_knows_it(tmp_path, monkeypatch):
    """The file is loaded in the workers too; its source travels, so it need not be on their machine."""
    monkeypatch.setattr(ALGORITHMS, "plugins", {})
    monkeypatch.setattr(plugins, "_files", {})
    file = tmp_path / "own.py"
    file.write_text((Path(__file__).parents[2] / "examples" / "own_algorithm.py").read_text())
    (HeavyBall,) = plugins.load_plugin(file)
    file.unlink()
    problem, options = make_problem("iris", clients=5), {"rounds": 4, "seed": 4, "threads": 2}
    there = run(problem, HeavyBall(), engine="ray", checkpoint=tmp_path / "run.npz", **options)
    assert same(there, run(problem, HeavyBall(), **options))
    more = run(
        problem, HeavyBall(), engine="ray", checkpoint=tmp_path / "run.npz", resume=True, **options | {"rounds": 6}
    )
    assert more.theta.tobytes() == run(problem, HeavyBall(), **options | {"rounds": 6}).theta.tobytes()


def test_many_clients_are_added_where_they_are_with_the_same_bits():
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 5, 70)
    clients = [LinearModel(rng.standard_normal((n, 6)), rng.standard_normal(n), Squared(), 0.1) for n in rows]
    problem, algorithm, options = Problem(clients), make("feddyn", C=40), {"rounds": 3, "threads": 2}
    assert same(run(problem, algorithm, engine="ray", **options), run(problem, algorithm, **options))


def test_a_codec_works_there_too():
    rng = np.random.default_rng(1)
    clients = [LinearModel(rng.standard_normal((3, 6)), rng.standard_normal(3), Squared(), 0.5) for _ in range(65)]
    options = {"rounds": 3, "threads": 2, "codec": TopK(3)}
    expected = run(Problem(clients), make("dualfl"), **options)
    assert same(run(Problem(clients), make("dualfl"), engine="ray", **options), expected)


def test_a_checkpoint_goes_from_one_engine_to_another(tmp_path):
    problem = make_problem("iris", clients=3)
    path = tmp_path / "checkpoint.npz"
    whole = run(problem, make("giant"), rounds=4, threads=1)
    run(problem, make("giant"), rounds=2, engine="ray", checkpoint=path, threads=2)
    assert same(run(problem, make("giant"), rounds=4, checkpoint=path, resume=True, threads=1), whole)
    run(problem, make("giant"), rounds=2, checkpoint=path, threads=1)
    assert same(run(problem, make("giant"), rounds=4, engine="ray", checkpoint=path, resume=True, threads=2), whole)


def test_time_ends_a_solve_there_too():
    problem = Problem(toys.logistics(), solvers=GradientDescent())
    began = time.perf_counter()
    result = run(problem, toys.Endless(), rounds=9, seconds=1.0, engine="ray", threads=2)
    assert time.perf_counter() - began < 30 and result.stopped == "time" and result.rounds == 1
    assert result.theta.tobytes() == run(problem, toys.Endless(), rounds=1).theta.tobytes()


def fails(f, at, x):
    return x * (np.nan if at.j == 3 and at.round == 1 else 1.0)


def test_a_bad_client_is_named():
    problem = Problem(toys.logistics())
    with pytest.raises(InputError, match="Client 3 answered with NaN or infinity"):
        run(problem, toys.Calls(action=fails, step=0.1), rounds=3, engine="ray", threads=2)


@pytest.mark.parametrize(("N", "workers"), [(1, 4), (5, 2), (32, 2), (33, 2), (100, 2), (100, 8), (999, 3)])
def test_everybody_is_dealt_once_and_blocks_stay_whole(N, workers):
    groups = deal(N, workers)
    assert [j for group in groups for j in group] == list(range(N))
    assert len(groups) <= workers and all(groups)
    if -(-N // 32) >= workers:
        assert all(group[0] % 32 == 0 for group in groups)


def test_an_engine_that_nobody_knows():
    with pytest.raises(InputError, match="There is no engine 'rey'; did you mean ray"):
        run(make_problem("iris", clients=2), make("dualfl"), engine="rey")
