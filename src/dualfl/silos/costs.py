"""What a silo minimises in one of many fits, said in few words that travel: which rows, which targets, which loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, cast

import numpy as np

from dualfl.errors import InputError
from dualfl.objectives import families, joint_losses, losses
from dualfl.objectives.linear import Intercept
from dualfl.objectives.losses import Loss
from dualfl.typing import Array


@dataclass(frozen=True)
class Rows:
    """Which rows of every silo: all, those inside or outside a fold, or those of all silos but one, or of one alone."""

    which: Literal["all", "train", "test", "without", "only"] = "all"
    folds: int = 0  # into how many every silo deals its rows
    fold: int = 0
    silo: str = ""

    @property
    def opposite(self) -> Rows:
        """The rows that these leave out."""
        other: dict[str, Any] = {"train": "test", "test": "train", "without": "only", "only": "without"}
        return Rows(other[self.which], self.folds, self.fold, self.silo)

    def of(self, silo: str) -> bool:
        """Whether this silo has any such rows at all."""
        return {"without": silo != self.silo, "only": silo == self.silo}.get(self.which, True)


ALL = Rows()


@dataclass(frozen=True)
class Cost:
    """A silo's objective: the mean loss of the rows, and (ridge/2)|w|^2. The penalty l1 |w|_1 is common to all."""

    loss: Loss
    ridge: float = 0.0
    l1: float = 0.0
    intercept: Intercept | Literal["own"] = "free"  # own: one of each silo, which never leaves it
    rows: Rows = ALL
    positive: int | None = None  # targets are +1 for this class and -1 for the others; None: as they are
    shift: float = 0.0  # taken off the targets, so that no digits are lost to it
    solver: str | None = None  # by which a silo minimises it; None: as the cost suits
    features: bool = True  # False: one column of ones in their place, the model that others are compared with

    def as_json(self) -> dict[str, Any]:
        content = {
            "loss": loss_to_json(self.loss),
            "ridge": self.ridge,
            "l1": self.l1,
            "intercept": self.intercept,
            "rows": asdict(self.rows),
            "positive": self.positive,
            "shift": self.shift,
            "solver": self.solver,
        }
        return content if self.features else content | {"features": False}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Cost:
        return Cost(**{**content, "loss": loss_from_json(content["loss"]), "rows": Rows(**content["rows"])})

    @property
    def without_penalty(self) -> Cost:
        return replace(self, ridge=0.0, l1=0.0)

    @property
    def key(self) -> str:
        """A name for it that is the same everywhere."""
        return json.dumps(self.as_json(), sort_keys=True)


def loss_to_json(loss: Loss) -> dict[str, Any]:
    parameters = {one.name: getattr(loss, one.name) for one in fields(cast(Any, loss))}
    return {"name": type(loss).__name__, **parameters}


def loss_from_json(content: Mapping[str, Any]) -> Loss:
    given = dict(content)
    name = str(given.pop("name"))
    kind = next((found for room in (losses, families, joint_losses) if (found := getattr(room, name, None))), None)
    if not (isinstance(kind, type) and issubclass(kind, Loss)) or kind is Loss:
        raise InputError(f"{content['name']!r} is not a loss of this version")
    loss: Loss = kind(**given)
    return loss


@dataclass(frozen=True, eq=False)
class Sample:
    """What all silos together have in these rows."""

    rows: Rows
    mass: float  # the total weight of the rows
    n: int
    targets: float  # their weighted sum, or that of the numbers of classes
    least: float  # the weighted sum of the least loss of each row: 0, but for losses that have no such bound
    classes: Array = field(default_factory=lambda: np.zeros(0))  # the weight of each class
    squares: float = np.inf  # of the targets around a centre

    @property
    def mean(self) -> float:
        """Of the targets."""
        return self.targets / self.mass
