"""Compressors: what they keep, what they weigh, and that client and server agree on what was released."""

from __future__ import annotations

import numpy as np
import pytest
import toys

from dualfl.algorithms import DualFL, Place, Quantise, RandK, TopK
from dualfl.algorithms.codecs import Codec
from dualfl.engines import Problem, run
from dualfl.errors import InputError
from dualfl.streams import Stream

CODECS = [TopK(3), RandK(3), Quantise(4)]
RNG = np.random.default_rng(0)


def stream(round=0):
    return Stream(0, "codec", 0, round, 0)


def test_top_k_keeps_the_largest():
    sent = TopK(2).compress(np.array([1.0, -5.0, 0.0, 3.0, -2.0]), stream())
    np.testing.assert_array_equal(sent.dense(), [0, -5, 0, 3, 0])
    assert sent.floats == 4
    ties = TopK(2).compress(np.ones(5), stream())
    np.testing.assert_array_equal(ties.dense(), [1, 1, 0, 0, 0])
    assert TopK(9).compress(np.ones(5), stream()).value.size == 5


def test_rand_k_draws_afresh_each_round_from_a_stream_that_the_server_knows():
    x = RNG.standard_normal(40)
    first, again, later = (RandK(10).compress(x, stream(n)) for n in (0, 0, 1))
    np.testing.assert_array_equal(first.index, again.index)
    assert (first.index != later.index).any() and first.floats == 10
    np.testing.assert_array_equal(first.value, x[first.index])


@pytest.mark.parametrize("bits", [2, 3, 8, 32])
def test_quantise_rounds_to_the_nearest_level(bits):
    x = RNG.standard_normal(50)
    sent = Quantise(bits).compress(x, stream())
    levels = 2 ** (bits - 1) - 1
    gap = np.abs(x).max() / levels
    assert np.abs(sent.dense() - x).max() <= gap / 2 * (1 + 1e-9)
    assert len(np.unique(sent.dense())) <= 2 * levels + 1
    np.testing.assert_array_equal(Quantise(bits).compress(np.zeros(3), stream()).dense(), 0)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_released_approaches_what_is_meant(codec):
    x, memory = RNG.standard_normal(12), {}
    for n in range(60):
        released, wire, memory = codec.encode({"x": x, "a": 1.5}, memory, stream(n))
        assert released["a"] == wire["a"] == 1.5
        np.testing.assert_array_equal(released["x"], memory["x"])
    np.testing.assert_allclose(released["x"], x, rtol=0, atol=1e-9)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("form", ["scalar", "vector"])
def test_the_server_believes_the_mean_of_what_clients_keep(codec, form):
    """Also beside a vector that is not compressed."""
    problem = Problem(toys.logistics())
    result = run(problem, DualFL(certificate=form), rounds=9, codec=codec, start=np.ones(6))
    kept = sum(w * silo.state.sent for w, silo in zip(problem.weights, result.silos))
    np.testing.assert_allclose(result.state.theta, kept, rtol=0, atol=1e-13)


def test_uploads_show_what_was_released():
    at = Place(seed=0, N=2, d=4, round=0, j=0, codec=TopK(1), memory={})
    sent = at.send(x=np.array([1.0, 2.0, 3.0, 4.0]), a=2.0)
    np.testing.assert_array_equal(sent.x, [0, 0, 0, 4])
    assert sent.a == 2.0 and sent.also(b=1.0).b == 1.0 and sent.wire["x"].floats == 2
    with pytest.raises(AttributeError):
        _ = sent.y
    assert issubclass(TopK, Codec)


@pytest.mark.parametrize("make", [lambda: TopK(0), lambda: RandK(-1), lambda: Quantise(1), lambda: Quantise(33)])
def test_settings_outside_their_range(make):
    with pytest.raises(InputError, match="must"):
        make()
