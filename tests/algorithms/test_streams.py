"""Keyed randomness: the same draw for everybody, streams that do not overlap, and the right distributions."""

from __future__ import annotations

import numpy as np
import pytest

from dualfl.algorithms import Place
from dualfl.streams import Stream

HERE = Place(seed=5, N=10, d=3, round=4, exchange=1, j=2)


def test_the_first_words_are_fixed_forever():
    """A stored run must give the same numbers in every later version."""
    words = [int(w) for w in Stream(7, "own:rows", 3, 11, 2).words(3)]
    assert words == [5738017060823986866, 5917479781610178127, 9395438324936396640]
    assert Stream(7, "common:coin", -1, 11, 0).geometric(0.1) == 5
    assert Stream(0, "common:cohort", -1, 0, 0).subset(10, 4) == [0, 2, 5, 7]


@pytest.mark.parametrize("change", [{"seed": 6}, {"round": 5}, {"j": 3}, {"exchange": 0}])
def test_everything_that_names_a_stream_changes_it(change):
    from dataclasses import replace

    other = replace(HERE, **change)
    assert not np.array_equal(HERE.rng("a").random(4), other.rng("a").random(4))
    assert not np.array_equal(HERE.rng("a").random(4), HERE.rng("b").random(4))


def test_common_draws_agree_on_the_server_and_on_every_client():
    server = Place(seed=5, N=10, d=3, round=4)
    for j in range(10):
        client = server.of_client(4, 2, j, 0.1, {})
        assert client.cohort(3) == server.cohort(3)
        assert client.common("coin").uniform() == server.common("coin").uniform()
    assert server.cohort(3) != Place(seed=5, N=10, d=3, round=5).cohort(3)


def test_a_stream_can_be_asked_again_from_its_beginning():
    np.testing.assert_array_equal(HERE.rng("x").standard_normal(5), HERE.rng("x").standard_normal(5))


def test_negative_seeds_and_numpy_seeds_are_seeds():
    assert Stream(-1, "t", 0, 0, 0).uniform() == Stream(2**64 - 1, "t", 0, 0, 0).uniform()
    assert Stream(np.int64(3), "t", 0, 0, 0).uniform() == Stream(3, "t", 0, 0, 0).uniform()


def test_distributions():
    s = Stream(1, "t", 0, 0, 0)
    u = s.uniforms(20_000)
    assert 0 <= u.min() and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.003
    draws = np.array([s.geometric(0.2) for _ in range(5000)])
    assert draws.min() == 1 and abs(draws.mean() - 5) < 0.25
    assert s.geometric(1.0) == 1
    signs = s.signs((50, 40))
    assert set(np.unique(signs)) == {-1.0, 1.0} and abs(signs.mean()) < 0.08
    assert abs(np.mean([s.coin(0.3) for _ in range(5000)]) - 0.3) < 0.03


def test_subsets_and_permutations():
    s = Stream(1, "t", 0, 0, 0)
    assert sorted(s.permutation(7)) == list(range(7))
    assert s.subset(5, 5) == s.subset(5, 9) == [0, 1, 2, 3, 4]
    counts = np.zeros(6)
    for _ in range(3000):
        chosen = s.subset(6, 2)
        assert chosen == sorted(set(chosen)) and len(chosen) == 2
        counts[chosen] += 1
    assert abs(counts / 3000 - 1 / 3).max() < 0.04
