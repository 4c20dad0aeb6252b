"""The image, started: by the compose files as they are, with an analysis over three silos (`container_walk.py`)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WALK = Path(__file__).with_name("container_walk.py")
IMAGE = os.environ.get("DUALFL_IMAGE", "localhost/dualfl")
APART = """
set -e
ip link set lo up
ip link add outside type bridge
ip addr add 10.77.0.1/24 dev outside
ip link set outside up
ip route add default dev outside
if ! test -e /sys/fs/cgroup/cgroup.controllers; then
    umount -R /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
exec "$@"
"""  # a network of its own, of which nothing stays, and control groups of one version, which podman wants


def has_image() -> bool:
    if shutil.which("podman") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    return subprocess.run(["podman", "image", "exists", IMAGE], capture_output=True).returncode == 0


@pytest.mark.faults
@pytest.mark.skipif(not has_image(), reason=f"needs root, podman and the image {IMAGE} (containers/Dockerfile)")
def test_coordinator_and_silos_of_the_image_fit_together(tmp_path):
    pytest.importorskip("podman_compose")
    command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", APART, "sh"]
    done = subprocess.run([*command, sys.executable, str(WALK), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fitted in" in done.stdout
