"""Folds: the rows that a fit sees, and those on which it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.silos.costs import ALL, Rows, Sample

PURPOSE = "cross-validation"  # of the exchanges that choose a penalty
MOST_FOLDS = 10_000


@dataclass(frozen=True)
class Fold:
    """Rows to fit, and the others, on which the fit is judged."""

    name: str
    train: Rows

    @property
    def test(self) -> Rows:
        return self.train.opposite


def choices_of_rows(folds: Sequence[Fold]) -> list[Rows]:
    return [ALL, *(fold.train for fold in folds), *(fold.test for fold in folds)]


def make_folds(names: Sequence[str], cv: Any) -> list[Fold]:
    """Every silo deals its own rows into folds; or each silo in turn is left out."""
    if cv == "silo":
        if len(names) < 2:
            raise InputError(
                'cv="silo" leaves one silo out at a time, and there is only one; give cv a number of folds.'
            )
        return [Fold(name, Rows("without", silo=name)) for name in names]
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool) and cv >= 2:
        if cv > MOST_FOLDS:
            raise InputError(f"cv = {cv} folds need as many rows in a silo; take fewer, at most {MOST_FOLDS:,}.")
        return [Fold(f"fold {i + 1}", Rows("train", int(cv), i)) for i in range(int(cv))]
    raise InputError(f'cv must be a number of folds >= 2 or "silo", but it is {cv!r}.')


def check_fold(fold: Fold, train: Sample, test: Sample, classes: int) -> None:
    remedy = "take fewer folds, or more rows"
    if not train.mass or not test.mass:
        side = "test" if train.mass else "train"
        raise InputError(
            f"In {fold.name} no rows are left to {side} on, of n_samples = {train.n + test.n} in all; {remedy}."
        )
    seen = int(np.count_nonzero(train.classes))
    if classes and seen < classes:
        by_silo = fold.train.which == "without"
        folds = "take 5 folds, which are cut inside every silo and by class, or " if by_silo else ""
        raise InputError(
            f"Without {fold.name} only {seen} of {classes} classes are left to train on; "
            f"{folds}give rare classes more rows, or join them."
        )


def check_events(fold: Fold, train: Sample, test: Sample) -> None:
    """Of a Cox model, to which rows without an event beside them say nothing."""
    for side, sample in (("train", train), ("test", test)):
        if not sample.classes[1] > 0:
            remedy = "take 5 folds, or fewer" if fold.train.which == "without" else "take fewer folds"
            raise InputError(f"In {fold.name} there is no event to {side} on; {remedy}.")
