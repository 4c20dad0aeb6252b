"""Units for systemd, container files, other systems: what this machine cannot run is linted at least."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("cryptography", "flower")
need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.deploy import pages
from dualfl.deploy.project import ProjectSettings, init
from dualfl.errors import InputError
from dualfl.federation.flower import runtime

CONTAINERS = Path(__file__).parents[2] / "containers"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_units(tmp_path):
    for name in ("plain", "a folder, with 100% of $oddities"):
        folder = tmp_path / name
        init(folder, ProjectSettings(host="example.org", silos=("a", "b", "c")))
        unit = tmp_path / "dualfl-coordinator.service"
        unit.write_text((folder / "dualfl-coordinator.service").read_text())
        done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
        ours = [line for line in done.stderr.splitlines() if "dualfl" in line and "Failed to prepare" not in line]
        assert ours == [], done.stderr


def test_the_unit_starts_the_command_of_the_page(tmp_path):
    text = pages.unit("dualfl silo a", [sys.executable, "-m", "dualfl", "deploy", "serve", str(tmp_path)], tmp_path)
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    command = shlex.split(line.removeprefix("ExecStart="))
    assert command == [sys.executable, "-m", "dualfl", "deploy", "serve", str(tmp_path)]
    for setting in ("Restart=always", "NoNewPrivileges=true", "ProtectSystem=strict", "KillMode=mixed"):
        assert setting in text


@pytest.mark.parametrize("name", ["compose.coordinator.yaml", "compose.silo.yaml"])
def test_compose_takes_its_files_and_they_give_no_rights_away(name):
    pytest.importorskip("check_jsonschema")
    from ruamel.yaml import YAML  # comes with check-jsonschema

    path = CONTAINERS / name
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    assert subprocess.run(command, capture_output=True).returncode == 0
    ((_, service),) = YAML(typ="safe").load(path)["services"].items()
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] == "10001:10001"
    assert service["security_opt"] == ["no-new-privileges:true"] and service["restart"] == "always"


def test_the_image_runs_as_a_user_of_its_own_and_copies_what_is_there():
    lines = (CONTAINERS / "Dockerfile").read_text().splitlines()
    assert "USER 10001:10001" in lines
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for word in line.split()[1:-1]:
                assert (CONTAINERS.parent / word).exists(), word


def test_windows_is_told_to_use_the_container(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(InputError, match="use the container"):
        runtime.need_flower()


def test_loopback_is_reached_without_the_proxy_that_leads_out(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "intranet.org")
    monkeypatch.delenv("no_proxy", raising=False)
    found = runtime.without_proxy()
    assert found["NO_PROXY"] == found["no_proxy"] == "intranet.org,127.0.0.1,localhost"
    assert "NO_PROXY" not in set(runtime.environment(Path("x"))) - set(os.environ)
