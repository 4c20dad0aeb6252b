"""Algorithms as messages name them: by name and hyperparameters, never as code."""

from __future__ import annotations

import json

from dualfl.algorithms.contract import Algorithm
from dualfl.errors import InputError

SURVEYS = ("survey", "inquiry")  # asked before the first round; nothing of them is remembered


def check_installed(name: str) -> None:
    """Refuse, by name, what this silo does not have."""
    from dualfl.algorithms.registry import ALGORITHMS

    if name not in ALGORITHMS:
        raise InputError(
            f"the algorithm {name!r} is not installed at this silo; its operator can install the package that has it, "
            "or the coordinator takes another algorithm"
        )


def algorithm_of(text: str) -> Algorithm:
    """The algorithm that travels as JSON; the surveys before the first round among them."""
    content = json.loads(text)
    if content["algorithm"] in SURVEYS:
        from dualfl.engines.survey import Inquiry, Survey

        kind = {"survey": Survey, "inquiry": Inquiry}[content.pop("algorithm")]
        return kind(**content)
    from dualfl.algorithms.registry import from_json

    return from_json(text)
