"""Words modulo 2^61 - 1: C and NumPy against whole numbers of Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualfl.kernels import twin_words

P = 2**61 - 1
BACKENDS = [pytest.param(twin_words, id="twin")]
try:
    from dualfl.kernels import native

    BACKENDS.append(pytest.param(native, id="native"))
except ImportError:
    pass

bits = st.sampled_from([0, 1, 7, 8, 2**35, 2**63, 2**64 - 8, 2**64 - 1]) | st.integers(0, 2**64 - 1)
words = st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**60, P - 1, P]) | st.integers(0, P)


@pytest.mark.parametrize("kernels", BACKENDS)
@settings(max_examples=60)
@given(st.lists(st.tuples(bits, words), min_size=1, max_size=40))
def test_sums_and_products_are_those_of_python(kernels, pairs):
    stream, w = (np.array(numbers, dtype=np.uint64) for numbers in zip(*pairs))
    assert kernels.dot_words(stream, w) == sum((s >> 3) * x for s, x in pairs) % P
    for negative, sign in ((False, 1), (True, -1)):
        total = w.copy()
        kernels.add_words(total, stream, negative)
        assert [x % P for x in total.tolist()] == [(x + sign * (s >> 3)) % P for s, x in pairs]
        assert int(total.max()) <= P


@pytest.mark.parametrize("kernels", BACKENDS)
def test_the_largest_words_do_not_overflow_however_many(kernels):
    n = 1 << 14
    stream, w = np.full(n, 2**64 - 1, dtype=np.uint64), np.full(n, P - 1, dtype=np.uint64)
    assert kernels.dot_words(stream, w) == 0  # 2^64 - 1 is cut to p, which is 0
    assert kernels.dot_words(stream - np.uint64(8), w) == n * (P - 1) * (P - 1) % P


def test_what_does_not_fit_is_refused():
    native = pytest.importorskip("dualfl.kernels._native")
    a = np.zeros(4, dtype=np.uint64)
    with pytest.raises(ValueError, match="stream has 3 numbers: it must have 4"):
        native.add_words(a, a[:3], False)
    with pytest.raises(TypeError, match="buffer format"):
        native.dot_words(a, np.zeros(4))
