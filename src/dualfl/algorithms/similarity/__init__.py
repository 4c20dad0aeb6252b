"""Methods that profit from clients being alike.

    dane             each client minimises its own cost, tilted so that its gradient at x is the common one
    aide             the same inside a Catalyst acceleration
    extragradient    only ONE client works, on a cost that stands in for all the others

All are measured against delta, a bound of |f_j'' - E''|: small on shuffled data, as large as L on unlike clients, where
they slow down or, with too little damping, diverge.
"""

from dualfl.algorithms.similarity.aide import AIDE
from dualfl.algorithms.similarity.dane import DANE
from dualfl.algorithms.similarity.extragradient import AcceleratedExtragradient

__all__ = ["AIDE", "DANE", "AcceleratedExtragradient"]
