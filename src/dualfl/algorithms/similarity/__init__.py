"""Methods that profit from clients being alike.

    dane             each client minimises its own cost, tilted so that its gradient at x is the common one
    local-secants    clients' Newton steps between the loops of L-BFGS, which it becomes where these do not pay
    aide             the same inside a Catalyst acceleration
    s-dane           DANE with a centre that takes back the errors of rough local solutions
    acc-s-dane       the same, accelerated; both can search for their damping
    fedred           DANE by gradient steps, with a random number of them
    extragradient    only ONE client works, on a cost that stands in for all the others
    svrp             one client at a time, drawn at random, takes a proximal step
    catalyzed-svrp   the same inside a Catalyst acceleration
    accsvrs          one client works, and single clients, drawn at random, correct it; accelerated

All are measured against delta, a bound of |f_j'' - E''|: small on shuffled data, as large as L on unlike clients, where
they slow down or, with too little damping, diverge. The last three ask one client at a time: few contacts, many
exchanges.
"""

from dualfl.algorithms.similarity.accsvrs import AccSVRS
from dualfl.algorithms.similarity.aide import AIDE
from dualfl.algorithms.similarity.dane import DANE
from dualfl.algorithms.similarity.extragradient import AcceleratedExtragradient
from dualfl.algorithms.similarity.fedred import FedRed
from dualfl.algorithms.similarity.local_secants import LocalSecants
from dualfl.algorithms.similarity.sdane import SDANE, AccSDANE
from dualfl.algorithms.similarity.svrp import SVRP, CatalyzedSVRP

__all__ = [
    "AIDE",
    "DANE",
    "SDANE",
    "SVRP",
    "AccSDANE",
    "AccSVRS",
    "AcceleratedExtragradient",
    "CatalyzedSVRP",
    "FedRed",
    "LocalSecants",
]
