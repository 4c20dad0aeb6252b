"""Metrics that only steer travel in 16 or 32 bits: as many exchanges, fewer bytes, the same numbers everywhere."""

import json

import numpy as np
import pytest
from far import far_run, make_homes
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback, pickled_homes, run_over
from needs import need

need("cryptography", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.algorithms.few_exchanges import sketched_newton
from dualfl.algorithms.messages import Quantised, floats, not_finite, total
from dualfl.algorithms.packing import LONGER, SHORT, short
from dualfl.algorithms.registry import make
from dualfl.engines import Problem, run
from dualfl.federation import fixed_point, packed_words, scales
from dualfl.federation.field import total as added
from dualfl.federation.ladders import ladder
from dualfl.federation.remote import Terms
from dualfl.federation.wire import decode, encode
from dualfl.objectives import LinearModel, Logistic, Softmax

D, CLASSES, RIDGE = 130, 10, 1e-3  # a Hessian of 383,175 numbers, which is more than travels as a whole


def table(seed=0, n=900):
    """Columns that depend on each other, on scales from 1 to 0.2, and a target of ten classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 20)) @ rng.standard_normal((20, D)) / 5 + rng.standard_normal((n, D))
    X *= np.geomspace(1, 0.2, D)
    Z = 3 * X @ rng.standard_normal((D, CLASSES)) + rng.gumbel(size=(n, CLASSES))
    return X, Z.argmax(axis=1).astype(float)


def wide(parts=3, ridge=RIDGE):
    X, y = table()
    clients = [LinearModel(X[rows], y[rows], Softmax(CLASSES), ridge) for rows in np.array_split(np.argsort(y), parts)]
    return Problem(clients)


def exchanges(result, star, level=1e-8):
    return next(row.exchanges for row in result.history if row.energy - star <= level * abs(star))


@pytest.mark.parametrize("ridge", [1e-3, 1e-5])
def test_a_metric_of_short_numbers_costs_no_exchange_and_half_of_the_floats(ridge, monkeypatch):
    problem = wide(ridge=ridge)
    brief = run(problem, make("sketched-newton"), rounds=60, tol=1e-8)
    monkeypatch.setattr(sketched_newton, "in_few_bits", lambda sums: sums)
    exact = run(problem, make("sketched-newton"), rounds=60, tol=1e-8)
    star = min(brief.energy, exact.energy)
    assert exchanges(brief, star) <= exchanges(exact, star)
    assert brief.history[-1].floats_up <= 0.5 * exact.history[-1].floats_up
    assert brief.energy - star <= brief.certificate <= 1e-8 * star


@pytest.mark.parametrize("units", [1e-6, 1.0, 1e6])
def test_small_hessians_which_proofs_need_keep_all_digits(units, monkeypatch):
    """No message of a small problem changes; units of columns decide about nothing."""
    X, y = table(n=200)
    problem = Problem(
        [LinearModel(units * X[i::2, :20], np.where(y[i::2] > 4, 1.0, -1.0), Logistic(), 1e-3) for i in (0, 1)]
    )
    monkeypatch.setattr(sketched_newton, "in_few_bits", None)
    assert run(problem, make("sketched-newton"), rounds=40, tol=1e-8).stopped == "tol"


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9), st.sampled_from([SHORT, LONGER]))
def test_short_numbers_are_as_close_as_their_bits_allow(numbers, bits):
    x = np.array(numbers)
    sent = short(x, bits)
    assert sent.value.itemsize == bits // 8 and np.log2(sent.step) % 1 == 0
    assert np.abs(sent.dense() - x).max() <= np.abs(x).max() * 2.0 ** -(bits - 1) * (1 + 1e-4) + 1e-301
    assert decode(encode({"x": sent}))["x"].dense().tobytes() == sent.dense().tobytes()
    assert total([{"x": sent}], [0], [3.0])["x"].tolist() == (3.0 * sent.dense()).tolist()


def test_what_short_numbers_weigh():
    sent = short(np.ones(10_000))
    assert floats({"x": sent}) == 2501 and len(encode({"x": sent})) < 21_000


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_told(bad):
    assert not_finite(short(np.array([1.0, bad]))) and not not_finite(short(np.array([1.0, 0.0])))


@pytest.mark.parametrize("engine", ["ray", "silos"])
def test_every_engine_has_the_same_bits(engine, tmp_path):
    problem, options = wide(), {"rounds": 4, "seed": 5}
    here = run(problem, make("sketched-newton"), threads=1, **options)
    if engine == "ray":
        pytest.importorskip("ray")
        there = run(problem, make("sketched-newton"), engine="ray", **options)
    else:
        homes = pickled_homes(tmp_path, problem)
        terms = Terms("e", tuple(home.name for home in homes), make("sketched-newton"), seed=5, tables=False)
        there, _ = run_over(Loopback(homes), terms, problem.clients[0], rounds=4)
    assert there.theta.tobytes() == here.theta.tobytes()
    assert [row.floats_up for row in there.history] == [row.floats_up for row in here.history]


class Watched(Loopback):
    """Keeps what fields one silo's sums had, how many words they took, and what was asked again."""

    def __init__(self, homes):
        super().__init__(homes, self.watch, resident=True)
        self.fields, self.wide = [], 0

    def watch(self, transport, node, request, answer):
        found = decode(answer).get("sums")
        if node == 100 and found is not None:
            self.fields += [(json.loads(found["fields"]), len(found["words"]))]
            self.wide += bool(decode(request).get("wide"))


@pytest.fixture
def homes(tmp_path):
    X, y = table(n=600)
    paths = []
    for name, rows in zip("abc", np.array_split(np.argsort(y), 3)):
        paths.append(tmp_path / f"{name}.csv")
        head = ",".join([f"x{k}" for k in range(D)] + ["y"])
        lines = [",".join([*map(repr, X[i].tolist()), f"c{y[i]:.0f}"]) for i in rows]
        paths[-1].write_text("\n".join([head, *lines]) + "\n")
    return make_homes(tmp_path / "homes", paths, "y", True)


def test_under_masks_three_numbers_share_a_word_and_the_model_is_the_same(homes, monkeypatch):
    options = {"rounds": 12, "problem": {"ridge": RIDGE}}
    packed = far_run(
        homes, make("sketched-newton"), transport=(seen := Watched(homes)), experiment="p", **options
    ).result
    clear = far_run(homes, make("sketched-newton"), secure=None, experiment="c", **options).result
    shared = [(name, *shape) for fields, _ in seen.fields for name, shape, _, *slot in fields if slot == [20]]
    assert shared and {name.rpartition("/")[2] for name, *_ in shared} == {"M0", "T0"} and not seen.wide
    for fields, words in seen.fields:  # and what is sent is not more than is said
        assert words - 1 == sum(-(-int(np.prod(shape)) // (60 // (slot or [60])[0])) for _, shape, _, *slot in fields)
    star = min(packed.energy, clear.energy)
    assert exchanges(packed, star, 1e-6) <= exchanges(clear, star, 1e-6)
    assert packed.certificate <= 1e-6 * star


def test_metrics_that_do_not_fit_are_asked_for_again(homes, monkeypatch):
    options = {"rounds": 4, "problem": {"ridge": RIDGE}}
    before = far_run(homes, make("sketched-newton"), experiment="a", **options).result
    monkeypatch.setattr(scales, "SHORT_HEADROOM", 1e-3)
    found = far_run(
        homes, make("sketched-newton"), transport=(seen := Watched(homes)), experiment="b", **options
    ).result
    assert seen.wide
    assert np.abs(found.theta - before.theta).max() <= 0.05 * np.abs(before.theta).max()


@settings(max_examples=300)
@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=7, max_size=7), min_size=2, max_size=70),
    st.floats(1e-9, 1e9),
)
def test_a_sum_that_could_run_into_its_neighbour_is_always_void(silos, before):
    """What every silo sends, as the sums are opened: true to the grid, or known to be void."""
    X, N = np.array(silos), len(silos)
    point = scales.point_for(before, N)
    parts = [x if fixed_point.carried(x, point.short, point.slot) else 0 * x for x in X]
    words = [fixed_point.to_words("x", x, point.short, 1, point.slot) for x in parts]
    opened = fixed_point.from_words(added(words), point.short, point.slot, X.shape[1])
    steps = ladder("0/size:x")
    largest = float(steps[np.searchsorted(steps, np.abs(X).max())])
    if not scales.too_large([("0/x", (7,), point.short, point.slot)], {"0/size:x": largest}, N):
        assert np.array_equal(parts, X)
        assert np.abs(opened - X.sum(axis=0)).max() <= N * 2.0 ** -(point.short + 1) * (1 + 1e-9)


@pytest.mark.parametrize("N", [2, 16, 17, 1000, 4096])
def test_there_is_room_for_what_came_before_and_for_digits(N):
    """Numbers twice as large still fit, and the largest of a silo has 13 digits and a sign, or is a small part."""
    point = scales.point_for(1.0, N)
    assert not scales.too_large([("0/x", (9,), point.short, point.slot)], {"0/size:x": 2.0}, N)
    assert 2.0**point.short >= 2**12


@pytest.mark.parametrize("slot", [20, 30])
def test_slots_hold_their_largest_sums_of_either_sign(slot):
    most = int(packed_words.room(slot, 1))
    numbers = np.array([most, -most, most, -most, -most, 0, most], dtype=np.int64)
    assert packed_words.unpacked(packed_words.packed(numbers, slot), slot, 7).tolist() == numbers.tolist()


def test_quantised_values_of_a_former_version_are_read():
    assert Quantised(np.array([0.5, -1.0]), 8).dense().tolist() == [0.5, -1.0]
