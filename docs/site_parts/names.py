"""The public names: what the modules export that are for people. The site's reference and the tests go by this list."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

# In the order in which a reader meets them. A name belongs to the first module that exports it.
MODULES = (
    "dualfl",
    "dualfl.estimators",
    "dualfl.algorithms",
    "dualfl.objectives",
    "dualfl.solvers",
    "dualfl.engines",
    "dualfl.data",
    "dualfl.optimum",
    "dualfl.report",
    "dualfl.testing",
    "dualfl.theory",
    "dualfl.kernels",
    "dualfl.errors",
)
# The loops over rows are for the library's own rooms, whose contract is in kernels/contract.py. These are for people.
OF_KERNELS = ("backend", "describe", "get_threads", "isa", "isas", "set_threads", "threads", "use_backend", "use_isa")

# What these promise is said once, on their own page, and not on those of all who inherit.
CONTRACTS = ("Algorithm", "Codec", "Loss", "Objective", "Penalty", "Solver", "StopRule", "Point", "Ray")


def exported(module: str) -> dict[str, Any]:
    """The names of a module that are not modules themselves."""
    home = import_module(module)
    wanted = OF_KERNELS if module == "dualfl.kernels" else home.__all__
    names = {name: getattr(home, name) for name in wanted if not name.startswith("_")}
    return {name: thing for name, thing in names.items() if not inspect.ismodule(thing)}


def public() -> dict[str, Any]:
    """Every public name with its module, once: `dualfl.DualFL` and what it is."""
    found: dict[int, str] = {}
    things: dict[str, Any] = {}
    for module in MODULES:
        for name, thing in exported(module).items():
            if id(thing) not in found:
                found[id(thing)] = f"{module}.{name}"
                things[f"{module}.{name}"] = thing
    return things


def methods(thing: type) -> list[str]:
    """The public methods and properties that dualfl wrote and described."""
    if any(kind.__name__ in CONTRACTS for kind in thing.__mro__[1:]):
        return []
    names = {
        name
        for kind in thing.__mro__
        if kind.__module__.startswith("dualfl")
        for name, member in vars(kind).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod))
        and inspect.getdoc(getattr(thing, name, None))
    }
    return sorted(names)
