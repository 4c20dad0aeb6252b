"""All algorithms by name. One of the library is a file of its own and one line here; any other is registered.

>>> from dualfl.algorithms.registry import ALGORITHMS, make
>>> make("gd", step=0.1)
GradientDescent(step=0.1, mu=None)
>>> len(ALGORITHMS) >= 40
True
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dualfl.algorithms.contract import Algorithm, Card
from dualfl.algorithms.dual import APCGDual, Bundle, CoCoA, DualFISTA, DualFL, RecentredDualFL
from dualfl.algorithms.few_exchanges import Auto, FedIPM, OneShot, ProxNewton, SketchedNewton
from dualfl.algorithms.gradient_shift import FedLin, FedOSAA, Scaffold, SLocalSVRG
from dualfl.algorithms.local_steps import (
    FedAc,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedCM,
    FedDualAvg,
    FedExP,
    FedProx,
    FedSAM,
    FedYogi,
)
from dualfl.algorithms.primal_dual import APDA, APDAInexact, FiveGCS
from dualfl.algorithms.proxskip import TAMUNA, CompressedScaffnew, GradSkip, LoCoDL, ProxSkipVR, RandProx, Scaffnew
from dualfl.algorithms.second_order import GIANT, SHED, DiSCO, FedNew, FedNL, FedNS, FedPM
from dualfl.algorithms.server import GradientDescent, ServerLBFGS, ServerNesterov
from dualfl.algorithms.similarity import (
    AIDE,
    DANE,
    SDANE,
    SVRP,
    AcceleratedExtragradient,
    AccSDANE,
    AccSVRS,
    CatalyzedSVRP,
    FedRed,
    LocalSecants,
)
from dualfl.algorithms.splitting import FedDR, FedDyn, FedPD, FedSplit
from dualfl.errors import InputError

_ALL: tuple[type[Algorithm], ...] = (
    DualFL,
    DualFISTA,
    APCGDual,
    CoCoA,
    Bundle,
    RecentredDualFL,
    GradientDescent,
    ServerNesterov,
    ServerLBFGS,
    Auto,
    SketchedNewton,
    FedIPM,
    ProxNewton,
    OneShot,
    LocalSecants,
    DANE,
    AIDE,
    SDANE,
    AccSDANE,
    FedRed,
    AcceleratedExtragradient,
    SVRP,
    CatalyzedSVRP,
    AccSVRS,
    GIANT,
    DiSCO,
    FedNL,
    SHED,
    FedNS,
    FedPM,
    FedNew,
    FedPD,
    FedDR,
    FedDyn,
    FedSplit,
    Scaffnew,
    GradSkip,
    RandProx,
    ProxSkipVR,
    TAMUNA,
    CompressedScaffnew,
    LoCoDL,
    APDA,
    APDAInexact,
    FiveGCS,
    FedAvg,
    FedAvgM,
    FedAdam,
    FedYogi,
    FedAdagrad,
    FedExP,
    FedAc,
    FedProx,
    FedCM,
    FedSAM,
    FedDualAvg,
    Scaffold,
    FedLin,
    FedOSAA,
    SLocalSVRG,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")  # stands in lists with commas and in names of folders
RESERVED = ("all", "survey", "inquiry")  # a word of the command line, and what engines ask before the first round
Class = TypeVar("Class", bound=type[Algorithm])


class Registry(Mapping[str, type[Algorithm]]):
    """Algorithms by name: the library's, and after them those from outside, in the order in which they came.

    What is installed or named by DUALFL_PLUGINS is looked for when a name is not the library's, not before: a package
    with an algorithm may import this module itself.
    """

    def __init__(self, own: Iterable[type[Algorithm]]) -> None:
        self.own = {algorithm.name: algorithm for algorithm in own}
        self.plugins: dict[str, type[Algorithm]] = {}
        self._complete = False

    def _all(self) -> dict[str, type[Algorithm]]:
        if not self._complete:
            from dualfl.algorithms.plugins import load_installed

            load_installed()
            self._complete = True
        return self.own | self.plugins

    def __getitem__(self, name: str) -> type[Algorithm]:
        return self.own[name] if name in self.own else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


ALGORITHMS = Registry(_ALL)


def register(algorithm: Class) -> Class:
    """Register an algorithm of your own, so that every function, estimator and command accepts its name.

    You can also use it as a decorator. The name must be new; but if you define the class again, as in a notebook, it
    replaces the former one.

    Parameters
    ----------
    algorithm : type
        The class, a subclass of `dualfl.algorithms.Algorithm` with a `name`.

    Returns
    -------
    type
        The same class.

    Examples
    --------
    >>> import dualfl
    >>> dualfl.register(HeavyBall)  # doctest: +SKIP
    """
    check_registrable(algorithm)
    ALGORITHMS.plugins[algorithm.name] = algorithm
    return algorithm


def check_registrable(algorithm: Any) -> None:
    """Refuse, in a sentence, what cannot be an algorithm of that name."""
    if not inspect.isclass(algorithm) or not issubclass(algorithm, Algorithm):
        raise InputError(f"Only a class that inherits from Algorithm can be registered, and this is {algorithm!r}.")
    title = algorithm.__name__
    if missing := sorted(algorithm.__abstractmethods__):
        raise InputError(f"{title} lacks {' and '.join(missing)}, without which it is no algorithm.")
    parameters = getattr(algorithm, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise InputError(f"{title} must be a frozen dataclass: put @dataclass(frozen=True) right above the class.")
    name = getattr(algorithm, "name", None)
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
        raise InputError(
            f"{title} must have a name of letters, digits and hyphens, such as heavy-ball, but its name is {name!r}."
        )
    if not isinstance(getattr(algorithm, "card", None), Card):
        raise InputError(
            f"{title} has no card; give it one, card = Card(title=..., year=..., reference=...), for whoever wants to "
            "know what it is."
        )
    known = ALGORITHMS.own.get(name) or ALGORITHMS.plugins.get(name)
    if known is not None and not _same_place(known, algorithm):
        raise InputError(
            f"There is an algorithm {name!r} already, {known.__module__}.{known.__qualname__}; "
            f"give {title} another name."
        )


def _same_place(a: type, b: type) -> bool:
    return (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)


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
    fields = [field.name for field in dataclasses.fields(cls)]
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
