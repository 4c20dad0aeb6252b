"""The error of a federated method, and what it has spent, for benchopt (https://benchopt.github.io).

    pip install benchopt
    benchopt run benchmarks/benchopt -d "named[dataset=digits]" -s "dualfl[algorithm=[dualfl,lbfgs]]"

`value` is (E - E*)/|E*|. Beside it benchopt's table has exchanges, contacts, payload, local gradients and the
certificate, the proven bound of E - E*, which is known without E*.
"""

import numpy as np

from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Federated linear model"
    url = "https://benchopt.github.io"
    min_benchopt_version = "1.6"
    sampling_strategy = "callback"

    def set_data(self, problem, minimum):
        self.problem, self.minimum = problem, minimum

    def get_objective(self):
        return {"problem": self.problem}

    def get_one_result(self):
        return {"theta": np.zeros(self.problem.d), "row": None}

    def evaluate_result(self, theta, row):
        value = (self.problem.value(theta) - self.minimum) / (abs(self.minimum) or 1.0)
        found = {"value": value}
        for name in ("round", "exchanges", "contacts", "payload", "local_gradients", "certificate"):
            number = getattr(row, name, None)
            found[name] = np.nan if number is None else float(number)
        return found
