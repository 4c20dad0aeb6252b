"""Small algorithms that use every part of the contract, for tests of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dualfl.algorithms import Algorithm, DualFL, ask, client_step, tell, theory
from dualfl.algorithms.messages import Sparse
from dualfl.objectives import LinearModel, Logistic, Quadratic
from dualfl.solvers.stopping import FixedIterations
from dualfl.typing import Array


@dataclass(frozen=True)
class Server:
    x: Array


@dataclass(frozen=True)
class Local:
    x: Array


@dataclass(frozen=True)
class Toy(Algorithm):
    """Gradient descent."""

    step: float = theory("1 / L", lambda k, a: 1 / k.L)

    name = "toy"

    def start(self, at):
        return Server(x=np.zeros(at.d))

    def round(self, s, at):
        m = yield ask(self.gradient, x=s.x)
        return Server(x=s.x - self.step * m.g)

    def model(self, s):
        return s.x


@dataclass(frozen=True)
class Endless(DualFL):
    """Local solves of months, from the second round on."""

    def stop_rule(self, at, *where):
        return super().stop_rule(at, *where) if at.round < 1 else FixedIterations(10**12)


@dataclass(frozen=True)
class Newtonish(Toy):
    """Three exchanges a round: gradient, averaged Newton directions, energies for the step."""

    name = "newtonish"

    def round(self, s, at):
        g = (yield ask(self.remember, x=s.x)).g
        p = (yield ask(self.direction, g=g)).p
        energies = (yield ask(self.energies, p=p)).E
        return Server(x=s.x - (1.0, 0.5, 0.25)[int(np.argmin(energies))] * p)

    @client_step
    def remember(self, f, c, at, x):
        return at.send(g=f.gradient(x)), Local(x=x)

    @client_step
    def direction(self, f, c, at, g):
        return at.send(p=np.linalg.solve(f.hessian(c.x), g)), c

    @client_step
    def energies(self, f, c, at, p):
        return at.send(E=np.array([f.value(c.x - t * p) for t in (1.0, 0.5, 0.25)])), c


@dataclass(frozen=True)
class Sampled(Toy):
    """A random cohort, a common coin, noise of each client's own, and a last word to the cohort."""

    size: int = 2

    name = "sampled"

    def client(self, f, at):
        return Local(x=np.zeros(at.d))

    def round(self, s, at):
        cohort = at.cohort(self.size)
        m = yield ask(self.steps, to=cohort, x=s.x)
        x = m.x / m.mass
        yield tell(self.keep, to=cohort, x=x)
        return Server(x=x)

    @client_step
    def steps(self, f, c, at, x):
        for _ in range(at.common("coin").geometric(0.5)):
            x = x - self.step * (f.gradient(x) - 0.01 * c.x)
        return at.send(x=x + 1e-3 * at.rng("noise").standard_normal(at.d)), c

    @client_step
    def keep(self, f, c, at, x):
        return at.send(), Local(x=c.x + x)


@dataclass(frozen=True)
class Past:
    x: Array
    old: tuple[Array, ...]
    sizes: tuple[float, ...]


@dataclass(frozen=True)
class Remembering(Toy):
    """Tuples of arrays in the state, started by an exchange; a client keeps a view with strange strides."""

    name = "remembering"

    def start(self, at):
        m = yield ask(self.gradient, x=np.ones(at.d))
        return Past(x=-self.step * m.g, old=(), sizes=())

    def round(self, s, at):
        m = yield ask(self.look, x=s.x, old=s.old)
        old = (*s.old[-2:], s.x[::-1])
        return Past(x=s.x - self.step * m.g, old=old, sizes=(*s.sizes[-2:], np.float64(m.size)))

    @client_step
    def look(self, f, c, at, x, old):
        backwards = np.zeros(at.d) if c is None else c.x
        g = f.gradient(x) + 1e-9 * np.roll(backwards, 1) + 1e-9 * sum(v @ x for v in old)
        table = np.stack([g, x], axis=1)  # its columns are not contiguous
        return at.send(g=g, size=np.float64(g @ g)), Local(x=table[:, 0][::-1])


@dataclass(frozen=True)
class Unseeded(Newtonish):
    """A round that cannot be replayed."""

    name = "unseeded"

    def round(self, s, at):
        g = (yield ask(self.remember, x=s.x)).g
        p = (yield ask(self.direction, g=g * (1 + 1e-3 * np.random.default_rng().random()))).p
        yield ask(self.energies, p=p)
        return Server(x=s.x - p)


@dataclass(frozen=True)
class Calls(Toy):
    """Does what a test wants in its step: `action` is a function of (f, at, x)."""

    action: Any = None

    name = "calls"

    def round(self, s, at):
        m = yield ask(self.act, x=s.x)
        return Server(x=s.x - self.step * m.g)

    @client_step
    def act(self, f, c, at, x):
        return at.send(g=self.action(f, at, x)), c

    def to_json(self) -> str:
        return '{"algorithm": "calls"}'


@dataclass(frozen=True)
class Sparsely(Toy):
    """Every client sends two coordinates."""

    name = "sparsely"

    def round(self, s, at):
        m = yield ask(self.some, x=s.x)
        return Server(x=m.x)

    @client_step
    def some(self, f, c, at, x):
        index = np.array([at.j % at.d, (at.j + 1) % at.d])
        return at.send(x=Sparse(np.ones(2), index, at.d, seeded=True)), c


def quadratics(N=5, d=6, seed=0):
    rng = np.random.default_rng(seed)
    clients = []
    for _ in range(N):
        A = rng.standard_normal((d, d))
        clients.append(Quadratic(A @ A.T / d + np.eye(d), rng.standard_normal(d)))
    return clients


def logistics(N=4, d=6, seed=1, ridge=0.1):
    rng = np.random.default_rng(seed)
    clients = []
    for j in range(N):
        n = 10 + 7 * j
        X = rng.standard_normal((n, d)) + rng.standard_normal(d)
        clients.append(LinearModel(X, np.where(rng.random(n) > 0.5, 1.0, -1.0), Logistic(), ridge=ridge))
    return clients
