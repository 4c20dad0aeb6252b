"""What outlives an interruption of a run: where it stands between two exchanges, and the checkpoint of that."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.contract import Ask
from dualfl.engines import checkpoint as checkpoint_file
from dualfl.engines.best import Best
from dualfl.engines.client import ClientMemory
from dualfl.engines.driver import Driver, Saved
from dualfl.engines.driver import digest as digest_of_ask
from dualfl.engines.engine import Engine
from dualfl.engines.history import History, Row
from dualfl.engines.inprocess import digest
from dualfl.engines.journal import Journal, Mark
from dualfl.engines.request import Recording
from dualfl.engines.result import Account
from dualfl.errors import DualflError, InputError
from dualfl.typing import Array


class Standing(NamedTuple):
    """All that a run is, between two exchanges: what is saved, and what an interrupted run falls back to."""

    saved: Saved
    in_flight: Ask | None
    silos: list[ClientMemory]
    account: Account
    memory: dict[str, Array]
    rows: int
    best: Best
    first_energy: float | None


# What a checkpoint holds.
KINDS: dict[str, Any] = {
    "saved": Saved,
    "silos": list,
    "account": Account,
    "memory": dict,
    "best": Best,
    "first_energy": (float, type(None)),
}


class Resumable:
    """The state of a run that outlives an interruption."""

    def __init__(self, engine: Engine, recording: Recording, may_write: Callable[[], None]) -> None:
        self.engine, self.path, self.may_write = engine, recording.checkpoint, may_write
        self.every = 1 if engine.silos_remember else recording.checkpoint_every
        self.driver = Driver(engine.algorithm, engine.place)
        self.history, self.best = History(), Best(np.zeros(0))
        self.first_energy: float | None = None
        self._steps = 0  # exchanges, and what is told, since the run began or was resumed
        self._saved = (0, 0)  # the steps and the rows of the last checkpoint
        self._journal: Journal | None = None
        self.mark()

    # -- between two exchanges --------------------------------------------------------------------

    def mark(self) -> None:
        """Note where the run stands. One assignment, so no interruption falls into it."""
        engine, driver = self.engine, self.driver
        self.standing = Standing(
            driver.saved,
            driver.in_flight,
            engine.silos,
            engine.account,
            engine.server_memory,
            len(self.history),
            self.best,
            self.first_energy,
        )

    def fall_back(self, to: Standing) -> None:
        """Make the run what it was."""
        engine = self.engine
        engine.silos, engine.account, engine.server_memory = to.silos, to.account, to.memory
        self.history = History(self.history.rows[: to.rows], self.history.iterations[: to.rows])
        self.best, self.first_energy = to.best, to.first_energy
        engine.early = None
        self.driver = Driver(engine.algorithm, engine.place, to.saved)
        self.standing = to

    # -- checkpoints ------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """What makes this run this run and no other, as JSON."""
        engine = self.engine
        start = engine.place.start if engine.origin is None else engine.origin
        return json.dumps(
            {
                "algorithm": json.loads(engine.algorithm.to_json()),
                "number of clients": engine.place.N,
                "model size": engine.place.d,
                "seed": engine.place.seed,
                "penalty": repr(engine.penalty),
                "codec": repr(engine.place.codec),
                "solvers": engine.solvers,
                "start": "zero" if start is None else digest([start.tobytes()]),
                "data": self.fingerprint(),
            }
        )

    @property
    def journal(self) -> Journal:
        """Where the rows go; empty until something is saved, or restored."""
        assert self.path is not None
        if self._journal is None:
            self._journal = Journal(self.path)
        return self._journal

    def fingerprint(self) -> str:
        if not hasattr(self, "_fingerprint"):
            self._fingerprint = self.engine.fingerprint()
        return self._fingerprint

    def save(self, last: bool = False) -> None:
        """Write a checkpoint if one is due; `last`: if anything has happened since the one before."""
        now, (steps, rows) = self.standing, self._saved
        since = self._steps - steps
        enough = since >= (1 if last else self.every) or (self.engine.silos_remember and now.rows > rows)
        if self.path is None or not enough:
            return
        self.may_write()
        asked = digest_of_ask(now.in_flight) if now.saved.means else None
        journal = self.journal
        fresh = slice(journal.mark.rows, now.rows)
        journal.append(list(zip(self.history.rows[fresh], self.history.iterations[fresh])))
        checkpoint_file.save(
            self.path,
            {
                "key": self.key,
                "saved": replace(now.saved, asked=asked),
                "silos": [replace(silo, reply=None) for silo in self.engine.stored(now.silos)],  # who stores, re-asks
                "account": now.account,
                "memory": now.memory,
                "journal": journal.mark,
                "best": now.best,
                "first_energy": now.first_energy,
            },
        )
        self._saved = (self._steps, now.rows)

    def restore(self) -> None:
        """Go on where the checkpoint stands."""
        if self.path is None:
            raise InputError("resume needs a checkpoint file to resume from; give one.")
        try:
            content = checkpoint_file.load(
                self.path, self.engine.algorithm, self.key, {"Best": Best, "Account": Account}
            )
            for name, kind in KINDS.items():
                if not isinstance(content[name], kind):
                    raise TypeError(f"{name} is a {type(content[name]).__name__}")
            if [type(silo) for silo in content["silos"]] != [ClientMemory] * self.engine.place.N:
                raise TypeError("silos are not those of this run")
            self.history = self.remembered(content)
            self.fall_back(
                Standing(
                    content["saved"],
                    None,
                    self.engine.restored(content["silos"]),
                    content["account"],
                    content["memory"],
                    len(self.history),
                    content["best"],
                    content["first_energy"],
                )
            )
        except DualflError:
            raise
        except Exception as error:  # what a file holds that is not as it was written can fail in any way
            what = f"{type(error).__name__}: {error}"
            raise InputError(
                f"{self.path} does not fit this run ({what}); delete it and start the run again."
            ) from error
        self.mark()

    def remembered(self, content: dict[str, Any]) -> History:
        """The rows that belong to a checkpoint: beside it, or in it if dualfl 0.1.0 wrote it."""
        assert self.path is not None
        if "journal" not in content:
            return History([Row(*row) for row in content["rows"]], content["iterations"])
        self._journal = Journal(self.path, Mark(*content["journal"]))
        rows = self._journal.read()
        return History([Row(*row) for row, _ in rows], [iterations for _, iterations in rows])
