"""A data set as it was read: rows, targets, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dualfl.errors import InputError
from dualfl.kernels import is_sparse
from dualfl.lines import titled
from dualfl.names import nearest
from dualfl.typing import AnyArray, Array

SHOWN = 10  # names of a longer list that are printed
Task = Literal["classification", "regression"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set: rows, targets, and what they mean. `dualfl.load` returns one.

    Parameters
    ----------
    X : ndarray or sparse array
        Rows by features, dense or SciPy CSR, in the type of the file. Models see `scale * X`.
    y : ndarray
        The targets: numbers, or 0, 1, ... for the classes.
    classes : tuple[str, ...]
        The names of the classes in the order of their numbers; empty for regression.
    name : str
        The name of the data set.
    scale : float
        What models multiply the entries by.
    source : str
        Where the rows came from.
    task : {'classification', 'regression'}
        What the targets are.
    center : ndarray, optional
        What was subtracted from the columns, if they were standardised: X = (raw - center) / spread.
    spread : ndarray, optional
        What the columns were divided by, if they were standardised.
    names : tuple[str, ...], default ()
        The names of the features, if they are known.
    columns : mapping, optional
        Other columns, which models do not use, such as the hospital. The partition `column:hospital` splits by it.

    Examples
    --------
    >>> import dualfl
    >>> data = dualfl.load("iris")
    >>> data.X.shape, data.classes
    ((150, 4), ('setosa', 'versicolor', 'virginica'))
    """

    X: Any
    y: AnyArray
    classes: tuple[str, ...]
    name: str
    scale: float
    source: str
    task: Task
    center: Array | None = None
    spread: Array | None = None
    names: tuple[str, ...] = ()
    columns: Mapping[str, AnyArray] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        return int(self.X.shape[1])

    @property
    def title(self) -> str:
        kind = f"{len(self.classes)} classes" if self.classes else "real targets"
        return f"{self.name}, {self.n:,} rows x {self.features:,} features, {kind}"

    def __repr__(self) -> str:
        """What `print` shows, a few lines."""
        kind = f"{self.X.dtype}{', sparse' if is_sparse(self.X) else ''}"
        kind += "" if self.spread is None else ", standardised"
        kind += "" if self.scale == 1 else f", and models see {self.scale:g} times that"
        return titled(
            self.title,
            [
                ("classes", few(self.classes)),
                ("features", few(self.names)),
                ("columns", f"{few(tuple(self.columns))}, which models do not see" if self.columns else ""),
                ("values", kind),
                ("source", self.source),
            ],
        )

    def column(self, name: str) -> AnyArray:
        """The column of that name: a feature, or one that models do not see."""
        if name in self.columns:
            return self.columns[name]
        if name not in self.names:
            known = [*self.columns, *self.names]
            if not known:
                raise InputError(f"{self.name} has no named columns, so it has no column {name!r}.")
            raise InputError(nearest("column", name, known))
        values = self.X[:, [self.names.index(name)]]
        return np.asarray(values.toarray() if is_sparse(values) else values).ravel()

    def predictors(self, model: Array) -> Array:
        """scale * X times a model with an intercept as its last row; one column an output."""
        model = model.reshape(self.features + 1, -1)
        z: Array = np.asarray(self.X @ (self.scale * model[:-1])) + model[-1]
        return z

    def accuracy(self, model: Array) -> float:
        """The share of rows that a classifier gets right."""
        z = self.predictors(model)
        guess = z.argmax(axis=1) if z.shape[1] > 1 else (z[:, 0] > 0).astype(int)
        return float((guess == self.y).mean())


def few(names: tuple[str, ...]) -> str:
    """The first names of a list, and how many there are if not all are given."""
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, ... ({len(names):,} in all)"
