"""Splitting methods: a prox of f_j on every client, an average on the server.

    prox_{eta f_j}(y) = argmin f_j(x) + |x - y|^2/(2 eta)

They solve the consensus problem  min sum_j w_j f_j(x_j)  subject to  x_1 = ... = x_N  by Douglas-Rachford splitting,
and differ in which variable a client keeps, in the relaxation, and in who may stay away:

                 a client keeps                           at the optimum            relaxation    clients
    FedPD        lambda_j, its multiplier                 -f_j'(theta*)             1             all
    FedDR        y_j, where its prox is taken             theta* + eta f_j'(theta*) alpha <= 2    any C, common penalty
    FedDyn       g_j, the gradient at its last solution   f_j'(theta*)              1             any C
    FedSplit     z_j, a reflected point                   theta* - s f_j'(theta*)   2             all

With all clients, zero duals and eta = 1/alpha_FedDyn, FedPD, FedDR(alpha=1) and FedDyn give the same theta in every
round, and FedSplit is FedDR(alpha=2): one iteration under four names. What differs between them in an experiment is
tuning, local accuracy, or a mistake.

The prox makes the local problems easy, with condition number (L + 1/eta)/(mu + 1/eta), about sqrt(kappa) at the default
eta = 1/sqrt(mu L); and it is what accelerates: about sqrt(kappa) log(1/eps) rounds.
"""

from dualfl.algorithms.splitting.feddr import FedDR
from dualfl.algorithms.splitting.feddyn import FedDyn
from dualfl.algorithms.splitting.fedpd import FedPD
from dualfl.algorithms.splitting.fedsplit import FedSplit

__all__ = ["FedDR", "FedDyn", "FedPD", "FedSplit"]
