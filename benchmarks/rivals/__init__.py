"""dualfl against pooled solvers: see `__main__`."""
