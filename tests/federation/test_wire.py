"""Messages as bytes: the same on the other side, no heavier than their numbers, and never a crash on nonsense."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualfl.algorithms.messages import LowRank, Quantised, Sparse
from dualfl.engines.client import Work
from dualfl.errors import InputError
from dualfl.federation.wire import decode, encode, tag

RNG = np.random.default_rng(0)


def test_everything_that_travels_comes_back_bit_for_bit():
    content = {
        "x": RNG.standard_normal((3, 4)),
        "words": RNG.integers(0, 2**64, 5, dtype=np.uint64),
        "sparse": Sparse(np.array([1.0, -0.0]), np.array([0, 7]), 9, seeded=True),
        "low": LowRank(np.array([2.0]), RNG.standard_normal((4, 1))),
        "few": Quantised(np.array([0.5]), 4),
        "old": (np.zeros(2), np.ones(3)),
        "numbers": (1, 0.1, np.inf, -np.inf, True, None, "name"),
        "work": Work(1.5, 0.0, 3, 1),
        "empty": np.zeros(0),
    }
    back = decode(encode(content))
    assert list(back) == list(content)
    assert back["x"].tobytes() == content["x"].tobytes() and not back["x"].flags.writeable
    assert back["words"].dtype == np.uint64 and np.array_equal(back["words"], content["words"])
    assert np.array_equal(back["sparse"].dense(), content["sparse"].dense()) and back["sparse"].seeded
    assert np.array_equal(back["low"].dense(), content["low"].dense())
    assert back["few"].bits == 4 and back["numbers"] == content["numbers"] and back["work"] == content["work"]
    assert [len(v) for v in back["old"]] == [2, 3] and back["empty"].size == 0
    assert encode(back) == encode(content)


def test_a_message_weighs_what_its_numbers_weigh_and_twins_travel_once():
    x = RNG.standard_normal(100_000)
    assert len(encode({"x": x})) <= 1.01 * x.nbytes
    assert len(encode({"x": x, "probe": x.copy()})) <= 1.01 * x.nbytes


def test_a_layout_makes_no_difference():
    table = RNG.standard_normal((5, 6))
    assert encode({"x": table[:, 2]}) == encode({"x": table[:, 2].copy()})


@given(st.binary(max_size=200))
def test_nonsense_is_a_sentence(data):
    with pytest.raises(InputError, match="cannot be read"):
        decode(data)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_message_is_a_sentence_or_a_record(place, byte):
    message = bytearray(encode({"kind": "step", "x": np.arange(20.0), "round": 3}))
    message[place % len(message)] = byte
    try:
        assert isinstance(decode(bytes(message)), dict)
    except InputError as error:
        assert "cannot be read" in str(error)  # noqa: PT017 (either is fine)


def test_what_is_cut_off_is_noticed():
    with pytest.raises(InputError, match="cut off"):
        decode(encode({"x": np.arange(100.0)})[:-200])


def test_no_object_is_ever_built_from_a_name_that_is_not_ours():
    message = encode({"x": Work()}).replace(b'"Work"', b'"Popn"')
    message = message.replace(b"dualfl.engines.client", b"subprocess.0123456789")
    with pytest.raises(InputError, match="does not know"):
        decode(message)


def test_another_message_has_another_tag():
    assert tag(encode({"round": 1})) != tag(encode({"round": 2})) and len(tag(b"")) == 32
