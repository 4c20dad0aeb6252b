"""Which kernels serve: the C extension if it was built, its NumPy twin otherwise, or as asked."""

import os
from contextlib import suppress

from . import twin
from .contract import Backend, NativeBackend

_native: NativeBackend | None = None
with suppress(ImportError):  # it was not built: the twin serves
    from . import native

    _native = native

_asked = os.environ.get("DUALFL_KERNELS", "")
_serving: Backend = twin
_reason = ""


def serving() -> Backend:
    """The module whose functions do the work."""
    return _serving


def backend() -> str:
    """`native` or `numpy`.

    Returns
    -------
    str
        Its name.

    Examples
    --------
    >>> from dualfl import kernels
    >>> kernels.backend() in ("native", "numpy")
    True
    """
    return "numpy" if _serving is twin else "native"


def use_backend(name: str) -> None:
    """Chooses `native` or `numpy` for designs made from now on, and for functions on predictors.

    Parameters
    ----------
    name : str
        Its name.

    Examples
    --------
    >>> from dualfl import kernels
    >>> kernels.use_backend(kernels.backend())
    """
    global _serving, _reason
    if name not in ("native", "numpy"):
        raise ValueError(f"the backend is {name!r}: it must be 'native' or 'numpy'")
    if name == "native" and _native is None:
        raise RuntimeError("the native kernels were not built: install dualfl again with a C compiler present")
    _serving = _native if name == "native" and _native is not None else twin
    _reason = "it was asked for"


def isa() -> str:
    """The instruction set the native kernels use now; `none` for the twin.

    Returns
    -------
    str
        Its name.

    Examples
    --------
    >>> from dualfl import kernels
    >>> kernels.isa() in ("none", *kernels.isas())
    True
    """
    return "none" if _native is None or _serving is twin else str(_native.isa())


def isas() -> tuple[str, ...]:
    """The instruction sets that were built and that this processor has, the plainest first.

    Returns
    -------
    tuple of str
        Their names.

    Examples
    --------
    >>> from dualfl import kernels
    >>> isinstance(kernels.isas(), tuple)
    True
    """
    return () if _native is None else tuple(_native.isas())


def use_isa(name: str) -> None:
    """Fixes the instruction set of the native kernels; `isas()` names the possible ones.

    Parameters
    ----------
    name : str
        Its name.

    Examples
    --------
    >>> from dualfl import kernels
    >>> if kernels.backend() == "native":
    ...     kernels.use_isa(kernels.isa())
    """
    if _native is None or name not in _native.isas():
        raise ValueError(f"the instruction set is {name!r}: it must be one of {isas()}")
    _native.use_isa(name)


def describe() -> str:
    """One line on what computes.

    Returns
    -------
    str
        The line.

    Examples
    --------
    >>> from dualfl import kernels
    >>> kernels.describe().startswith("kernels: ")
    True
    """
    if _native is None or _serving is twin:
        return f"kernels: NumPy twin, because {_reason}; results are the same, slower"
    also = ", ".join(name for name in _native.built() if name != isa())
    return f"kernels: native, {isa()}" + (f" (also built: {also})" if also else "")


def _start() -> None:
    global _reason
    if _asked:
        use_backend(_asked)
        _reason = f"DUALFL_KERNELS={_asked}"
    elif _native is not None:
        use_backend("native")
    else:
        _reason = "they could not be built when dualfl was installed, for want of a C compiler that works"
    if _native is not None and (name := os.environ.get("DUALFL_ISA")):
        use_isa(name)


_start()
