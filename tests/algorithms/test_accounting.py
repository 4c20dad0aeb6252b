"""What a round costs, by the engine's own books: exchanges, and floats up and down, the start included."""

from __future__ import annotations

from typing import Any

import pytest
from instances import quad, unequal

from dualfl.algorithms.registry import make
from dualfl.engines import Problem, run
from dualfl.solvers import LBFGS

N, d = 8, 20

# name, options, the start: exchanges, up, down; a round: exchanges, up, down. Floats are summed over all clients.
BOOKS: list[tuple[str, dict[str, Any], tuple[int, int, int], tuple[int, int, int]]] = [
    ("fedpd", {}, (0, 0, 0), (1, N * d, N * d)),
    ("feddr", {}, (1, N * d, 0), (1, N * d, N * d)),
    ("feddr", {"C": 3}, (1, N * d, 0), (1, 3 * d, 3 * d)),
    ("feddr", {"penalty_rule": "balanced"}, (1, N * d, 0), (1, N * (d + 4), N * (d + 1))),
    ("feddyn", {}, (0, 0, 0), (1, N * d, N * d)),
    ("feddyn", {"C": 3}, (0, 0, 0), (1, 3 * d, 3 * d)),
    ("fedsplit", {}, (0, 0, 0), (1, N * d, N * d)),
    ("scaffnew", {}, (0, 0, 0), (1, N * d, N * d)),
    ("tamuna", {"c": 4, "s": 2}, (0, 0, 0), (1, 2 * d, 4 * 2 * d)),  # s d up in all; down before and after
    ("tamuna", {"c": 5, "s": 3}, (0, 0, 0), (1, 3 * d, 5 * 2 * d)),
    ("compressed-scaffnew", {"s": 2}, (0, 0, 0), (1, 2 * d, N * d)),
    ("locodl", {"k": 4}, (0, 0, 0), (1, N * 4, N * d)),
    ("apda", {}, (0, 0, 0), (1, N * d, N * d)),
    ("apda-inexact", {}, (0, 0, 0), (1, N * d, N * d)),
    ("5gcs", {"K": 2}, (0, 0, 0), (1, N * d, N * d)),
    ("5gcs", {"K": 2, "C": 3}, (0, 0, 0), (1, 3 * d, 3 * d)),
    ("fedavg", {}, (0, 0, 0), (1, N * d, N * d)),
    ("fedavg", {"C": 3}, (0, 0, 0), (1, 3 * d, 3 * d)),
    ("fedprox", {"C": 3}, (0, 0, 0), (1, 3 * d, 3 * d)),
    ("fedcm", {"C": 3}, (0, 0, 0), (1, 3 * d, 3 * 2 * d)),
    ("fedsam", {"C": 3}, (0, 0, 0), (1, 3 * d, 3 * d)),
    ("feddualavg", {"C": 3}, (0, 0, 0), (1, 3 * d, 3 * d)),
    ("fedavgm", {}, (0, 0, 0), (1, N * d, N * d)),
    ("fedadam", {"C": 3}, (0, 0, 0), (1, 3 * d, 3 * d)),
    ("fedexp", {"C": 3}, (0, 0, 0), (1, 3 * (d + 1), 3 * d)),
    ("fedac", {"C": 3}, (0, 0, 0), (1, 3 * 2 * d, 3 * 2 * d)),
    ("gradskip", {}, (0, 0, 0), (1, N * d, N * d)),
    ("fedosaa", {}, (0, 0, 0), (3, N * (2 * d + 10), N * 3 * d)),
    ("s-dane", {}, (0, 0, 0), (2, N * (3 * d + 3), N * (2 * d + 1))),
    ("acc-s-dane", {"adaptive": True}, (0, 0, 0), (3, N * (4 * d + 4), N * (3 * d + 1))),
    ("fedred", {}, (0, 0, 0), (2, N * (2 * d + 3), N * 2 * d)),
    ("svrp", {"p": 1e-9}, (1, N * (d + 3), N * d), (1, d, d)),  # one client
    ("accsvrs", {"p": 1.0}, (0, 0, 0), (4, N * 2 * (d + 3) + 3 * d, N * 2 * d + 2 * d)),
    ("fedns", {"k": 5, "line_search": False}, (0, 0, 0), (1, N * (d + 5 * (d + 1) + 3), N * d)),
    ("fedpm", {}, (0, 0, 0), (2, N * (2 * d + d * (d + 1) // 2 + 10), N * 2 * d)),
    ("fednew", {}, (0, 0, 0), (1, N * d, N * d)),
    ("scaffold", {}, (0, 0, 0), (1, N * 2 * d, N * 2 * d)),
    ("scaffold", {"C": 3}, (0, 0, 0), (1, 3 * 2 * d, 3 * 2 * d)),
    ("fedlin", {}, (0, 0, 0), (2, N * 2 * d, N * 2 * d)),
    ("s-local-svrg", {"batch": None}, (1, N * d, N * d), (2, N * 2 * d, N * 3 * d)),
]


@pytest.mark.parametrize(("name", "options", "start", "each"), BOOKS, ids=lambda v: str(v))
def test_books(name: str, options: Any, start: tuple[int, int, int], each: tuple[int, int, int]) -> None:
    rows = run(quad().problem, make(name, **options), rounds=3, evaluate=False).history
    for row in rows:
        books = (row.exchanges, row.floats_up, row.floats_down)
        assert books == tuple(s + row.round * e for s, e in zip(start, each))


def test_randprox_sends_k_floats_and_receives_k_from_the_second_round_on() -> None:
    rows = run(quad().problem, make("randprox", k=3), rounds=4, evaluate=False).history
    assert [row.floats_up for row in rows] == [0, 24, 48, 72, 96]
    assert [row.floats_down for row in rows] == [0, 0, 24, 48, 72]


def test_a_reference_point_that_is_rarely_renewed_costs_less() -> None:
    rows = run(quad().problem, make("s-local-svrg", batch=None, q=0.3), rounds=30, evaluate=False).history
    renewed = rows[-1].exchanges - 1 - 30
    assert 3 <= renewed <= 16
    assert rows[-1].floats_up == N * d * (1 + 30 + renewed)


def test_local_work_is_what_the_methods_say() -> None:
    """Gradients a client and round: K steps, one more for an anchor, two for a sharpness-aware step."""
    expected = {
        ("fedavg", 7): 7,
        ("fedcm", 7): 7,
        ("fedsam", 7): 14,
        ("feddualavg", 7): 7,
        ("scaffold", 7): 7,
        ("fedlin", 7): 8,
        ("fedosaa", 7): 8,
        ("fedadam", 7): 7,
        ("fedexp", 7): 7,
        ("fedac", 7): 7,
    }
    for (name, K), gradients in expected.items():
        rows = run(quad().problem, make(name, K=K), rounds=2, evaluate=False).history
        assert rows[-1].local_gradients == 2 * N * gradients, name


def test_scaffnew_takes_as_many_steps_as_the_common_coin_says() -> None:
    rows = run(quad().problem, make("scaffnew", p=0.2, gamma=1e-5), rounds=200, evaluate=False).history
    steps = [(b.local_gradients - a.local_gradients) / N for a, b in zip(rows, list(rows)[1:])]
    assert all(step == round(step) >= 1 for step in steps)  # the same for all clients
    assert sum(steps) / len(steps) == pytest.approx(5.0, rel=0.2)


def test_a_row_is_a_fraction_of_a_gradient() -> None:
    """ProxSkip-VR: two gradients of one row in every step, now and then a full one."""
    problem = unequal().problem
    rows = run(problem, make("proxskip-vr", p=1.0, q=1e-9), rounds=5, evaluate=False).history
    assert rows[-1].local_gradients == pytest.approx(N + 5 * sum(2 / f.n for f in problem.clients))


def gradients_of(problem: Problem, name: str, **options: Any) -> float:
    return run(problem, make(name, **options), rounds=5, evaluate=False).history[-1].local_gradients / (5 * N)


def test_inexact_solves_cost_a_few_gradients_a_round() -> None:
    """The schedules are there to save local work: compare with solving to rounding."""
    problem = Problem(quad().problem.clients, solvers=LBFGS())
    for name in ("fedpd", "feddr", "feddyn", "fedsplit"):
        assert gradients_of(problem, name) < 8 < 16 < gradients_of(problem, name, accuracy="exact")
    assert gradients_of(problem, "apda-inexact") < 10 < 16 < gradients_of(problem, "apda")
