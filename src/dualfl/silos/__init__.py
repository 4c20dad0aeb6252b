"""Who is asked: silos on this machine, or members of a federation far away. Above this room nobody can tell which.

An analysis is a generator. It yields `Exchange`s, each a list of questions that travel together, and is sent the
answers: sums over all silos, maxima, or every silo's own numbers where it shows them. `Chamber` is one silo with its
rows; it answers. `SilosHere` asks chambers in this process; `dualfl.federation` asks silos elsewhere.
"""

from dualfl.silos import model_verbs as model_verbs  # makes its verbs known
from dualfl.silos import separation as separation
from dualfl.silos import survival_verbs as survival_verbs
from dualfl.silos import table_verbs as table_verbs
from dualfl.silos.chamber import Chamber
from dualfl.silos.costs import ALL, Cost, Rows, Sample
from dualfl.silos.here import SilosHere
from dualfl.silos.questions import Conversation, Exchange, Query, Silos, drive

__all__ = [
    "ALL",
    "Chamber",
    "Conversation",
    "Cost",
    "Exchange",
    "Query",
    "Rows",
    "Sample",
    "Silos",
    "SilosHere",
    "drive",
]
