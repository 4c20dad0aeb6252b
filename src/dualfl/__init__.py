"""dualfl: federated convex learning, exact, certified and fast."""

from dualfl import kernels

__version__ = "0.1.0"
__all__ = ["__version__", "kernels"]
