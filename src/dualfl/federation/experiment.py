"""What a silo keeps of one experiment, in experiments/ID/ of its folder.

plan, scaling           what was agreed
data                    a fingerprint of the rows that it was agreed on
secret, offer.json      its key for the masks of this experiment, and the key as it was signed
answers/                to set-up requests
state.npz               its memory after the last answer, and that answer
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualfl.algorithms.contract import Algorithm, Place
from dualfl.engines import checkpoint as checkpoint_file
from dualfl.engines.client import ClientMemory, LocalCost
from dualfl.errors import InputError
from dualfl.federation.masks import Masks, new_secret, sign
from dualfl.federation.rows import not_quoted, pack_rows
from dualfl.federation.silo_folder import PRIVATE, SiloFolder, write
from dualfl.federation.wire import decode, encode
from dualfl.files import locked
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty
from dualfl.solvers.base import Solver
from dualfl.tables.encoding import Scaling, features, targets
from dualfl.tables.reading import Table
from dualfl.tables.schema import Draft, Schema
from dualfl.tables.sums import counted, deviations
from dualfl.typing import AnyArray, Array

if TYPE_CHECKING:
    from dualfl.federation.chambers import FarChamber
    from dualfl.federation.line import Line

CHANGED = (
    "its data file, or what its silo.json says of it ('target', 'ignore', 'categorical', 'na', 'decimal'), has changed "
    "since the experiment began; restore it, or start a new one"
)
NO_PLAN = "this silo knows no plan of this experiment: its folder was lost or moved; start a new experiment"
Content = dict[str, Any]


ENDED = "ended"  # a note for every experiment that is over
LONGEST, GREETED = 80, 20  # characters of a name; experiments that said hello and have no plan


class Experiment:
    """What a silo keeps of one experiment."""

    def __init__(self, home: SiloFolder, id: str, ended: bool = False) -> None:
        if not 0 < len(id) <= LONGEST or not all((c.isascii() and c.isalnum()) or c in "-_" for c in id):
            raise InputError(f"{id!r:.80} is no name of an experiment")
        self.home, self.id = home, id
        self.path = home.path / "experiments" / id
        self.marker = home.path / ENDED / id
        if self.marker.exists() and not ended:
            raise InputError("this experiment has ended at this silo; start a new one")

    def close(self) -> None:
        """Delete all of it but the note that it was."""
        if self.path.exists():
            write(self.marker, when_begun(self.path))
            shutil.rmtree(self.path, ignore_errors=True)

    @cached_property
    def far(self) -> FarChamber:
        """The chamber that answers the questions of an analysis."""
        from dualfl.federation.chambers import FarChamber

        return FarChamber(self)

    @cached_property
    def line(self) -> Line:
        """Where the conversation of an analysis under masks stands."""
        from dualfl.federation.line import Line

        return Line(self)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """One process at a time: a request that is repeated while it is worked on waits for the answer."""
        return locked(self.path, PRIVATE)

    def fix(self, name: str, content: bytes, otherwise: str) -> None:
        """Write a file once; refuse, in these words, to write anything else there."""
        path = self.path / name
        if path.exists():
            if path.read_bytes() != content:
                raise InputError(otherwise)
        else:
            write(path, content)

    def answered_once(self, name: str, answer: Callable[[], bytes]) -> bytes:
        """The answer to a set-up request, found once: other numbers under the same masks would tell both."""
        path = self.path / "answers" / name
        if not path.exists():
            write(path, answer())
        return path.read_bytes()

    def secret(self) -> bytes:
        path = self.path / "secret"
        if not path.exists():
            with self.locked():
                if not path.exists():
                    write(path, new_secret())
        return path.read_bytes()

    def offer(self, key: Path) -> tuple[str, ...]:
        """The signed key of this experiment; a signature is never the same twice, so it is kept."""
        path, secret = self.path / "offer.json", self.secret()
        with self.locked():
            if not path.exists():
                offered = sign(key.read_bytes(), self.id, self.home.name, secret)
                write(path, json.dumps(offered).encode())
        return tuple(json.loads(path.read_text()))

    @cached_property
    def plan(self) -> Content:
        try:
            return decode((self.path / "plan").read_bytes())
        except OSError:
            raise InputError(NO_PLAN) from None

    def note_scaling(self, request: Content) -> None:
        """What was found out after the plan was agreed comes with the first step or value, and stays."""
        if request.get("scaling") is not None:
            self.fix(
                "scaling", encode(request["scaling"]), "the scaling of this experiment has changed; start a new one"
            )

    @cached_property
    def scaling(self) -> Content:
        return decode((self.path / "scaling").read_bytes())

    # -- the cost ----------------------------------------------------------------------------------

    @cached_property
    def draft(self) -> Draft:
        """What was agreed before anybody counted."""
        return Draft.from_json(self.plan["draft"])

    @cached_property
    def schema(self) -> Schema:
        """What came of the counts; it travels with the scaling."""
        return Schema.from_json(self.scaling["schema"])

    def check_data(self) -> None:
        """Refuse to go on with other data than were agreed on."""
        try:
            agreed = (self.path / "data").read_text()
        except OSError:
            raise InputError(NO_PLAN) from None
        if agreed != self.home.fingerprint:
            raise InputError(CHANGED)

    @cached_property
    def used(self) -> tuple[Table, str]:
        """The rows that have a target, and the target's name."""
        rows = self.home.rows()
        self.check_data()  # after reading, so that a file which is changed meanwhile is noticed
        return rows.used(), rows.target

    def counts(self) -> Content:
        """How much this silo counts, and what agreement and standardisation need of its columns."""
        return counted(self.used[0], self.draft)

    def deviations(self, center: Array) -> Content:
        return deviations(self.used[0], self.draft, center)

    @cached_property
    def source(self) -> tuple[Objective, Solver | None, float, Penalty | None]:
        """(f_j, its solver, its size, the common penalty), before an algorithm asks for more."""
        if "pickle" in self.home.settings:  # a simulation on one machine: its own file, written by its own user
            import pickle

            with open(self.home.path / self.home.settings["pickle"], "rb") as file:
                held: tuple[Objective, Solver | None, float, Penalty | None] = pickle.load(file)
            return held
        return self._from_rows()

    def _from_rows(self) -> tuple[Objective, Solver | None, float, Penalty | None]:
        from dualfl.federation.model import build
        from dualfl.federation.rows import unpack_rows

        self.check_data()
        key = hashlib.sha256((self.path / "scaling").read_bytes() + (self.path / "plan").read_bytes()).hexdigest()[:24]
        cache = self.home.path / "cache" / f"{key}.npz"
        if not cache.exists():
            X, y = self._encoded()
            for old in cache.parent.glob("*.npz"):
                old.unlink()
            write(cache, pack_rows(X, y))
        X, y = unpack_rows(cache)
        problem = self.plan["problem"]
        # The plan suits the coordinator's template, so if something does not, it is some entry.
        with not_quoted(f"its rows do not suit the loss {problem['loss']!r} of the plan"):
            objective, solver, penalty = build(X, y, self.schema, problem)
        return objective, solver, objective.mass, penalty

    def _encoded(self) -> tuple[Any, AnyArray]:
        """Features as the schema makes them, standardised if that was agreed; and targets."""
        table, target = self.used
        with not_quoted("its rows do not suit what was agreed"):
            X, y = features(table, self.schema), targets(table, replace(self.schema, target=target))
        center, spread = self.scaling["center"], self.scaling["spread"]
        return X if center is None else Scaling(center, spread).scaled(X), y

    def client(self, algorithm: Algorithm) -> tuple[LocalCost, Place, int, float]:
        """(cost, place, number, weight) of this silo under the algorithm that runs, whose surveys see the same."""
        from dualfl.engines.engine import server_penalty
        from dualfl.engines.suiting import bound, check_fit

        plan, scaling = self.plan, self.scaling
        objective, solver, size, penalty = self.source
        check_fit([objective], penalty, algorithm, None)
        N, j = len(plan["names"]), list(plan["names"]).index(self.home.name)
        share = (1.0 if scaling["equal"] else size) / scaling["mass"]
        weight = 1.0 / N if algorithm.uniform else share
        mine = bound(objective, share, N, algorithm, penalty)
        start = plan["start"]
        cost = LocalCost(mine, solver, None if algorithm.warm else start)
        if algorithm.strongly_convex:
            mine.require_strong_convexity(algorithm.name)
        place = Place(
            plan["seed"],
            N,
            objective.d,
            start=start if algorithm.warm else None,
            penalty=server_penalty(objective, penalty, cost.origin) if algorithm.penalty == "server" else None,
            codec=codec_of(plan["codec"]),
        )
        return cost, place, j, weight

    @cached_property
    def masks(self) -> Masks:
        """Those of this silo, with the keys of the plan."""
        if not (self.path / "secret").exists():  # a new one would not fit the keys of the plan
            raise InputError(NO_PLAN)
        keys = {silo: offer[0] for silo, offer in self.plan["offers"].items()}
        return Masks(self.home.name, self.secret(), keys, self.id)

    # -- what survives -----------------------------------------------------------------------------

    def remembered(self, algorithm: Algorithm) -> tuple[ClientMemory, str, bytes]:
        """(memory, tag of the last request, the answer to it)."""
        path = self.path / "state.npz"
        if not path.exists():
            return ClientMemory(), "", b""
        tree, arrays = checkpoint_file.read(path)
        content = checkpoint_file.Unpacker(arrays, algorithm, {}).unpack(tree)
        return content["silo"], content["tag"], content["sent"].tobytes()

    def remember(self, silo: ClientMemory, name: str, sent: bytes) -> None:
        """All of it is on disk before the answer leaves."""
        content = {"silo": silo, "tag": name, "sent": np.frombuffer(sent, dtype=np.uint8)}
        checkpoint_file.save(self.path / "state.npz", content, PRIVATE)


def when_begun(path: Path) -> bytes:
    """What the note of an experiment that is over says: when its plan began, in seconds; nothing if none did."""
    plan = path / "plan"
    return f"{plan.stat().st_mtime:.0f}".encode() if plan.exists() else b""


def begun_since(folder: Path, moment: float) -> int:
    """How many experiments began at this silo since then; those that have ended count too."""
    known = [path.stat().st_mtime for path in (folder / "experiments").glob("*/plan")]
    for path in (folder / ENDED).glob("*"):
        if path.stat().st_mtime > moment:  # it ended since then
            known.append(float(path.read_bytes() or 0))
    return sum(began > moment for began in known)


def purge(folder: Path, days: int, but: str) -> None:
    """Forget experiments that nobody has asked about for so long, and most of those that never came to a plan."""
    found = [path for path in folder.glob("*") if path.name != but] if folder.exists() else []
    found.sort(key=lambda path: path.stat().st_mtime)
    greeted = [path for path in found if not (path / "plan").exists()]
    old = [path for path in found if path.stat().st_mtime < time.time() - days * 86_400]
    for path in {*old, *greeted[: max(0, len(greeted) - GREETED)]}:
        if (path / "plan").exists():
            write(folder.parent / ENDED / path.name, when_begun(path))
        shutil.rmtree(path, ignore_errors=True)


def codec_of(described: Any) -> Any:
    """A codec that travels as its name and its numbers."""
    if described is None:
        return None
    from dualfl.algorithms import codecs

    return {c.__name__: c for c in (codecs.TopK, codecs.RandK, codecs.Quantise)}[described[0]](**described[1])
