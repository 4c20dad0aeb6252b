"""A data set that dualfl knows by name, split among clients."""

from typing import ClassVar

from benchopt import BaseDataset
from dualfl import load, make_problem, reference


class Dataset(BaseDataset):
    name = "named"
    parameters: ClassVar = {
        "dataset": ["digits"],
        "partition": ["even", "dirichlet:0.5"],
        "clients": [8],
        "ridge": [1e-2],
    }

    def get_data(self):
        problem = make_problem(load(self.dataset), self.clients, self.partition, self.ridge)
        return {"problem": problem, "minimum": reference(problem)}
