"""Tags: a sum that is not the sum is found out; the group key belongs to the silos alone; the chain has one past."""

import dataclasses
import json
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import need

need("cryptography", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.deploy.keys import new_key_pair
from dualfl.errors import InputError
from dualfl.federation import commitments, field, tags
from dualfl.federation.chain import Chain
from dualfl.federation.field import P, add, signed_to_words, words_to_signed
from dualfl.federation.group_key import Share
from dualfl.federation.masks import Masks, new_secret, public_part

EDGES = [0, 1, 2**32 - 1, 2**32, 2**60, P - 1]


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.sampled_from(EDGES) | st.integers(0, P - 1)] * 2), min_size=1, max_size=50))
def test_sums_modulo_p_are_those_of_python(pairs):
    a, b = (np.array(numbers, dtype=np.uint64) for numbers in zip(*pairs))
    assert add(a, b).tolist() == [(x + y) % P for x, y in pairs]
    assert field.total([a, b, a]).tolist() == [(2 * x + y) % P for x, y in pairs]


def test_long_sums_modulo_p():
    rng = np.random.default_rng(0)
    stream = rng.integers(0, 2**64, 3 * field.PIECE + 5, dtype=np.uint64)
    a, b = rng.integers(0, P, (2, stream.size), dtype=np.uint64)
    assert np.array_equal(field.total([a, b]), add(a, b))
    assert field.reduced(stream).tolist() == [x % P for x in stream.tolist()]


def test_masks_are_the_same_in_pieces_and_cancel():
    secrets = {name: new_secret() for name in "abc"}
    keys = {name: public_part(secret) for name, secret in secrets.items()}
    x = np.arange(2 * field.PIECE + 7, dtype=np.uint64)
    covered = [Masks(name, secrets[name], keys, "e").cover(x, "t", list("abc")) for name in "abc"]
    assert not any(np.array_equal(row, x) for row in covered)
    assert np.array_equal(field.total(covered), field.total([x, x, x]))
    short = Masks("a", secrets["a"], keys, "e").cover(x[:100], "t", list("abc"))
    assert np.array_equal(short, covered[0][:100])


@given(st.lists(st.integers(-(2**59), 2**59), min_size=1))
def test_signed_numbers_come_back(numbers):
    x = np.array(numbers, dtype=np.int64)
    assert words_to_signed(signed_to_words(x)).tolist() == numbers
    assert signed_to_words(x).tolist() == [n % P for n in numbers]


# -- tags ------------------------------------------------------------------------------------------------

GROUP, SIZE = b"g" * 32, 100


@pytest.fixture
def opened():
    """The sum of what three silos send."""
    rng = np.random.default_rng(1)
    sent = [rng.integers(0, P, SIZE, dtype=np.uint64) for _ in range(3)]
    return reduce(add, [tags.tagged(x, GROUP, "label", first=j == 0) for j, x in enumerate(sent)])


def test_a_true_sum_passes(opened):
    assert np.array_equal(tags.check(opened, GROUP, "label", SIZE), opened[:-1])


def shifted(opened, place, by):
    changed = opened.copy()
    changed[place] = (int(changed[place]) + by) % P
    return changed


@pytest.mark.parametrize(
    "lie",
    [
        lambda x: shifted(x, 0, 1),  # one word
        lambda x: shifted(x, SIZE, 1),  # the tag
        lambda x: add(x, x),  # a multiple of both
        lambda x: np.zeros(SIZE + 1, dtype=np.uint64),
        lambda x: np.concatenate([x[1:-1], x[:1], x[-1:]]),  # another order
        lambda x: x + np.uint64(P),  # the same modulo p, which rounding to numbers would read otherwise
        lambda x: x[1:],
        lambda x: x.reshape(1, -1),
        lambda x: x.astype(np.int64),
        lambda x: x.astype(np.float64),
    ],
)
def test_a_false_sum_is_found_out(opened, lie):
    with pytest.raises(InputError, match="is not the sum of what silos sent"):
        tags.check(lie(opened), GROUP, "label", SIZE)


def test_a_sum_of_another_exchange_or_under_another_key_is_found_out(opened):
    for group, label in [(GROUP, "other"), (b"h" * 32, "label")]:
        with pytest.raises(InputError, match="this experiment is over"):
            tags.check(opened, group, label, SIZE)


def test_without_s_a_multiple_would_pass():
    """Why one silo adds it."""
    x = np.random.default_rng(2).integers(0, P, SIZE, dtype=np.uint64)
    bare = tags.tagged(x, GROUP, "label", first=False)
    twice = add(bare, bare)
    assert tags._tag(twice[:-1], GROUP, "label", first=False) == int(twice[-1])
    assert tags._tag(twice[:-1], GROUP, "label") != int(twice[-1])


# -- the group key ---------------------------------------------------------------------------------------


@pytest.fixture
def silos():
    pairs = {name: new_key_pair() for name in "abcd"}
    roster = {name: public for name, (_, public) in pairs.items()}
    return {name: Share(name, "e", new_secret(), private, roster) for name, (private, _) in pairs.items()}


def hello(share):
    return {"offer": (public_part(share.secret), "signature"), "boxes": share.boxes()}


def test_all_silos_have_the_same_key_and_every_share_counts(silos):
    met = {name: hello(share) for name, share in silos.items()}
    keys = {share.key("plan", "abcd", met) for share in silos.values()}
    assert len(keys) == 1 and silos["a"].boxes() == met["a"]["boxes"]
    assert silos["a"].key("another plan", "abcd", met) not in keys
    assert silos["a"].key("plan", "abc", met) not in keys  # who takes part counts too
    fresh = dataclasses.replace(silos["b"], secret=new_secret())
    assert silos["a"].key("plan", "abcd", met | {"b": hello(fresh)}) not in keys
    carried = json.dumps(met)  # what the coordinator sees
    assert next(iter(keys)).hex() not in carried and not any(s._own.hex() in carried for s in silos.values())


def test_a_box_that_was_changed_swapped_or_made_for_another_experiment_does_not_open(silos):
    met = {name: hello(share) for name, share in silos.items()}
    b = met["b"]
    box = b["boxes"]["a"]
    stranger = dataclasses.replace(silos["b"], private=new_key_pair()[0])
    for forged in [
        b | {"boxes": {"a": box[:-1] + ("0" if box[-1] != "0" else "1")}},
        b | {"boxes": {"a": met["a"]["boxes"]["b"]}},  # one's own, sent back
        b | {"boxes": {"a": met["c"]["boxes"]["a"]}},  # another silo's
        b | {"boxes": {"a": b["boxes"]["c"]}},  # for another silo
        hello(dataclasses.replace(silos["b"], experiment="f")),
        hello(stranger),  # who has not the registered key
        b | {"offer": met["c"]["offer"]},  # another key for masks than the share came with
        b | {"boxes": {"a": "not hexadecimal"}},
        b | {"boxes": {}},
        {},
        None,
    ]:
        with pytest.raises(InputError, match="the hello of silo 'b' has no share of the common key"):
            silos["a"].key("plan", "abcd", met | {"b": forged})


# -- the chain -------------------------------------------------------------------------------------------


def test_another_past_is_another_label():
    seen = {Chain.of("e"), Chain.of("f"), Chain.of("e").said(b"a"), Chain.of("e").said(b"b")}
    seen |= {Chain.of("e").said(b"a").said(b"b"), Chain.of("e").said(b"b").said(b"a"), Chain.of("e").said(b"ab")}
    assert len({chain.digest for chain in seen}) == 7
    assert Chain.of("e").said(b"a").said(b"b") == Chain.of("e").said(b"a").said(b"b")


# -- numbers of rows ---------------------------------------------------------------------------------------


def test_commitments_open_to_the_sum_and_to_nothing_else():
    made = [commitments.Commitment.of(n, bytes([n % 251]) * 32) for n in (40, 1, 0, 10**9)]
    total = sum(np.array(one.opening().x) for one in made)
    public = [one.public for one in made]
    assert commitments.opened(total, public) == 40 + 1 + 10**9
    assert len({commitments.Commitment.of(40, bytes([n]) * 32).public for n in range(9)}) == 9
    for place in range(len(total)):
        other = total + (np.arange(len(total)) == place)
        with pytest.raises(InputError, match="not those that they had committed themselves to"):
            commitments.opened(other, public)
    with pytest.raises(InputError, match="contradict each other"):
        commitments.opened(total, public[:-1])


def test_the_group_of_commitments_is_that_of_a_safe_prime():
    def prime(n):
        d, r = n - 1, 0
        while d % 2 == 0:
            d, r = d // 2, r + 1
        for a in (2, 3, 5, 7):
            x = pow(a, d, n)
            if x not in (1, n - 1) and not any(pow(x, 2**i, n) == n - 1 for i in range(1, r)):
                return False
        return True

    q = (commitments.PRIME - 1) // 2
    assert prime(commitments.PRIME) and prime(q)
    assert pow(commitments.G, q, commitments.PRIME) == pow(commitments.H, q, commitments.PRIME) == 1
    assert commitments.H not in (0, 1, commitments.G)


@pytest.mark.parametrize("size", ["", "xyz", 7, "0", f"{commitments.PRIME:x}", "-1"])
def test_what_is_no_commitment_is_refused(size):
    with pytest.raises(InputError, match="is no such number"):
        commitments.check_shape("b", {"size": size})
