"""Methods that skip the prox: many local gradient steps, corrected by a control variate, and rare exchanges.

    x_j <- x_j - gamma (f_j'(x_j) - h_j),        sum_j h_j = 0,        h_j -> f_j'(theta*)

On the consensus problem the prox is the average, and skipping it is not communicating. A client's h_j takes out its
drift, so theta* is a fixed point of the local steps, however many there are; and since h_j learns at the rate p^2, one
exchange in about sqrt(kappa) local steps is enough. Gradients only, no local solver.

    Scaffnew             the plain method; a common penalty sits in the skipped prox
    GradSkip             the same, but clients with easy costs stop early: as many exchanges, fewer gradients
    ProxSkip-VR          stochastic gradients with L-SVRG's variance reduction instead of full ones
    RandProx             averages k of d coordinates in every step instead of all of them now and then
    TAMUNA               any c clients, each sends s/c of the coordinates it would send otherwise
    CompressedScaffnew   TAMUNA with all clients
    LoCoDL               compressed differences to a point y that everybody can follow without a message

TAMUNA, CompressedScaffnew and LoCoDL are for equal weights: on unequal clients the engine puts N w_j into the data.
Coins, cohorts, supports and masks come from streams that clients and server share, so none of them travels.
"""

from dualfl.algorithms.proxskip.gradskip import GradSkip
from dualfl.algorithms.proxskip.locodl import LoCoDL
from dualfl.algorithms.proxskip.proxskip_vr import ProxSkipVR
from dualfl.algorithms.proxskip.randprox import RandProx
from dualfl.algorithms.proxskip.scaffnew import Scaffnew
from dualfl.algorithms.proxskip.tamuna import TAMUNA, CompressedScaffnew

__all__ = ["TAMUNA", "CompressedScaffnew", "GradSkip", "LoCoDL", "ProxSkipVR", "RandProx", "Scaffnew"]
