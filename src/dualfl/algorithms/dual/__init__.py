"""Methods on the dual problem: DualFL, the FISTA it comes from."""

from dualfl.algorithms.dual.dualfl import DualFL

__all__ = ["DualFL"]
