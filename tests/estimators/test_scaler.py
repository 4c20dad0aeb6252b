"""Means and variances from sums."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import preprocessing

from dualfl.estimators import StandardScaler
from dualfl.tables.moments import moments

RNG = np.random.default_rng(2)
X = RNG.normal([1e6, 0.0, -3.0], [1e-2, 5.0, 1.0], size=(500, 3))
SILO = np.where(np.arange(500) == 7, 9, np.arange(500) % 3)
W = RNG.integers(0, 4, 500).astype(float)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_the_pooled_scaler(weights):
    mine = StandardScaler().fit(X, groups=SILO, sample_weight=weights)
    theirs = preprocessing.StandardScaler().fit(X, sample_weight=weights)
    assert np.allclose(mine.mean_, theirs.mean_, rtol=1e-14)
    assert np.allclose(mine.var_, theirs.var_, rtol=1e-7)  # 1e6 against 1e-2: sums of squares would have no digit left
    assert mine.n_samples_seen_ == theirs.n_samples_seen_
    assert np.allclose(mine.inverse_transform(mine.transform(X)), X)


def test_sums_of_squares_would_lose_all_digits():
    naive = (X[:, 0] ** 2).mean() - X[:, 0].mean() ** 2
    assert abs(naive / 1e-4 - 1) > 0.1
    assert abs(StandardScaler().fit(X, groups=SILO).var_[0] / X[:, 0].var() - 1) < 1e-7


def test_sparse_columns_keep_their_zeros():
    Z = np.where(RNG.random((300, 3)) < 0.2, RNG.normal(size=(300, 3)), 0.0)
    silo = np.arange(300) % 4
    mine = StandardScaler(with_mean=False).fit(csr_matrix(Z), groups=silo)
    assert np.allclose(mine.var_, Z.var(axis=0)) and mine.transform(csr_matrix(Z)).nnz == np.count_nonzero(Z)
    with pytest.raises(ValueError, match="with_mean=False"):
        StandardScaler().fit(csr_matrix(Z), groups=silo)


def test_missing_entries_and_lists_of_silos():
    Z = X.copy()
    Z[::7, 1] = np.nan
    parts = [Z[SILO == j] for j in np.unique(SILO)]
    mine = StandardScaler().fit_silos([(part, None) for part in parts])
    theirs = preprocessing.StandardScaler().fit(Z)
    assert np.allclose(mine.mean_, theirs.mean_) and np.allclose(mine.scale_, theirs.scale_)
    assert (mine.n_samples_seen_ == theirs.n_samples_seen_).all()
    sparse = moments(csr_matrix(np.where(np.isnan(Z), np.nan, Z)))
    assert np.allclose(sparse.mean, theirs.mean_) and np.allclose(sparse.variance, theirs.var_)


def test_a_constant_column_is_left_alone():
    Z = np.column_stack([np.full(50, 0.1), np.arange(50)])
    mine = StandardScaler().fit(Z, groups=np.arange(50) % 3)
    assert mine.scale_[0] == 1.0 and np.allclose(mine.transform(Z)[:, 0], 0.0)
    # constant in every silo, not over all
    Z[:, 0] = np.arange(50) % 3
    assert np.isclose(StandardScaler().fit(Z, groups=np.arange(50) % 3).var_[0], Z[:, 0].var())
