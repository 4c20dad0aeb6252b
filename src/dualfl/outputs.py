"""Where results go: a place that is fit for them, one writer at a time, and folders that are whole or not there.

A folder is written beside its place, under a passing name, and then moved there. What a process that was killed left
under such a name is cleared away by the next one that writes to the same place; it has the lock, so nobody else does.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from dualfl.errors import InputError

BEFORE = "before"  # what a folder was, while its successor takes its place


def resolved(path: Path) -> Path:
    """The path without links and `..`; links that point at each other are an error of the user's, not a crash."""
    real = Path(os.path.realpath(path))
    try:
        real.lstat()
        real.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise InputError(f"{path} cannot be used ({error.strerror}); give another path.") from error
    return real


def check_file(out: Path | None, force: bool = False) -> None:
    """Make sure, before anything is computed, that one file of results can be put here."""
    if out is None:
        return
    place = resolved(out)
    if place.is_dir():
        raise InputError(f"{out} is a folder, and --out must be a file; give a name in it.")
    if place.exists() and not place.is_file():
        raise InputError(f"{out} is a device or a pipe, and --out must be a file; give another name.")
    if place.exists() and not force:
        raise InputError(f"{out} exists already; give another --out, or --force to replace it.")
    _check_within(place.parent)


def check_folder(out: Path, replaced: bool = False) -> None:
    """Make sure that a folder of results can be put here; `replaced`: by moving it there, whatever it was."""
    place = resolved(out)
    if place.exists() and not place.is_dir():
        raise InputError(f"{out} is a file, and results need a folder; give another --out.")
    if place in (Path(place.anchor), resolved(Path.home())):
        raise InputError(f"{out} holds other things and is not a folder of results; give --out a folder in it.")
    _check_within(place if place.exists() and not replaced else place.parent)


def _check_within(folder: Path) -> None:
    """That files can be made in the folder, or in the nearest one that is there."""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise InputError(f"{there} is a file, and results need a folder; give another --out.")
    try:
        tempfile.TemporaryFile(dir=there).close()  # a file without a name; permissions alone do not tell
    except OSError as error:
        raise InputError(f"The folder {there} cannot be written to ({error.strerror}); give another --out.") from error


@contextlib.contextmanager
def alone(out: Path, *, wait: float = 0.0, cleared: bool = True) -> Iterator[None]:
    """Nobody else writes to `out`, a file or a folder, in the meantime; whoever does already is waited for so long.

    The lock is a hidden file beside it. It is removed in the end, so it is held only by who still finds it there.
    """
    place = resolved(out)
    beside = not place.is_dir() or os.access(place.parent, os.W_OK)
    path = place.parent / f".{place.name}.lock" if beside else place / ".lock"
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        _acquire(lock, path, out, wait)
        try:
            if cleared:
                clear(place)
            yield
        finally:
            with contextlib.suppress(OSError):  # on Windows, which removes nothing that is open
                path.unlink()
            lock.release()
    finally:
        for folder in made:  # those that were made for the lock and have nothing in them
            with contextlib.suppress(OSError):
                folder.rmdir()


def _acquire(lock: FileLock, path: Path, out: Path, wait: float) -> None:
    while True:
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise InputError(
                f"Another process is writing to {out}; wait until it has ended, or give another place."
            ) from None
        held = lock._context.lock_file_fd
        with contextlib.suppress(FileNotFoundError):
            if held is None or os.path.samestat(os.fstat(held), path.stat()):
                return
        lock.release()  # somebody removed the file between its opening and its locking: it guards nothing now


def passing(place: Path) -> Path:
    """A name beside `place` that `clear` will know."""
    return place.parent / f".{place.name}.{secrets.token_hex(6)}"


def clear(place: Path) -> None:
    """Remove what writers that were killed left at and in `place`; what was about to be replaced comes back."""
    for left in _left_of(place.parent, re.escape(place.name)):
        if (left / BEFORE).exists() and not place.exists():
            os.replace(left / BEFORE, place)
        _remove(left)
    if place.is_dir():
        for left in _left_of(place, ".+"):
            _remove(left)


def _left_of(folder: Path, name: str) -> list[Path]:
    pattern = re.compile(rf"\.{name}\.[0-9a-f]{{12}}")
    return [path for path in folder.iterdir() if pattern.fullmatch(path.name)]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A folder to write into; it takes the place of `out` if all goes well. The caller has the lock."""
    out = resolved(out)  # before anything is moved, after which `..` may mean another folder
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = passing(out)
    folder = aside / out.name  # under its own name, which a page shows
    try:
        folder.mkdir(parents=True)
        yield folder
        if out.exists():
            os.replace(out, aside / BEFORE)
        os.replace(folder, out)
    finally:
        if (aside / BEFORE).exists() and not out.exists():
            os.replace(aside / BEFORE, out)
        shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def adding(out: Path, record: str, ours: Collection[str]) -> Iterator[Path]:
    """A folder to write into; its files appear in `out`, which may hold others, if all goes well.

    Of the names `ours` only those remain that were written. `record` goes first and comes last: a folder that has it
    is whole. The caller has the lock.
    """
    out = resolved(out)
    if not out.exists() or not any(out.iterdir()):
        with replacing(out) as folder:
            yield folder
        return
    aside = out / f".{out.name}.{secrets.token_hex(6)}"  # within it: its parent may be another disk
    folder = aside / out.name
    try:
        folder.mkdir(parents=True)
        yield folder
        written = sorted((path.name for path in folder.iterdir()), key=lambda name: name == record)
        (out / record).unlink(missing_ok=True)
        for name in set(ours) - set(written):
            (out / name).unlink(missing_ok=True)
        for name in written:
            os.replace(folder / name, out / name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
