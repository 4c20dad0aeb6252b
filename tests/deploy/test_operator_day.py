"""The commands of an operator's day, as docs/deployment.md gives them, on real folders."""

import base64
import contextlib
import datetime
import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("cryptography", "flower")
need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
import httpx
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from loopback import csv_homes

from dualfl.cli import main
from dualfl.deploy import certificates, keys, running, study, supervisor, telling, upkeep
from dualfl.deploy.certificates import lifetimes
from dualfl.deploy.condition import condition, warnings
from dualfl.deploy.coordinator import Coordinator
from dualfl.deploy.project import Project
from dualfl.deploy.proxy import Seen, key_id
from dualfl.deploy.service import Record, noted
from dualfl.deploy.status_page import shown
from dualfl.errors import InputError
from dualfl.federation.flower import runtime
from dualfl.federation.protocol import PROTOCOL, UNDECIDED
from dualfl.federation.silo_folder import SiloFolder

SILOS = ("north", "south", "west")


def dualfl(*words, code=0, answer=None):
    done = CliRunner().invoke(main, ["deploy", *map(str, words)], catch_exceptions=False, input=answer)
    assert done.exit_code == code, done.output
    return done.output + (done.stderr if code else "")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project and its silos, admitted and trusted; tests work on copies."""
    folder = tmp_path_factory.mktemp("day")
    study = folder / "study"
    dualfl("init", study, "--silos", ",".join(SILOS), "--host", "fl.north.org")
    data = csv_homes(folder / "data")[0] / "data.csv"
    for name in SILOS:
        ca = study / "for-silos" / "ca.crt"
        words = ("--coordinator", "fl.north.org:9443", "--ca", ca, "--data", data, "--target", "sick")
        dualfl("join", folder / name, "--name", name, *words)
    dualfl("admit", study, *(folder / name / "card.txt" for name in SILOS))
    for name in SILOS:
        dualfl("trust", folder / name, study / "for-silos" / "roster.json")
    return folder


@pytest.fixture
def place(made, tmp_path):
    shutil.copytree(made, tmp_path / "x")
    return tmp_path / "x"


# -- all of them -----------------------------------------------------------------------------------

EVERY_DAY = (
    ("--help",),
    *(("status", folder) for folder in ("study", "north")),
    ("watch", "study", "--times", "1"),
    ("stop", "study"),
    ("stop", "study", "--run", "all"),
    *((word, "north") for word in ("approve", "audit")),
    ("admit", "study", "south/card.txt"),
    ("revoke", "study", "south"),
    ("renew", "study"),
    ("purge", "north", "--yes"),
)


def test_commands_of_every_day_import_no_library_of_models(place):
    """They took three seconds of a processor for it, every time."""
    code = (
        "import sys; from dualfl.cli import main\n"
        f"for words in {EVERY_DAY!r}:\n"
        "    try: main(['deploy', *words])\n"
        "    except SystemExit as end: assert not end.code, words\n"
        "    heavy = {'sklearn', 'scipy', 'pandas', 'pyarrow', 'matplotlib', 'flwr'} & set(sys.modules)\n"
        "    assert not heavy, (words, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- what a service says by itself -----------------------------------------------------------------


def test_a_service_says_when_the_disk_gets_full_and_once_a_day_as_long_as_it_is(place, monkeypatch):
    now, free, said = [1000.0], [50 << 30], []
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free[0]))
    coordinator = Coordinator(place / "study")
    warned = supervisor.Warnings(lambda: warnings(place / "study", coordinator.certificates))

    def after(seconds, megabytes):
        now[0] += seconds
        free[0] = megabytes << 20
        warned.look(said.append)
        return len(said)

    assert after(0, 50_000) == after(61, 50_000) == 0
    assert after(61, 900) == 1 and "Only 900 MB of the disk are free" in said[0]
    assert after(61, 800) == after(3600, 700) == 1  # it is known, though the number is another one
    assert after(90_000, 600) == 2
    assert after(61, 50_000) == 2 and after(61, 500) == 3  # it was mended, and is so again


def test_a_certificate_that_cannot_be_read_is_said_and_ends_no_service(place):
    (place / "south" / "ca.crt").write_text("nothing")
    (said,) = filter(None, warnings(place / "south", lambda: lifetimes(place / "south", ("ca.crt",))).values())
    assert "ca.crt" in said


# -- status ----------------------------------------------------------------------------------------


def seen_by_proxy(study, name, ago=0.0, **told):
    """What the proxy notes when a silo was let in."""
    login = Project(study).logins[name]
    path = study / "service" / "seen.json"
    path.parent.mkdir(exist_ok=True)
    before = json.loads(path.read_text())["silos"] if path.exists() else {}
    last = {"time": time.time() - ago, "version": "1.2.3", "protocol": str(PROTOCOL), "policy": "ask 1234abcd"}
    last |= {"requests": 1, "bytes": 10} | told
    before[key_id(base64.b64decode(login.split()[1]))] = last
    path.write_text(json.dumps({"silos": before, "turned_away": {"401": 3}}))


def test_status_of_a_coordinator_says_who_is_there_and_what_to_do(place):
    study = place / "study"
    seen_by_proxy(study, "north")
    seen_by_proxy(study, "south", ago=4000.0)
    seen_by_proxy(study, "west", protocol="7", version="1.1.9")
    said = dualfl("status", study)
    lines = {line.split()[0]: line for line in said.splitlines() if line.startswith(SILOS)}
    assert "connected" in lines["north"] and "ask 1234abcd" in lines["north"] and f" {PROTOCOL} " in lines["north"]
    assert "gone" in lines["south"] and "67 min" in lines["south"]
    assert "other protocol" in lines["west"] and "3 by key or clock (401)" in said
    assert "deploy start" in said and f"It speaks protocol 7 and this coordinator {PROTOCOL}" in " ".join(said.split())
    assert not [line for line in said.splitlines() if len(line) > 80 and " " in line.strip()]  # a path is not cut


def test_status_never_says_connected_of_a_silo_that_has_stopped(place):
    seen_by_proxy(place / "study", "north", ago=90.0)
    (north,) = [silo for silo in condition(place / "study")["silos"] if silo["name"] == "north"]
    assert north["state"] == "quiet" and north["age"] >= 90
    seen_by_proxy(place / "study", "north", ago=-86_400.0)  # the clock was a day ahead, and was set right since
    (north,) = [silo for silo in condition(place / "study")["silos"] if silo["name"] == "north"]
    assert north["state"] == "gone"


def test_a_silo_that_was_never_admitted_or_never_seen_is_told_so(place):
    study = place / "study"
    dualfl("revoke", study, "south")
    states = {silo["name"]: silo["state"] for silo in condition(study)["silos"]}
    assert states == {"north": "never seen", "south": "not admitted", "west": "never seen"}


def test_status_of_a_run_says_exchange_proof_and_who_is_waited_for(place):
    study = place / "study"
    work = study / "runs" / "auto" / "work"
    work.mkdir(parents=True)
    (work / "job.pkl").touch()
    Record(study, "coordinator")
    (work / "submitted.json").write_text(json.dumps({"run": "1", "waits": Record(study, "x").content["service"]}))
    row = [3, 5, 0, 0, 0.0, 1.0, 0.5, None, 1e-3, 0, 0]
    (work / "rows.jsonl").write_text(json.dumps({"say": "x"}) + "\n" + json.dumps(row) + "\n")
    (work / "waiting.json").write_text(json.dumps({"silos": ["west"]}))
    (run,) = condition(study)["runs"]
    assert (run["state"], run["exchange"], run["certificate"], run["waits_for"]) == ("running", 5, 1e-3, ["west"])
    said = dualfl("status", study)
    assert "round 3" in said and "1.0e-03" in said and "west" in said
    (work / "submitted.json").rename(work / "kept")
    assert condition(study)["runs"][0]["state"] == "not begun"  # the service was down when it was asked for
    (work / "kept").rename(work / "submitted.json")
    for name, content, state in (
        ("stopped", "", "ended"),
        ("outcome.json", json.dumps({"error": "Silo 'west' did not answer."}), "failed"),
        ("outcome.json", json.dumps({"error": f"Silo 'west': {UNDECIDED}, who ..."}), "to be approved"),
        ("outcome.json", json.dumps({"stopped": "tol"}), "done"),
    ):
        (work / name).write_text(content)
        assert condition(study)["runs"][0]["state"] == state


@contextlib.contextmanager
def ended(process):
    """Whatever a test finds, it waits for no process that goes on."""
    try:
        yield
    finally:
        process.kill()


def test_a_measurement_of_the_network_is_shown_and_stopped_like_a_run(place):
    study = place / "study"
    work = study / "network" / "work"
    work.mkdir(parents=True)
    (work / "job.pkl").touch()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as measures, ended(measures):
        (work / "submitted.json").write_text(json.dumps({"run": "1", "waits": noted(measures.pid)}))
        (work / "waiting.json").write_text(json.dumps({"silos": ["west"]}))
        (run,) = condition(study)["runs"]
        assert (run["name"], run["state"], run["waits_for"]) == ("network", "running", ["west"])
        assert "Ended: network." in dualfl("stop", study, "--run", "all")
        assert measures.wait(20) == -signal.SIGTERM
    assert condition(study)["runs"][0]["state"] == "ended"
    dualfl("purge", study, "--days", "0", "--yes")
    assert not work.exists()


def test_silos_are_not_blamed_for_the_silence_of_a_coordinator_that_does_not_run(place):
    study = place / "study"
    seen_by_proxy(study, "north", ago=100.0)
    seen_by_proxy(study, "south", ago=4000.0)
    dualfl("revoke", study, "west")
    assert [silo["sentence"][:23] for silo in condition(study)["silos"]] == ["", "", "It is not admitted; get"]
    record = Record(study, "coordinator")
    assert not condition(study)["silos"][1]["sentence"]  # it has just begun to listen
    record.note(started=time.time() - 90.0)
    assert "Ask its operator" in condition(study)["silos"][1]["sentence"]


def test_silos_are_asked_in_when_the_proxy_is_there(place):
    study = place / "study"
    record = Record(study, "coordinator")
    record.part("superlink", os.getpid(), 0)
    assert "Being started: proxy" in condition(study)["sentence"]
    record.part("proxy", os.getpid(), 1)
    assert condition(study)["sentence"].startswith("Silos may connect")
    said = dualfl("status", study)
    assert "runs, started again once" in said and "1 times" not in said


def test_a_run_waits_for_a_superlink_that_its_service_starts_again(place, monkeypatch):
    """It was killed, say, a moment before the run is submitted: that needs no hand."""
    project, work, said = Project(place / "study"), place / "study" / "runs" / "auto" / "work", []
    answers = iter([runtime.Silent("not yet"), runtime.Silent("not yet"), "7"])

    def submit(app, job, home):
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    monkeypatch.setattr(runtime, "submit", submit)
    monkeypatch.setattr(running.time, "sleep", lambda seconds: None)
    with pytest.raises(InputError, match="is not running; start it"):  # no service: nobody will start it
        running.submitted(project, work, said.append, was_there=False)
    Record(place / "study", "coordinator")
    assert running.submitted(project, work, said.append, was_there=False) == "7"
    assert said == ["The SuperLink does not answer yet; the run is submitted as soon as it does."]
    answers = iter([runtime.RunFailed("refused"), "8"])
    with pytest.raises(InputError, match="refused"):  # whoever answers is not waited for
        running.submitted(project, work, said.append, was_there=False)


def test_status_of_a_silo(place, monkeypatch):
    folder = place / "south"
    assert "deploy serve" in dualfl("status", folder)
    found = condition(folder)
    assert found["state"] == "stopped" and found["approval"] == "ask"
    (folder / "approvals" / "waiting").mkdir(parents=True)
    (folder / "approvals" / "waiting" / "a.json").touch()
    monkeypatch.chdir(place)
    said = dualfl("status", "south")
    assert "1 plan waits" in " ".join(said.split())
    waits = "This silo is connected to fl.north.org:9443. 1 plan waits for `dualfl deploy approve south`."
    told = "\n".join(telling.lines(condition(folder) | {"sentence": waits}))
    assert "\n  `dualfl deploy approve south`." in told  # in one line, where it can be copied
    with pytest.raises(InputError, match="neither a coordinator's folder nor a silo's"):
        condition(place)


def test_watch_refreshes_the_status(place):
    said = dualfl("watch", place / "study", "--every", "0.1", "--times", "2")
    assert said.count("Coordinator: stopped") == 2


def test_the_page_and_the_metrics_are_on_loopback_for_this_machine_alone(place):
    study, port, said = place / "study", runtime.free_port(), []
    seen_by_proxy(study, "north")
    with shown(lambda: condition(study), port, said.append):
        here = f"http://127.0.0.1:{port}"
        page = httpx.get(here)
        assert "north" in page.text and "connected" in page.text and "<script" not in page.text
        metrics = httpx.get(f"{here}/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'dualfl_silo_connected{silo="north"} 1' in metrics.text
        assert 'dualfl_requests_refused_total{code="401"} 3' in metrics.text
        assert "# TYPE dualfl_silo_last_word_seconds gauge" in metrics.text
        lasts = float(re.search(r'remaining_seconds{certificate="server.pem"} (\S+)', metrics.text)[1])
        assert 729 * 86_400 <= lasts <= 730 * 86_400
        assert httpx.get(f"{here}/status.json").json()["kind"] == "coordinator"
        assert httpx.get(f"{here}/etc").status_code == 404
        # A site that has its name resolve to loopback reads nothing.
        assert httpx.get(here, headers={"host": f"evil.example:{port}"}).status_code == 403
        with shown(lambda: condition(study), port, said.append):
            assert "cannot use port" in said[-1]
    assert said[0].startswith("Status: http://127.0.0.1")


def test_metrics_are_what_prometheus_reads(place):
    """Name, labels, number; every name has its kind before its first line."""
    kinds = set()
    for folder in ("study", "south"):
        for line in telling.metrics(condition(place / folder)).splitlines():
            if line.startswith("# TYPE"):
                kinds.add(line.split()[2])
            elif not line.startswith("#"):
                found = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+.e0-9]+', line)
                assert found and found[1] in kinds, line


def test_the_proxy_notes_who_was_let_in_and_what_it_says_of_itself(tmp_path):
    _, public = keys.new_key_pair()
    header = base64.b64encode(keys.pem(public)).decode()
    book = Seen(tmp_path / "seen.json")
    book.note({"flwr-public-key": header, "dualfl-version": "1\x1b[2J"}, 200, 10)
    book.note({"flwr-public-key": header, "dualfl-version": "9"}, 401, 10)  # refused: it may be anybody
    book.note({"flwr-public-key": "!"}, 200, 10)
    book.write(tmp_path / "seen.json")
    content = json.loads((tmp_path / "seen.json").read_text())
    (silo,) = content["silos"].items()
    assert silo[0] == key_id(base64.b64decode(public.split()[1]))
    assert silo[1]["requests"] == 1 and "\x1b" not in silo[1]["version"] and content["turned_away"] == {"401": 1}


def headers_of(study, name, hours=0.0):
    """What a silo's request says of who asks, and when."""
    login = base64.b64decode(Project(study).logins[name].split()[1])
    pem = b"-----BEGIN-----" + base64.b64encode(login) + b"-----END-----"
    theirs = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours)
    return {"flwr-public-key": base64.b64encode(pem).decode(), "flwr-timestamp": theirs.isoformat()}


def test_a_clock_that_keeps_a_silo_out_is_told_at_the_coordinator_too_whose_own_may_be_wrong(place):
    study, path = place / "study", place / "study" / "service" / "seen.json"
    seen_by_proxy(study, "north")
    book = Seen(path)
    for name, hours in (("north", -24), ("south", 24), ("west", 0)):
        book.note(headers_of(study, name, hours), 401, 10)
    book.note({"flwr-public-key": "!", "flwr-timestamp": "yesterday"}, 401, 10)  # anybody may send anything
    book.write(path)
    said = " ".join(dualfl("status", study).split())
    assert "north: It is not let in: its clock is 24.0 h behind this machine's; set the wrong one, by NTP." in said
    assert "south: It is not let in: its clock is 24.0 h ahead of this machine's" in said
    states = {silo["name"]: silo["state"] for silo in condition(study)["silos"]}
    assert states == {"north": "wrong clock", "south": "wrong clock", "west": "never seen"}
    book.note(headers_of(study, "north"), 200, 10)
    book.write(path)
    states = {silo["name"]: silo["state"] for silo in condition(study)["silos"]}
    assert states == {"north": "connected", "south": "wrong clock", "west": "never seen"}


# -- certificates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "said"),
    [(800.0, ""), (59.0, r"expires on .*, in 59 days; renew it"), (-1.0, "expired on .*deploy renew")],
)
def test_certificates_warn_sixty_days_ahead(days, said):
    now = time.time()
    found = certificates.verdict("server.pem", now - 1e6, now + days * 86_400 + 60)
    assert re.search(said, found) and bool(found) == bool(said)


def test_authority_and_server_do_not_expire_on_the_same_day(place):
    server, ca = certificates.lifetimes(place / "study" / "certificates", ("server.pem", "ca.crt"))
    assert ca["days"] > server["days"] + 365


def test_a_certificate_that_is_not_valid_is_told_where_it_can_be_mended(place, monkeypatch):
    study = place / "study"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3 * 365 * 86_400)
    with pytest.raises(InputError, match=r"The server's certificate expired on .*deploy renew"):
        Coordinator(study).check_certificates()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    with pytest.raises(InputError, match=r"is valid from .* and this machine's clock says .*NTP"):
        Coordinator(study).check_certificates()


def test_renew_makes_a_certificate_that_the_silos_old_ca_accepts(place):
    study, before = place / "study", (place / "study" / "certificates" / "server.pem").read_bytes()
    old_ca = certificates.read(place / "south" / "ca.crt")
    assert "ca.crt" not in dualfl("renew", study)
    said = dualfl("renew", study, "--authority")
    assert "ca.crt" in said and re.search(
        r"Send .*; the one that they have works until 20\d\d-\d\d-\d\d\.", " ".join(said.split())
    )
    server = x509.load_pem_x509_certificate((study / "certificates" / "server.pem").read_bytes())
    assert (study / "certificates" / "server.pem").read_bytes() != before
    signed = ec.ECDSA(server.signature_hash_algorithm)
    old_ca.public_key().verify(server.signature, server.tbs_certificate_bytes, signed)
    assert old_ca.subject == server.issuer
    assert "restart the service" in dualfl("renew", place / "south", "--ca", study / "for-silos" / "ca.crt")
    assert (place / "south" / "ca.crt").read_bytes() == (study / "certificates" / "ca.crt").read_bytes()


def test_a_ca_of_another_authority_is_no_renewal(place, tmp_path):
    certificates.write_certificates(tmp_path / "other", "fl.north.org")
    before = (place / "south" / "ca.crt").read_bytes()
    assert "another authority" in dualfl("renew", place / "south", "--ca", tmp_path / "other" / "ca.crt", code=2)
    assert (place / "south" / "ca.crt").read_bytes() == before
    assert "--ca ca.crt" in dualfl("renew", place / "south", code=2)


# -- keys ------------------------------------------------------------------------------------------


def test_a_silo_changes_its_keys_and_trust_shows_which(place):
    study, south = place / "study", place / "south"
    old = keys.fingerprint(Project(study).roster["south"])
    assert old in dualfl("rotate", south)
    assert "revoke the old one first" in dualfl("admit", study, south / "card.txt", code=2)
    assert old in dualfl("revoke", study, "south")
    assert "south" not in Project(study).logins and Project(study).missing == ["south"]
    dualfl("admit", study, south / "card.txt")
    said = dualfl("trust", place / "north", study / "for-silos" / "roster.json")
    (silo,) = re.findall(r"^(\w+) +SHA256:\S+\s+CHANGED, was (?:\S+)$", said, re.MULTILINE)
    assert silo == "south" and f"CHANGED, was {old}" in said and said.count("CHANGED") == 1
    assert max(map(len, said.splitlines())) <= 80
    assert "rotated" in dualfl("audit", south)
    dualfl("trust", south, study / "for-silos" / "roster.json")


def test_a_silo_joins_and_a_silo_leaves_a_standing_federation(place):
    study = place / "study"
    dualfl("add", study, "east")
    assert Project(study).missing == ["east"]
    data = next((place / "data").rglob("data.csv"))
    words = ("--coordinator", "fl.north.org:9443", "--ca", study / "for-silos" / "ca.crt", "--data", data)
    dualfl("join", place / "east", "--name", "east", *words, "--target", "sick")
    dualfl("admit", study, place / "east" / "card.txt")
    said = dualfl("trust", place / "north", study / "for-silos" / "roster.json")
    assert [line.split()[-1] for line in said.splitlines() if line.startswith("east")] == ["new"]
    dualfl("remove", study, "west")
    assert Project(study).settings.silos == ("north", "south", "east") and "west" not in Project(study).roster
    said = dualfl("trust", place / "north", study / "for-silos" / "roster.json")
    assert [line.split()[-1] for line in said.splitlines() if line.startswith("west")] == ["gone"]
    assert "west" not in SiloFolder(place / "north").registered()
    assert "belongs to the project already" in dualfl("add", study, "east", code=2)
    assert "north" in dualfl("revoke", study, "nort", code=2)
    before = Project(study).logins
    assert "secure aggregation hides a silo" in (dualfl("remove", study, "east", code=2))
    assert Project(study).logins == before  # a command that is refused shuts nobody out


# -- backup, restore, purge ------------------------------------------------------------------------


def open_experiment(folder, name="abc", days=0.0):
    path = folder / "experiments" / name
    path.mkdir(parents=True)
    (path / "plan").write_bytes(b"x" * 1000)
    for each in (path, path / "plan"):
        os.utime(each, (time.time() - days * 86_400,) * 2)
    return path


def test_a_silo_is_restored_with_its_keys_and_refuses_what_was_open(place, tmp_path):
    from dualfl.federation.experiment import Experiment

    south = place / "south"
    open_experiment(south)
    assert "private keys" in dualfl("backup", south, tmp_path / "south.tar.gz")
    assert (tmp_path / "south.tar.gz").stat().st_mode & 0o077 == 0
    said = dualfl("restore", tmp_path / "south.tar.gz", tmp_path / "again")
    assert "deploy serve" in said and "never start the old folder again" in " ".join(said.split())
    for name in ("key", "login", "salt", "silo.json", "roster.json", "audit.log"):
        if (south / name).exists():
            assert (tmp_path / "again" / name).read_bytes() == (south / name).read_bytes()
    assert (tmp_path / "again" / "key").stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="has ended at this silo"):
        Experiment(SiloFolder(tmp_path / "again"), "abc")
    assert "there already" in dualfl("restore", tmp_path / "south.tar.gz", tmp_path / "again", code=2)
    assert "there already" in dualfl("backup", south, tmp_path / "south.tar.gz", code=2)
    (tmp_path / "no.tar.gz").write_text("no archive")
    assert "/dev/zero is a device" in dualfl("restore", "/dev/zero", tmp_path / "none", code=2)
    said = dualfl("restore", tmp_path / "no.tar.gz", tmp_path / "none", code=2)
    assert "not a backup" in said and "method gz" not in said  # not all that tarfile tried
    assert not (tmp_path / "none").exists()


def test_a_coordinator_is_restored_with_its_certificates(place, tmp_path):
    dualfl("backup", place / "study", tmp_path / "study.tar.gz")
    dualfl("restore", tmp_path / "study.tar.gz", tmp_path / "again")
    Coordinator(tmp_path / "again").check_certificates()
    assert Project(tmp_path / "again").roster == Project(place / "study").roster


def test_nothing_in_a_folder_that_was_restored_names_the_old_one(made, tmp_path):
    """Its machine may be gone: the connection to the SuperLink, units, scripts and pages are of the new folder."""
    for name in ("study", "south"):
        dualfl("backup", made / name, tmp_path / f"{name}.tar.gz")
        dualfl("restore", tmp_path / f"{name}.tar.gz", tmp_path / name)
        again = tmp_path / name
        files = [path for path in again.rglob("*") if path.is_file()]
        assert not [path for path in files if str(made / name) in path.read_text(errors="replace")]
        assert str(again) in (again / "start.sh").read_text() and os.access(again / "start.sh", os.X_OK)
    assert str(tmp_path / "study") in (tmp_path / "study" / "flower" / "config.toml").read_text()


def test_a_folder_that_was_moved_and_another_port_are_noted_at_the_next_start(place):
    """`superlink_port` in project.json is what the sentence about a port in use names."""
    study = (place / "study").rename(place / "moved")
    settings = json.loads((study / "project.json").read_text()) | {"superlink_port": 9999}
    (study / "project.json").write_text(json.dumps(settings))
    Coordinator(study).connect()
    noted = (study / "flower" / "config.toml").read_text()
    assert '"127.0.0.1:9999"' in noted and str(study / "certificates" / "ca.crt") in noted


def test_a_database_is_backed_up_as_it_is_at_one_moment(place, tmp_path):
    """What was committed is in it though SQLite has it in another file yet, and what was not is not."""
    study = place / "study"
    with contextlib.closing(sqlite3.connect(study / "state.db", isolation_level=None)) as flower:
        flower.execute("pragma journal_mode = wal")
        flower.execute("create table run (id integer)")
        flower.execute("insert into run values (1)")
        assert (study / "state.db-wal").stat().st_size
        flower.execute("begin")
        flower.execute("insert into run values (2)")
        dualfl("backup", study, tmp_path / "study.tar.gz")
    dualfl("restore", tmp_path / "study.tar.gz", tmp_path / "again")
    assert not list((tmp_path / "again").glob("state.db-*"))
    with contextlib.closing(sqlite3.connect(tmp_path / "again" / "state.db")) as restored:
        assert restored.execute("select id from run").fetchall() == [(1,)]


def test_a_full_disk_is_told_in_a_sentence_with_its_file(place, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = dualfl("rotate", place / "south", code=2)
    assert "The disk is full" in said and str(place / "south") in said and "make room" in said


def test_a_backup_that_has_no_room_is_not_said_to_be_no_backup(place, tmp_path, monkeypatch):
    def full(*ignored):
        raise OSError(errno.ENOSPC, "No space left on device")

    dualfl("backup", place / "south", tmp_path / "south.tar.gz")
    monkeypatch.setattr(shutil, "copyfileobj", full)
    monkeypatch.setattr(tarfile, "copyfileobj", full)
    said = dualfl("restore", tmp_path / "south.tar.gz", tmp_path / "again", code=2)
    assert f"The disk is full ({tmp_path / 'again'}" in said and not (tmp_path / "again").exists()


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"PK", "cut"])
def test_what_is_no_backup_is_said_to_be_none(place, tmp_path, content):
    if content == "cut":
        dualfl("backup", place / "south", tmp_path / "whole.tar.gz")
        content = (tmp_path / "whole.tar.gz").read_bytes()[:2000]
    (tmp_path / "x.tar.gz").write_bytes(content)
    said = dualfl("restore", tmp_path / "x.tar.gz", tmp_path / "again", code=2)
    assert "x.tar.gz is not a backup by `dualfl deploy backup`" in said and not (tmp_path / "again").exists()


def test_a_copied_folder_ends_what_was_open_in_it(place, tmp_path):
    """A snapshot that is put back would answer other questions under masks that were used."""
    south, said = place / "south", []
    upkeep.check_in(south, said.append)
    open_experiment(south)
    upkeep.check_in(south, said.append)
    assert said == [] and (south / "experiments" / "abc").exists()
    shutil.copytree(south, tmp_path / "copy")
    upkeep.check_in(tmp_path / "copy", said.append)
    assert "masks must not be used twice" in said[0] and not (tmp_path / "copy" / "experiments" / "abc").exists()
    assert (tmp_path / "copy" / "ended" / "abc").exists()


def test_a_folder_of_a_newer_version_is_refused(place):
    path = place / "south" / "service" / "served.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"version": "9.0", "protocol": 99, "place": "x"}))
    with pytest.raises(InputError, match=r"served by dualfl 9\.0 with protocol 99.*install that version"):
        upkeep.check_in(place / "south", print)


def test_old_experiments_are_purged_and_others_stay(place):
    south, study = place / "south", place / "study"
    open_experiment(south, "old", days=40)
    open_experiment(south, "new", days=1)
    assert "1 experiment was deleted" in dualfl("purge", south, "--days", "30", "--yes")
    assert not (south / "experiments" / "old").exists() and (south / "ended" / "old").exists()
    assert (south / "experiments" / "new").exists()
    work = study / "analyses" / "fit-1" / "work"
    work.mkdir(parents=True)
    (work / "journal").write_bytes(b"x")
    assert "0 experiments" in dualfl("purge", study, "--yes")
    assert "1 experiment was" in dualfl("purge", study, "--days", "0", "--yes")
    assert "Delete them?" in dualfl("purge", study, code=1, answer="n\n")


def test_what_silos_say_is_over_is_begun_anew_with_fresh(place, monkeypatch):
    """As after a silo was restored or purged: without it the same command asks for the same experiment for ever."""

    def refused(*ignored):
        raise InputError("Silo 'south': this experiment has ended at this silo; start a new one.")

    def begun(*more):
        words = ["fit", "--study", str(place / "study"), "--target", "sick", "--model", "logistic", *more]
        done = CliRunner().invoke(main, [*words, "--out", str(place / "model")])
        assert done.exit_code == 2 and "has ended" in done.stderr
        (found,) = (place / "study" / "analyses").glob("*/work/experiment.json")
        return json.loads(found.read_text())["id"]

    monkeypatch.setattr(study, "submit_and_watch", refused)
    first = begun()
    assert begun() == first and begun("--fresh") not in (first, None)
    done = CliRunner().invoke(main, ["fit", "x.csv", "--target", "sick", "--model", "logistic", "--fresh"])
    assert done.exit_code == 2 and "--fresh is for --study" in done.stderr


# -- the page --------------------------------------------------------------------------------------

REAL = {"start", "serve"}  # services that run until they are stopped: tests/deploy/test_real_service.py


def test_every_command_of_the_operators_day_runs_as_it_stands_in_the_page(place, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()
    section = page.split("## Daily operation")[1].split("\n## ")[0]
    commands = [line.split()[2:] for line in section.splitlines() if line.startswith("    dualfl deploy ")]
    assert len(commands) >= 18 and {"status", "watch", "renew", "revoke", "restore"} < {words[0] for words in commands}
    monkeypatch.chdir(place)
    (place / "south").rename("my-silo")
    open_experiment(place / "my-silo", days=40)
    shutil.copy("study/for-silos/ca.crt", "ca.crt")
    for words in commands:
        if words[0] in REAL:
            assert words in (["start", "study"], ["serve", "my-silo"])
            continue
        if words[0] == "admit":
            shutil.copy("my-silo/card.txt", "card.txt")
        if words[0] == "trust":
            shutil.copy("study/for-silos/roster.json", "roster.json")
        dualfl(*words, *(["--times", "1"] if words[0] == "watch" else []))
    assert (place / "my-silo-again" / "key").exists()
