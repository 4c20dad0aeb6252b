"""Local steps and an average, without memory on the clients: the first federated methods, and they drift.

    x_j = K steps of something on f_j, from x;        x <- mean of the x_j

A client that forgets everything between rounds can only pull towards its own minimiser. So, if clients differ, theta*
is not a fixed point, and however long one waits there remains an error that these methods make smaller but not zero:

    FedAvg       plain gradient steps                             floor falls with the step and with K - 1
    FedAvgM, FedAdam, FedYogi, FedAdagrad
                 an optimiser at the server                       FedAvg's fixed point, by another way
    FedExP       a server step that is extrapolated               moves around FedAvg's fixed point
    FedAc        Nesterov's steps                                 as FedAvg
    FedProx      a proximal term instead of a step count          ends at the minimiser of the mean Moreau envelopes
    FedCM        gradient steps mixed with the last direction     FedAvg's fixed point with the step alpha eta_l
    FedSAM       gradients taken a radius uphill                  FedAvg's floor and one that falls with the radius
    FedDualAvg   FedAvg in dual variables, with a common psi      steps vanish like 1/r, and so does the error, slowly

They are here because everybody knows them and a comparison without them is none. All take any C clients a round.
"""

from dualfl.algorithms.local_steps.fedac import FedAc
from dualfl.algorithms.local_steps.fedavg import FedAvg
from dualfl.algorithms.local_steps.fedcm import FedCM
from dualfl.algorithms.local_steps.feddualavg import FedDualAvg
from dualfl.algorithms.local_steps.fedexp import FedExP
from dualfl.algorithms.local_steps.fedprox import FedProx
from dualfl.algorithms.local_steps.fedsam import FedSAM
from dualfl.algorithms.local_steps.server_optimisers import FedAdagrad, FedAdam, FedAvgM, FedYogi

__all__ = [
    "FedAc",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedCM",
    "FedDualAvg",
    "FedExP",
    "FedProx",
    "FedSAM",
    "FedYogi",
]
