"""Folders of a coordinator and of silos: keys stay where they are made, mistakes are sentences, nothing half-done."""

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

from dualfl.cli import main
from dualfl.deploy import keys
from dualfl.deploy.project import Project


def run(*words, code=0):
    done = CliRunner().invoke(main, ["deploy", *map(str, words)], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def made(tmp_path):
    """A project of three and its silos, joined."""
    data = csv_homes(tmp_path / "data")
    run("init", tmp_path / "project", "--silos", "a,b,c", "--host", "example.org")
    for home in data:
        join(tmp_path, home.name, home / "data.csv")
    return tmp_path


def join(folder, name, data, *more, code=0):
    ca = folder / "project" / "for-silos" / "ca.crt"
    words = ["--name", name, "--coordinator", "example.org:9443", "--data", data, "--target", "sick", "--ca", ca]
    return run("join", folder / f"silo-{name}", *words, *more, code=code)


def test_help_reads_well_at_80_columns():
    for words in ([], ["try"], ["init"], ["admit"], ["start"], ["status"], ["run"], ["join"], ["trust"], ["serve"]):
        text = run(*words, "--help").stdout
        assert max(map(len, text.splitlines())) <= 80


def test_a_project_has_a_page_for_each_role_and_its_private_keys_are_private(made):
    project = made / "project"
    assert {"COORDINATOR.md", "start.sh", "dualfl-coordinator.service", "for-silos"} <= {
        p.name for p in project.iterdir()
    }
    assert {p.name for p in (project / "for-silos").iterdir()} == {"ca.crt", "SILO.md"}
    assert "Restart=always" in (project / "dualfl-coordinator.service").read_text()
    private = [*project.rglob("*.key"), *made.glob("silo-*/key")]
    assert len(private) == 5
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private)
    for path in project.rglob("*"):  # nothing of a silo's private key is here
        if path.is_file():
            assert b"OPENSSH PRIVATE" not in path.read_bytes()


def test_the_certificate_is_for_the_host_and_no_authority(made):
    from cryptography import x509

    leaf = x509.load_pem_x509_certificate((made / "project" / "certificates" / "server.pem").read_bytes())
    root = x509.load_pem_x509_certificate((made / "project" / "certificates" / "ca.crt").read_bytes())
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "example.org"]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_cards_make_a_roster_that_silos_trust(made):
    cards = [made / f"silo-{name}" / "card.txt" for name in "abc"]
    text = run("admit", made / "project", *cards[:2]).stdout
    assert "Still missing: c" in text
    text = run("admit", made / "project", *cards).stdout
    assert keys.fingerprint((made / "silo-c" / "key.pub").read_text()) in text
    text = run("trust", made / "silo-a", made / "project" / "for-silos" / "roster.json").stdout
    assert text.count("SHA256:") == 3
    assert json.loads((made / "silo-a" / "roster.json").read_text()) == Project(made / "project").roster


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["init", "p", "--silos", "a,b", "--host", "h"], "hides a silo among at least 3"),
        (["init", "p", "--silos", "a,b,a", "--host", "h"], "Two silos are called 'a'"),
        (["init", "p", "--silos", "a,B,c", "--host", "h"], "small letters"),
        (["init", "p", "--silos", "a,b,c", "--host", "h", "--port", "99999"], "between 1 and 65535"),
        (["init", "p", "--silos", "a,b,c", "--host", "h", "--port", "9340"], "cannot both listen on port 9340"),
        (["run", "nowhere"], "is no project"),
        (["status", "nowhere"], "is no project"),
        (["serve", "nowhere"], "is no silo's folder"),
        (["join", "s", "--name", "a", "--coordinator", "h:1", "--data", "x.csv"], "Give --ca"),
        (["join", "s", "--name", "a", "--coordinator", "h", "--data", "x", "--insecure"], "HOST:PORT"),
        (["join", "s", "--name", "a", "--coordinator", "h:1", "--data", "x.csv", "--insecure"], "no data file"),
        (["try", "--silos", "1"], "at least 2 silos"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*words, code=2)
    assert sentence in done.stderr and len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_mistakes_with_keys_are_one_line(made, tmp_path):
    assert "is there already" in join(made, "a", made / "data" / "a" / "data.csv", code=2).stderr
    card = (made / "silo-a" / "card.txt").read_text()
    for text, sentence in [
        ("z" + card[1:], "There is no silo 'z'"),
        ("b" + card[1:], "another silo's key"),
        ("b ssh-rsa AAAA", "is not one that `dualfl deploy join` made"),
    ]:
        run("admit", made / "project", made / "silo-a" / "card.txt")
        (made / "bad.txt").write_text(text)
        assert sentence in run("admit", made / "project", made / "bad.txt", code=2).stderr
    other = made / "silo-b" / "card.txt"
    (made / "new.txt").write_text("a" + other.read_text()[1:])
    assert "on the roster with another key" in run("admit", made / "project", made / "new.txt", code=2).stderr
    forged = {"a": (made / "silo-b" / "key.pub").read_text()}
    (made / "roster.json").write_text(json.dumps(forged))
    assert "do not trust it" in run("trust", made / "silo-a", made / "roster.json", code=2).stderr
    assert "has not been admitted" in run("run", made / "project", code=2).stderr


def test_a_setting_that_nobody_knows_is_named(made):
    path = made / "project" / "project.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rigde": 1}))
    assert "There is no setting 'rigde'; did you mean ridge?" in run("run", made / "project", code=2).stderr


def test_without_flower_the_command_says_what_to_install(monkeypatch, tmp_path):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'dualfl[flower]'" in run("try", code=2).stderr
