"""Long vectors in one word a number: where the point stands, what is void, and that nothing wraps around unnoticed."""

import json

import numpy as np
import pytest
from far import far_run
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback, csv_homes, sign_up
from needs import need

need("cryptography", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.algorithms.registry import make
from dualfl.federation import fixed_point, scales
from dualfl.federation.field import total
from dualfl.federation.ladders import from_rungs, ladder
from dualfl.federation.wire import decode


@pytest.fixture
def homes(tmp_path):
    homes = csv_homes(tmp_path)
    sign_up(homes)
    return homes


@pytest.fixture
def long(monkeypatch):
    """Vectors of five numbers count as long."""
    monkeypatch.setattr(fixed_point, "LONG", 5)


class Watched(Loopback):
    """Keeps the fields of every sum, and what was asked in two words."""

    def __init__(self, homes, resident=True):
        super().__init__(homes, self.watch, resident=resident)
        self.fields, self.wide = [], 0

    def watch(self, transport, node, request, answer):
        if node == 100:
            found = decode(answer).get("sums")
            self.fields += [] if found is None else [json.loads(found["fields"])]
            self.wide += bool(decode(request).get("wide"))


def narrow(fields):
    """Vectors that took one word a number."""
    ends = (*fixed_point.LIMBS, "#size")  # the last opens the number of rows
    return [name for name, shape, _ in fields if shape and name.rpartition(":")[2] not in ends]


@pytest.mark.parametrize("name", ["dualfl", "gd", "lbfgs", "scaffnew", "sketched-newton", "giant"])
def test_one_word_is_enough_and_the_model_is_the_same(name, homes, long):
    two = far_run(homes, make(name), rounds=5, transport=(plain := Watched(homes)), experiment="two").result
    assert any(map(narrow, plain.fields))
    fixed_point.LONG = 10**9  # the fixture puts it back
    one = far_run(homes, make(name), rounds=5, transport=(short := Watched(homes)), experiment="one").result
    assert not any(map(narrow, short.fields))
    assert np.abs(one.theta - two.theta).max() <= 1e-12 * np.abs(two.theta).max()
    assert one.stopped == two.stopped


@pytest.mark.parametrize("resident", [True, False])
def test_numbers_that_do_not_fit_are_asked_for_again_and_nothing_else_changes(resident, homes, long, monkeypatch):
    """A headroom below 1: no vector fits, and each is asked for twice. Also where every message has a new process."""
    before = far_run(homes, make("dualfl"), rounds=4, transport=Watched(homes), experiment="a").result
    monkeypatch.setattr(scales, "HEADROOM", 1e-3)
    monkeypatch.setattr(scales, "BITS", 100)
    transport = Watched(homes, resident)
    found = far_run(homes, make("dualfl"), rounds=4, transport=transport, experiment="b").result
    assert transport.wide >= 3
    assert np.abs(found.theta - before.theta).max() <= 1e-12 * np.abs(before.theta).max()


@settings(max_examples=300)
@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=6),
    st.floats(1e-30, 1e15),
    st.integers(40, 57),
)
def test_a_sum_that_could_wrap_around_is_always_void(xs, before, bits):
    """What every silo sends for its number, as the sum is opened: true to the grid, or known to be void."""
    silos = len(xs)
    chosen = scales.bits_for(before, silos)
    for b in {bits, chosen} - {None}:
        parts = [x if abs(x) * 2.0**b < fixed_point.LARGEST else 0.0 for x in xs]
        opened = fixed_point.from_words(total([fixed_point.to_words("x", [x], b) for x in parts]), b)[0]
        steps = ladder("0/size:x")
        largest = float(steps[np.searchsorted(steps, max(map(abs, xs)))])
        if not scales.too_large([("0/x", (1,), b)], {"0/size:x": largest}, silos):
            assert parts == xs and abs(opened - sum(xs)) <= silos * 2.0 ** -(b + 1) + 1e-15 * sum(map(abs, xs))


def test_the_point_leaves_room_and_never_too_few_digits():
    assert scales.bits_for(1.0, 3) == 53
    assert scales.bits_for(1e-9, 3) == fixed_point.BITS
    assert scales.bits_for(1e5, 3) is None and scales.bits_for(0.0, 3) is None and scales.bits_for(np.inf, 3) is None
    for largest in (1e-3, 1.0, 50.0):
        for silos in (2, 3, 20, 1000):
            bits = scales.bits_for(largest, silos)
            if bits is not None:
                assert not scales.too_large([("0/x", (9,), bits)], {"0/size:x": 8 * largest}, silos)


def test_a_larger_number_than_any_rung_is_void():
    rungs = np.ones(len(ladder("0/size:x")), dtype=np.uint64)
    assert from_rungs("0/size:x", rungs) == np.inf
    assert scales.too_large([("0/x", (9,), 50)], {"0/size:x": np.inf}, 2)
