"""Federated algorithms: what clients and server say to each other. One file per algorithm, mathematics only."""

from dualfl.algorithms.codecs import Codec, Quantise, RandK, TopK
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, ask, client_step, tell, theory
from dualfl.algorithms.dual import APCGDual, Bundle, CoCoA, DualFISTA, DualFL
from dualfl.algorithms.few_exchanges import Auto, FedIPM, OneShot, ProxNewton, SketchedNewton
from dualfl.algorithms.gradient_shift import FedLin, Scaffold, SLocalSVRG
from dualfl.algorithms.local_steps import FedAvg, FedCM, FedDualAvg, FedProx, FedSAM
from dualfl.algorithms.primal_dual import APDA, APDAInexact, FiveGCS
from dualfl.algorithms.proxskip import TAMUNA, CompressedScaffnew, LoCoDL, ProxSkipVR, RandProx, Scaffnew
from dualfl.algorithms.second_order import GIANT, DiSCO, FedNL
from dualfl.algorithms.server import GradientDescent, ServerLBFGS, ServerNesterov
from dualfl.algorithms.similarity import AIDE, DANE, AcceleratedExtragradient
from dualfl.algorithms.splitting import FedDR, FedDyn, FedPD, FedSplit

__all__ = [
    "AIDE",
    "APDA",
    "DANE",
    "GIANT",
    "TAMUNA",
    "APCGDual",
    "APDAInexact",
    "AcceleratedExtragradient",
    "Algorithm",
    "Auto",
    "Bundle",
    "Card",
    "CoCoA",
    "Codec",
    "CompressedScaffnew",
    "Constants",
    "DiSCO",
    "DualFISTA",
    "DualFL",
    "FedAvg",
    "FedCM",
    "FedDR",
    "FedDualAvg",
    "FedDyn",
    "FedIPM",
    "FedLin",
    "FedNL",
    "FedPD",
    "FedProx",
    "FedSAM",
    "FedSplit",
    "FiveGCS",
    "GradientDescent",
    "LoCoDL",
    "OneShot",
    "Place",
    "ProxNewton",
    "ProxSkipVR",
    "Quantise",
    "RandK",
    "RandProx",
    "SLocalSVRG",
    "Scaffnew",
    "Scaffold",
    "ServerLBFGS",
    "ServerNesterov",
    "SketchedNewton",
    "TopK",
    "ask",
    "client_step",
    "tell",
    "theory",
]
