"""Algorithms from outside the library: from a file, from an installed package, or named by DUALFL_PLUGINS.

A file is imported as a module below this one, so that what it defines can be pickled: a process that is told of the
file, by DUALFL_PLUGINS or by `load_files`, finds the module under the same name. A package declares an entry point of
the group "dualfl.algorithms", whose object is the class.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from zlib import crc32

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.registry import ALGORITHMS, check_registrable, register
from dualfl.errors import DualflError, InputError

GROUP, VARIABLE = "dualfl.algorithms", "DUALFL_PLUGINS"


class PluginFile(NamedTuple):
    """A file with algorithms, as it travels to other processes."""

    path: str
    source: bytes

    @property
    def module(self) -> str:
        """The name that it is imported by, the same in every process."""
        stem = re.sub(r"\W", "_", Path(self.path).stem)
        return f"{__name__}.{stem}_{crc32(self.path.encode()):08x}"


_files: dict[str, PluginFile] = {}  # what was loaded in this process, by module


def load_plugin(path: Path | str) -> list[type[Algorithm]]:
    """Import a file and register all algorithms that it defines; after an error none is registered.

    Parameters
    ----------
    path : str or Path
        A Python file that defines algorithms.

    Returns
    -------
    list of type
        The classes, in the order of the file.

    Examples
    --------
    >>> import dualfl
    >>> (HeavyBall,) = dualfl.load_plugin("examples/own_algorithm.py")  # doctest: +SKIP
    """
    path = Path(path)
    if path.suffix != ".py":
        raise InputError(f"{path} is not a plug-in; a plug-in is a Python file, whose name ends in .py.")
    if not path.is_file():
        raise InputError(f"There is no plug-in file {path}; give the path of a Python file that defines an algorithm.")
    return _load(PluginFile(str(path.resolve()), path.read_bytes()), str(path))


class Carried(NamedTuple):
    """What other processes need to know the algorithms from outside that this one knows."""

    files: list[PluginFile]
    classes: list[tuple[str, str]]  # module and name of those in modules that can be imported


def carried() -> Carried:
    """For processes that do this one's work."""
    others = [known for known in ALGORITHMS.plugins.values() if known.__module__ not in _files and importable(known)]
    return Carried(list(_files.values()), [(known.__module__, known.__name__) for known in others])


def importable(algorithm: type[Algorithm]) -> bool:
    """Whether another process can import it: not what was typed into an interpreter or defined in a function."""
    return algorithm.__module__ != "__main__" and algorithm.__qualname__ == algorithm.__name__


def load_carried(plugins: Carried) -> None:
    """Know what another process knew; the files themselves need not be there."""
    load_files(plugins.files)
    for module, name in plugins.classes:
        register(getattr(import_module(module), name))


def load_files(files: Iterable[PluginFile]) -> None:
    for file in files:
        _load(file, file.path)


def environment() -> dict[str, str]:
    """What tells processes on this machine of the files that this one has loaded."""
    return {VARIABLE: os.pathsep.join(file.path for file in _files.values())} if _files else {}


def load_installed() -> None:
    """Register what packages bring; one that is broken is left out, with a warning."""
    for point in entry_points(group=GROUP):
        try:
            register(point.load())
        except Exception as error:  # a package can fail in any way, and must not take the others with it
            warnings.warn(f"The plug-in {point.name} ({point.value}) is left out: {_reason(error)}", stacklevel=2)


def fingerprint(name: str) -> str:
    """Of the source of an algorithm from outside; "" for those of the library, which change with its version only."""
    if name in ALGORITHMS.own or name not in ALGORITHMS:
        return ""
    home = ALGORITHMS[name].__module__
    try:
        source = _files[home].source if home in _files else inspect.getsource(sys.modules[home]).encode()
    except (OSError, TypeError):  # typed into an interpreter
        return ""
    return hashlib.blake2b(source, digest_size=10).hexdigest()


# -- one file ---------------------------------------------------------------------------------------------


def _load(file: PluginFile, shown: str) -> list[type[Algorithm]]:
    if _files.get(file.module) == file:
        return _algorithms_of(sys.modules[file.module])
    before, former = dict(ALGORITHMS.plugins), sys.modules.get(file.module)
    try:
        for name in [name for name, known in before.items() if known.__module__ == file.module]:
            del ALGORITHMS.plugins[name]  # the file was changed, and may not define it any more
        module = _imported(file, shown)
        found = _algorithms_of(module)
        if not found:
            raise InputError(
                f"The plug-in {shown} holds no algorithm; define a frozen dataclass in it that inherits from "
                "dualfl.algorithms.Algorithm."
            )
        for algorithm in found:
            _register(algorithm, shown)
    except BaseException:
        ALGORITHMS.plugins.clear()
        ALGORITHMS.plugins.update(before)
        sys.modules.pop(file.module, None)
        if former is not None:
            sys.modules[file.module] = former
        raise
    _files[file.module] = file
    return found


def _imported(file: PluginFile, shown: str) -> ModuleType:
    module = ModuleType(file.module)
    module.__file__ = file.path
    sys.modules[file.module] = module  # before it runs: dataclasses look their module up
    try:
        exec(compile(file.source, file.path, "exec"), module.__dict__)
    except DualflError as error:
        raise InputError(f"The plug-in {shown} is refused: {error}") from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"The plug-in {shown} cannot be imported: {_reason(error)}{_where(error, file.path)}."
        ) from error
    return module


def blamed(error: BaseException) -> str:
    """A sentence about an error that a plug-in made; empty if none of those that are loaded had a part in it."""
    for file in _files.values():
        if where := _where(error, file.path):
            return f"The plug-in {file.path} failed: {_reason(error)}{where}."
    return ""


def _reason(error: BaseException) -> str:
    """An error in a line."""
    if isinstance(error, DualflError):
        return str(error)
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(words.split())}".rstrip(": .")


def _where(error: BaseException, path: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return f" (line {line})" if line else ""


def _algorithms_of(module: ModuleType) -> list[type[Algorithm]]:
    """The algorithms that a module defines itself; what starts with an underscore is its own affair."""
    return [
        each
        for name, each in vars(module).items()
        if inspect.isclass(each)
        and issubclass(each, Algorithm)
        and each.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _register(algorithm: type[Algorithm], shown: str) -> None:
    try:
        check_registrable(algorithm)
    except InputError as error:
        raise InputError(f"The plug-in {shown} is refused: {error}") from None
    register(algorithm)


# When this module is first needed, be it by a look into the registry or because something is unpickled that such a file
# defines, the files that the environment names come with it.
for _path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
    load_plugin(_path)
