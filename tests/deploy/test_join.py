"""A silo's folder is its operator's: closed to other users, and closed to plain sums unless they are allowed."""

import json
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("cryptography", "flower")
need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from loopback import csv_homes
from real import Real

from dualfl.cli import main
from dualfl.deploy import certificates, pages
from dualfl.deploy.project import ProjectSettings
from dualfl.federation.silo_folder import SiloFolder


@pytest.fixture
def ca(tmp_path):
    certificates.write_certificates(tmp_path / "certificates", "example.org")
    return tmp_path / "certificates" / "ca.crt"


def join(tmp_path, *more):
    data = csv_homes(tmp_path / "data")[0] / "data.csv"
    words = ["join", tmp_path / "silo", "--name", "a", "--coordinator", "example.org:9443", "--data", data]
    done = CliRunner().invoke(main, ["deploy", *map(str, [*words, "--target", "sick", *more])], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return tmp_path / "silo"


@pytest.mark.parametrize("there", [True, False])
def test_a_silos_folder_is_for_its_owner_alone(there, ca, tmp_path):
    if there:
        (tmp_path / "silo").mkdir(mode=0o755)
    assert stat.S_IMODE(join(tmp_path, "--ca", ca).stat().st_mode) == 0o700


@pytest.mark.parametrize(("more", "masked_only"), [([], True), (["--secure-only"], True), (["--allow-plain"], False)])
def test_with_a_certificate_plain_sums_must_be_allowed(more, masked_only, ca, tmp_path):
    assert SiloFolder(join(tmp_path, "--ca", ca, *more)).masked_only == masked_only


def test_without_tls_there_are_no_masks_to_insist_on(tmp_path):
    assert not SiloFolder(join(tmp_path, "--insecure")).masked_only


@pytest.mark.parametrize("secure", [True, False])
def test_a_trial_on_one_machine_allows_what_it_asks_for(secure, tmp_path):
    real = Real(tmp_path, silos=3, secure=secure)
    assert [SiloFolder(tmp_path / name).masked_only for name in real.names] == [secure] * 3


@pytest.mark.parametrize(("tls", "secure", "said"), [(True, False, True), (True, True, False), (False, False, False)])
def test_a_silos_page_says_when_plain_sums_must_be_allowed(tls, secure, said):
    text = pages.silo(ProjectSettings(host="h", silos=("a", "b", "c"), tls=tls, secure=secure))
    assert ("--allow-plain" in text) == said


def test_the_settings_of_a_silo_hold_no_salt(ca, tmp_path):
    """silo.json is what operators show each other when something does not work."""
    home = join(tmp_path, "--ca", ca)
    settings = json.loads((home / "silo.json").read_text())
    assert settings["allow_plain"] is False and "secure_only" not in settings and "salt" not in settings


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--coordinator", "h:99999"], "a port from 1 to 65535, but it is 'h:99999'"),
        (["--coordinator", "h:0"], "a port from 1 to 65535"),
        (["--coordinator", "h:²"], "a port from 1 to 65535"),
        (["--coordinator", "h:1", "--secure-only"], "--secure-only needs the keys that --insecure does without"),
    ],
)
def test_contradictions_are_refused(words, said, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n")
    given = ["deploy", "join", tmp_path / "silo", "--name", "a", "--data", tmp_path / "a.csv", "--target", "y"]
    done = CliRunner().invoke(main, [str(word) for word in (*given, "--insecure", *words)])
    assert done.exit_code == 2 and said in done.stderr and not (tmp_path / "silo").exists()
