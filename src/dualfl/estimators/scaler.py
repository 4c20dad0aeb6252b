"""Standardisation without pooling: scikit-learn's scaler, fitted from the moments that every silo sends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Self

import numpy as np
from sklearn import preprocessing
from sklearn.utils.validation import validate_data

from dualfl.errors import InputError
from dualfl.estimators.silos import row_weights, tables
from dualfl.kernels import is_sparse
from dualfl.tables.moments import Moments, moments
from dualfl.typing import Array


class StandardScaler(preprocessing.StandardScaler):  # type: ignore[misc]  # scikit-learn is untyped
    """Scale columns to mean 0 and variance 1 over all silos together; scikit-learn's scaler, fitted from sums.

    Sparse columns keep their zeros: `with_mean=False` is right for them. Parameters and attributes are scikit-learn's.

    Parameters
    ----------
    copy : object, default True
        Whether to copy X.
    with_mean : object, default True
        Whether columns get mean 0.
    with_std : object, default True
        Whether columns get variance 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dualfl.estimators import StandardScaler
    >>> X = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> StandardScaler().fit(X, groups=["a", "b", "b", "b"]).mean_
    array([3.])
    """

    def fit(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learn means and variances of the columns, from sums over silos.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            The rows.
        y : ignored
            For pipelines.
        groups : array, optional
            The silo of each row; without it all rows are one silo.
        sample_weight : array, optional
            How often each row counts.

        Returns
        -------
        self
            The fitted scaler.
        """
        X = self._checked(X, reset=True)
        weights = row_weights(sample_weight, X)
        parts = tables(X, groups)
        weighed = [None] * len(parts) if weights is None else tables(weights, groups)
        return self._merge([moments(part, w) for part, w in zip(parts, weighed)], weights is not None)

    def fit_silos(self, silos: Sequence[Any]) -> Self:
        """The same for a list of silos: X, (X, y) or (X, y, weights)."""
        if len(silos) == 0:
            raise InputError("fit_silos needs at least one silo, and the list is empty.")
        sent, weighted = [], False
        for j, silo in enumerate(silos):
            parts = silo if isinstance(silo, tuple | list) else (silo,)
            X = self._checked(parts[0], reset=j == 0)
            w = None
            if len(parts) == 3 and parts[2] is not None:
                w, weighted = row_weights(parts[2], X), True
            sent.append(moments(X, w))
        return self._merge(sent, weighted)

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Any:
        """Learn means and variances, and scale the same rows.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame
            The rows.
        y : ignored
            For pipelines.
        groups : array, optional
            The silo of each row; without it all rows are one silo.
        sample_weight : array, optional
            How often each row counts.

        Returns
        -------
        array or sparse matrix
            The rows with mean 0 and variance 1 in every column, as far as the parameters say.
        """
        return self.fit(X, y, groups=groups, sample_weight=sample_weight).transform(X)

    def _checked(self, X: Any, reset: bool) -> Any:
        kinds = (np.float64, np.float32)
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=kinds, ensure_all_finite="allow-nan")
        if is_sparse(X) and self.with_mean:
            raise InputError(
                "Cannot center sparse matrices: their zeros would be lost; pass `with_mean=False` instead."
            )
        return X

    def _merge(self, sent: Sequence[Moments], weighted: bool) -> Self:
        total = reduce(Moments.__add__, sent)
        if not total.mass.any():
            raise InputError("All sample weights are zero, so no row counts; give some rows a positive weight.")
        seen = total.mass if weighted else total.mass.astype(np.int64)
        self.n_samples_seen_ = seen[0] if (seen == seen[0]).all() else seen
        self.mean_ = np.where(total.mass > 0, total.mean, np.nan) if self.with_mean or self.with_std else None
        self.var_ = total.variance if self.with_std else None
        self.scale_ = _scale(total) if self.with_std else None
        return self


def _scale(total: Moments) -> Array:
    """Standard deviations; 1 where a column is constant, up to the rounding of its mean."""
    variance = total.variance
    eps = np.finfo(np.float64).eps
    noise = total.n * eps * variance + (total.n * eps * total.mean) ** 2
    return np.where(variance <= noise, 1.0, np.sqrt(variance))
