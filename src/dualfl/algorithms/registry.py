"""All algorithms by name. A new one is a file of its own and one line here."""

from __future__ import annotations

import dataclasses
import difflib
import json
from typing import Any

from dualfl.algorithms.contract import Algorithm
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
from dualfl.errors import InputError

_ALL: tuple[type[Algorithm], ...] = (
    DualFL,
    DualFISTA,
    APCGDual,
    CoCoA,
    Bundle,
    GradientDescent,
    ServerNesterov,
    ServerLBFGS,
    Auto,
    SketchedNewton,
    FedIPM,
    ProxNewton,
    OneShot,
    DANE,
    AIDE,
    AcceleratedExtragradient,
    GIANT,
    DiSCO,
    FedNL,
    FedPD,
    FedDR,
    FedDyn,
    FedSplit,
    Scaffnew,
    RandProx,
    ProxSkipVR,
    TAMUNA,
    CompressedScaffnew,
    LoCoDL,
    APDA,
    APDAInexact,
    FiveGCS,
    FedAvg,
    FedProx,
    FedCM,
    FedSAM,
    FedDualAvg,
    Scaffold,
    FedLin,
    SLocalSVRG,
)

ALGORITHMS: dict[str, type[Algorithm]] = {algorithm.name: algorithm for algorithm in _ALL}


def algorithm_class(name: str) -> type[Algorithm]:
    """The algorithm of that name, or a sentence with the nearest ones."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    near = difflib.get_close_matches(name, ALGORITHMS, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(ALGORITHMS))}."
    raise InputError(f"There is no algorithm {name!r}; {hint}")


def make(name: str, /, **hyperparameters: Any) -> Algorithm:
    """The algorithm of that name with these hyperparameters."""
    cls = algorithm_class(name)
    fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for given in hyperparameters:
        if given not in fields:
            raise InputError(f"{name} has no hyperparameter {given!r}; it has {', '.join(fields) or 'none'}.")
    made = cls(**hyperparameters)
    made.check_kinds()
    return made


def from_json(text: str) -> Algorithm:
    """The way back from `Algorithm.to_json`."""
    fields = json.loads(text)
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return make(fields.pop("algorithm"), **fields)
