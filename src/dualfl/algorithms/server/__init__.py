"""Ordinary minimisation methods at the server; the clients only send gradients.

    gd          x+ = x - s E'(x)                                    kappa log(1/eps)
    nesterov    the same with momentum                              sqrt(kappa) log(1/eps)
    lbfgs       quasi-Newton with a Wolfe line search               no better bound, far fewer exchanges

They are what a sceptical reader would try first: indifferent to how the data are spread over the clients, one vector up
and one down per exchange. Each sends its energy along and so has the certificate |E'|^2/(2 mu).
"""

from dualfl.algorithms.server.gd import GradientDescent
from dualfl.algorithms.server.lbfgs import ServerLBFGS
from dualfl.algorithms.server.nesterov import ServerNesterov

__all__ = ["GradientDescent", "ServerLBFGS", "ServerNesterov"]
