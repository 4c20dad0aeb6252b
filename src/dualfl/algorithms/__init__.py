"""What clients and server say to each other: one file an algorithm, mathematics only."""

from dualfl.algorithms.codecs import Codec, Quantise, RandK, TopK
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, ask, client_step, tell, theory
from dualfl.algorithms.dual import DualFL

__all__ = [
    "Algorithm",
    "Card",
    "Codec",
    "Constants",
    "DualFL",
    "Place",
    "Quantise",
    "RandK",
    "TopK",
    "ask",
    "client_step",
    "tell",
    "theory",
]
