"""The command `dualfl`."""

from dualfl.cli.main import main

__all__ = ["main"]
