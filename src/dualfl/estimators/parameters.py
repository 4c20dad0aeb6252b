"""The parameters of estimators: each is declared and described once, in the class that it belongs to.

`LassoCV` says what `alphas` are; `cv` and `rule` are those of `CrossValidated`, and `tol` is one of `FederatedLinear`.
Its constructor takes all of them, its own first, and `help(LassoCV)` describes them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from inspect import Parameter, cleandoc, get_annotations, signature
from typing import TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)

ENTRY = re.compile(r"^(\w+) : .*(?:\n    .*)+", re.MULTILINE)  # a name, its type, and indented what it is
AFTER_PARAMETERS = re.compile(r"^(?:Attributes|Examples)\n-+$", re.MULTILINE)
HEADING = "Parameters\n----------"


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def estimator(made: Class) -> Class:
    """A class whose annotations are its parameters, with the constructor that scikit-learn expects of it.

    `name: type = field(init=False)` takes an inherited parameter away.
    """
    described = made.__doc__ is not None  # as it is not under `python -OO`
    dataclass(kw_only=True, eq=False, repr=False)(made)
    for each in fields(made):
        if each.init and each.name in vars(made):
            delattr(made, each.name)  # the default of an argument, and no attribute of the class
    order_arguments(made)
    made.__doc__ = with_inherited_descriptions(made) if described else None
    return made


def order_arguments(made: type) -> None:
    """Arguments of its own first, then those of its bases; a dataclass has them the other way round."""

    def place(argument: Parameter) -> tuple[int, int]:
        owners = (j for j, base in enumerate(made.__mro__) if argument.name in get_annotations(base))
        return argument.kind, next(owners, -1)  # `self` is nobody's

    constructor = vars(made)["__init__"]
    taken = signature(constructor)
    constructor.__signature__ = taken.replace(parameters=sorted(taken.parameters.values(), key=place))


def with_inherited_descriptions(made: type) -> str:
    """Its docstring, in which parameters that only its bases describe are described as there."""
    doc = cleandoc(made.__doc__ or "")
    end = AFTER_PARAMETERS.search(doc)
    head, tail = (doc[: end.start()].rstrip(), doc[end.start() :]) if end else (doc, "")
    own = descriptions(made)
    known = {name: said for base in reversed(made.__mro__) for name, said in descriptions(base).items()}
    inherited = [known[name] for name in signature(made).parameters if name in known and name not in own]
    if HEADING not in head:
        head = f"{head}\n\n{HEADING}"
    return "\n".join([head, *inherited]) + (f"\n\n{tail}" if tail else "\n")


def descriptions(described: type) -> dict[str, str]:
    """What its docstring says of parameters, name by name."""
    _, _, section = cleandoc(described.__doc__ or "").partition(HEADING)
    end = AFTER_PARAMETERS.search(section)
    return {entry[1]: entry[0] for entry in ENTRY.finditer(section, 0, end.start() if end else len(section))}
