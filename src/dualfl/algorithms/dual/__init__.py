"""Methods on the dual problem  min sum_j w_j g_j*(xi_j) + |sum_j w_j xi_j|^2/(2 nu),  g_j = f_j - (nu/2)|.|^2.

    dualfl       its accelerated forward-backward method, written in primal variables
    fista-dual   the same method in the dual variables: the other side of the duality lemma
    apcg-dual    accelerated coordinate ascent, a coordinate being a client: DualFL with client sampling
    cocoa        plain block ascent; with exact solves, DualFL without momentum
    bundle       maximises over convex combinations of past dual points, which are cuts of E

    dualfl-recentred
                 DualFL around a centre that moves, also for costs that are not convex

All but the last have nu = mu in common, work for nonsmooth costs (apcg-dual excepted), and know a lower bound of E* at
every round (apcg-dual excepted again: its dual point is never in one place).
"""

from dualfl.algorithms.dual.apcg import APCGDual
from dualfl.algorithms.dual.bundle import Bundle
from dualfl.algorithms.dual.cocoa import CoCoA
from dualfl.algorithms.dual.dualfl import DualFL
from dualfl.algorithms.dual.fista import DualFISTA
from dualfl.algorithms.dual.recentred import RecentredDualFL

__all__ = ["APCGDual", "Bundle", "CoCoA", "DualFISTA", "DualFL", "RecentredDualFL"]
