"""Uploads that are added as they come: the bits of adding them all at once, and little memory."""

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest

from dualfl.algorithms.contract import Algorithm, Card, ask, client_step
from dualfl.algorithms.messages import BLOCK, mean
from dualfl.engines.inprocess import InProcess
from dualfl.engines.launch import run
from dualfl.errors import InputError
from dualfl.objectives import LinearModel, Squared
from dualfl.problem import Problem

N = 2 * BLOCK + 5
LARGE = 50_000  # numbers in an upload


@dataclass(frozen=True)
class State:
    x: np.ndarray


@dataclass(frozen=True)
class Sender(Algorithm):
    """Clients send a vector of noise each."""

    size: int = 7
    bad: int = -1

    name = "sender"
    card = Card("Sender", 2026, "a test")
    strongly_convex = False

    def start(self, at):
        return State(np.zeros(at.d))

    def round(self, s, at):
        m = yield ask(self.noise)
        return State(np.full(at.d, float(m.u @ m.u) + m.c))

    @client_step
    def noise(self, f, c, at):
        u = at.rng().normal(size=self.size)
        return at.send(u=u * np.inf if at.j == self.bad else u, c=float(u[0])), c

    def model(self, s):
        return s.x


def problem():
    rng = np.random.default_rng(0)
    rows = [int(n) for n in rng.integers(2, 9, size=N)]
    return Problem([LinearModel(rng.normal(size=(n, 2)), rng.normal(size=n), Squared(), 0.1) for n in rows])


def test_the_sum_has_the_bits_of_adding_all_at_once():
    case = problem()
    engine = InProcess(case, Sender(), threads=1)
    wires = [engine.place.of_client(0, 0, j, 1.0, {}).rng().normal(size=7) for j in range(N)]
    expected = mean([{"u": u, "c": float(u[0])} for u in wires], range(N), engine.sizes, engine.mass)
    for threads in (1, 3):
        found = run(case, Sender(), rounds=1, threads=threads).state.x[0]
        assert found == float(expected.u @ expected.u) + expected.c


@pytest.mark.parametrize("bad", [0, BLOCK, N - 1])
def test_who_sends_infinity_is_named_whatever_its_block(bad):
    with pytest.raises(InputError, match=f"Client {bad} answered with NaN or infinity in 'u'"):
        run(problem(), Sender(bad=bad), rounds=1, threads=1)


def test_uploads_are_not_held_together():
    case = problem()
    run(case, Sender(size=10), rounds=1, threads=1)  # what is imported late is not counted
    tracemalloc.start()
    try:
        run(case, Sender(size=LARGE), rounds=1, threads=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * LARGE * (BLOCK + 12)  # a block, its sum, and what is on its way; all would be N
