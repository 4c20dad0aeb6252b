"""Many clients: uploads are added as they come, and states that do not fit are refused before memory is full."""

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest

import dualfl
from dualfl.algorithms.messages import Quantised, RunningTotal, Sparse, total
from dualfl.algorithms.registry import make
from dualfl.engines import room
from dualfl.errors import InputError
from dualfl.objectives import LinearModel, Logistic


def test_a_running_total_has_the_bits_of_the_whole_one():
    rng = np.random.default_rng(0)
    for clients in ([0], [3, 31, 32, 70], list(range(100))):
        sizes = [float(s) for s in rng.choice([1.0, 0.3, 7.0], size=101)]
        uploads = [
            {
                "a": rng.normal(size=5),
                "b": float(rng.normal()),
                "c": Sparse(rng.normal(size=2), np.array([1, 3]), 4),
                "d": Quantised(rng.normal(size=3), 8),
            }
            for _ in clients
        ]
        running = RunningTotal(len(clients) == 1)
        for j, upload in zip(clients, uploads):
            running.add(j, upload, sizes[j])
        expected, found = total(uploads, clients, sizes), running.result()
        assert all(np.asarray(expected[name]).tobytes() == np.asarray(found[name]).tobytes() for name in expected)


def crowd(N=200, D=120):
    rng = np.random.default_rng(0)
    return dualfl.Problem(
        [LinearModel(rng.normal(size=(5, D)), rng.choice([-1.0, 1.0], 5), Logistic(), ridge=0.1) for _ in range(N)]
    )


def test_uploads_and_moments_are_not_held_together():
    problem = crowd()
    tracemalloc.start()
    dualfl.run(problem, dualfl.algorithms.Auto(), rounds=2, threads=1)
    assert tracemalloc.get_traced_memory()[1] < 200 * 120 * 120 * 8 / 3  # a third of what their Hessians weigh
    tracemalloc.stop()


def test_dense_states_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(room, "MATTERS", 1e3)
    monkeypatch.setattr(room, "available", lambda: 1e5)
    with pytest.raises(InputError, match=r"scaffnew remembers \d+ numbers of every client: 200 x \d+ x 8 bytes"):
        dualfl.run(crowd(), make("scaffnew"), rounds=2, threads=1)
    dualfl.run(crowd(), dualfl.algorithms.Auto(), rounds=2, threads=1)  # it keeps nothing


def test_an_array_that_all_share_belongs_to_none():
    @dataclass(frozen=True)
    class State:
        mine: np.ndarray
        common: np.ndarray

    common = np.zeros(100)
    assert room.numbers_of_its_own([State(np.zeros(3), common) for _ in range(4)]) == 12
    assert 0 < room.available()
