"""Your own algorithm in 20 lines: the server's heavy ball, side by side with the library's, under the same account.

python examples/own_algorithm.py
"""

from dataclasses import dataclass

import numpy as np

from dualfl import make_problem, reference
from dualfl.algorithms import Algorithm, ask, client_step, theory
from dualfl.algorithms.registry import make
from dualfl.experiments.compare import compare


@dataclass(frozen=True)
class Server:
    x: np.ndarray
    before: np.ndarray


@dataclass(frozen=True)
class HeavyBall(Algorithm):
    """x+ = x - step E'(x) + beta (x - x before), with Polyak's parameters."""

    step: float = theory("4 / (sqrt(L) + sqrt(mu))^2", lambda k, a: 4 / (k.L**0.5 + k.mu**0.5) ** 2)
    beta: float = theory(
        "((sqrt(L) - sqrt(mu)) / (sqrt(L) + sqrt(mu)))^2", lambda k, a: (1 - k.mu**0.5 * a.step**0.5) ** 2
    )
    name = "heavy-ball"

    def start(self, at):
        return Server(np.zeros(at.d), np.zeros(at.d))

    def round(self, s, at):
        m = yield ask(self.slope, x=s.x)  # one exchange: down x, up the weighted mean of what the clients send
        return Server(s.x - self.step * m.g + self.beta * (s.x - s.before), s.x)

    @client_step
    def slope(self, f, c, at, x):
        return at.send(g=f.gradient(x)), c

    def model(self, s):
        return s.x


problem = make_problem("digits", clients=8, ridge=1e-2)
table = compare(problem, [HeavyBall(), make("nesterov"), make("dualfl")], rounds=60, reference=reference(problem))
for entry in table.ranking():
    last = entry.history[-1]
    print(f"{entry.name:<12} error {entry.final_error:.1e}, {last.floats_up:,} floats up, {last.seconds:.2f} s")
