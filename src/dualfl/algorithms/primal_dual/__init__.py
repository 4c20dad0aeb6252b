"""Primal-dual methods with local proxes: a dual variable on every client, one for each constraint x_j = x.

    min over x, max over y of   f(x) + <y, x> - (constraint on y)

Like the splitting methods they ask for a prox of f_j, like those that skip the prox they extrapolate one of the two
variables; momentum makes them accelerated, sqrt(kappa) log(1/eps) rounds.

    APDA           dual variables that add up to zero, extrapolated; the exchange projects them. Proxes are exact
    APDA-Inexact   the same with a stopping rule that each client checks by itself: a few local iterations a round
    5GCS           the server keeps the ridge and a primal point, any C clients update their dual variables

APDA takes weights; 5GCS is for equal ones, and on unequal clients the engine puts N w_j into the data part.
"""

from dualfl.algorithms.primal_dual.apda import APDA, APDAInexact
from dualfl.algorithms.primal_dual.fivegcs import FiveGCS

__all__ = ["APDA", "APDAInexact", "FiveGCS"]
