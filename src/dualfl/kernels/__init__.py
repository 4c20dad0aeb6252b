"""The innermost loops: everything that touches the rows of a client, in C with a NumPy twin."""

from .backends import backend, describe, isa, isas, use_backend, use_isa
from .contract import SolvesByLBFGS
from .design import Design, is_sparse
from .disk_rows import RowsOnDisk
from .epochs import cd_quadratic, lbfgs, pairs_newer, pairs_older, saga_epoch, sample_gradient, sdca_epoch, svrg_epoch
from .losses import Loss
from .predictors import curvature_times, ray, residual, value
from .risk_sets import RiskSets, sorted_risk_sets
from .survival import cox_curvature_times, cox_means, cox_residual
from .thread_count import get_threads, set_threads, threads
from .words import add_words, dot_words

__all__ = [
    "Design",
    "Loss",
    "RiskSets",
    "RowsOnDisk",
    "SolvesByLBFGS",
    "add_words",
    "backend",
    "cd_quadratic",
    "cox_curvature_times",
    "cox_means",
    "cox_residual",
    "curvature_times",
    "describe",
    "dot_words",
    "get_threads",
    "is_sparse",
    "isa",
    "isas",
    "lbfgs",
    "pairs_newer",
    "pairs_older",
    "ray",
    "residual",
    "saga_epoch",
    "sample_gradient",
    "sdca_epoch",
    "set_threads",
    "sorted_risk_sets",
    "svrg_epoch",
    "threads",
    "use_backend",
    "use_isa",
    "value",
]
