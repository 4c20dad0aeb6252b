"""Newton's method, distributed.

    giant    averages the clients' Newton directions H_j^{-1} g, then searches along the mean
    disco    solves H v = g exactly enough by conjugate gradients, preconditioned by one client's Hessian
    fednl    learns the clients' Hessians from compressed differences; d x d numbers at the server, so small d only

All need Hessians of the clients' costs. GIANT's mean of inverses is not the inverse of the mean: it wants a line
search, and unlike clients slow it down. DiSCO is exact for any clients and pays with an exchange per CG iteration, two
if the preconditioner sits with a client.
"""

from dualfl.algorithms.second_order.disco import DiSCO
from dualfl.algorithms.second_order.fednl import FedNL
from dualfl.algorithms.second_order.giant import GIANT

__all__ = ["GIANT", "DiSCO", "FedNL"]
