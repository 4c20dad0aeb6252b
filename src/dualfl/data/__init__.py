"""Where f_j comes from: readers, named data sets, partitions, and the minimum that errors are measured against."""

from dualfl.data.catalogue import DATASETS, load
from dualfl.data.dataset import Dataset
from dualfl.data.partition import PARTITIONS, even, partition, shuffled
from dualfl.data.problem import make_problem
from dualfl.data.reference import reference

__all__ = ["DATASETS", "PARTITIONS", "Dataset", "even", "load", "make_problem", "partition", "reference", "shuffled"]
