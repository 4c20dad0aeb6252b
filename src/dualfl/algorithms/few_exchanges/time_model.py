"""How long a method will take: exchanges, numbers and multiply-adds, on a network of which two figures are stated.

    time  =  exchanges x latency  +  bits of a client / bandwidth  +  multiply-adds / speed

Clients send at the same time, so the one with the most rows counts. Floats and multiply-adds are counted; how many
exchanges a method takes is not known beforehand, and the numbers here are those of results/matrix and results/auto.md,
by the orders of magnitude of mu below 1e-2: they say which method is the quicker one, not to the second. Those of
local-secants depend on how well a client's rows tell the common Hessian: on features over rows, and on how much more
the clients differ than chance would have it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dualfl.algorithms.contract import Constants, Facts
from dualfl.algorithms.packing import SHORT

SPEED = 2e9  # multiply-adds a second, of one processor
BITS = 64  # of a number
MBIT = 1e6
LEAST_RIDGE = 1e-8  # what a problem without a ridge counts as
PASSES = 3  # over the rows: a gradient, and what is measured
SOLVE = 30  # products with a client's Hessian, for a step of its own
CUTS = 6  # of a bundle, in one exchange
UNLIKE = 2.0  # times as much as by chance: clients whose own minimisers are of no use
GIVE_UP = 1.15  # times the exchanges of L-BFGS, which local-secants becomes where its steps do not pay


class Network(NamedTuple):
    """Seconds that an exchange takes however small it is, and megabits a second of a client's line."""

    latency: float = 0.0
    bandwidth: float = np.inf

    @property
    def free(self) -> bool:
        """Whether everything happens in one process."""
        return self.latency == 0 and np.isinf(self.bandwidth)

    def __str__(self) -> str:
        return f"{1e3 * self.latency:g} ms and {self.bandwidth:g} Mbit/s"

    def seconds(self, exchanges: float, floats: float, computing: float) -> float:
        """`floats`: of one client, up and down."""
        return float(exchanges * self.latency + BITS * floats / (MBIT * self.bandwidth) + computing)


class Prediction(NamedTuple):
    """What a method is expected to need."""

    exchanges: float
    floats: float
    multiply_adds: float

    def on(self, network: Network) -> float:
        return network.seconds(self.exchanges, self.floats, self.multiply_adds / SPEED)

    def told(self, network: Network) -> str:
        return f"{self.exchanges:.0f} exchanges and {clock(self.on(network))}"


def clock(seconds: float) -> str:
    """A time in words."""
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:.3g} min"


def predicted(name: str, k: Constants, facts: Facts) -> Prediction:
    """Of the methods between which `auto` chooses."""
    D, d, n = facts.D, k.d, k.n
    orders = orders_of(k.mu)
    triangle = D * (D + 1) / 2
    m = max(1, facts.k - (facts.loss == "Softmax"))
    pairs = m * (m + 1) / 2
    gradient = PASSES * n * d
    if name == "one-shot":
        return Prediction(1, triangle + 3 * d, n * triangle + d**3 / 3)
    if name == "lbfgs":
        exchanges = by_gradients(k, facts)
        return Prediction(exchanges, 2 * d * exchanges, exchanges * (gradient + 40 * d))
    if name == "local-secants":
        exchanges = min(by_local_steps(k, facts), GIVE_UP * by_gradients(k, facts))
        work = gradient + SOLVE * n * d  # two passes a product, every other exchange
        return Prediction(exchanges, 2 * d * exchanges + d, exchanges * (work + 40 * d) + SOLVE * n * d)
    if name == "fedipm":
        exchanges = (10 if unlike(facts) else 6) + 2 * orders
        return Prediction(exchanges, exchanges * (triangle + 10 * d), exchanges * (n * triangle + d**3 / 3))
    if name == "bundle":
        return Prediction(30, 30 * CUTS * 2 * d, 30 * CUTS * gradient)
    whole = triangle * pairs
    if name == "prox-newton" or whole <= 2**18:
        exchanges = 3.4 + orders
        block = min(whole, 2500 * 2501 / 2)
        floats = exchanges * (block + 3 * d) + 3 * triangle
        return Prediction(exchanges, floats, exchanges * (n * block + gradient + (D * m) ** 3 / 3))
    exchanges = 6 * 1.45**orders
    sketch = max(16 * d, 2**20) + 2 * max(4 * d, 2**15)
    moment = min(triangle, 256.0 * D)
    metrics = sketch * (1 + orders / 4)
    floats = 3 * moment + exchanges * 2 * d + metrics * SHORT / BITS
    return Prediction(exchanges, floats, n * (moment + metrics) + exchanges * (gradient + 2 * sketch))


def orders_of(mu: float) -> float:
    """Orders of magnitude below the ridge of an easy problem."""
    return max(0.0, float(np.log10(1e-2 / max(mu, LEAST_RIDGE))))


def by_gradients(k: Constants, facts: Facts) -> float:
    """Exchanges of L-BFGS."""
    return float((45 if facts.k > 1 else 16) * 2.2 ** orders_of(k.mu))


def by_local_steps(k: Constants, facts: Facts) -> float:
    """Exchanges of local-secants, while it takes local steps. Clients that nobody compared count as unlike."""
    several = facts.k > 1
    chance = np.sqrt(facts.D / max(k.n, 1)) * (8 + (35 if several else 14) * orders_of(k.mu))
    differ = float(k.n if facts.alike is None else facts.alike)
    return float((4 + chance) * (1 + (1.0 if several else 0.2) * np.log10(max(differ, 1.0))))


def unlike(facts: Facts) -> bool:
    return facts.alike is None or facts.alike > UNLIKE
