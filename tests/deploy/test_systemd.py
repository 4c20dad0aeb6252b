"""The units, started by systemd itself: as process 1 of namespaces of its own, with nothing but them to start.

Needs root, and a kernel that lets it mount. The services run as the user `nobody`, as the page asks for a user of their
own. Nothing of the machine is changed: what systemd could write to is mounted over, and it ends with the test.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("cryptography", "flower")
need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from real import Real

SYSTEMD = Path("/lib/systemd/systemd")
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not SYSTEMD.exists() or not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs systemd"),
]
NOBODY = 65534
TARGETS = ("sysinit", "basic", "network-online", "shutdown", "multi-user")
BOOT = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
for path in $SEEN; do mkdir -p /run/seen$path; mount --rbind $path /run/seen$path; done
test -z "$SEEN" || mount -t tmpfs -o mode=755 tmpfs /root  # where nobody may look
for path in $SEEN; do mkdir -p $path; mount --rbind /run/seen$path $path; done
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /usr/lib/systemd/system
mount -t tmpfs tmpfs /etc/systemd/system
cp "$UNITS"/* /etc/systemd/system/
exec env -i container=other PATH=/usr/bin:/bin:/usr/sbin:/sbin /lib/systemd/systemd --system \
    --unit=multi-user.target --log-target=console --show-status=false
"""


class Machine:
    """A system that starts three services."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.units = folder, folder / "units"
        self.real = Real(folder / "real")
        self.units.mkdir()
        for name in TARGETS:
            wanted = "Wants=coordinator.service alpha.service beta.service\n" if name == "multi-user" else ""
            (self.units / f"{name}.target").write_text(f"[Unit]\nDescription={name}\nAllowIsolate=yes\n{wanted}")
        for name, kind in (("coordinator", "coordinator"), ("alpha", "silo"), ("beta", "silo")):
            unit = (folder / "real" / name / f"dualfl-{kind}.service").read_text()
            assert "#User=dualfl" in unit  # root made the folder, and is told to name somebody
            (self.units / f"{name}.service").write_text(unit.replace("#User=dualfl", "User=nobody"))
        for place, _, files in os.walk(folder / "real"):
            for path in (place, *(os.path.join(place, file) for file in files)):
                os.chown(path, NOBODY, NOBODY)
        seen = {str(Path(path).resolve()) for path in (sys.base_prefix, sys.prefix, Path(__file__).parents[2])}
        env = os.environ | {"UNITS": str(self.units), "SEEN": " ".join(p for p in seen if p.startswith("/root/"))}
        self.log = open(folder / "systemd.log", "wb")  # noqa: SIM115 (closed with the machine)
        command = ["unshare", "-m", "-p", "-f", "-u", "-i", "-C", "--kill-child", "sh", "-c", BOOT]
        self.process = subprocess.Popen(command, env=env, stdout=self.log, stderr=self.log, start_new_session=True)
        self.pid = None

    def inside(self, *words, **options):
        command = ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, **options)

    def shown(self, unit: str, what: str) -> str:
        return self.inside("systemctl", "show", "-P", what, f"{unit}.service").stdout.strip()

    def said(self, name: str) -> dict:
        path = self.folder / "real" / name / "service" / "said.json"
        return json.loads(path.read_text()) if path.exists() else {"state": "", "pid": 0}

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)  # of unshare, which takes process 1, and so everything, with it
        self.process.wait()
        self.log.close()


def until(true, seconds=180.0, why=lambda: ""):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, why()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def machine():
    folder = Path(tempfile.mkdtemp(prefix="dualfl-systemd-", dir="/var/lib"))  # units have a /tmp of their own
    folder.chmod(0o755)
    made = Machine(folder)

    def booted():
        found = subprocess.run(["pgrep", "-P", str(made.process.pid)], capture_output=True, text=True).stdout.split()
        made.pid = int(found[0]) if found else None
        return made.pid and made.shown("coordinator", "ActiveState") == "active"

    try:
        until(booted, 60.0, lambda: (folder / "systemd.log").read_text())
        until(
            lambda: {made.said(name)["state"] for name in ("alpha", "beta")} == {"connected"},
            600.0,  # as test_real_service.py has it: all programs load their libraries at once
            lambda: made.said("alpha"),
        )
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def test_systemd_has_started_all_services_as_nobody_and_they_have_met(machine):
    for unit in ("coordinator", "alpha", "beta"):
        assert machine.shown(unit, "ActiveState") == "active" and machine.shown(unit, "NRestarts") == "0"
        pid = machine.shown(unit, "MainPID")
        status = machine.inside("cat", f"/proc/{pid}/status").stdout
        assert f"Uid:\t{NOBODY}\t{NOBODY}" in status and "NoNewPrivs:\t1" in status


def test_a_service_writes_to_its_folder_and_to_nothing_else(machine):
    pid = machine.shown("alpha", "MainPID")
    home = machine.folder / "real" / "alpha"
    for place, allowed in ((home, True), (home.parent / "beta", False), ("/var/lib", False), ("/etc", False)):
        tried = machine.inside("nsenter", "-t", pid, "-m", "sh", "-c", f"echo > '{place}/tried' && rm '{place}/tried'")
        assert (tried.returncode == 0) == allowed, (place, tried.stderr)


def test_what_is_killed_is_started_again_and_what_is_stopped_stays_stopped(machine):
    before = machine.said("alpha")["pid"]
    assert machine.inside("systemctl", "kill", "-s", "KILL", "alpha.service").returncode == 0
    until(lambda: machine.said("alpha")["pid"] != before and machine.said("alpha")["state"] == "connected", 90.0)
    assert machine.shown("alpha", "NRestarts") == "1"
    assert machine.inside("systemctl", "stop", "beta.service").returncode == 0
    assert (machine.shown("beta", "ActiveState"), machine.shown("beta", "Result")) == ("inactive", "success")
    assert not (machine.folder / "real" / "beta" / "service" / "node.json").exists()  # it has logged out
    assert machine.inside("systemctl", "start", "beta.service").returncode == 0


def test_a_run_over_services_of_systemd(machine):
    study = machine.folder / "real" / "coordinator"
    who = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    words = ["deploy", "run", str(study), "--algorithm", "dualfl", "--rounds", "3", "--name", "three"]
    done = machine.inside(*who, sys.executable, "-m", "dualfl", *words, env=os.environ | {"HOME": str(study)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert (study / "runs" / "three" / "model.npz").exists()
