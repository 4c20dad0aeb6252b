"""The small sets that come with scikit-learn: they are always there, also without a network."""

from __future__ import annotations

import numpy as np

from dualfl.typing import AnyArray

Table = tuple[AnyArray, AnyArray, tuple[str, ...], tuple[str, ...]]


def read_bundled(name: str) -> Table:
    """(features, targets, class names, feature names) as scikit-learn has them; digits as bytes 0 .. 16."""
    from sklearn import datasets

    if name == "diabetes":
        bunch = datasets.load_diabetes(scaled=False)
        return bunch.data, bunch.target, (), tuple(bunch.feature_names)
    bunch = getattr(datasets, f"load_{name}")()
    X = bunch.data.astype(np.uint8) if name == "digits" else bunch.data
    return X, bunch.target, tuple(map(str, bunch.target_names)), tuple(map(str, bunch.feature_names))
