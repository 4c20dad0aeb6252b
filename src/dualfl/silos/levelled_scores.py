"""Scores of which several neighbours share one, so that no cell of what is sent is about a single row."""

from __future__ import annotations

import numpy as np

from dualfl.typing import AnyArray, Array

FAR_OUT = 30.0  # a logit, or the logarithm of a prediction: beyond, a loss would be about the farthest row alone


def levelled(scores: Array, own: AnyArray, together: int) -> Array:
    """Scores such that at least `together` neighbours of one class, and of the others, have the same: their mean.

    Histograms of them have no cell that fewer rows of this silo are in, however the model was made; of a class that has
    fewer rows in all of it, all have one score.
    """
    found = np.array(scores, dtype=np.float64)
    for column, mask in ((k, part) for k in range(scores.shape[1]) for part in (own[:, k], ~own[:, k])):
        rows = np.flatnonzero(mask)
        if not len(rows):
            continue
        rows = rows[np.argsort(found[rows, column], kind="stable")]
        group = np.minimum(np.arange(len(rows)) // together, max(len(rows) // together - 1, 0))
        means = np.bincount(group, found[rows, column]) / np.bincount(group)
        found[rows, column] = means[group]
    return found


def level(values: Array, together: int) -> Array:
    return levelled(values[:, None], np.ones((len(values), 1), dtype=bool), together)[:, 0]
