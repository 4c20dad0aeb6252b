"""The gate: every algorithm reaches the pooled optimum, to 1e-9 of the first energy error, or is known to drift.

QUAD has clients whose Hessians share nothing, UNEQUAL logistic costs of 10 to 200 rows. A new algorithm is picked up
from the registry with a default budget; give it a line in the table to hold it to what it really needs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from instances import Case, mild, quad, rounds_to, tiny, unequal

from dualfl.algorithms.registry import ALGORITHMS, make

pytestmark = pytest.mark.long

DRIFTING = {  # see test_drift
    "fedavg",
    "fedavgm",
    "fedadam",
    "fedyogi",
    "fedadagrad",
    "fedexp",
    "fedac",
    "fedprox",
    "fedcm",
    "fedsam",
    "feddualavg",
}


class Gate(NamedTuple):
    """Rounds that are allowed on QUAD and on UNEQUAL, or on smaller ones with kappa = 10 (0: not run)."""

    quad: int = 500
    unequal: int = 500
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    tiny: int = 0
    mild: int = 0


# About a tenth above what each method needs. Draws are keyed, so random methods repeat themselves exactly.
GATES: dict[str, list[Gate]] = {
    "dualfl": [Gate(101, 100)],
    "fista-dual": [Gate(101, 112)],
    "apcg-dual": [Gate(75, 146), Gate(255, 252, {"C": 2})],
    "cocoa": [Gate(0, 0, {"epochs": 2}, tiny=70, mild=31)],  # of Newton's method, which is what clients use here
    "bundle": [Gate(40, 22)],
    "dualfl-recentred": [Gate(0, 0, tiny=83, mild=172)],
    "gd": [Gate(45, 172)],
    "nesterov": [Gate(62, 87)],
    "lbfgs": [Gate(11, 15)],
    "fedipm": [Gate(0, 0)],  # for losses with kinks: test_few_exchanges_nonsmooth
    "prox-newton": [Gate(2, 4), Gate(1, 5, {"race": False})],
    "one-shot": [Gate(1, 0)],
    "local-secants": [Gate(18, 12)],
    "dane": [Gate(101, 350)],
    "aide": [Gate(48, 84)],
    "extragradient": [Gate(124, 171)],
    "giant": [Gate(23, 23)],
    "disco": [Gate(23, 6)],
    "fednl": [Gate(1, 20), Gate(0, 24, {"p": 0.5}), Gate(0, 28, {"period": 3}), Gate(0, 20, {"zeta": 1.0})],
    "s-dane": [Gate(200, 0, mild=154), Gate(28, 47, {"adaptive": True})],
    "acc-s-dane": [Gate(95, 131), Gate(31, 43, {"adaptive": True})],
    "fedred": [Gate(191, 0, mild=148)],
    "svrp": [Gate(587, 0, mild=609)],
    "catalyzed-svrp": [Gate(367, 0, mild=462)],
    "accsvrs": [Gate(98, 0, mild=53)],
    "shed": [Gate(33, 16), Gate(11, 9, {"q": 5})],
    "fedns": [Gate(26, 26)],
    "fedpm": [Gate(1, 5)],
    "fednew": [Gate(91, 63), Gate(91, 75, {"period": 0})],
    "fedpd": [Gate(81, 67), Gate(81, 50, {"accuracy": "exact"})],
    "feddr": [
        Gate(79, 65),
        Gate(80, 48, {"accuracy": "exact"}),
        Gate(39, 30, {"alpha": 2.0}),
        Gate(323, 273, {"C": 2}),
        Gate(57, 63, {"penalty_rule": "balanced"}),
    ],
    "feddyn": [Gate(81, 67), Gate(81, 50, {"accuracy": "exact"}), Gate(369, 268, {"C": 2})],
    "fedsplit": [Gate(40, 32), Gate(40, 23, {"accuracy": "exact"})],
    "scaffnew": [Gate(76, 56)],
    "gradskip": [Gate(76, 57), Gate(66, 47, {"q": 0.9})],
    "randprox": [Gate(862, 527)],
    "proxskip-vr": [Gate(0, 143)],
    "tamuna": [Gate(371, 234), Gate(359, 248, {"c": 4})],
    "compressed-scaffnew": [Gate(371, 234)],
    "locodl": [Gate(651, 288), Gate(552, 233, {"k": 4})],
    "apda": [Gate(108, 63)],
    "apda-inexact": [Gate(156, 90)],
    "5gcs": [Gate(47, 322, {"solve": "exact"}), Gate(138, 0, {"C": 2}, mild=231), Gate(47, 0, mild=165)],
    "scaffold": [Gate(98, 349), Gate(97, 349, {"option": "I"}), Gate(95, 352, {"C": 2})],
    "fedlin": [Gate(98, 349)],
    "fedosaa": [Gate(24, 24)],
    "s-local-svrg": [
        Gate(600, 0, {"batch": None, "p": 0.5}, mild=463),
        Gate(0, 0, {"batch": None, "q": 0.5}, tiny=274, mild=496),
        Gate(0, 0, {}, mild=1103),  # single rows
    ],
}

CASES = [
    pytest.param(name, which, gate, id=f"{name}-{which}-{'-'.join(f'{k}={v}' for k, v in gate.options.items())}")
    for name in ALGORITHMS
    if name not in DRIFTING
    for gate in GATES.get(name, [Gate()])
    for which in ("quad", "unequal", "tiny", "mild")
    if getattr(gate, which)
]


@pytest.mark.parametrize(("name", "which", "gate"), CASES)
def test_reaches_the_pooled_optimum(name: str, which: str, gate: Gate) -> None:
    here: Case = {"quad": quad, "unequal": unequal, "tiny": tiny, "mild": mild}[which]()

    def energy_error(theta: Any) -> float:
        near = here.error(theta)  # cheap, and the same up to higher orders
        return near if near > 1e-8 else here.energy_error(theta)

    budget = getattr(gate, which)
    assert rounds_to(1e-9, here, make(name, **gate.options), budget, error=energy_error) <= budget


def test_the_table_knows_only_algorithms_that_exist() -> None:
    assert set(GATES) | DRIFTING <= set(ALGORITHMS)
