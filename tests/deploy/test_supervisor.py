"""Services of small dummies: what ends or hangs is started again, nobody outlives his parent, one service a folder."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from dualfl.cli import main
from dualfl.deploy import service, supervisor
from dualfl.deploy.logbook import Logbook
from dualfl.errors import InputError

CHILD = """
import sys, time
from pathlib import Path
from dualfl.federation.flower import lifeline
lifeline.hold()
here = Path(sys.argv[1])
(here / "starts").open("a").write("x")
while not (here / "hang").exists():
    (here / "alive").touch()
    time.sleep(0.02)
(here / "hang").unlink()
time.sleep(600)
"""

SERVICE = """
import sys, time
from pathlib import Path
from test_supervisor import supervised
from dualfl.deploy.service import as_service
here = Path(sys.argv[1])

def serve(say):
    with supervised(here, say) as one:
        while True:
            time.sleep(0.02)
            one.look()

sys.exit(as_service(here, serve))
"""


@contextlib.contextmanager
def supervised(here: Path, say, limit: float = 0.5):
    alive = here / "alive"
    part = supervisor.Part(
        "The dummy",
        lambda: [sys.executable, "-c", CHILD, str(here)],
        here / "logs" / "dummy.log",
        dict(os.environ),
        ask=lambda: (service.age(alive) or 0.0) < 0.4,
        limit=limit,
    )
    supervisor.FIRST = part._pause = 0.05
    with service.alone_in(here, "dummy", say) as record:
        one = supervisor.Supervisor({"dummy": part}, record, say)
        try:
            one.start()
            yield one
        finally:
            one.stop()


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def starts(here):
    path = here / "starts"
    return len(path.read_text()) if path.exists() else 0


def gone(pid):
    return service.identity(pid) is None


@pytest.fixture
def start(tmp_path):
    """A service in a process of its own."""
    begun = []

    def begin():
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SERVICE), str(tmp_path)], env=env, stderr=subprocess.DEVNULL
        )
        begun.append(process)
        before = starts(tmp_path)
        until(lambda: starts(tmp_path) > before or process.poll() is not None)
        return process

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.wait()


def child_of(here) -> int:
    return service.read_record(here)["parts"]["dummy"]["pid"]


def test_what_is_killed_is_started_again_and_it_is_said(tmp_path):
    said = []
    with supervised(tmp_path, said.append) as one:
        until(lambda: starts(tmp_path) == 1)
        first = child_of(tmp_path)
        os.kill(first, signal.SIGKILL)
        until(lambda: one.look() or starts(tmp_path) == 2)
        assert (
            child_of(tmp_path) != first
            and "was ended by SIGKILL, as the kernel does" in said[0]
            and "started again" in said[0]
        )
    assert gone(child_of(tmp_path) if service.read_record(tmp_path) else first)


@pytest.mark.parametrize("how", ["stopped", "hangs"])
def test_what_hangs_is_ended_and_started_again_and_it_is_said(how, tmp_path):
    said = []
    with supervised(tmp_path, said.append) as one:
        until(lambda: (tmp_path / "alive").exists())
        first = child_of(tmp_path)
        if how == "stopped":
            os.kill(first, signal.SIGSTOP)
        else:
            (tmp_path / "hang").touch()
        until(lambda: one.look() or starts(tmp_path) == 2)
        assert gone(first) and "no sign of life" in said[0]


def test_a_part_that_ends_at_once_is_started_ever_more_seldom(tmp_path):
    part = supervisor.Part("It", lambda: [sys.executable, "-c", ""], tmp_path / "log", dict(os.environ))
    part._pause = 0.01
    one = supervisor.Supervisor({"it": part}, service.Record(tmp_path, "dummy"), lambda sentence: None)
    one.start()
    until(lambda: one.look() or part.restarts == 3)
    assert part._pause >= 0.04
    one.stop()


def test_kill_9_of_a_service_takes_its_children_along(start, tmp_path):
    one = start()
    child = child_of(tmp_path)
    one.kill()
    one.wait()
    until(lambda: gone(child))


def test_a_second_service_in_the_folder_is_refused_and_names_the_first(start, tmp_path):
    one = start()
    refused = InputError, f"served already, by process {one.pid}.*deploy stop"
    with pytest.raises(refused[0], match=refused[1]), service.alone_in(tmp_path, "dummy", print):
        pass


def test_after_kill_9_the_next_start_cleans_up_and_goes_on(start, tmp_path):
    """On a system where the kernel does not end children with their parent."""
    loose = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    dead = {"pid": 2**22 - 3, "identity": "long ago"}
    parts = {"dummy": service.noted(loose.pid), "other": service.noted(os.getpid()) | {"identity": "another's number"}}
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "service.json").write_text(json.dumps({"service": dead, "parts": parts}))
    said = []
    with service.alone_in(tmp_path, "dummy", said.append):
        assert loose.wait(5) == -signal.SIGKILL
    assert f"left dummy running (process {loose.pid}); it was ended" in said[0] and "cut off" in said[1]
    assert len(said) == 2  # nothing else was ended: this process has the number of the other, and lives


def test_a_copy_of_a_folder_that_is_served_ends_nothing_of_the_other(start, tmp_path):
    """By cp -a, say, for a backup that somebody then looks at, starts or stops."""
    one, copy, said = start(), tmp_path.with_name(f"{tmp_path.name}-copy"), []
    child = child_of(tmp_path)
    shutil.copytree(tmp_path, copy)
    assert service.running(copy) is None and service.stop(copy) is None
    with service.alone_in(copy, "dummy", said.append):
        pass
    assert not said and not gone(child) and one.poll() is None and service.running(tmp_path) == one.pid


def test_a_sign_of_life_with_a_time_in_the_future_is_old(tmp_path):
    """The clock was a day ahead when it was given, and was set right since."""
    service.touch(tmp_path / "alive")
    assert service.age(tmp_path / "alive") < 60
    os.utime(tmp_path / "alive", (time.time() + 86_400,) * 2)
    assert service.age(tmp_path / "alive") > 86_000


def test_a_service_that_finds_its_disk_full_says_so_and_is_tried_again(tmp_path, capsys):
    def serve(say):
        raise OSError(errno.ENOSPC, "No space left on device", "state.db")

    assert service.as_service(tmp_path, serve) == 1
    assert "The disk is full (state.db: No space left on device); make room" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file that is always full is Linux's")
def test_a_log_on_a_full_disk_is_no_traceback(tmp_path, capsys):
    (tmp_path / "service.log").symlink_to("/dev/full")
    book = Logbook(tmp_path / "service.log")
    book.say("x")
    book.close()
    said = capsys.readouterr().err
    assert said.startswith("x") and "Traceback" not in said


def test_what_a_service_says_fits_a_terminal_and_is_one_line_in_a_log(tmp_path, capsys, monkeypatch):
    sentence = "The SuperLink was ended by SIGKILL; see study/logs/superlink.log. It is started again in 1 s. " * 2
    book = Logbook(tmp_path / "service.log")
    book.say(sentence.strip())
    assert capsys.readouterr().err == f"{sentence.strip()}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    book.say(sentence.strip())
    book.close()
    said = capsys.readouterr().err
    assert max(map(len, said.splitlines())) <= 80 and said.split() == sentence.split()
    logged = (tmp_path / "service.log").read_text().splitlines()
    assert [json.loads(line)["says"] for line in logged] == [sentence.strip()] * 2


def test_a_record_that_was_lost_is_written_again(start, tmp_path):
    """Or was never written: the disk was full. Without it nobody could tell that the folder is served, nor stop it."""
    one = start()
    (tmp_path / "service" / "service.json").unlink()
    until(lambda: service.running(tmp_path) == one.pid)


def test_stop_ends_a_service_and_says_so(start, tmp_path):
    one = start()
    child = child_of(tmp_path)
    done = CliRunner().invoke(main, ["deploy", "stop", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0 and f"process {one.pid}" in done.output, done.output
    assert one.wait(5) == 0 and gone(child) and service.running(tmp_path) is None
    again = CliRunner().invoke(main, ["deploy", "stop", str(tmp_path)], catch_exceptions=False)
    assert "No service runs" in again.output and again.exit_code == 0


def test_stop_ends_one_that_does_not_listen(start, tmp_path):
    one = start()
    child = child_of(tmp_path)
    os.kill(one.pid, signal.SIGSTOP)
    with contextlib.suppress(ProcessLookupError):
        assert service.stop(tmp_path, seconds=5.0) == one.pid
    until(lambda: gone(child) and one.poll() is not None)


def test_logs_are_rotated_without_losing_the_writer(tmp_path):
    log = tmp_path / "log"
    with open(log, "ab") as writer:
        for turn in range(4):
            writer.write(b"%d" % turn * 100)
            writer.flush()
            supervisor.rotate(log, largest=50, kept=2)
        writer.write(b"end")
        writer.flush()
    assert log.read_bytes() == b"end"
    assert (tmp_path / "log.1").read_bytes() == b"3" * 100 and (tmp_path / "log.2").read_bytes() == b"2" * 100
    assert not (tmp_path / "log.3").exists()


def test_a_service_says_sentences_and_lines_of_json(tmp_path, capsys):
    book = Logbook(tmp_path / "logs" / "service.log", largest=300)
    for turn in range(9):
        book.say(f"Sentence {turn}.")
    book.close()
    assert capsys.readouterr().err.splitlines()[0] == "Sentence 0."
    assert json.loads((tmp_path / "logs" / "service.log").read_text().splitlines()[-1])["says"] == "Sentence 8."
    assert (tmp_path / "logs" / "service.log.1").exists()
