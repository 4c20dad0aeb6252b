"""What came of a case, and the rules by which that is right or wrong."""

from __future__ import annotations

import hashlib
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dualfl.errors import DualflError

ACCEPTED, REFUSED = "accepted", "refused"
FAULTS = ("traceback", "half-written", "hang", "wrong")
PASSING = re.compile(r"\..+\.([0-9a-f]{12}|lock)|\.lock")
PARTS = ("history.csv", "model.npz", "convergence.png", "summary.csv", "model.json", "coefficients.csv")
RECORDS = ("run.json", "comparison.json", "fit.json")


class Verdict(NamedTuple):
    kind: str  # ACCEPTED, REFUSED, or one of FAULTS
    detail: str = ""


def of_command(done: Any) -> Verdict:
    """What a command's end says: an exit code with a sentence, or a traceback."""
    error = done.exception
    if error is not None and not isinstance(error, SystemExit):
        return Verdict("traceback", told(error))
    if "Traceback (most recent call last)" in done.output:
        return Verdict("traceback", done.output[-500:])
    if done.exit_code == 0:
        return Verdict(ACCEPTED)
    if done.exit_code == 1 and done.stdout.strip():  # as `check` ends where it has found something
        return Verdict(REFUSED, done.stdout.strip().splitlines()[0][:300])
    if not done.stderr.strip():
        return Verdict("wrong", f"it ended with code {done.exit_code} and said nothing")
    return Verdict(REFUSED, done.stderr.strip().splitlines()[-1][:300])


def of_call(call: Callable[[], Any], allowed: tuple[type[Exception], ...] = ()) -> tuple[Verdict, Any]:
    """What a call gives: a value, or an error of dualfl's own, or one of the kinds that are allowed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = call()
        return Verdict(ACCEPTED), value
    except DualflError as error:
        return Verdict(REFUSED, str(error)[:300]), None
    except allowed as error:
        return Verdict(REFUSED, f"{type(error).__name__}: {error}"[:300]), None
    except Exception as error:
        return Verdict("traceback", told(error)), None


def told(error: BaseException) -> str:
    """The error and where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "dualfl" in frame.filename] or list(frames)
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {place}: {str(error)[:200]}"


class Keepsakes:
    """Files that are not dualfl's: whatever happens, they must be there afterwards as they were."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.before = folder, _digests(folder)

    def lost(self) -> str:
        now = _digests(self.folder)
        gone = [name for name, digest in self.before.items() if now.get(name) != digest]
        return f"{gone[0]} was lost or changed" if gone else ""


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def half_written(folder: Path) -> str:
    """A sentence about the first thing below the folder that is not whole; empty if all is."""
    for path in [folder, *folder.rglob("*")]:
        if path != folder and PASSING.fullmatch(path.name):
            return f"{path.relative_to(folder)} was left behind"
        if path.is_dir() and not path.is_symlink():
            names = {each.name for each in path.iterdir()}
            if names & set(PARTS) and not names & set(RECORDS):
                return f"{path.relative_to(folder)} has {', '.join(sorted(names & set(PARTS)))} and no record"
    return ""
