"""E*, the minimum of the pooled problem: what relative errors are measured against."""

from dualfl.optimum.cached import find_reference, reference
from dualfl.optimum.minimum import Reference

__all__ = ["Reference", "find_reference", "reference"]
