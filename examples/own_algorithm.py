"""An algorithm of your own in a file of your own: the server's heavy ball.

B. T. Polyak, "Some methods of speeding up the convergence of iteration methods", USSR Computational Mathematics and
Mathematical Physics 4 (1964). With the clients' gradients averaged to E',

    x+ = x - step E'(x) + beta (x - x before).

    dualfl run --plugin examples/own_algorithm.py --algorithm heavy-ball
    dualfl compare --plugin examples/own_algorithm.py --algorithms heavy-ball,nesterov,dualfl
    dualfl algorithms heavy-ball --check --plugin examples/own_algorithm.py
    python examples/own_algorithm.py
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualfl.algorithms import Algorithm, Card, ask, client_step, theory


@dataclass(frozen=True)
class Server:
    """What the server remembers from round to round."""

    x: np.ndarray
    before: np.ndarray


@dataclass(frozen=True)
class HeavyBall(Algorithm):
    """Gradient descent with Polyak's momentum; his parameters are proven for quadratic costs."""

    step: float = theory("4 / (sqrt(L) + sqrt(mu))^2", lambda k, a: 4 / (k.L**0.5 + k.mu**0.5) ** 2)
    beta: float = theory(
        "((sqrt(L) - sqrt(mu)) / (sqrt(L) + sqrt(mu)))^2",
        lambda k, a: ((k.L**0.5 - k.mu**0.5) / (k.L**0.5 + k.mu**0.5)) ** 2,
        zero=True,  # it is 0 where L = mu
    )

    name = "heavy-ball"
    card = Card(
        title="Heavy ball", year=1964, reference="Polyak", rate="sqrt(kappa) log(1/eps), quadratic", accelerated=True
    )
    grid: ClassVar = {"beta": (0.5, 0.7, 0.8, 0.9, 0.95)}  # what `dualfl tune` tries

    def check(self, k):
        self.require(self.step > 0, "step", "it must be positive")
        self.require(0 <= self.beta < 1, "beta", "it must be in [0, 1)")

    def start(self, at):
        return Server(x=np.zeros(at.d), before=np.zeros(at.d))

    def round(self, s, at):
        m = yield ask(self.slope, x=s.x)  # one exchange: x down, and up the weighted mean of what the clients send
        return Server(x=s.x - self.step * m.g + self.beta * (s.x - s.before), before=s.x)

    @client_step
    def slope(self, f, c, at, x):
        return at.send(g=f.gradient(x)), c

    def model(self, s):
        return s.x


if __name__ == "__main__":
    from dualfl import compare, make_problem, reference
    from dualfl.algorithms import DualFL, ServerNesterov

    problem = make_problem("digits", clients=8, ridge=1e-2)
    table = compare(problem, [HeavyBall(), ServerNesterov(), DualFL()], rounds=60, reference=reference(problem))
    for entry in table.ranking():
        last = entry.history[-1]
        print(f"{entry.name:<12} error {entry.final_error:.1e}, {last.floats_up:,} floats up, {last.seconds:.2f} s")
