"""What the contract promises, for every algorithm in the registry."""

from __future__ import annotations

import dataclasses
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import problems
from dualfl.algorithms import Algorithm, Card
from dualfl.algorithms.registry import ALGORITHMS, from_json, make
from dualfl.engines import InProcess, Problem, Result, inprocess, run
from dualfl.engines.client import answer
from dualfl.engines.decision import ClientsHere, decide
from dualfl.errors import InputError
from dualfl.objectives import Hinge, Loss, Objective, Quadratic, Squared
from dualfl.solvers import DampedNewton

NAMES = sorted(ALGORITHMS)
ROUNDS = 3

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
]
each = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=lambda v: v if isinstance(v, str) else json.dumps(v))


# Methods for one kind of loss; all others are run on the logistic one.
LOSSES: dict[str, Loss] = {"fedipm": Hinge(), "one-shot": Squared()}


@cache
def small(name: str) -> Problem:
    """Four unequal clients, five features, a loss that the algorithm of that name takes."""
    rng = np.random.default_rng(7)
    clients: list[Objective] = []
    for count in (6, 9, 14, 20):
        X, y = problems.rows(rng, count)
        clients.append(problems.LinearModel(X[:, :5], y, LOSSES.get(name, problems.Logistic()), ridge=0.1))
    return Problem(clients, solvers=DampedNewton())


def everything(result: Result) -> Any:
    """All numbers of a result but the seconds, as they are in memory."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return type(value).__name__, {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        return value

    return {
        "theta": plain(result.theta),
        "server": plain(result.state),
        "clients": [plain(silo.state) for silo in result.silos],
        "rows": [row._replace(seconds=0.0) for row in result.history],
    }


@each
def test_a_checkpoint_resumes_bit_for_bit_after_any_exchange(
    name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(small(name), make(name, **options), rounds=ROUNDS, threads=1)
    real, count = InProcess.exchange, 0

    def interrupted(self: InProcess, *args: Any) -> Any:
        nonlocal count
        if args[0].name != "survey":
            if count == 0:
                raise KeyboardInterrupt
            count -= 1
        return real(self, *args)

    monkeypatch.setattr(InProcess, "exchange", interrupted)
    file = tmp_path / "run.npz"
    count, stopped, legs = 1, "interrupted", 0
    while stopped == "interrupted":
        # one exchange, then a new process would start from the file
        resumed = run(
            small(name), make(name, **options), rounds=ROUNDS, threads=1, checkpoint=file, resume=file.exists()
        )
        stopped, count, legs = resumed.stopped, 1, legs + 1
    assert legs >= ROUNDS
    assert everything(resumed) == everything(whole)


@each
def test_threads_do_not_change_a_bit(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inprocess, "WORTH_A_THREAD", 0.0)
    one, many = (run(small(name), make(name, **options), rounds=ROUNDS, threads=threads) for threads in (1, 3))
    assert everything(one) == everything(many)


@each
def test_a_repeated_request_gets_the_same_answer(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both from the stored reply, and computed once more from the state before."""

    def twice(algorithm: Algorithm, f: Any, silo: Any, request: Any, *rest: Any) -> Any:
        reply, after = answer(algorithm, f, silo, request, *rest)
        again, same = answer(algorithm, f, after, request, *rest)
        assert same is after
        assert again is reply
        afresh, _ = answer(algorithm, f, silo, request, *rest)
        assert repr(afresh.wire) == repr(reply.wire)
        return reply, after

    with np.printoptions(floatmode="unique", threshold=10**6):
        monkeypatch.setattr(inprocess, "answer", twice)
        run(small(name), make(name, **options), rounds=2, threads=1)


def resolved_on(problem: Problem, algorithm: Algorithm) -> Algorithm:
    """What an engine would run."""
    return InProcess(problem, decide(algorithm, ClientsHere(problem))[0]).algorithm


@each
def test_json_and_back(name: str, options: dict[str, Any]) -> None:
    open_, resolved = make(name, **options), resolved_on(small(name), make(name, **options))
    assert resolved.resolved
    for algorithm in (open_, resolved):
        assert from_json(algorithm.to_json()) == algorithm
    assert resolved.resolve(InProcess(small(name), resolved).constants) == resolved


def is_a_number(name: str, field: str, value: Any) -> bool:
    if field == "mu" and name != "5gcs":
        return False  # there it only scales the certificate, and mu <= 0 means that there is none
    return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_outside_their_range_are_named(name: str) -> None:
    """-1 is right for no number of any algorithm."""
    resolved = resolved_on(small(name), make(name))
    for field in dataclasses.fields(resolved):  # type: ignore[arg-type]
        if not is_a_number(name, field.name, getattr(resolved, field.name)):
            continue
        with pytest.raises(InputError, match=field.name):
            InProcess(small(name), dataclasses.replace(resolved, **{field.name: -1}))  # type: ignore[type-var]


@pytest.mark.parametrize("name", NAMES)
def test_words_outside_their_range_are_named(name: str) -> None:
    resolved = resolved_on(small(name), make(name))
    for field in dataclasses.fields(resolved):  # type: ignore[arg-type]
        if isinstance(getattr(resolved, field.name), str):
            with pytest.raises(InputError, match=field.name):
                InProcess(small(name), dataclasses.replace(resolved, **{field.name: "nonsense"}))  # type: ignore[type-var]


@pytest.mark.parametrize("name", NAMES)
def test_cards_and_grids(name: str) -> None:
    cls = ALGORITHMS[name]
    assert isinstance(cls.card, Card)
    assert cls.card.title and cls.card.reference and cls.card.rate and 1800 < cls.card.year < 2030
    fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    assert set(cls.grid) <= fields
    assert cls.__doc__ and sys.modules[cls.__module__].__doc__


def shifted(x0: Any) -> tuple[Problem, Problem]:
    """A problem, and the same with its origin at x0."""
    rng = np.random.default_rng(8)
    plain: list[Objective] = []
    moved: list[Objective] = []
    for _ in range(4):
        B = rng.standard_normal((8, 5))
        A, b = B.T @ B / 8 + 0.3 * np.eye(5), rng.standard_normal(5)
        plain.append(Quadratic(A, b))
        moved.append(Quadratic(A, b - A @ x0, mu=plain[-1].mu, L=plain[-1].L))
    return Problem(plain, solvers=DampedNewton()), Problem(moved, solvers=DampedNewton())


@each
def test_a_start_is_a_shift_of_the_origin(name: str, options: dict[str, Any]) -> None:
    if ALGORITHMS[name].warm or name == "proxskip-vr":
        pytest.skip("it starts in a way of its own" if name != "proxskip-vr" else "quadratics have no rows")
    if name == "s-local-svrg":
        options = {"batch": None} | options
    x0 = np.array([3.0, -2.0, 1.0, 0.5, -4.0])
    plain, moved = shifted(x0)
    a = run(plain, make(name, **options), rounds=ROUNDS, start=x0, evaluate=False)
    b = run(moved, make(name, **options), rounds=ROUNDS, evaluate=False)
    assert np.allclose(a.theta, b.theta + x0, rtol=0, atol=1e-7)
