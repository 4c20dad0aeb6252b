"""Methods on the dual problem: DualFL, the FISTA it comes from."""

from dualfl.algorithms.dual.dualfl import DualFL
from dualfl.algorithms.dual.fista import DualFISTA

__all__ = ["DualFISTA", "DualFL"]
