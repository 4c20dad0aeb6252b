"""Two columns of one role: in how many rows they differ, against what trying all subsets says."""

from itertools import combinations

import numpy as np
import pytest

from dualfl.federation.few_rows import check_leverage
from dualfl.federation.guarded import rarer_of_two
from dualfl.federation.risk_sets import compared_events, far_later, late_rows
from dualfl.federation.two_columns import moved, regrouped, reordered
from dualfl.objectives import CoxPartialLikelihood


def by_trying(a, b):
    """The least number of rows without which every two rows compare alike in both."""
    n = len(a)
    good = [[np.sign(a[i] - a[j]) == np.sign(b[i] - b[j]) for j in range(n)] for i in range(n)]
    subsets = (kept for size in range(n, -1, -1) for kept in combinations(range(n), size))
    return n - len(next(kept for kept in subsets if all(good[i][j] for i, j in combinations(kept, 2))))


def test_rows_that_are_out_of_order_are_counted_as_trying_counts_them():
    rng = np.random.default_rng(0)
    for _ in range(150):
        n = int(rng.integers(1, 8))
        a, b = rng.integers(0, 5, (2, n)).astype(float)
        assert reordered(a, b) == by_trying(a, b), (a, b)
    times = rng.exponential(size=2000)
    assert reordered(times, 7 * times) == 0
    times[3] *= 100
    assert reordered(times, np.where(np.arange(2000) == 3, 0.1, times)) == 1


def test_groups_weights_and_offsets():
    assert regrouped(np.array(list("aabb")), np.array(list("xxyy"))) == 0
    assert regrouped(np.array(list("aabbb")), np.array(list("xxyyx"))) == 1
    assert regrouped(np.array(list("aaaa")), np.array(list("xxxy"))) == 1
    assert moved(np.array([0.7, 0.7, 0.7, 0.2])) == 1 and moved(np.zeros(3)) == 0
    assert moved(np.array([0.0, 0.0, np.inf])) == 1


def test_who_is_compared_is_who_changes_the_likelihood():
    """An event that is alone at risk adds nothing to the curvature; an entry that keeps nobody out changes nothing."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        n = int(rng.integers(2, 9))
        time = rng.integers(2, 7, n).astype(float)
        entry, event = time - rng.integers(1, 3, n), rng.random(n) < 0.6
        if not event.any():
            continue
        X = rng.normal(size=(n, 1))
        f, without = (CoxPartialLikelihood(X, time, event, entry=one) for one in (entry, None))
        curved = f.hessian(np.zeros(1))[0, 0] > 1e-12
        assert curved == (compared_events(time, event, entry) > 0)
        if late_rows(time, event, entry) == 0:
            assert f.value(np.ones(1)) == pytest.approx(without.value(np.ones(1)))


def test_times_of_one_that_hide_all_others():
    rng = np.random.default_rng(2)
    assert not any(far_later(rng.exponential(size=30), 3) for _ in range(300))
    assert not any(far_later(rng.lognormal(0, 1, size=30), 3) for _ in range(300))
    assert far_later(np.append(rng.exponential(size=30), 1e5), 3) and not far_later(np.ones(9), 3)


def test_sparse_tables_are_looked_at_as_dense_ones():
    import scipy.sparse as sp

    from dualfl.tables.refusals import Unfit

    rng = np.random.default_rng(3)
    X = np.where(rng.random((300, 12)) < 0.3, rng.normal(size=(300, 12)), 0.0)
    check_leverage(X, 3)
    check_leverage(sp.csr_array(X), 3)
    X[:, 5] = X[:, 4]
    X[17, 5] += 1.0  # the difference of the two columns is one row
    for table in (X, sp.csr_array(X)):
        with pytest.raises(Unfit, match="nearly 0 in all rows but 1"):
            check_leverage(table, 3)
    wide = sp.csr_array(
        np.random.default_rng(0).random((9000, 3000)) < 0.02, dtype=float
    )  # too large to look at as a whole
    check_leverage(wide, 3)
    rare = sp.csr_array(sp.hstack([wide, sp.csr_array(([0.3, 2.0], ([4, 5], [0, 0])), shape=(9000, 1))]))
    with pytest.raises(Unfit, match="all rows but 2"):
        check_leverage(rare, 3)


def test_columns_of_two_numbers_without_names():
    import scipy.sparse as sp

    X = np.zeros((20, 4))
    X[:3, 0], X[:, 1], X[:, 2], X[:18, 3] = 1.0, np.arange(20), 5.0, -2.0
    for table in (X, sp.csr_array(X)):
        assert rarer_of_two(table).tolist() == [3, 0, 0, 2]
