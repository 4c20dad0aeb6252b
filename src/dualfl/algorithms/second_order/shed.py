r"""SHED: eigenvectors of the clients' Hessians, sent little by little.

N. Dal Fabbro, S. Dey, M. Rossi and L. Schenato, "SHED: a Newton-type algorithm for federated learning based on
incremental Hessian eigenvector sharing", Automatica 2024. Client j decomposes f_j'' at a point of the past,
lambda_1 >= lambda_2 >= ..., and sends its next q eigenpairs every round, and rho_j, the first eigenvalue that is still
to come. With all that has come so far, l <= q_j,

    H = sum_j w_j (rho_j I + sum_l (lambda_l - rho_j) v_l v_l'),        x+ = x - t H^{-1} E'(x)

with t from a line search. H is at least the Hessian of the past, so p is a descent direction, and once all d pairs have
come the two are equal. Hessians are renewed, and sending starts anew, in rounds 0, 1, 2, 3, 5, 8, 13, ... (Fibonacci's
numbers, as in the paper).

When rho_j falls, the vectors of before change their weight, so the server must hold each client's own: what travels is
no sum. Clients write into a common vector, each where nobody else does; with masks this costs N times as much and
hides nothing. The server holds up to N d^2 numbers.

Default. q = 1, a float a coefficient more than FedAvg; the paper lets each client send what its link allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh

from dualfl.algorithms.client_cost import ClientCost
from dualfl.algorithms.contract import Card, Constants, Place, Round, Upload, ask, client_step, theory
from dualfl.algorithms.line_search import Searching
from dualfl.algorithms.messages import Sparse
from dualfl.algorithms.second_order.dense_hessian import at_most, finite
from dualfl.errors import InputError
from dualfl.solvers.definite import solve
from dualfl.typing import Array

MOST = 10**8  # numbers at the server


@dataclass(frozen=True)
class Local:
    x: Array
    values: Array  # of the Hessian of the past, descending
    vectors: Array


@dataclass(frozen=True)
class Server:
    x: Array
    bound: float
    vectors: Array  # N x (pairs that have come) x d, each times w_j
    values: Array  # N x (pairs), each times w_j


def renewed(n: int) -> bool:
    """Whether Hessians are renewed in round n: whether n is 0 or one of Fibonacci's numbers."""
    a, b = 0, 1
    while a < n:
        a, b = b, a + b
    return a == n


def since(n: int) -> int:
    """How many rounds ago Hessians were renewed."""
    return next(i for i in range(n + 1) if renewed(n - i))


@dataclass(frozen=True)
class SHED(Searching):
    """SHED: clients send eigenvectors of their Hessians, a few at a time (Dal Fabbro, Dey, Rossi and Schenato).

    Parameters
    ----------
    q : int, default 1
        Eigenpairs a client sends in a round.
    mu : float, default mu
        The strong convexity of the costs, for steps or the certificate; measured if it is not given.

    Examples
    --------
    >>> import dualfl
    >>> problem = dualfl.make_problem("iris", clients=3, ridge=0.1)
    >>> result = dualfl.run(problem, dualfl.algorithms.SHED(), rounds=30)
    >>> bool(result.energy / dualfl.reference(problem) - 1 < 1e-8)
    True
    """

    q: int = 1
    mu: float = theory("mu", lambda k, a: k.mu)  # for the certificate only

    name = "shed"
    needs = frozenset({"gradient", "hessian"})
    grid: ClassVar = {"q": [1, 2, 5, 10]}
    card = Card(
        "SHED",
        2022,
        "Dal Fabbro, Dey, Rossi and Schenato",
        exchanges="2",
        up="d + q (d + 1) + 11, no sum",
        down="2d",
        rate="superlinear by subsequences",
        paper="arXiv:2202.05800",
    )

    def check(self, k: Constants) -> None:
        at_most(self.name, k.d)
        self.require(self.q >= 1, "q", "it is a number of eigenpairs, >= 1")
        self.require(self.mu > 0, "mu", "it must be positive")
        if k.N * k.d**2 > MOST:
            raise InputError(
                f"shed keeps the eigenvectors of all clients at the server, up to N d^2 = {k.N * k.d**2:.1e} numbers, "
                f"and {MOST:.0e} is the most it takes; use fednl or giant instead."
            )

    def start(self, at: Place) -> Server:
        return Server(np.zeros(at.d), -np.inf, np.zeros((at.N, 0, at.d)), np.zeros((at.N, 0)))

    def round(self, s: Server, at: Place) -> Round:
        m = yield ask(self.eigenpairs, x=s.x)
        blocks = m.pairs.reshape(at.N, -1)
        new = blocks[:, 1:].reshape(at.N, -1, at.d + 1)  # no pairs if all have come
        old = 0 if renewed(at.round) else s.vectors.shape[1]
        vectors = np.concatenate([s.vectors[:, :old], new[:, :, 1:]], axis=1)
        values = np.concatenate([s.values[:, :old], new[:, :, 0]], axis=1)
        p = solve(hessian(vectors, values, blocks[:, 0]), m.g)
        step = yield from self.search(m.E, m.g, p)
        return Server(s.x - step * p, max(s.bound, self.lower_bound(at, self.mu, s.x, m)), vectors, values)

    def client(self, f: ClientCost, at: Place) -> Local:
        return Local(np.zeros(at.d), np.zeros(at.d), np.zeros((at.d, at.d)))

    @client_step
    def eigenpairs(self, f: ClientCost, c: Local, at: Place, x: Array) -> tuple[Upload, Local]:
        E, g = f.value_gradient(x)
        values, V = (c.values, c.vectors)
        if renewed(at.round):
            values, V = (part[..., ::-1] for part in eigh(finite(f.hessian(x))))
        first = min(self.q * since(at.round), at.d)
        last = min(first + self.q, at.d)
        rho = values[min(last, at.d - 1)]  # once all have come, it has no weight
        block = np.r_[rho, np.column_stack([values[first:last], V[:, first:last].T]).ravel()]
        place = np.arange(at.j * block.size, (at.j + 1) * block.size)
        pairs = Sparse(block, place, at.N * block.size, seeded=True)
        return at.send(g=g, pairs=pairs).also(**at.measured(f, x, E)), Local(x, values, V)


def hessian(vectors: Array, values: Array, rho: Array) -> Array:
    """sum_j w_j (rho_j I + sum_l (lambda_l - rho_j) v_l v_l'), from w_j v_l, w_j lambda_l and w_j rho_j."""
    _, pairs, d = vectors.shape
    if not pairs:
        return float(rho.sum()) * np.eye(d)
    weights = np.linalg.norm(vectors, axis=2)
    V = (vectors / weights[:, :, None]).reshape(-1, d)
    excess = (values - rho[:, None]).reshape(-1)
    return np.asarray(float(rho.sum()) * np.eye(d) + (V.T * excess) @ V)
