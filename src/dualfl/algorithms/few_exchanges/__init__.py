"""Methods for the fewest exchanges, on clients however unlike, from sums only.

    sketched-newton  smooth losses: Newton where d is small, a sketch of it and secant pairs where it is large
    fedipm           hinge, absolute, quantile, epsilon-insensitive: interior points, whose variables stay at home
    prox-newton      smooth losses with l1, elastic net, group or box: Newton's model, solved with the penalty in it
    one-shot         squared losses with any penalty: second moments once
    auto             says which of the library's methods a problem needs, and runs that one

A round that takes seconds to hours, whatever its size, makes one large message cheaper than many small ones. So these
methods send second-order sums, D x D numbers, beside gradients. Nothing but sums leaves a client.
"""

from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.few_exchanges.fedipm import FedIPM
from dualfl.algorithms.few_exchanges.one_shot import OneShot
from dualfl.algorithms.few_exchanges.prox_newton import ProxNewton
from dualfl.algorithms.few_exchanges.sketched_newton import SketchedNewton

__all__ = ["Auto", "FedIPM", "OneShot", "ProxNewton", "SketchedNewton"]
