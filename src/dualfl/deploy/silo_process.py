"""A silo's process: a keeper that has the data in memory, and a line to the coordinator that carries messages alone.

Whatever must survive is on disk before an answer leaves, so this process may be killed at any time. It tells its
supervisor by two files in `service/` that it lives and how it is: `alive` is touched in every turn of the loop, and
`said.json` has the state and a sentence that says what to do. What an answer costs is nobody's business but this
machine's: however long it takes, the process counts as alive.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dualfl.deploy.service import ALIVE, HEARD, LOGIN, SAID, SERVICE, end_politely, touch
from dualfl.deploy.tidying import Tidy
from dualfl.federation.flower import lifeline
from dualfl.federation.protocol import PROTOCOL
from dualfl.files import write_atomically
from dualfl.version import __version__

if TYPE_CHECKING:  # what takes long to import is imported when somebody sees that this lives
    from dualfl.federation.silo_folder import SiloFolder

SOON = 1.0  # seconds: who comes back from the coordinator with nothing, and was not made to wait there, waits here
TICK = 1.0  # seconds between two signs of life before the loop begins
FULL = "The disk of this silo is full, and nothing is answered; make room, or see `dualfl deploy purge`."
MANY = 64  # answers after which memory is tidied even if somebody asks all the time
LONGEST_PAUSE = 10.0  # seconds between two attempts to reach the coordinator


@contextlib.contextmanager
def seen_alive(folder: Path) -> Iterator[None]:
    """While modules and data are read, a thread says that this process lives."""
    folder.mkdir(mode=0o700, exist_ok=True)
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(TICK):
            touch(folder / ALIVE)

    touch(folder / ALIVE)
    threading.Thread(target=tick, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class Serving:
    """The loop, and what it tells the supervisor."""

    def __init__(self, home: SiloFolder, line: Any, answer: Callable[[bytes], bytes]) -> None:
        self.line, self.answer = line, answer
        self.folder = home.path / SERVICE
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.where = home.settings["coordinator"]
        self.state, self.pause = ("", ""), 1.0
        self.tidy, self.answered = Tidy(), 0  # answers since it was tidied
        line.alive = self.alive

    def alive(self) -> None:
        touch(self.folder / ALIVE)

    def say(self, state: str, sentence: str) -> None:
        """Written when it changes, and printed, so that the log tells when what began."""
        if (state, sentence) != self.state:
            self.state = (state, sentence)
            print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {sentence}", flush=True)
            said = {"state": state, "sentence": sentence, "since": time.time(), "pid": os.getpid()}
            with contextlib.suppress(OSError):  # a full disk must not end the service
                write_atomically(self.folder / SAID, json.dumps(said).encode())

    def turn(self) -> float:
        """One look; returns for how long to sleep."""
        from dualfl.federation.flower.fleet import NotLetIn, Unreachable

        self.alive()
        began = time.monotonic()
        try:
            came = self.line.once(self.answering)
        except (NotLetIn, Unreachable) as error:
            self.say("refused" if isinstance(error, NotLetIn) else "unreachable", str(error))
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
            return self.pause
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.say("full disk", FULL)
            return LONGEST_PAUSE
        touch(self.folder / HEARD)
        self.pause = 1.0
        self.say("connected", f"This silo is connected to {self.where}.")
        if self.answered and (not came or self.answered >= MANY):
            self.tidy()
            self.answered = 0
        return 0.0 if came or time.monotonic() - began > SOON else SOON

    def answering(self, request: bytes) -> bytes:
        self.alive()
        self.answered += 1
        return self.answer(request)


def note_settings(home: SiloFolder) -> None:
    """A policy with an unknown word is told before anything starts; settings that changed go to the audit log."""
    from dualfl.federation.audit import digest
    from dualfl.federation.inspecting import idle_here

    home.policy  # noqa: B018 (it is read for its sentence)
    content = (home.path / "silo.json").read_bytes()
    seen, now = home.path / "cache" / "settings.digest", digest(content)
    if not seen.exists() or seen.read_text() != now:
        home.log.note("settings", digest=now, settings=home.settings)
        write_atomically(seen, now.encode())
        for finding in idle_here(home):
            home.note(f"silo.json: {f'{finding.column}: ' * bool(finding.column)}{finding.what}")


def told(home: SiloFolder) -> dict[str, str]:
    """What the coordinator's list of silos shows: nothing that says more of the data than the plan will."""
    policy = json.dumps(home.policy.as_json(), sort_keys=True)
    return {
        "version": __version__,
        "protocol": str(PROTOCOL),
        "policy": f"{home.policy.approval} {hashlib.sha256(home.salt + policy.encode()).hexdigest()[:8]}",
    }


def opened(folder: Path) -> Serving:
    """The keeper with its data in memory, and its line.

    scikit-learn imports pandas wherever it is installed. A silo has no use for it, and would hold 60 MB for months.
    """
    sys.modules.setdefault("pandas", cast(Any, None))  # None: as if it were not installed
    from dualfl.federation.flower.fleet import Fleet
    from dualfl.federation.keeper import Keeper

    keeper = Keeper(folder)
    home, ca = keeper.home, folder / "ca.crt"
    note_settings(home)
    note = folder / SERVICE / "node.json"
    login = (folder / LOGIN).read_bytes()
    line = Fleet(str(home.settings["coordinator"]), ca if ca.exists() else None, login, note, told(home))
    return Serving(home, line, keeper.handle)


def main(folder: Path) -> int:
    signal.signal(signal.SIGTERM, end_politely)
    with contextlib.suppress(KeyboardInterrupt):
        with seen_alive(folder / SERVICE):
            serving = opened(folder)
        with contextlib.closing(serving.line):
            while True:
                time.sleep(serving.turn())
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    lifeline.hold()
    sys.exit(main(Path(sys.argv[1])))
