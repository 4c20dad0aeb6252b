"""A silo's service: one process that has the data and talks to the coordinator, and this one, which watches it.

`python -m dualfl.deploy.silo_service FOLDER` is what `dualfl deploy serve` becomes. It imports little, since it does
little but look.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualfl.deploy.certificates import lifetimes
from dualfl.deploy.condition import condition, warnings
from dualfl.deploy.service import ALIVE, SAID, SERVICE, Record, Say, age, alone_in, as_service
from dualfl.deploy.status_page import shown
from dualfl.deploy.supervisor import Part, Supervisor, Warnings
from dualfl.deploy.upkeep import check_in
from dualfl.errors import InputError
from dualfl.federation.flower import runtime

LOOK = 1.0  # seconds between two looks
SIGN = 5.0  # seconds: who gave a sign of life later than that is well


class SiloService:
    """What serves a silo's folder."""

    def __init__(self, folder: Path) -> None:
        runtime.need_flower()
        self.folder = folder.absolute()
        try:
            self.settings: dict[str, Any] = json.loads((self.folder / "silo.json").read_text())
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder} is not a silo's folder ({error}); make one with `dualfl deploy join`."
            ) from error
        if (folder / "key").exists() and not (folder / "login").exists():
            raise InputError(
                f"{folder} was made by dualfl before protocol 8, with one key for Flower and for masks; make a new "
                "folder by `dualfl deploy join` with the options of the old one, and send its card.txt to the "
                "coordinator."
            )
        self.log = self.folder / "logs" / "silo-process.log"
        self.supervisor: Supervisor | None = None
        self._said: Any = None

    def command(self) -> list[str]:
        for word in (ALIVE, SAID):  # of the process before
            (self.folder / SERVICE / word).unlink(missing_ok=True)
        return [sys.executable, "-m", "dualfl.deploy.silo_process", str(self.folder)]

    def start(self) -> runtime.Process:
        """The silo's process alone, without anybody who watches it; for trials on one machine."""
        return runtime.Process(self.command(), self.log, runtime.environment(self.folder / "flower"), tied=True)

    @property
    def part(self) -> Part:
        return Part(
            "The silo's process",
            self.command,
            self.log,
            runtime.environment(self.folder / "flower"),
            ask=self._alive,
            explain=explain,
        )

    def _alive(self) -> bool:
        """Whether the process gave a sign lately: a second after it began it gives the first."""
        found = age(self.folder / SERVICE / ALIVE)
        return found is not None and found < SIGN

    @contextlib.contextmanager
    def running(self, say: Say) -> Iterator[Record]:
        with alone_in(self.folder, "silo", say) as record:
            check_in(self.folder, say)
            self.supervisor = Supervisor({"silo": self.part}, record, say)
            try:
                self.supervisor.start()
                yield record
            finally:
                self.supervisor.stop()

    def serve(self, say: Say, port: int = 0) -> None:
        """Until interrupted; what ends or hangs is started again, and what the process says is said here.

        port : of the status page on loopback; 0: none.
        """
        if sentence := runtime.untested_version():
            say(sentence)
        warned = Warnings(lambda: warnings(self.folder, lambda: lifetimes(self.folder, ("ca.crt",))))
        with self.running(say), shown(lambda: condition(self.folder), port, say):
            assert self.supervisor is not None
            say(f"Silo {self.settings['name']!r} connects to {self.settings['coordinator']} ...")
            while True:
                time.sleep(LOOK)
                self.supervisor.look()
                self._pass_on(say)
                warned.look(say)

    def _pass_on(self, say: Say) -> None:
        with contextlib.suppress(OSError, ValueError):
            said = json.loads((self.folder / SERVICE / SAID).read_text())
            if said != self._said:
                self._said = said
                say(str(said["sentence"]))


def explain(log: Path, begins: int) -> str:
    """The last word of a silo's process that ended."""
    try:
        with open(log, "rb") as file:
            file.seek(begins)
            words = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        words = []
    last = words[-1] if words else ""
    return f"The silo's process ended{f' ({last[:200]})' if last else ''}; see {log}."


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.exit(as_service(place, lambda say: SiloService(place).serve(say, int(sys.argv[2]))))
