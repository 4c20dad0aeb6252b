"""The gate: every algorithm reaches the pooled optimum, to 1e-9 of the first energy error, or is known to drift.

QUAD has clients whose Hessians share nothing, UNEQUAL logistic costs of 10 to 200 rows. A new algorithm is picked up
from the registry with a default budget; give it a line in the table to hold it to what it really needs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from instances import Case, quad, rounds_to, unequal

from dualfl.algorithms.registry import ALGORITHMS, make

DRIFTING = {"fedavg", "fedprox", "fedcm", "fedsam", "feddualavg"}  # see test_drift


class Gate(NamedTuple):
    """Rounds that are allowed on QUAD and on UNEQUAL (0: the method needs something that these costs lack)."""

    quad: int = 500
    unequal: int = 500
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)


# About a tenth above what each method needs. Draws are keyed, so random methods repeat themselves exactly.
GATES: dict[str, list[Gate]] = {
    "dualfl": [Gate(115, 100)],
    "fista-dual": [Gate(115, 105)],
    "apcg-dual": [Gate(80, 115), Gate(255, 210, {"C": 2})],
    "cocoa": [Gate(820, 360)],
    "bundle": [Gate(40, 25)],
    "gd": [Gate(45, 200)],
    "nesterov": [Gate(60, 95)],
    "lbfgs": [Gate(13, 14)],
    "dane": [Gate(100, 400)],
    "aide": [Gate(50, 100)],
    "extragradient": [Gate(120, 180)],
    "giant": [Gate(25, 20)],
    "disco": [Gate(17, 6)],
    "fednl": [Gate(1, 9)],
    "fedpd": [Gate(86, 57), Gate(86, 44, {"accuracy": "exact"})],
    "feddr": [
        Gate(84, 61),
        Gate(85, 43, {"accuracy": "exact"}),
        Gate(41, 26, {"alpha": 2.0}),
        Gate(370, 252, {"C": 2}),
        Gate(60, 61, {"penalty_rule": "balanced"}),
    ],
    "feddyn": [Gate(86, 57), Gate(86, 44, {"accuracy": "exact"}), Gate(416, 249, {"C": 2})],
    "fedsplit": [Gate(42, 27), Gate(42, 21, {"accuracy": "exact"})],
    "scaffnew": [Gate(80, 57)],
    "randprox": [Gate(885, 432)],
    "proxskip-vr": [Gate(0, 160)],
    "tamuna": [Gate(537, 245), Gate(523, 229, {"c": 4})],
    "compressed-scaffnew": [Gate(537, 245)],
    "locodl": [Gate(736, 251), Gate(620, 208, {"k": 4})],
    "apda": [Gate(113, 62)],
    "apda-inexact": [Gate(164, 86)],
    "5gcs": [Gate(50, 293, {"solve": "exact"}), Gate(149, 577, {"C": 2}), Gate(50, 0)],
    "scaffold": [Gate(94, 400), Gate(94, 400, {"option": "I"}), Gate(102, 394, {"C": 2})],
    "fedlin": [Gate(95, 400)],
    "s-local-svrg": [Gate(582, 2410, {"batch": None, "p": 0.5}), Gate(581, 0, {"batch": None, "q": 0.5})],
}

CASES = [
    pytest.param(name, which, gate, id=f"{name}-{which}-{'-'.join(f'{k}={v}' for k, v in gate.options.items())}")
    for name in ALGORITHMS
    if name not in DRIFTING
    for gate in GATES.get(name, [Gate()])
    for which in ("quad", "unequal")
    if getattr(gate, which)
]


@pytest.mark.parametrize(("name", "which", "gate"), CASES)
def test_reaches_the_pooled_optimum(name: str, which: str, gate: Gate) -> None:
    here: Case = {"quad": quad, "unequal": unequal}[which]()

    def energy_error(theta: Any) -> float:
        near = here.error(theta)  # cheap, and the same up to higher orders
        return near if near > 1e-8 else here.energy_error(theta)

    budget = getattr(gate, which)
    assert rounds_to(1e-9, here, make(name, **gate.options), budget, error=energy_error) <= budget


def test_the_table_knows_only_algorithms_that_exist() -> None:
    assert set(GATES) | DRIFTING <= set(ALGORITHMS)
