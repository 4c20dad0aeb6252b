"""The fit of an estimator that chooses its penalty by federated cross-validation."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators import path_here
from dualfl.estimators.base import FederatedLinear, check_number
from dualfl.estimators.folds import make_folds
from dualfl.estimators.parameters import estimator
from dualfl.estimators.path import Dealt, following
from dualfl.estimators.penalty_path import PenaltyPath
from dualfl.estimators.solving import FitCost, Task
from dualfl.silos.questions import Conversation, Silos
from dualfl.typing import Array

WEAKEST = 1e-3  # of the strongest l1 penalty: where a path ends by default


@estimator
class CrossValidated(FederatedLinear):
    """Mixin: cross-validate along a path of penalties, then fit all rows with the chosen one.

    `plain` is the estimator with a fixed penalty, `parameter` the name of the penalty there.

    Parameters
    ----------
    cv : int or str, default 5
        How many folds inside every silo, or "silo" to leave one silo out at a time.
    rule : str, default 'min'
        "min" takes the smallest held-out loss; "1se" the strongest penalty within one standard error of it.
    """

    plain: ClassVar[type[FederatedLinear]]
    parameter: ClassVar[str] = "alpha"
    cv: int | str = 5
    rule: str = "min"

    def _fitting(self, silos: Silos) -> Conversation[None]:
        folds = make_folds(silos.names, self.cv)

        def values(dealt: Dealt) -> Conversation[Array]:
            return self._values(silos, dealt)

        path, sample = yield from following(silos, self._plain, values, folds, self.parameter, self.rule)
        self.path_: PenaltyPath = path
        setattr(self, self.parameter + "_", path.value)
        model = self._plain(path.value)
        task = Task(model, sample)
        found = path_here.fitted(silos, task)
        results = [found] if found else (yield from model._solving(silos, [task]))[0]
        self._note(results, sample, model)

    def _cost(self, mass: float) -> FitCost:
        """With the penalty that was chosen; before that, for what does not depend on it."""
        found: FitCost = self._plain(getattr(self, self.parameter + "_", 1.0))._cost(mass)
        return found

    def _plain(self, value: float) -> Any:
        """The estimator with this penalty, and with the classes of all silos."""
        shared = {name: getattr(self, name) for name in parameters(self.plain) if name != self.parameter}
        model = self.plain(**shared | {self.parameter: value})
        for learnt in ("classes_", "base_"):
            if hasattr(self, learnt):
                setattr(model, learnt, getattr(self, learnt))
        return model

    def _values(self, silos: Silos, dealt: Dealt) -> Conversation[Array]:
        """The path, from the strongest penalty to the weakest."""
        given = self.Cs if self.parameter == "C" else self.alphas
        if not np.ndim(given):
            count = int(check_number("the number of penalties", given, least=1))
            return (yield from self._default_values(silos, dealt, count))
        values = np.unique(np.asarray(given, dtype=np.float64))
        if not len(values) or not (values > 0).all():
            raise InputError(f"Penalties must be positive numbers, but they are {list(np.atleast_1d(given))}.")
        return values if self.parameter == "C" else values[::-1].copy()

    def _default_values(self, silos: Silos, dealt: Dealt, count: int) -> Conversation[Array]:
        """From the least l1 penalty that leaves nothing, downwards; without l1, scikit-learn's wide grid."""
        model = self._plain(1.0)
        cost = model._cost(dealt.whole.mass)
        if cost.l1 == 0:
            grid = np.logspace(-4, 4, count)
            return grid if self.parameter == "C" else grid[::-1].copy()
        strongest = (yield from dealt.strongest(silos, model)) or 1.0
        path: Array = np.geomspace(1.0, WEAKEST, count) * strongest / cost.l1  # cost.l1: at alpha = 1 or C = 1
        return 1 / path if self.parameter == "C" else path


@cache
def parameters(estimator: type[FederatedLinear]) -> tuple[str, ...]:
    """The names of its parameters; finding them out takes longer than many a fit of a path."""
    return tuple(estimator._get_param_names())
