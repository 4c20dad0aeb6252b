"""The process that bears runs: what it bears dies with it, and who orders from one that hangs ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely after imports")

SCENE = """
import os, sys, time
from dualfl.deploy import nursery

nursery.IMPORTED, nursery.PATIENCE = (), float(sys.argv[1])

def live(order, pid):
    os.write(1, f"{order['word']} {os.getpid()} {pid}\\n".encode())
    nursery.lifeline.os.environ[nursery.lifeline.PARENT] = str(pid)
    nursery.lifeline.hold()
    time.sleep(0 if order["word"] == "short" else 60)
    os._exit(0)

nursery.live = live
one = nursery.Nursery()
for word in sys.stdin:
    one.order(word=word.strip())
    os.write(1, b"born\\n")
"""


@pytest.fixture
def scene():
    made = []

    def start(patience="30"):
        command = [sys.executable, "-c", SCENE, patience]
        made.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1))
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()


def order(process, word):
    process.stdin.write(word + "\n")
    lines = sorted((process.stdout.readline().split() for _ in range(2)), key=len)
    assert lines[0] == ["born"] and lines[1][0] == word
    return int(lines[1][1]), int(lines[1][2])


def gone(pid, buried=False, seconds=60.0):
    """Whether it ends, and, if it must be, is buried: not even a zombie is left."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX" and not buried:
            return True
        time.sleep(0.02)
    return False


def test_every_order_is_a_process_of_its_own_and_none_is_left_behind(scene):
    process = scene()
    (first, nursery), (second, same) = order(process, "short"), order(process, "long")
    assert nursery == same and len({first, second, nursery, process.pid}) == 4
    assert gone(first, buried=True)
    process.kill()
    assert gone(nursery) and gone(second)


def test_a_nursery_that_is_killed_takes_all_with_it(scene):
    process = scene()
    born, nursery = order(process, "long")
    os.kill(nursery, signal.SIGKILL)
    assert process.wait(60) == 1 and gone(born)


def test_who_orders_from_a_nursery_that_hangs_ends(scene):
    process = scene("0.5")
    _, nursery = order(process, "short")
    os.kill(nursery, signal.SIGSTOP)
    process.stdin.write("short\n")
    assert process.wait(60) == 1 and gone(nursery)
