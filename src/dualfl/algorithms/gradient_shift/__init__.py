"""Local steps on shifted gradients: exact, not accelerated.

    x_j <- x_j - eta (f_j'(x_j) - (shift of client j) + (mean shift))

Take f_j' at some reference point for the shift, and theta* is a fixed point of the local steps, because there the sum
is the full gradient, zero. So these methods converge linearly where FedAvg drifts. But the reference must be near, so
that all local steps together are about as long as one gradient step: kappa log(1/eps) rounds, however many local steps.

    Scaffold       the shift is the mean gradient of the client's last round; one exchange of 2 d floats, any C clients
    FedLin         the shift is the gradient at the round's first point; two exchanges
    FedOSAA        FedLin's steps, and one step of Anderson acceleration, which makes about Newton's step of them
    S-Local-SVRG   the shift is taken at a common reference, random numbers of steps, rows instead of full gradients

Compare the methods that skip the prox, whose control variates look the same but learn from the average, and accelerate.
"""

from dualfl.algorithms.gradient_shift.fedlin import FedLin
from dualfl.algorithms.gradient_shift.fedosaa import FedOSAA
from dualfl.algorithms.gradient_shift.s_local_svrg import SLocalSVRG
from dualfl.algorithms.gradient_shift.scaffold import Scaffold

__all__ = ["FedLin", "FedOSAA", "SLocalSVRG", "Scaffold"]
