"""Who carries the messages: the in-process engine, its account, its checkpoints."""

from dualfl.engines.history import History, Row
from dualfl.engines.inprocess import InProcess, Result
from dualfl.engines.problem import Problem
from dualfl.engines.run import run

__all__ = ["History", "InProcess", "Problem", "Result", "Row", "run"]
