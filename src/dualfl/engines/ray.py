"""Runs an algorithm on a Ray cluster: actors hold blocks of clients, with their data and their states.

Actors keep what the clients remember, so that only messages travel. An actor that holds whole blocks of the sum adds
them up itself and sends one vector a block, which gives the same bits as one process. Where there are more processors
than blocks, clients are dealt out singly and their uploads travel one by one.

The cluster is the one that Ray finds (`ray start`, RAY_ADDRESS), or this machine. Ray offers no security between
parties: this engine is for studies, not for silos that keep secrets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

from dualfl.algorithms.codecs import Codec
from dualfl.algorithms.contract import Algorithm, Ask, Constants, Place
from dualfl.algorithms.messages import BLOCK, averaged, floats, mean, not_finite, total
from dualfl.algorithms.plugins import PluginFile, carried, load_files
from dualfl.engines.client import ClientMemory, Envelope, LocalCost, Reply, Work, answer, measured
from dualfl.engines.engine import Engine
from dualfl.engines.exchanges import Ahead, Gathered
from dualfl.engines.inprocess import bind, check_convexity, fingerprint
from dualfl.engines.suiting import check_fit
from dualfl.errors import InputError
from dualfl.problem import Problem
from dualfl.typing import Array

Id = tuple[int, int] | None


class Asked(NamedTuple):
    """A request to some clients of one actor; `after` is what the server believes that each answered last."""

    algorithm: Algorithm
    request: Envelope
    clients: list[int]
    after: list[Id]
    summed: bool
    seconds: float  # that are left; clocks of other machines differ


class Answered(NamedTuple):
    """One sum a block, if uploads were added up here; otherwise those of `singles`, one a client."""

    wires: list[dict[str, Any]]
    singles: list[int]
    sample: dict[str, Any]
    works: list[Work]
    floats: int


class Holder:
    """The clients of one actor."""

    def __init__(
        self,
        costs: dict[int, LocalCost],
        place: Place,
        weights: list[float],
        sizes: list[float],
        plugins: Sequence[PluginFile] = (),
    ) -> None:
        load_files(plugins)  # before a message names a class of theirs
        self.costs, self.place, self.weights, self.sizes = costs, place, weights, sizes
        self.silos = {j: ClientMemory() for j in costs}
        self.before = dict(self.silos)  # one step back, for a server that was interrupted before it took the answer in

    def answer(self, asked: Asked) -> Answered:
        deadline = time.perf_counter() + asked.seconds
        sent: list[dict[str, Any]] = []
        bad: list[tuple[int, dict[str, Any]]] = []
        works, weight, moved, sample = [], 0, [], None
        for _, block in groupby(zip(asked.clients, asked.after), key=lambda one: one[0] // BLOCK):
            members = list(block)
            found = [self._one(asked, j, after, deadline) for j, after in members]
            clients, wires = [j for j, _ in members], [reply.wire for reply, _, _ in found]
            works += [reply.work for reply, _, _ in found]
            weight += sum(map(floats, wires))
            moved += [(j, old, new) for j, (_, old, new) in zip(clients, found)]
            sample = sample or wires[0]
            # Bad numbers travel singly, so that the server can name their client.
            bad += [(j, w) for j, w in zip(clients, wires) if any(not_finite(value) for value in w.values())]
            sent += [total(wires, clients, self.sizes)] if asked.summed else wires  # a block is let go once it is added
        # All have answered: only now does anybody move on.
        for j, old, new in moved:
            self.before[j], self.silos[j] = old, new
        assert sample is not None
        if asked.summed and bad:
            return Answered([wire for _, wire in bad], [j for j, _ in bad], sample, works, weight)
        return Answered(
            sent, [] if asked.summed else asked.clients, emptied(sample) if asked.summed else sample, works, weight
        )

    def _one(self, asked: Asked, j: int, after: Id, deadline: float) -> tuple[Reply, ClientMemory, ClientMemory]:
        silo = self.silos[j]
        if silo.answered != after and self.before[j].answered == after:
            silo = self.before[j]
        with self.costs[j].until(deadline):
            reply, moved = answer(
                asked.algorithm, self.costs[j], silo, asked.request, self.place, j, self.weights[j], after
            )
        return reply, silo, replace(moved, reply=None)

    def values(self, theta: Array) -> list[dict[str, float]]:
        return [measured(cost.objective, theta) for _, cost in sorted(self.costs.items())]

    def fetch(self, answered: dict[int, Id]) -> dict[int, ClientMemory]:
        """The clients' memories as they were after these exchanges."""
        return {j: self.silos[j] if self.silos[j].answered == id else self.before[j] for j, id in answered.items()}

    def put(self, silos: dict[int, ClientMemory]) -> None:
        self.silos |= silos
        self.before |= silos


def emptied(wire: dict[str, Any]) -> dict[str, Any]:
    """What tells a compressed field from one that is sent as it is, without the numbers."""
    return {name: value if hasattr(value, "add_to") else None for name, value in wire.items()}


class OnRay(Engine):
    """One run: an algorithm bound to the clients of a problem, held by actors."""

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        *,
        seed: int = 0,
        threads: int | None = None,
        codec: Codec | None = None,
        start: Array | None = None,
        constants: Constants | None = None,
        settle: bool = True,
    ) -> None:
        check_fit(problem.clients, problem.penalty, algorithm, codec)
        super().__init__(
            algorithm, problem.clients[0], problem.penalty, problem.sizes, seed=seed, codec=codec, start=start
        )
        self.problem = problem
        costs = [LocalCost(f, solver, self.origin) for f, solver in zip(bind(problem, algorithm), problem.solvers)]
        check_convexity(costs, algorithm)
        self._solvers = sorted({repr(cost.solver) for cost in costs})
        self.ray, self._started = connect(threads)
        try:
            self._hire(costs, processors(self.ray, threads))
            if settle:
                self.settle(algorithm, constants)
        except BaseException:
            self.close()
            raise

    def _hire(self, costs: list[LocalCost], workers: int) -> None:
        """Actors, and who of the clients is where."""
        Actor = self.ray.remote(num_cpus=1)(Holder)
        groups = deal(len(costs), workers)
        self.whole = len(groups) == 1 or all(group[0] % BLOCK == 0 for group in groups)
        self.home = {j: actor for actor, group in enumerate(groups) for j in group}
        self.groups = groups
        self.actors = [
            Actor.remote({j: costs[j] for j in group}, self.place, self.weights, self.sizes, carried().files)
            for group in groups
        ]

    # -- one exchange -----------------------------------------------------------------------------

    def gather(self, algorithm: Algorithm, asked: Ask, request: Envelope, clients: Sequence[int]) -> Gathered:
        summed = self.whole and asked.reduce == "sum"
        parts = self._spread(clients)
        left = self.deadline - time.perf_counter()
        requests = [
            Asked(algorithm, request, mine, [self.silos[j].answered for j in mine], summed, left) for _, mine in parts
        ]
        answers: list[Answered] = self._call(
            self.actors[actor].answer.remote(sent) for (actor, _), sent in zip(parts, requests)
        )
        return Gathered(
            self._means(asked, request, clients, answers),
            answers[0].sample,
            [work for each in answers for work in each.works],
            sum(each.floats for each in answers),
            self.moved(clients, [ClientMemory(answered=request.id)] * len(clients)),
        )

    def _means(self, asked: Ask, request: Envelope, clients: Sequence[int], answers: list[Answered]) -> SimpleNamespace:
        wires = [wire for each in answers for wire in each.wires]
        if not any(each.singles for each in answers):  # in the order of the blocks, since actors are
            sums = dict(wires[0])
            for wire in wires[1:]:
                for name, value in wire.items():
                    sums[name] = sums[name] + value
            means = averaged(sums, clients, self.sizes, self.mass)
            if not any(not_finite(value) for value in vars(means).values()):
                return means
        if self.whole and asked.reduce == "sum":  # somebody sent bad numbers: only those are looked at
            bad = [each for each in answers if each.singles]
            self._blame(request, [j for each in bad for j in each.singles], [w for each in bad for w in each.wires])
        return self.reduce(asked, request, clients, [Reply(wire, Work()) for wire in wires])

    def _spread(self, clients: Sequence[int]) -> list[tuple[int, list[int]]]:
        """(actor, its clients among these), in client order."""
        parts: dict[int, list[int]] = {}
        for j in clients:
            parts.setdefault(self.home[j], []).append(j)
        return sorted(parts.items())

    def _call(self, calls: Iterable[Any]) -> list[Any]:
        try:
            return list(self.ray.get(list(calls)))
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except self.ray.exceptions.RayActorError as error:
            raise InputError(
                f"A Ray actor died ({str(error).splitlines()[0]}); resume the run from its checkpoint."
            ) from error

    def mean_value(self, theta: Array, ahead: Ahead | None) -> tuple[float, float]:
        point = self.ray.put(theta)
        values = [v for part in self._call(actor.values.remote(point) for actor in self.actors) for v in part]
        m = mean(values, range(self.place.N), self.sizes, self.mass)
        return float(m.E), float(m.off)

    # -- what outlives an exchange ----------------------------------------------------------------

    @property
    def solvers(self) -> list[str]:
        return self._solvers

    def fingerprint(self) -> str:
        return fingerprint(self.problem, self.sizes)

    def stored(self, silos: list[ClientMemory]) -> list[ClientMemory]:
        if not hasattr(self, "actors"):
            return silos
        calls = [
            actor.fetch.remote({j: silos[j].answered for j in group}) for actor, group in zip(self.actors, self.groups)
        ]
        found = {j: silo for part in self._call(calls) for j, silo in part.items()}
        return [found[j] for j in range(self.place.N)]

    def restored(self, silos: list[ClientMemory]) -> list[ClientMemory]:
        self._call(actor.put.remote({j: silos[j] for j in group}) for actor, group in zip(self.actors, self.groups))
        return [ClientMemory(answered=silo.answered) for silo in silos]

    def close(self) -> None:
        for actor in getattr(self, "actors", []):
            self.ray.kill(actor)
        if self._started:
            self.ray.shutdown()


def connect(threads: int | None) -> tuple[Any, bool]:
    """Ray, and whether it was started here."""
    try:
        import ray
    except ImportError:
        raise InputError("The engine ray needs Ray, which is not installed; pip install 'dualfl[ray]'.") from None
    if ray.is_initialized():
        return ray, False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    cluster = os.environ.get("RAY_ADDRESS")
    own = {} if cluster else {"num_cpus": threads, "include_dashboard": False}
    ray.init(log_to_driver=False, logging_level="error", **own)
    return ray, True


def processors(ray: Any, threads: int | None) -> int:
    found = int(ray.cluster_resources().get("CPU", 1))
    return max(1, found if threads is None else min(threads, found))


def deal(N: int, workers: int) -> list[list[int]]:
    """Clients in consecutive groups, one an actor: of whole blocks where there are enough of them."""
    blocks = -(-N // BLOCK)
    unit, pieces = (BLOCK, blocks) if blocks >= workers else (1, N)
    workers = min(workers, pieces)
    ends = [min(N, unit * (pieces * w // workers)) for w in range(workers + 1)]
    return [list(range(a, b)) for a, b in pairwise(ends)]
