"""The data of the clients: named data sets, readers, and partitions."""

from dualfl.data.catalogue import DATASETS, load
from dualfl.data.dataset import Dataset
from dualfl.data.label_mix import Mix
from dualfl.data.parquet_rows import rows_from_parquet
from dualfl.data.partitions import PARTITIONS, even, partition, shuffled
from dualfl.data.problem import make_problem, rows_of_clients

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Dataset",
    "Mix",
    "even",
    "load",
    "make_problem",
    "partition",
    "rows_from_parquet",
    "rows_of_clients",
    "shuffled",
]
