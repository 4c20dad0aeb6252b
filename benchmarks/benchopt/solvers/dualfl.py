"""An algorithm of dualfl by its name, evaluated round by round."""

from typing import ClassVar

import numpy as np

from benchopt import BaseSolver
from dualfl import run
from dualfl.algorithms.registry import make
from dualfl.errors import DualflError

ROUNDS = 10_000  # benchopt ends it before


class Solver(BaseSolver):
    name = "dualfl"
    parameters: ClassVar = {"algorithm": ["dualfl", "auto", "lbfgs", "fedavg"]}
    sampling_strategy = "callback"

    def set_objective(self, problem):
        self.problem = problem
        self.theta, self.row = np.zeros(problem.d), None

    def skip(self, problem):
        try:
            run(problem, make(self.algorithm), rounds=0)
        except DualflError as error:
            return True, str(error)
        return False, None

    def run(self, callback):
        def stop(row, theta):
            self.theta, self.row = theta, row
            return not callback()

        run(self.problem, make(self.algorithm), rounds=ROUNDS, threads=1, stop=stop)

    def get_result(self):
        return {"theta": self.theta, "row": self.row}
