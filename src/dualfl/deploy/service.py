"""A service that runs in a folder: one at a time, known by its number, and stopped by it.

service/lock            held as long as the service lives; the kernel lets go of it
service/service.json    its process, those it has started, and which folder they serve: a copy's is that of another
service/alive, heard    touched by the part that does the work: in every turn, and at every word from the other side
service/said.json       how that part is, and a sentence that says what to do
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dualfl.deploy.logbook import Logbook
from dualfl.errors import DualflError, InputError
from dualfl.files import in_words, mark, write_atomically

SERVICE = "service"
LOGIN = "login"  # a silo's key for Flower, which signs nothing that other silos read; `key` does
ALIVE, HEARD, SAID, RECORD, LOCK = "alive", "heard", "said.json", "service.json", "lock"
Say = Callable[[str], None]


def touch(path: Path) -> None:
    """Its time says when; a full disk takes that too."""
    try:
        os.utime(path)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            path.touch()


def age(path: Path) -> float | None:
    """Seconds since it was touched; None if it never was. One of the future is old: the clock was set back since."""
    try:
        return abs(time.time() - path.stat().st_mtime)
    except OSError:
        return None


def allow_many_files() -> None:
    """As many open connections as the system permits: every silo holds one, and the usual limit is 1,024."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


# -- processes by number ---------------------------------------------------------------------------------------


def identity(pid: int) -> str | None:
    """When a process began, so that its number is not taken for another's; None: there is no such process."""
    if Path("/proc/self/stat").exists():
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return None
        return None if words[0] in "ZX" else f"{boot} {words[19]}"  # a zombie holds nothing any more
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return found or None


def is_same(process: dict[str, Any]) -> bool:
    """Whether the process that was noted still runs."""
    return process.get("identity") is not None and identity(int(process["pid"])) == process["identity"]


def noted(pid: int) -> dict[str, Any]:
    return {"pid": pid, "identity": identity(pid)}


def end_group(process: dict[str, Any]) -> None:
    """A process that leads a group, with all of the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(int(process["pid"]), signal.SIGKILL)


# -- the service of a folder -----------------------------------------------------------------------------------


def read_record(folder: Path) -> dict[str, Any]:
    """Empty, too, in a folder that was copied while it was served: those processes serve the other one."""
    try:
        found, here = json.loads((folder / SERVICE / RECORD).read_text()), mark(folder)
    except (OSError, ValueError):
        return {}
    ours = isinstance(found, dict) and found.get("folder", here) == here  # earlier versions did not note it
    return found if ours else {}


def running(folder: Path) -> int | None:
    """The number of the service that runs in this folder."""
    service = read_record(folder).get("service")
    return int(service["pid"]) if service and is_same(service) else None


class Record:
    """service.json, kept up to date."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.path = folder / SERVICE / RECORD
        self.content: dict[str, Any] = {
            "kind": kind,
            "folder": mark(folder),
            "service": noted(os.getpid()),
            "started": time.time(),
            "parts": {},
        }
        self.write()

    def part(self, name: str, pid: int, restarts: int) -> None:
        self.content["parts"][name] = noted(pid) | {"since": time.time(), "restarts": restarts}
        self.write()

    def note(self, **more: Any) -> None:
        self.content |= more
        self.write()

    def keep(self) -> None:
        """Write it again where it was lost, or the disk was full when it was to be written."""
        if not self.path.exists():
            self.write()

    def write(self) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the service
            write_atomically(self.path, (json.dumps(self.content, indent=2) + "\n").encode(), 0o600)


@contextlib.contextmanager
def alone_in(folder: Path, kind: str, say: Say) -> Iterator[Record]:
    """The only service of this folder; what one that was killed has left behind is ended first."""
    from filelock import FileLock, Timeout

    place = folder / SERVICE
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(place / LOCK, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        pid = running(folder)
        raise InputError(
            f"{folder} is served already{f', by process {pid}' if pid else ''}; end that one first "
            f"(`dualfl deploy stop {folder}`)."
        ) from None
    try:
        clear_leftovers(folder, say)
        yield Record(folder, kind)
    finally:  # who was killed does not come here, and leaves the record for the next
        (place / RECORD).unlink(missing_ok=True)
        lock.release()


def clear_leftovers(folder: Path, say: Say) -> None:
    """Processes of a service that was killed, which would stand in the way of the next."""
    parts = read_record(folder).get("parts", {})
    for name, process in parts.items():
        if is_same(process):
            end_group(process)
            say(f"An earlier service was killed and left {name} running (process {process['pid']}); it was ended.")
    if parts:
        say("The service of before was cut off; this one goes on where it was.")


def stop(folder: Path, seconds: float = 30.0) -> int | None:
    """End the service of this folder, politely first; returns its number, or None if there was none."""
    record = read_record(folder)
    service = record.get("service")
    if not service or not is_same(service):
        clear_leftovers(folder, lambda sentence: None)
        (folder / SERVICE / RECORD).unlink(missing_ok=True)
        return None
    pid = int(service["pid"])
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)  # one that was stopped hears nothing until it goes on
    end = time.monotonic() + seconds
    while is_same(service) and time.monotonic() < end:
        time.sleep(0.1)
    if is_same(service):
        os.kill(pid, signal.SIGKILL)
        for process in record.get("parts", {}).values():
            if is_same(process):
                end_group(process)
    return pid


def end_politely(*ignored: Any) -> None:
    """SIGTERM, as systemd sends it, ends a program as Ctrl-C does."""
    raise KeyboardInterrupt


def as_service(folder: Path, serve: Callable[[Say], None]) -> int:
    """Serve until stopped; returns the exit code."""
    signal.signal(signal.SIGTERM, end_politely)
    book = Logbook(folder.absolute() / "logs" / "service.log")
    try:
        serve(book.say)
    except KeyboardInterrupt:
        book.say("Stopped.")
    except DualflError as error:
        book.say(str(error))
        return 2 if isinstance(error, InputError) else 1
    except OSError as error:  # a full disk, above all; who keeps the service tries again
        book.say(in_words(error))
        return 1
    finally:
        book.close()
    return 0
