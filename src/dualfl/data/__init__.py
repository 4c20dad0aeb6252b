"""Where f_j comes from: readers, named data sets, partitions, and the minimum that errors are measured against."""

from dualfl.data.catalogue import DATASETS, load
from dualfl.data.dataset import Dataset
from dualfl.data.mix import Mix
from dualfl.data.partition import PARTITIONS, even, partition, shuffled
from dualfl.data.problem import make_problem, rows_of_clients
from dualfl.data.reference import find_reference, reference

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Dataset",
    "Mix",
    "even",
    "find_reference",
    "load",
    "make_problem",
    "partition",
    "reference",
    "rows_of_clients",
    "shuffled",
]
