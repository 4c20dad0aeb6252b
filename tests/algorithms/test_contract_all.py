"""What the contract promises, for every algorithm in the registry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dualfl.algorithms.registry import ALGORITHMS, from_json, make
from dualfl.objectives import Hinge, Loss, Squared
from dualfl.testing import CHECKS, OPTIMUM, SIGNED, Subject

NAMES = sorted(ALGORITHMS)

# Variants whose messages or cohorts differ from the default's.
VARIANTS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in NAMES] + [
    ("apcg-dual", {"C": 2}),
    ("fedpd", {"p": 0.5}),
    ("feddr", {"C": 2}),
    ("feddr", {"penalty_rule": "balanced"}),
    ("feddyn", {"C": 2}),
    ("tamuna", {"c": 3}),
    ("5gcs", {"C": 2, "solve": "exact"}),
    ("fedavg", {"C": 2}),
    ("fedprox", {"K": 3}),
    ("scaffold", {"C": 2, "option": "I"}),
    ("s-local-svrg", {"batch": None, "q": 0.5}),
    ("fedipm", {"race": False}),
    ("prox-newton", {"race": False}),
    ("s-dane", {"adaptive": True}),
    ("fednl", {"p": 0.5, "period": 2, "zeta": 1.0}),
    ("fednew", {"period": 0}),
    ("catalyzed-svrp", {"T": 2}),
    ("fedadam", {"C": 2}),
    ("fedexp", {"C": 2}),
    ("fedac", {"C": 2}),
]
each = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=lambda v: v if isinstance(v, str) else json.dumps(v))


# Methods for one kind of loss; all others are run on the logistic one.
LOSSES: dict[str, Loss] = {"fedipm": Hinge(), "one-shot": Squared()}
ONCE = ("is described", "refuses wrong values")  # for an algorithm, whatever its variants
APART = (OPTIMUM,)  # test_gate holds each to the rounds that it needs


def subject(name: str, options: dict[str, Any]) -> Subject:
    signed = () if name == "5gcs" else SIGNED
    given = {"loss": LOSSES[name]} if name in LOSSES else {}
    return Subject(make(name, **options), signed=signed, **given)


@each
@pytest.mark.parametrize("promise", [name for name in CHECKS if name not in (*ONCE, *APART)])
def test_every_variant_keeps_its_promise(name: str, options: dict[str, Any], promise: str) -> None:
    if promise == "starts anywhere" and name == "s-local-svrg":
        options = {"batch": None} | options  # quadratics have no rows
    skipped = CHECKS[promise](subject(name, options))
    if skipped:
        pytest.skip(skipped)


@pytest.mark.parametrize("promise", ONCE)
@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_keeps_its_promise(name: str, promise: str) -> None:
    assert not CHECKS[promise](subject(name, {}))


@each
def test_json_finds_the_class_by_its_name(name: str, options: dict[str, Any]) -> None:
    here = subject(name, options)
    for algorithm in (here.algorithm, here.resolved):
        assert from_json(algorithm.to_json()) == algorithm
