"""The one sum of the library: weights, its order, its special messages, and what messages weigh."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dualfl.algorithms.messages import (
    BLOCK,
    LowRank,
    Quantised,
    Sparse,
    as_remembered,
    canonical,
    floats,
    largest,
    mean,
    not_finite,
    total,
)
from dualfl.errors import InputError

RNG = np.random.default_rng(0)


def uploads(N, d=50):
    scales = 10.0 ** RNG.integers(-8, 8, N)  # so that the order of a sum shows in its bits
    return [{"x": s * RNG.standard_normal(d), "a": float(s)} for s in scales]


def test_the_weighted_mean_over_all_clients():
    sent, sizes = uploads(5), [1.0, 2.0, 3.0, 4.0, 5.0]
    m = mean(sent, range(5), sizes, 15.0)
    np.testing.assert_allclose(m.x, sum(s * u["x"] for s, u in zip(sizes, sent)) / 15, rtol=1e-14)
    assert m.mass == 1.0 and not m.x.flags.writeable
    some = mean([sent[1], sent[4]], [1, 4], sizes, 15.0)
    np.testing.assert_allclose(some.x, (2 * sent[1]["x"] + 5 * sent[4]["x"]) / 15, rtol=1e-14)
    assert some.mass == 7 / 15


@pytest.mark.parametrize("cohort", ["all", "some"])
def test_partial_sums_of_whole_blocks_give_the_same_bits(cohort):
    """Workers that hold whole blocks may add them up by themselves."""
    N = 1000
    clients = list(range(N)) if cohort == "all" else sorted(RNG.choice(N, 300, replace=False).tolist())
    sent, sizes = uploads(len(clients)), list(RNG.uniform(1, 9, N))
    whole = total(sent, clients, sizes)
    blocks = sorted({j // BLOCK for j in clients})
    partial = {}
    for worker in range(3):
        for block in blocks[worker::3]:
            mine = [i for i, j in enumerate(clients) if j // BLOCK == block]
            partial[block] = total([sent[i] for i in mine], [clients[i] for i in mine], sizes)
    for field in ("x", "a"):
        added = partial[blocks[0]][field]
        for block in blocks[1:]:
            added = added + partial[block][field]
        np.testing.assert_array_equal(added, whole[field])


def test_another_grouping_gives_other_bits():
    """The negative control of the test above: the order does matter."""
    N = 999
    sent, sizes = uploads(N), [1.0] * N
    thirds = [total(sent[i : i + 333], range(i, i + 333), sizes)["x"] for i in (0, 333, 666)]
    assert (sum(thirds) != total(sent, range(N), sizes)["x"]).any()
    plain = sum(u["x"] for u in sent)
    assert (plain != total(sent, range(N), sizes)["x"]).any()


def test_up_to_one_block_it_is_the_plain_sum():
    sent = uploads(BLOCK)
    plain = np.zeros(50)
    for u in sent:
        plain += u["x"]
    np.testing.assert_array_equal(total(sent, range(BLOCK), [1.0] * BLOCK)["x"], plain)


def test_messages_that_are_not_dense_add_up_like_dense_ones():
    index = np.array([3, 0, 3])
    sparse = Sparse(np.array([1.0, 2.0, 4.0]), index, 5)
    np.testing.assert_array_equal(total([{"x": sparse}] * 2, [0, 1], [1.0, 3.0])["x"], [8, 0, 0, 20, 0])
    V = RNG.standard_normal((4, 2))
    low = LowRank(np.array([2.0, -1.0]), V)
    np.testing.assert_allclose(total([{"x": low}], [0], [3.0])["x"], 3 * V @ np.diag([2.0, -1.0]) @ V.T)
    few = Quantised(np.array([1.0, -2.0]), 8)
    np.testing.assert_array_equal(total([{"x": few}], [0], [2.0])["x"], [2, -4])


def test_what_messages_weigh():
    x = np.zeros(10)
    assert floats({"x": x, "a": 1.0, "n": 3}) == 12
    assert floats({"x": np.zeros((3, 4)), "t": (x, x)}) == 32
    assert floats({"x": Sparse(x[:3], np.arange(3), 10)}) == 6
    assert floats({"x": Sparse(x[:3], np.arange(3), 10, seeded=True)}) == 3
    assert floats({"x": LowRank(np.zeros(2), np.zeros((10, 2)))}) == 22
    assert floats({"x": Quantised(np.zeros(64), 4)}) == 1 + 4
    assert floats({"x": Quantised(np.zeros(65), 4)}) == 1 + 5
    assert floats({}) == 0


def test_the_largest_of_each():
    m = largest([{"a": 1.0, "b": -3.0}, {"a": 0.5, "b": -2.0}])
    assert (m.a, m.b) == (1.0, -2.0)


def test_canonical_arrays_are_contiguous_read_only_and_nobody_elses():
    x = np.arange(6.0)
    kept = canonical(x)
    x[0] = 9
    assert kept[0] == 0 and not kept.flags.writeable
    assert canonical(kept) is kept
    backwards = canonical(np.arange(6.0)[::-1])
    assert backwards.flags.c_contiguous and backwards[0] == 5
    assert type(canonical(np.float64(2))) is float and type(canonical(np.array(2))) is int
    assert canonical([x, 1])[0].flags.writeable is False


@pytest.mark.parametrize("state", [{"x": 1.0}, 3.0, SimpleNamespace(x=1.0)])
def test_a_state_that_is_no_dataclass_is_refused_in_a_sentence(state):
    with pytest.raises(InputError, match=f"must be a dataclass or None, and one is of type {type(state).__name__}"):
        as_remembered(state)


def test_settled_states_keep_their_objects_where_they_can():
    from toys import Past, Server

    own = np.arange(4.0)
    state = as_remembered(Server(x=own))
    assert state.x is own and not own.flags.writeable
    table = np.arange(8.0).reshape(2, 4)
    view = as_remembered(Server(x=table[:, 1])).x
    assert view is not table and view.flags.c_contiguous and table.flags.writeable
    past = as_remembered(Past(x=own, old=(np.arange(3.0)[::-1],), sizes=(np.float64(1),)))
    assert past.old[0].flags.c_contiguous and type(past.sizes[0]) is float
    assert as_remembered(past) is past
    assert as_remembered(None) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(bad):
    for value in (
        bad,
        np.array([1, bad]),
        Sparse(np.array([bad]), np.arange(1), 3),
        LowRank(np.ones(1), np.array([[bad]])),
        Quantised(np.array([bad]), 3),
        (np.ones(2), bad),
    ):
        assert not_finite(value)
    for value in (1.0, 3, np.ones(2), Sparse(np.ones(1), np.arange(1), 3), (1.0, np.ones(1))):
        assert not not_finite(value)
