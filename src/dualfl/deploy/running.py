"""A run or an analysis while it is under way: submitted, watched, submitted again if the SuperLink was lost, ended.

submitted.json in its work folder says which run of Flower it is and which process waits for it; `stopped` is there if
somebody ended it on purpose.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualfl.deploy.condition import works
from dualfl.deploy.project import Project
from dualfl.deploy.service import is_same, noted
from dualfl.deploy.service import running as service_of
from dualfl.errors import InputError
from dualfl.federation.flower import runtime
from dualfl.federation.flower.control import Control
from dualfl.files import write_atomically

if TYPE_CHECKING:
    from dualfl.engines.progress import Bar

Say = Callable[[str], None]
SUBMITTED, STOPPED = "submitted.json", "stopped"
AGAIN = 20  # times that a run is submitted again by itself
PATIENCE = 300.0  # seconds for which a SuperLink that went is waited for
ENDED = "The run was ended; the same command goes on where it was."


def submit_and_watch(
    project: Project,
    work: Path,
    bar: Bar,
    say: Say,
    alive: Callable[[], None],
    at: Callable[[int, str], None] = lambda number, purpose: None,
) -> dict[str, Any]:
    """The outcome. A SuperLink that is lost on the way is waited for, and the run goes on where it was."""
    from dualfl.engines.history import Row

    (work / STOPPED).unlink(missing_ok=True)

    def on_line(line: Any) -> None:
        if isinstance(line, dict) and "exchange" in line:
            at(line["exchange"], line["for"])
        elif isinstance(line, dict):
            say(line["say"])
        else:
            bar.update(Row(*line))

    run = ""
    try:
        with bar:
            for turn in range(AGAIN + 1):
                run = submitted(project, work, say, was_there=turn > 0)
                try:
                    return runtime.watch(run, work, project.flower_home, on_line, alive)
                except runtime.Lost as error:
                    if (work / STOPPED).exists() or turn == AGAIN:
                        raise InputError(ENDED if (work / STOPPED).exists() else str(error)) from error
                    say(f"{error} The run is submitted again, and goes on where it was.")
        raise AssertionError("the last turn ends it")
    except KeyboardInterrupt:
        end(project, work, run)
        raise KeyboardInterrupt(ENDED) from None
    except runtime.RunFailed as error:
        raise InputError(str(error)) from error


def submitted(project: Project, work: Path, say: Say, was_there: bool) -> str:
    """Hand the job to the SuperLink, which is waited for if it was there, or if its service is there to start it."""
    give_up, told = time.monotonic() + PATIENCE, False
    while True:
        try:
            run = runtime.submit(project.folder / "app", work, project.flower_home)
            break
        except runtime.RunFailed as error:
            silent = isinstance(error, runtime.Silent)
            served = silent and service_of(project.folder) is not None
            if not (was_there or served) or time.monotonic() >= give_up:
                if silent:
                    raise InputError(
                        f"The coordinator of {project.folder} is not running; start it with `dualfl deploy start "
                        f"{project.folder}`, and give this command again."
                    ) from error
                raise InputError(
                    f"The run could not be started ({error}); is the coordinator running (`dualfl deploy start "
                    f"{project.folder}`)?"
                ) from error
        if not told:
            say("The SuperLink does not answer yet; the run is submitted as soon as it does.")
        told = True
        time.sleep(2)
    content = {"run": run, "waits": noted(os.getpid()), "time": time.time()}
    write_atomically(work / SUBMITTED, json.dumps(content).encode())
    return run


def end(project: Project, work: Path, run: str) -> None:
    """The server app ends at its next look; what it has reached is on the disk."""
    write_atomically(work / STOPPED, b"")
    write_atomically(work / "submission", secrets.token_hex(8).encode())
    if run:
        with contextlib.suppress(runtime.RunFailed):
            Control(project.flower_home).stop(run)


def under_way(folder: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """(name, work folder, what was noted) of what has begun and not ended."""
    for work in works(folder):
        with contextlib.suppress(OSError, ValueError):
            noted_of = json.loads((work / SUBMITTED).read_text())
            if not (work / "outcome.json").exists() and not (work / STOPPED).exists():
                yield work.parent.name, work, noted_of


def stop_runs(folder: Path, name: str) -> list[str]:
    """End runs that are under way: by who waits for them, or, where nobody does, here."""
    project, ended = Project(folder), []
    for found, work, noted_of in under_way(folder):
        if name in (found, "all"):
            if is_same(noted_of["waits"]):
                write_atomically(work / STOPPED, b"")
                os.kill(int(noted_of["waits"]["pid"]), signal.SIGTERM)
            else:
                end(project, work, noted_of["run"])
            ended.append(found)
    return ended
