"""All clients' rows as one linear model: what somebody who had all the data would minimise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from dualfl.kernels import is_sparse
from dualfl.objectives import LinearModel
from dualfl.problem import Problem


def alike(problem: Problem) -> list[LinearModel] | None:
    """The clients, if they are linear models that differ in their rows only."""
    models = [f for f in problem.clients if type(f) is LinearModel]
    if len(models) < problem.N:
        return None
    kinds = {
        (f.loss, f.ridge, f.intercept, f.design.scale, f.shape, is_sparse(f.design.X), f.offset is None) for f in models
    }
    return models if len(kinds) == 1 else None


def pool(problem: Problem) -> LinearModel | None:
    """The smooth part of E as one linear model, or None where clients are of different kinds."""
    models = alike(problem)
    if models is None:
        return None
    first = models[0]
    blocks = [f.design.X for f in models]
    X: Any = blocks[0] if len(blocks) == 1 else (sp.vstack if is_sparse(blocks[0]) else np.concatenate)(blocks)
    return LinearModel(
        sp.csr_array(X) if is_sparse(X) else X,
        np.concatenate([f.y for f in models]),
        first.loss,
        first.ridge,
        weights=np.concatenate([w * f.s for w, f in zip(problem.weights, models)]),
        intercept=first.intercept,
        scale=first.design.scale,
        offset=None if first.offset is None else np.concatenate([f.offset for f in models if f.offset is not None]),
    )


def digest(problem: Problem, version: int) -> str | None:
    """A name for E* that depends on the rows, their weights, the loss and the penalties, but not on the order of rows
    nor on who has them, because E* does not; None for costs whose content cannot be told."""
    models = alike(problem)
    if models is None:
        return None
    first, n = models[0], sum(f.n for f in models)
    rows = sorted(row for f, w in zip(models, problem.weights) for row in _rows(f, n * w))
    settings = (version, first.loss, first.ridge.hex(), first.intercept, first.design.scale.hex(), first.shape)
    result = hashlib.blake2b(repr((*settings, problem.penalty)).encode(), digest_size=16)
    result.update(b"".join(rows))
    return result.hexdigest()


def _rows(f: LinearModel, weight: float) -> Iterator[bytes]:
    """A short digest of every row with its target and weight. Equal weights may differ in their last bits, which the
    way to them left there; twelve digits count."""
    X: Any = f.design.X
    tails = [f"{X.dtype.str} {y:.17g} {s:.12e}".encode() for y, s in zip(f.y, weight * f.s)]
    if f.offset is not None:
        tails = [tail + o.tobytes() for tail, o in zip(tails, f.offset)]
    if is_sparse(X):
        data, columns = X.data, X.indices
        bounds = list(zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist()))
        contents = (columns[a:b].tobytes() + data[a:b].tobytes() for a, b in bounds)
    else:
        contents = (row.tobytes() for row in X)
    for content, tail in zip(contents, tails):
        yield hashlib.blake2b(content + tail, digest_size=8).digest()
