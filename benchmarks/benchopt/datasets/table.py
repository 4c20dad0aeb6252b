"""A table of one's own, whose rows belong to the silo that a column names.

benchopt run benchmarks/benchopt -d "table[path=patients.csv,target=readmitted,column=hospital]"
"""

from typing import ClassVar

from benchopt import BaseDataset
from dualfl import load, make_problem, reference


class Dataset(BaseDataset):
    name = "table"
    parameters: ClassVar = {"path": [""], "target": [""], "column": [""], "ridge": [1e-2]}

    def skip(self, **parameters):
        given = self.path and self.target and self.column
        return not given, "give path, target and column, the one that names a row's silo"

    def get_data(self):
        data = load(self.path, target=self.target)
        silos = len(set(data.column(self.column)))
        problem = make_problem(data, silos, f"column:{self.column}", self.ridge)
        return {"problem": problem, "minimum": reference(problem)}
