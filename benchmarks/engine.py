"""What the in-process engine costs by itself, in CPU time.

    python -m benchmarks.engine              overhead per exchange, d = 7850, N = 8 and 1000
    python -m benchmarks.engine mnist        1,000 clients of 60 rows against 8 of 7,500, at the same local gradients

The first command runs steps that compute nothing, so all that is left is carrying, adding and remembering; beside
DualFL stand its own vector operations, which no engine can save. The second passes over the same rows in both
partitions and divides by the number of passes, so what grows is the work on vectors of d numbers, one set for each
client; it needs the MNIST files in the folder that DUALFL_DATA names. Add `profile` to see where the time goes.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dualfl.algorithms import Algorithm, DualFL, Place, ask, client_step
from dualfl.algorithms.messages import total
from dualfl.data import load, make_problem
from dualfl.engines import InProcess, Problem
from dualfl.engines.driver import Driver
from dualfl.objectives import Quadratic
from dualfl.solvers import LBFGS, FixedIterations, Solution, Solver, StopRule
from dualfl.typing import Array, frozen

D = 7850


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class Idle(Algorithm):
    """Gradient descent whose gradient is free."""

    name = "idle"

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d))

    def round(self, s: Server, at: Place) -> Any:
        m = yield ask(self.nothing, x=s.x)
        return Server(s.x - m.g)

    @client_step
    def nothing(self, f: Any, c: Any, at: Place, x: Array) -> Any:
        return at.send(g=x), c

    def model(self, s: Server) -> Array:
        return s.x


@dataclass(frozen=True)
class Free(Solver):
    """A local solve that costs nothing."""

    def check(self, f: Any) -> None: ...

    def solve(self, f: Any, warm: Array | None, stop: Any) -> Solution:
        zero = _ZERO
        return Solution(f.c, zero, 0.0, 0.0, 0.0, 1, False, f.cost, f.c)


_ZERO = frozen(np.zeros(D))


def clients(N: int) -> Problem:
    """Clients that are never evaluated; an operator needs no matrix."""
    from scipy.sparse.linalg import LinearOperator

    identity = LinearOperator((D, D), matvec=lambda v: v, dtype=np.float64)
    f = Quadratic(identity, np.zeros(D), mu=1.0, L=1.0)
    return Problem([f.fresh() for _ in range(N)], solvers=Free())


def per_exchange(problem: Problem, algorithm: Algorithm, exchanges: int) -> float:
    """CPU seconds of an exchange, the lower quartile of `exchanges`."""
    engine = InProcess(problem, algorithm, threads=1)
    driver = Driver(engine.algorithm, engine.place)
    while not driver.started:
        driver.ask()

    def one() -> None:
        asked = driver.ask()
        assert asked is not None
        driver.tell(engine.exchange(engine.algorithm, driver, asked))

    return timed(one, exchanges)


def timed(work: Callable[[], Any], times: int) -> float:
    work()
    spent = []
    for _ in range(times):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return float(np.quantile(spent, 0.25))


def own_operations(N: int, times: int) -> float:
    """CPU seconds of what a round of DualFL computes on vectors, for all clients, without any engine."""
    rng = np.random.default_rng(0)
    state = [[rng.standard_normal(D) for _ in range(3)] for _ in range(N)]
    theta = rng.standard_normal(D)

    def work() -> None:
        for j, (zeta, before, sent) in enumerate(state):
            s = zeta + theta - sent
            zeta = s + 0.1 * (s - before)
            c = 1.0 * zeta
            g = c + sent
            _ = c @ sent, g @ sent, sent @ sent, sent @ theta, np.linalg.norm(sent), zeta @ zeta
            state[j] = [zeta, s, sent]
        total([{"x": s[2]} for s in state], range(N), [1.0] * N)

    return timed(work, times)


def overhead() -> None:
    print(f"CPU microseconds per exchange, one thread, d = {D}")
    print(f"{'':34}{'N = 8':>10}{'N = 1000':>12}")
    rng = np.random.default_rng(0)
    rows: dict[str, list[float]] = {}
    for N, times in ((8, 400), (1000, 10)):
        problem = clients(N)
        uploads = [{"x": frozen(rng.standard_normal(D))} for _ in range(N)]
        adding = partial(total, uploads, range(N), [1.0] * N)
        for title, spent in (
            ("adding the uploads alone", timed(adding, times)),
            ("a gradient step that does nothing", per_exchange(problem, Idle(), times)),
            ("DualFL's own vector operations", own_operations(N, times)),
            ("DualFL with a free local solve", per_exchange(problem, DualFL(nu=1.0, rho=0.5), times)),
        ):
            rows.setdefault(title, []).append(1e6 * spent)
    for title, (few, many) in rows.items():
        print(f"{title:34}{few:10.0f}{many:12.0f}")


@dataclass(frozen=True)
class FixedWork(DualFL):
    """DualFL whose clients make so many iterations, whatever comes of it."""

    iterations: int = 10

    def stop_rule(self, *where: Any) -> StopRule:
        return FixedIterations(self.iterations)


def mnist(rounds: int = 3) -> None:
    data = load("mnist")
    settings = {
        "10 iterations of plain L-BFGS": (FixedWork(nu=1e-2, rho=1e-3), LBFGS(metric="none")),
        "DualFL as it is": (DualFL(nu=1e-2, rho=1e-3), None),
    }
    for title, (algorithm, solver) in settings.items():
        print(f"MNIST, {rounds} rounds, {title}")
        print(f"{'clients':>8}{'rows':>7}{'gradients':>11}{'wall':>9}{'CPU':>9}{'CPU per gradient of all rows':>30}")
        spent = {}
        for N in (8, 1000):
            problem = make_problem(data, clients=N, ridge=1e-2, solver=solver)
            gradients, wall, cpu = rounds_of(problem, algorithm, rounds)
            spent[N] = cpu / gradients
            each = f"{1e3 * spent[N]:.1f} ms"
            print(f"{N:8}{60000 // N:7}{gradients:11.1f}{wall:8.2f}s{cpu:8.2f}s{each:>30}", flush=True)
        print(f"{spent[1000] / spent[8]:.1f} times the CPU time for the same gradients\n")


def rounds_of(problem: Problem, algorithm: Algorithm, rounds: int) -> tuple[float, float, float]:
    """Gradients of a client, wall and CPU seconds of so many rounds, nothing measured in between."""
    profile = cProfile.Profile() if "profile" in sys.argv else None
    engine = InProcess(problem, algorithm, threads=None if profile is None else 1)
    driver = Driver(engine.algorithm, engine.place)
    wall, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1, user_api="blas"), profile or nullcontext():
        while driver.round < rounds:
            asked = driver.ask()
            if asked is not None:
                driver.tell(engine.exchange(engine.algorithm, driver, asked))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    engine.close()
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
    return engine.account.local_gradients / problem.N, wall, cpu


if __name__ == "__main__":
    mnist() if "mnist" in sys.argv else overhead()
