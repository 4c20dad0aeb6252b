"""Where results go: one writer at a time, whole folders, and nothing left behind by those that were killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dualfl.errors import InputError
from dualfl.outputs import BEFORE, adding, alone, check_file, check_folder, replacing, resolved


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_second_writer_is_refused_and_the_lock_leaves_nothing(tmp_path):
    out = tmp_path / "new" / "deep" / "out"
    with alone(out):
        with pytest.raises(InputError, match=r"Another process is writing to .*out; wait until"), alone(out):
            pass
        assert names(out.parent) == [".out.lock"]
    assert names(tmp_path) == []  # neither the lock nor the folders that were made for it
    with alone(out):
        pass


HOLD = """
import sys, time
from pathlib import Path
from dualfl.outputs import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_killed_process_holds_no_lock(tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="Another process is writing"), alone(out):
            pass
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with alone(out):
        pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("with_lock", [True, False])
def test_a_lock_excludes_every_other_process(tmp_path, with_lock):
    """Many processes read a number, wait and write it back; without the lock, numbers are lost."""
    count, each, processes = tmp_path / "count", 15, 4
    count.write_text("0")
    guard = "alone(Path(sys.argv[1]), wait=60)" if with_lock else "nullcontext()"
    work = f"""
import sys, time
from contextlib import nullcontext
from pathlib import Path
from dualfl.outputs import alone
for _ in range({each}):
    with {guard}:
        path = Path(sys.argv[1]); n = int(path.read_text() or 0); time.sleep(0.002); path.write_text(str(n + 1))
"""
    started = [subprocess.Popen([sys.executable, "-c", work, str(count)]) for _ in range(processes)]
    assert [process.wait() for process in started] == [0] * processes
    assert (int(count.read_text()) == each * processes) == with_lock
    assert names(tmp_path) == ["count"]


def test_what_killed_writers_left_is_cleared_away(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    (out / ".history.csv.0123456789ab").write_text("half a file")
    (tmp_path / ".out.0123456789ab" / "out").mkdir(parents=True)
    (tmp_path / ".outer.0123456789ab").mkdir()  # of another folder
    with alone(out):
        assert names(tmp_path) == [".out.lock", ".outer.0123456789ab", "out"]
    assert names(out) == ["mine.txt"]


def test_a_folder_that_was_being_replaced_comes_back(tmp_path):
    """The process died after it had moved the old folder aside, and before it had moved the new one there."""
    aside = tmp_path / ".out.0123456789ab"
    (aside / BEFORE).mkdir(parents=True)
    (aside / BEFORE / "model.json").write_text("old")
    (aside / "out").mkdir()
    with alone(tmp_path / "out"):
        pass
    assert names(tmp_path) == ["out"] and (tmp_path / "out" / "model.json").read_text() == "old"


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    out = tmp_path / "out"
    with replacing(out) as folder:
        (folder / "a").write_text("1")
    with contextlib.suppress(RuntimeError), replacing(out) as folder:
        (folder / "a").write_text("2")
        raise RuntimeError
    assert names(tmp_path) == ["out"] and (out / "a").read_text() == "1"


def test_files_are_added_with_the_record_last(tmp_path, monkeypatch):
    """Whenever it stops, a folder with a record is that of one run, whole."""
    out, ours = tmp_path / "out", ("history", "model", "record", "page")

    def write(text, page=False):
        with adding(out, "record", ours) as folder:
            for name in ("record", "history", "model", *(["page"] if page else [])):
                (folder / name).write_text(text)

    write("1", page=True)
    (out / "mine").write_text("mine")
    moves, real = [], os.replace
    for stop in range(1, 4):
        moves.clear()

        def fail(a, b, stop=stop):
            if len(moves) == stop - 1:
                raise OSError(5, "the disk is gone")
            moves.append(Path(b).name)
            real(a, b)

        monkeypatch.setattr("dualfl.outputs.os.replace", fail)
        with pytest.raises(OSError, match="gone"):
            write("2")
        monkeypatch.undo()
        assert "record" not in names(out) and "mine" in names(out)
        assert not [name for name in names(out) if name.startswith(".")]
    write("3")
    assert names(out) == ["history", "mine", "model", "record"]  # the page of before is not of this run
    assert {(out / name).read_text() for name in ("history", "model", "record")} == {"3"}


def test_places_that_are_none(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for out, said in (
        (Path("/"), "holds other things and is not a folder of results"),
        (Path.home(), "holds other things and is not a folder of results"),
        (tmp_path / "file", "is a file, and results need a folder"),
        (tmp_path / "file" / "deeper", "is a file, and results need a folder"),
        (tmp_path / "a", "cannot be used"),
        (tmp_path / "a" / "deeper", "cannot be used|is a file"),
        (Path("/proc/none"), "cannot be written to"),
        (Path("/dev/null"), "is a file"),
    ):
        with pytest.raises(InputError, match=said):
            check_folder(out)
    for out, said in (
        (tmp_path, "is a folder, and --out must be a file"),
        (Path("/dev/zero"), "is a device"),
        (tmp_path / "file", "exists already"),
        (tmp_path / "file" / "x", "is a file"),
        (tmp_path / "a", "cannot be used"),
        (Path("/proc/none"), "cannot be written to"),
    ):
        with pytest.raises(InputError, match=said):
            check_file(out)
    check_file(None)
    check_file(tmp_path / "file", force=True)
    check_folder(tmp_path / "new" / "deep")
    assert resolved(tmp_path / "new" / ".." / "file") == resolved(tmp_path / "file")


RUN = ["run", "--dataset", "iris", "--clients", "3", "--no-reference", "--no-report", "--checkpoint-every", "1"]


def dualfl(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "dualfl", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_two_runs_on_one_folder(tmp_path):
    """One of them has it, the other says so; the files are of one run."""
    out = tmp_path / "out"
    first = dualfl(*RUN, "--rounds", "100000", "--out", out)
    try:
        while not (out / "checkpoint.npz").exists():
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        second = dualfl(*RUN, "--rounds", "3", "--force", "--out", out)
        _, said = second.communicate(timeout=60)
        assert second.returncode == 2 and said.startswith("Error: Another process is writing to"), said
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
    assert first.returncode == 130
    assert names(out) == [
        "checkpoint.npz",
        "checkpoint.npz.rows",
        "convergence.png",
        "history.csv",
        "model.npz",
        "partition.json",
        "run.json",
    ]
    assert names(tmp_path) == ["out"]
