"""Newton's method, distributed.

    giant     averages the clients' Newton directions H_j^{-1} g, then searches along the mean
    disco     solves H v = g exactly enough by conjugate gradients, preconditioned by one client's Hessian
    fednl     learns the clients' Hessians from compressed differences, which can be lazy
    shed      gets the eigenvectors of the clients' Hessians little by little
    fedns     gets sketches of the square roots of the clients' Hessians
    fedpm     mixes local Newton steps by curvature; with one step it is Newton's method
    fednew    solves H v = g by one step of ADMM a round; d floats

All need Hessians of the clients' costs, and all but the first two d x d numbers somewhere, so small d only. GIANT's
mean of inverses is not the inverse of the mean: it wants a line search, and unlike clients slow it down. DiSCO is exact
for any clients and pays with an exchange per CG iteration, two if the preconditioner sits with a client.
"""

from dualfl.algorithms.second_order.disco import DiSCO
from dualfl.algorithms.second_order.fednew import FedNew
from dualfl.algorithms.second_order.fednl import FedNL
from dualfl.algorithms.second_order.fedns import FedNS
from dualfl.algorithms.second_order.fedpm import FedPM
from dualfl.algorithms.second_order.giant import GIANT
from dualfl.algorithms.second_order.shed import SHED

__all__ = ["GIANT", "SHED", "DiSCO", "FedNL", "FedNS", "FedNew", "FedPM"]
