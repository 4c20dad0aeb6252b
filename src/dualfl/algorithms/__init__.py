"""What clients and server say to each other: one file an algorithm, mathematics only."""

from dualfl.algorithms.codecs import Codec, Quantise, RandK, TopK
from dualfl.algorithms.contract import Algorithm, Card, Constants, Place, ask, client_step, tell, theory
from dualfl.algorithms.dual import DualFL
from dualfl.algorithms.gradient_shift import FedLin, Scaffold, SLocalSVRG
from dualfl.algorithms.local_steps import FedAvg, FedCM, FedDualAvg, FedProx, FedSAM
from dualfl.algorithms.primal_dual import APDA, APDAInexact, FiveGCS
from dualfl.algorithms.proxskip import TAMUNA, CompressedScaffnew, LoCoDL, ProxSkipVR, RandProx, Scaffnew
from dualfl.algorithms.splitting import FedDR, FedDyn, FedPD, FedSplit

__all__ = [
    "APDA",
    "TAMUNA",
    "APDAInexact",
    "Algorithm",
    "Card",
    "Codec",
    "CompressedScaffnew",
    "Constants",
    "DualFL",
    "FedAvg",
    "FedCM",
    "FedDR",
    "FedDualAvg",
    "FedDyn",
    "FedLin",
    "FedPD",
    "FedProx",
    "FedSAM",
    "FedSplit",
    "FiveGCS",
    "LoCoDL",
    "Place",
    "ProxSkipVR",
    "Quantise",
    "RandK",
    "RandProx",
    "SLocalSVRG",
    "Scaffnew",
    "Scaffold",
    "TopK",
    "ask",
    "client_step",
    "tell",
    "theory",
]
