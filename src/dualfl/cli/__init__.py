"""The command `dualfl`."""

from dualfl.cli.commands import main

__all__ = ["main"]
