"""Local solvers by name, as options, settings and plans have them."""

from __future__ import annotations

import inspect

from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.solvers.base import Solver


def solvers() -> dict[str, type[Solver]]:
    """The local solvers by name, in small letters."""
    import dualfl.solvers as all_solvers

    found = (getattr(all_solvers, name) for name in all_solvers.__all__)
    return {s.__name__.lower(): s for s in found if inspect.isclass(s) and issubclass(s, Solver) and s is not Solver}


def choose_solver(name: str | None) -> Solver | None:
    """The solver of that name; None, which is the default one, for None."""
    if name is None:
        return None
    known = solvers()
    if name.lower() not in known:
        raise InputError(nearest("solver", name, known))
    return known[name.lower()]()
