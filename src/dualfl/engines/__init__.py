"""Engines: they carry the messages between server and clients, count them, and write checkpoints."""

from dualfl.engines.continuation import Continuation, run_regularised
from dualfl.engines.history import History, Row
from dualfl.engines.inprocess import InProcess, Result
from dualfl.engines.launch import run
from dualfl.problem import Problem

__all__ = ["Continuation", "History", "InProcess", "Problem", "Result", "Row", "run", "run_regularised"]
