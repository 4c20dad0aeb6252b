"""How well a classifier does, from sums: what each silo sends, how sums add up, and what is read from the total.

A silo sends the weight of its rows, their log loss, how many are right, and for every class two histograms of scores:
of the rows that have the class and of the others. From these come the ROC curve, its area and the calibration.

Binned area. Rows of one bin count as ties. If a bin holds P_b of the P weights of a class and N_b of the N others, the
order inside the bin is unknown, and the true area is within

    (1/2) sum_b P_b N_b / (P N)

of the binned one; `auc_error` is this bound. Scores are binned on z/(1 + |z|), z the logit or the decision value, so
that confident predictions do not fall into one bin.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import expit

from dualfl.errors import InputError
from dualfl.silos.chamber import SiloRows
from dualfl.silos.levelled_scores import FAR_OUT, levelled
from dualfl.typing import AnyArray, Array

BINS = 1000  # of scores
SHELVES = 10  # of probabilities, for the calibration


@dataclass(frozen=True, eq=False)
class ClassificationSums:
    """Sums over rows, all weighted. Two classes have one pair of histograms, that of the second class.

    Parameters
    ----------
    n : int
        Rows.
    mass : float
        The sum of their weights.
    right : float
        The weight of rows that were predicted right.
    log_loss_sum : float
        The sum of log losses.
    of_class : ndarray
        Histograms of scores, of rows of each class.
    of_others : ndarray
        The same of all other rows.
    shelf_mass : ndarray
        Weights by bins of probability, for the calibration.
    shelf_probability : ndarray
        Sums of probabilities in these bins.
    shelf_class : ndarray
        Weights of the class in these bins.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualfl.estimators import LogisticRegression, evaluate
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression().fit(X, y, groups=[i % 2 for i in range(150)])
    >>> evaluate(model, [(X, y)]).overall.n
    150
    """

    n: int
    mass: float
    right: float
    log_loss_sum: float  # nan without probabilities
    of_class: Array  # outputs x bins
    of_others: Array
    shelf_mass: Array  # outputs x shelves
    shelf_probability: Array
    shelf_class: Array

    def __add__(self, other: ClassificationSums) -> ClassificationSums:
        return ClassificationSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def accuracy(self) -> float:
        return self.right / self.mass

    @property
    def log_loss(self) -> float:
        return self.log_loss_sum / self.mass

    @property
    def bins(self) -> int:
        return len(self.of_class[0])

    def roc(self, output: int = 0) -> tuple[Array, Array]:
        """False and true positive rates, from the highest score to the lowest; nan where a class is missing."""
        others, own = self.of_others[output][::-1], self.of_class[output][::-1]
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0: NumPy 1.26 may take it for either
            fpr, tpr = (np.concatenate([[0.0], np.cumsum(h)]) / h.sum() for h in (others, own))
        return fpr, tpr

    @property
    def aucs(self) -> Array:
        """The area under each ROC curve, one class against the others."""
        curves = [self.roc(output) for output in range(len(self.of_class))]
        return np.array([(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2).sum() for fpr, tpr in curves])

    @property
    def auc(self) -> float:
        """Their plain mean; for two classes, the area."""
        return float(self.aucs.mean())

    @property
    def auc_error(self) -> float:
        """How far the binned area can be from the exact one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = self.of_class.sum(axis=1) * self.of_others.sum(axis=1)
            ties = (self.of_class * self.of_others).sum(axis=1) / pairs
        return float(ties.mean() / 2)

    def calibration(self, output: int = 0) -> tuple[Array, Array, Array]:
        """For each shelf that is not empty: mean predicted probability, observed frequency, weight."""
        kept = self.shelf_mass[output] > 0
        mass = self.shelf_mass[output][kept]
        return self.shelf_probability[output][kept] / mass, self.shelf_class[output][kept] / mass, mass

    def calibration_by_quantiles(self, output: int = 0, groups: int = SHELVES) -> tuple[Array, Array, Array]:
        """The same for groups of about equally many rows, however close together their probabilities are.

        They are made of the bins of scores, so each group ends with a bin, and a probability is that of the middle of
        its bin: with 1,000 bins within 0.001 of the exact one. Scores are logits where there are probabilities.
        """
        own, others = self.of_class[output], self.of_others[output]
        kept = own + others > 0
        mass, own = (own + others)[kept], own[kept]
        unit = 2 * (np.flatnonzero(kept) + 0.5) / self.bins - 1
        probability = expit(unit / (1 - np.abs(unit)))
        before = np.cumsum(mass) - mass / 2  # the rank of a bin's middle row
        group = np.minimum((before / mass.sum() * groups).astype(int), groups - 1)
        sums = np.array([np.bincount(group, weights, minlength=groups) for weights in (probability * mass, own, mass)])
        predicted, observed, total = sums[:, sums[2] > 0]
        return predicted / total, observed / total, total

    def table(self) -> dict[str, float]:
        """The numbers that fit into a line."""
        return {
            "rows": float(self.n),
            "log_loss": self.log_loss,
            "accuracy": self.accuracy,
            "auc": self.auc,
            "auc_error": self.auc_error,
        }


def classification_sums(
    model: Any,
    silo: SiloRows,
    bins: int = BINS,
    shelves: int = SHELVES,
    together: int = 1,
    by_hand: bool = False,
) -> ClassificationSums:
    """What one silo sends about a classifier. `together`: so many rows of one class have one score (`levelled`).

    `by_hand`: nobody knows who made the model, so nothing that is sent is of any other scores than these.
    """
    classes: AnyArray = model.classes_
    unseen = np.setdiff1d(silo.y, classes)
    if len(unseen):
        raise InputError(f"Silo {silo.name} has the class {unseen.tolist()[0]!r}, which the model does not know.")
    y = np.searchsorted(classes, silo.y)
    w = np.ones(silo.n) if silo.weights is None else silo.weights
    z = model.decision_function(silo.X)
    right = float(w @ (model.predict(silo.X) == silo.y))
    loss, p = np.nan, None
    if hasattr(model, "predict_log_proba"):
        logs = model.predict_log_proba(silo.X)
        loss, p = -float(w @ logs[np.arange(silo.n), y]), np.exp(logs)
        if by_hand and z.ndim == 1:  # of any link
            z = logs[:, 1] - logs[:, 0]
        if z.ndim == 2:  # the score of a class is its logit
            z = logs - np.log1p(-np.minimum(p, 1 - 1e-16))
    if z.ndim == 1:
        z, own, p = z[:, None], (y == 1)[:, None], None if p is None else p[:, 1:]
    else:
        own = y[:, None] == np.arange(len(classes))
    if by_hand:
        z = np.clip(levelled(z, own, together), -FAR_OUT, FAR_OUT)
        if p is not None:
            p = expit(z)
            signed = np.where(own, z, -z)[:, 0] if z.shape[1] == 1 else z[np.arange(silo.n), y]
            loss = float(w @ np.logaddexp(0.0, -signed))
        right = float(w @ (predicted(z, p) == y))
    elif together > 1:
        z, p = levelled(z, own, together), None if p is None else levelled(p, own, together)
        right = float(w @ (predicted(z, p) == y))
    place = squashed(z, bins)
    of_class, of_others = (histograms(place, w[:, None] * mask, bins) for mask in (own, ~own))
    shelf = [np.zeros((z.shape[1], shelves))] * 3
    if p is not None:
        at = np.minimum((p * shelves).astype(int), shelves - 1)
        shelf = [histograms(at, w[:, None] * value, shelves) for value in (np.ones_like(p), p, own)]
    return ClassificationSums(silo.n, float(w.sum()), right, loss, of_class, of_others, *shelf)


def predicted(z: Array, p: Array | None) -> AnyArray:
    """The number of the class that these scores, or probabilities, are for."""
    if z.shape[1] > 1:
        return np.asarray((z if p is None else p).argmax(axis=1))
    return np.asarray((z if p is None else p - 0.5)[:, 0] > 0).astype(int)


def squashed(z: Array, bins: int) -> AnyArray:
    """The bin of z/(1 + |z|), which lies between -1 and 1."""
    unit = (1 + z / (1 + np.abs(z))) / 2
    place: AnyArray = np.minimum((unit * bins).astype(int), bins - 1)
    return place


def histograms(place: AnyArray, weights: Array, bins: int) -> Array:
    """One weighted histogram a column."""
    return np.stack([np.bincount(at, w, minlength=bins) for at, w in zip(place.T, weights.T)])
