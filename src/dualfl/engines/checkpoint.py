"""Saving a run so that it can go on bit for bit: one .npz file, no pickle, written atomically.

The file holds a JSON tree of types and scalars, in which arrays are references, the arrays themselves, and a digest of
both: a file that was edited would go on as a run that never was. The rows of the run lie beside it, in a `Journal`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.cuts import Cut
from dualfl.algorithms.messages import LowRank, Quantised, Sparse
from dualfl.engines.client import ClientMemory, Reply, Work
from dualfl.engines.driver import Saved
from dualfl.engines.journal import Mark
from dualfl.errors import InputError
from dualfl.files import write_atomically
from dualfl.typing import AnyArray, sealed

FORMAT = 2
_PLAIN = frozenset({type(None), bool, int, str})
UNSIGNED = 1  # what dualfl 0.1.0 wrote: no digest, and the rows in the tree
_KNOWN: dict[str, Any] = {
    c.__name__: c for c in (Sparse, LowRank, Quantised, Cut, ClientMemory, Reply, Work, Saved, Mark)
}
# What they were called and where they were before, so that checkpoints of former versions are still read.
_FORMER = {
    ("Silo", "dualfl.engines.client"): ("ClientMemory", "dualfl.engines.client"),
    ("Best", "dualfl.engines.run"): ("Best", "dualfl.engines.best"),
    ("Best", "dualfl.engines.session"): ("Best", "dualfl.engines.best"),
    ("Account", "dualfl.engines.engine"): ("Account", "dualfl.engines.result"),
}


class Packer:
    """Python values to JSON, arrays set aside."""

    def __init__(self) -> None:
        self.arrays: dict[str, AnyArray] = {}
        self._known: dict[int, str] = {}  # an array that is held twice is stored once

    def pack(self, value: Any) -> Any:
        kind = type(value)  # most are of these kinds, and messages have hundreds of them
        if kind in _PLAIN:
            return value
        if kind is float:
            return {"float": value.hex()}  # exact, also inf and nan
        if kind is dict:
            return {"dict": {str(k): v if type(v) in _PLAIN else self.pack(v) for k, v in value.items()}}
        if kind is list or kind is tuple:
            return {kind.__name__: [v if type(v) in _PLAIN else self.pack(v) for v in value]}
        if kind is np.ndarray:
            return self._array(value)
        return self._other(value)

    def _array(self, value: AnyArray) -> Any:
        key = self._known.setdefault(id(value), f"a{len(self.arrays)}")
        self.arrays[key] = value
        return {"array": key}

    def _other(self, value: Any) -> Any:
        """Records, and what is derived from the kinds above."""
        if isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, SimpleNamespace):
            return {"means": self.pack(vars(value))}
        if dataclasses.is_dataclass(value):
            fields = {f.name: self.pack(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return {"class": type(value).__name__, "module": type(value).__module__, "fields": fields}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            fields = {k: self.pack(v) for k, v in value._asdict().items()}
            return {"class": type(value).__name__, "module": type(value).__module__, "fields": fields}
        if isinstance(value, dict):
            return {"dict": {str(k): self.pack(v) for k, v in value.items()}}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.pack(v) for v in value]}
        raise TypeError(f"A state may hold numbers, arrays, tuples and small dataclasses, not {type(value).__name__}.")


class Unpacker:
    """The way back. Classes are looked up by name among our own and the algorithm's, and nowhere else."""

    def __init__(self, arrays: dict[str, AnyArray], algorithm: Algorithm | None, known: dict[str, Any]) -> None:
        self.arrays, self.known = arrays, _KNOWN | known
        classes = [] if algorithm is None else type(algorithm).__mro__
        self.modules = [sys.modules[c.__module__] for c in classes if issubclass(c, Algorithm)]

    def unpack(self, tree: Any) -> Any:
        if type(tree) is not dict:
            return tree
        kind, held = next(iter(tree.items()))
        if kind == "list":
            return [self.unpack(v) if type(v) is dict else v for v in held]
        if kind == "tuple":
            return tuple([self.unpack(v) if type(v) is dict else v for v in held])
        if kind == "dict":
            return {k: self.unpack(v) if type(v) is dict else v for k, v in held.items()}
        if kind == "float":
            return float.fromhex(held)
        if kind == "array":
            return sealed(self.arrays[held])
        if kind == "means":
            return SimpleNamespace(**self.unpack(held))
        return self._class(tree["class"], tree["module"])(**{k: self.unpack(v) for k, v in tree["fields"].items()})

    def _class(self, name: str, home: str) -> Any:
        name, home = _FORMER.get((name, home), (name, home))
        if name in self.known and self.known[name].__module__ == home:
            return self.known[name]
        # A method and the one it inherits from may both have a `Server`: the one that was saved comes first.
        for module in sorted([*self.modules, *self._beside(home)], key=lambda m: m.__name__ != home):
            found = getattr(module, name, None)
            if isinstance(found, type) and (dataclasses.is_dataclass(found) or hasattr(found, "_fields")):
                return found
        raise InputError(f"The checkpoint holds a state {name!r} that this version of the algorithm does not know.")

    def _beside(self, home: str) -> list[Any]:
        """The module of that name, if it is one of the library and lies beside the algorithm's."""
        packages = {m.__name__.rpartition(".")[0] for m in self.modules if m.__name__.startswith("dualfl.")}
        return [sys.modules[home]] if home.rpartition(".")[0] in packages and home in sys.modules else []


def save(path: Path, content: dict[str, Any], mode: int = 0o666) -> None:
    packer = Packer()
    tree = packer.pack({"format": FORMAT, **content})
    write_atomically(path, archive(tree, packer.arrays), mode)


def archive(tree: dict[str, Any], arrays: dict[str, AnyArray]) -> bytes:
    """The bytes of a file with this tree and these arrays."""
    text, buffer = json.dumps(tree).encode(), io.BytesIO()
    parts: dict[str, Any] = {
        "tree": np.frombuffer(text, dtype=np.uint8),
        "digest": np.frombuffer(digest(text, arrays), dtype=np.uint8),
        **arrays,
    }
    np.savez(buffer, **parts)
    return buffer.getvalue()


def digest(text: bytes, arrays: dict[str, AnyArray]) -> bytes:
    found = hashlib.blake2b(text, digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.data if array.size else b"")
    return found.digest()


def load(path: Path, algorithm: Algorithm, key: str, known: dict[str, Any]) -> dict[str, Any]:
    """The content of a checkpoint of this very run, or a sentence that says what is wrong with it."""
    tree, arrays = read(path)
    head = tree["dict"]
    written = _renamed(head.get("key"))
    if written != key:
        raise InputError(f"{path} belongs to another run: {difference(facts_of(written), json.loads(key))}.")
    content = Unpacker(arrays, algorithm, known).unpack(tree)
    assert isinstance(content, dict)
    return content


def _renamed(key: Any) -> str:
    """The key of a run with the names of today."""
    return str(key).replace('"penalty": "ElasticNet(', '"penalty": "ElasticNetPenalty(')  # so until version 0.1.0


def facts_of(key: str) -> dict[str, Any]:
    """What a key says of its run; nothing, if it is none."""
    try:
        found = json.loads(key)
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read(path: Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """The tree and the arrays of a file that `save` wrote."""
    if not path.exists():
        raise InputError(f"There is no checkpoint at {path}; start the run without resuming.")
    try:
        with zipfile.ZipFile(path) as file:
            broken = file.testzip()
        if broken is not None:
            raise ValueError(f"{broken} is damaged")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        text, sealed_by = arrays.pop("tree").tobytes(), arrays.pop("digest", None)
        content = dict(json.loads(text)["dict"])
        version = content.get("format")
        if version not in (UNSIGNED, FORMAT):
            raise InputError(f"{path} has checkpoint format {version}, and this version reads {UNSIGNED} and {FORMAT}.")
        if version == FORMAT and (sealed_by is None or sealed_by.tobytes() != digest(text, arrays)):
            raise ValueError("somebody has edited it")
        return {"dict": content}, arrays
    except InputError:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise InputError(f"{path} is not a whole checkpoint ({error}); delete it and start the run again.") from error


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """The first thing in which two runs differ, in words."""
    for name, value in ours.items():
        other = theirs.get(name)
        if other == value:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            return difference(other, value)
        if name in ("data", "start"):
            return f"its {name} differs from what it is here"
        return f"its {name} is {other}, here it is {value}"
    return "it was written by another version"
