"""The finished cells of a folder, and the processes that run those which are missing.

A file is written as a whole or not at all. Cells run in parallel, one process a processor and one thread each.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from pathlib import Path

from dualfl.algorithms.plugins import Carried, carried, importable, load_carried
from dualfl.algorithms.registry import ALGORITHMS, algorithm_class
from dualfl.errors import InputError
from dualfl.experiments.cells import Cell, Outcome
from dualfl.experiments.running import inputs, run_cell
from dualfl.files import write_atomically

GIGABYTE = 2**30


class Store:
    """The finished cells of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, cell: Cell) -> Path:
        return self.folder / f"{cell.digest}.json"

    def get(self, cell: Cell) -> Outcome | None:
        """What came of the cell; None if it was not run, or on other data, or not for long enough, or its file is
        damaged."""
        try:
            found = Outcome.from_json(self.file(cell).read_text())
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if found.serves(cell) and found.data == inputs(cell) else None

    def put(self, outcome: Outcome) -> None:
        """Keep it, unless what is there tells as much: a run that was cut must not replace a longer one."""
        known = self.get(outcome.cell)
        if known is not None and outcome.cut:
            return
        write_atomically(self.file(outcome.cell), outcome.to_json().encode())

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in dict.fromkeys(cells) if self.get(cell) is None]

    def __getitem__(self, cell: Cell) -> Outcome:
        found = self.get(cell)
        if found is None:
            raise KeyError(cell.label)
        return found


def pack(folder: Path, archive: Path) -> None:
    """All cells of a folder as one file, to be kept; the same cells make the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for file in sorted(folder.glob("*.json")):
            zipped.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), zipfile.ZIP_DEFLATED)
    write_atomically(archive, content.getvalue())


def unpack(archive: Path, folder: Path) -> None:
    """The cells of an archive that a folder does not have; nothing where there is no archive."""
    if not archive.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                if Path(name).name == name and name.endswith(".json") and not (folder / name).exists():
                    write_atomically(folder / name, zipped.read(name))
    except (zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{archive} is damaged ({error}); delete it, and its cells are run again.") from error


Tell = Callable[[Cell, Outcome], None]


def run_all(store: Store, cells: Sequence[Cell], *, processes: int = 1, memory: float = 4.0, tell: Tell) -> None:
    """Run what the store lacks, and keep each cell as soon as it is done. `memory` is in gigabytes, a process."""
    if processes < 1:
        raise InputError(f"processes must be at least 1, but it is {processes}.")
    missing = store.missing(cells)
    if processes == 1 or len(missing) < 2:
        for cell in missing:
            outcome = run_cell(cell)
            store.put(outcome)
            tell(cell, outcome)
        return
    check_carried(missing)
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_worker, initargs=(memory, carried())
    )
    try:
        waiting = {pool.submit(_kept, store, cell) for cell in missing}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                outcome = future.result()
                tell(outcome.cell, outcome)
    except BaseException:
        _end(pool)
        raise
    pool.shutdown()


def _kept(store: Store, cell: Cell) -> Outcome:
    outcome = run_cell(cell)
    store.put(outcome)
    return outcome


def check_carried(cells: Iterable[Cell]) -> None:
    """Other processes know algorithms by name, and one that only this process can define is not there."""
    for name in {cell.algorithm for cell in cells} - set(ALGORITHMS.own):
        if not importable(algorithm_class(name)):
            raise InputError(
                f"{name} is defined where other processes do not find it; put it into a file and load that by "
                "dualfl.load_plugin or --plugin, or take processes=1."
            )


def _worker(memory: float, plugins: Carried) -> None:
    """A process for cells: Ctrl-C is its parent's affair, it ends with its parent, and it may not take all memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_memory(int(memory * GIGABYTE))
    load_carried(plugins)


def _limit_memory(limit: int) -> None:
    """Where the system lets a process limit itself, which Windows does not and macOS does in part."""
    if sys.platform != "win32":
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _end_with_parent() -> None:
    """A parent that was killed could not end its workers, and they would wait for it forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers now: what they have not finished will be run again."""
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


def processors() -> int:
    return os.cpu_count() or 1
