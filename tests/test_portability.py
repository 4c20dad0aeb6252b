"""Other systems lack what Linux has. Everything can be imported there, and what cannot run says so in a sentence.

A program of its own plays the other system: it loads everything as it is here, forgets dualfl, takes away the modules,
the functions and the name of Linux, and loads dualfl again.
"""

import json
import subprocess
import sys
import threading
import time
from functools import cache

import pytest
from filelock import FileLock, Timeout

from dualfl.files import locked

pytestmark = pytest.mark.long  # it plays systems that old libraries would look for in earnest

ELSEWHERE = """
import contextlib, filelock, importlib, io, json, os, pathlib, pkgutil, signal, socket, socketserver, sys

def load():
    import dualfl

    for module in pkgutil.walk_packages(dualfl.__path__, "dualfl."):
        if module.name != "dualfl.__main__":
            try:
                importlib.import_module(module.name)
                yield module.name
            except ModuleNotFoundError as error:  # of an extra that is not installed, and of nothing else
                assert error.name.partition(".")[0] in ("flwr", "starlette", "httpx", "uvicorn"), error

def energy():
    import dualfl

    return dualfl.run(dualfl.make_problem("iris", clients=3), dualfl.DualFL(), rounds=3, threads=1).energy

found = {"here": [list(load()), energy()]}  # with all that others load
for name in [name for name in sys.modules if name.partition(".")[0] == "dualfl"]:
    del sys.modules[name]

if sys.argv[1] == "win32":
    for name in ("resource", "fcntl", "pwd", "grp"):
        sys.modules[name] = None
    for holder, names in {
        os: ("killpg", "fork", "register_at_fork", "getuid", "geteuid", "O_DIRECTORY", "sched_getaffinity"),
        signal: ("SIGKILL", "SIGPROF", "ITIMER_PROF", "setitimer"),
        socket: ("AF_UNIX",),
        socketserver: ("UnixStreamServer",),
    }.items():
        for name in names:
            delattr(holder, name)
sys.platform = sys.argv[1]
found["there"] = [list(load()), energy()]

from dualfl.experiments.running import _alarm
from dualfl.experiments.store import _limit_memory

_limit_memory(2**45)
with _alarm(60):
    found["alarm"] = "set or not, no error"

from dualfl.cli import main

with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
    if sys.platform == "win32":
        main(["deploy", "init", "project", "--silos", "a,b,c", "--host", "localhost"])
found["deploy"] = said.getvalue()

print(json.dumps(found))
"""


@cache
def on(system, folder):
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, system], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("elsewhere")


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_every_module_can_be_imported_and_a_run_gives_the_same_number(system, folder):
    found = on(system, folder)
    assert found["here"] == found["there"]
    modules, _ = found["there"]
    assert len(modules) > 200 and "dualfl.deploy.silo_process" in modules


def test_a_deployment_says_in_one_sentence_that_windows_cannot_carry_it(folder):
    said = on("win32", folder)["deploy"].strip()
    assert "needs Linux or macOS" in said and "Subsystem for Linux" in said
    assert len(said.splitlines()) == 1 and not (folder / "project").exists()


HOLDS = """
import sys, time
from pathlib import Path
from dualfl.files import locked
with locked(Path(sys.argv[1]), 0o600):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_keeps_other_processes_out_and_ends_with_its_own(tmp_path):
    folder = tmp_path / "new" / "folder"
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Timeout), FileLock(folder / "lock", timeout=0):
            pass
        if sys.platform != "win32":
            assert (folder / "lock").stat().st_mode & 0o777 == 0o600
    finally:
        holder.kill()
        holder.communicate()
    with locked(folder):
        pass


def test_a_lock_keeps_other_threads_out(tmp_path):
    order = []

    def second():
        with locked(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path):
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
