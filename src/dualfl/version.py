"""The version of the package. It stands here and nowhere else."""

__version__ = "0.2.0"
