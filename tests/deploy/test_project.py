"""Folders of a coordinator and of silos: keys stay where they are made, mistakes are sentences, nothing half-done."""

import json
import os
import pickle
import shlex
import stat
import subprocess
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

from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.algorithms.few_exchanges.time_model import Network
from dualfl.cli import main
from dualfl.deploy import keys, network, pages
from dualfl.deploy.project import Project
from dualfl.deploy.runs import checked_name
from dualfl.errors import InputError
from dualfl.federation.flower.job import Speed
from dualfl.outputs import alone


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


def join(folder, name, data, *more, code=0, home=None):
    ca = folder / "project" / "for-silos" / "ca.crt"
    words = ["--name", name, "--coordinator", "example.org:9443", "--data", data, "--target", "sick", "--ca", ca]
    return run("join", folder / (home or f"silo-{name}"), *words, *more, code=code)


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


def unit_of(path):
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_services_run_as_the_owner_and_write_to_their_folder_alone(made):
    for path in (made / "project" / "dualfl-coordinator.service", made / "silo-a" / "dualfl-silo.service"):
        unit = unit_of(path)
        assert unit.get("User") == (None if os.geteuid() == 0 else path.owner())
        assert (unit["NoNewPrivileges"], unit["ProtectSystem"]) == ("true", "strict")
        assert unit["ReadWritePaths"] == f'"{path.parent.resolve()}"'


def test_a_service_is_never_root_without_somebody_saying_so(tmp_path, monkeypatch):
    (tmp_path / "f").mkdir()
    owned_by(0, monkeypatch)
    text = pages.unit("x", ["y"], tmp_path / "f")
    assert "\n#User=dualfl\n" in text and "\nUser=" not in text
    owned_by(54321, monkeypatch)  # nobody has this number here
    assert "\nUser=54321\n" in pages.unit("x", ["y"], tmp_path / "f")


def owned_by(number, monkeypatch):
    stat = Path.stat

    def owned(path, **more):
        found = stat(path, **more)
        return os.stat_result((*found[:4], number, *found[5:]))

    monkeypatch.setattr(Path, "stat", owned)


@pytest.mark.parametrize("name", ["my study", 'a "quoted" $HOME 100%', "it's; true", "back\\slash"])
def test_a_folder_may_have_any_name(name, tmp_path, monkeypatch):
    stub = tmp_path / "python 3"  # writes down what it was called with, and ends the loop around it
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$(dirname "$0")/called"\nkill $PPID\n')
    stub.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stub))
    folder = tmp_path / name
    run("init", folder, "--silos", "a,b,c", "--host", "example.org")
    subprocess.run(["sh", folder / "start.sh"], timeout=30)
    assert (tmp_path / "called").read_text().splitlines() == ["-m", "dualfl", "deploy", "start", str(folder)]
    line = unit_of(folder / "dualfl-coordinator.service")["ExecStart"]
    words = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(line)]  # the rest is as in a shell
    assert words == [str(stub), "-m", "dualfl", "deploy", "start", str(folder)]
    assert shlex.join(["dualfl", "deploy", "start", str(folder)]) in (folder / "COORDINATOR.md").read_text()


def test_a_silo_in_a_folder_with_a_space_has_a_command_that_works(made):
    join(made, "a", made / "data" / "a" / "data.csv", home="my silo")
    text = (made / "my silo" / "start.sh").read_text()
    assert f"deploy serve '{made / 'my silo'}'; sleep" in text
    line = unit_of(made / "my silo" / "dualfl-silo.service")["ExecStart"]
    assert shlex.split(line)[-2:] == ["serve", str(made / "my silo")]


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
        (["init", "p", "--silos", "a,b,c", "--host", ""], "such as fl.north.org"),
        (["init", "p", "--silos", "a,b,c", "--host", "münchen.de"], "in plain letters"),
        (["init", "p", "--silos", "a,b,c", "--host", "h" * 64], "such as fl.north.org"),
        (["init", "p", "--silos", "a,b,c", "--host", ".".join(["h" * 60] * 5)], "such as fl.north.org"),
        (["init", "p", "--silos", "a,b,c", "--host", "https://fl.north.org"], "it is 'https://fl.north.org'."),
        (
            ["init", "p", "--silos", "a,b,c", "--host", "fl.north.org:9443"],
            "'fl.north.org:9443'; the port is given apart",
        ),
        (["init", "p", "--silos", "a,b,c", "--host", "h", "--ridge", "-1"], "ridge must be a finite number >= 0"),
        (["init", "p", "--silos", "a,b,c", "--host", "h", "--l1", "nan"], "l1 must be a finite number >= 0"),
        (["init", "p", "--silos", "a,b,c", "--host", "h", "--loss", "foo"], "There is no loss 'foo'"),
        (["init", "p", "--silos", "a,b,c", "--host", "h", "--loss", "huber:-1"], "Huber needs a finite delta > 0"),
        (["run", "nowhere"], "is not a project"),
        (["status", "nowhere"], "neither a coordinator's folder nor a silo's"),
        (["serve", "nowhere"], "is not a silo's folder"),
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
        ("b" + card[1:], "is not signed by its own key; it was changed on the way"),
        (card.rsplit(" ", 1)[0] + " 00", "is not signed by its own key"),
        ("b ssh-rsa AAAA", "has one key, as dualfl made it before protocol 8"),
        ("b ssh-rsa AAAA ssh-rsa AAAA 00", "is not one that `dualfl deploy join` made"),
        ("b", "A card is one line with a name, two keys and a signature"),
    ]:
        run("admit", made / "project", made / "silo-a" / "card.txt")
        (made / "bad.txt").write_text(text)
        assert sentence in run("admit", made / "project", made / "bad.txt", code=2).stderr
    new = keys.make_card("a", *keys.new_key_pair(), keys.new_key_pair()[1])
    (made / "new.txt").write_text(new)
    assert "on the roster with another key" in run("admit", made / "project", made / "new.txt", code=2).stderr
    forged = {"a": (made / "silo-b" / "key.pub").read_text()}
    (made / "roster.json").write_text(json.dumps(forged))
    assert "do not trust it" in run("trust", made / "silo-a", made / "roster.json", code=2).stderr
    private, public = (made / "silo-a" / "key").read_bytes(), (made / "silo-a" / "key.pub").read_text()
    public = " ".join(public.split()[:2])
    (made / "twice.txt").write_text(keys.make_card("b", private, public, keys.new_key_pair()[1]))
    assert "another silo's key" in run("admit", made / "project", made / "twice.txt", code=2).stderr
    assert "has not been admitted" in run("run", made / "project", code=2).stderr
    (made / "silo-b" / "login").unlink()
    sentence = "was made by dualfl before protocol 8, with one key for Flower and for masks; make a new folder"
    assert sentence in run("serve", made / "silo-b", code=2).stderr


def test_a_setting_that_nobody_knows_is_named(made):
    path = made / "project" / "project.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rigde": 1}))
    assert "There is no setting 'rigde'; did you mean ridge?" in run("run", made / "project", code=2).stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"silos": None}, "lacks silos, which every project has"),
        ({"host": None}, "lacks host, which every project has"),
        ({"port": "9443"}, 'port must be a whole number, but it is "9443"'),
        ({"port": True}, "port must be a whole number, but it is true"),
        ({"silos": "a,b,c"}, "silos must be a list of names"),
        ({"ridge": "0.1"}, "ridge must be a number"),
        ({"tls": 1}, "tls must be true or false"),
        ({"solver": 3}, "solver must be text or null"),
        ({"task": "clustering"}, "There is no task 'clustering'"),
        ({"patience": 0}, "patience must be a number of seconds > 0"),
        ([1, 2], "must hold an object of settings, {...}, but it holds [1, 2]"),
        (None, "but it holds null"),
    ],
)
def test_a_project_that_was_edited_wrongly_is_a_sentence(change, sentence, tmp_path):
    run("init", tmp_path / "p", "--silos", "a,b,c", "--host", "h")
    path = tmp_path / "p" / "project.json"
    if isinstance(change, dict):
        given = json.loads(path.read_text()) | change
        change = {name: value for name, value in given.items() if value is not None}
    path.write_text(json.dumps(change))
    done = run("run", tmp_path / "p", code=2)
    assert sentence in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("text", "sentence"), [("{", "roster.json is not JSON"), ("[]", "must hold an object, {...}")])
def test_a_roster_that_was_edited_wrongly_is_a_sentence(text, sentence, made):
    (made / "project" / "roster.json").write_text(text)
    assert sentence in run("run", made / "project", code=2).stderr


def test_a_card_that_is_no_text_is_a_sentence(made):
    (made / "card.bin").write_bytes(b"\xff\xfe\x00binary")
    done = run("admit", made / "project", made / "card.bin", code=2)
    assert "card.bin is not a card, which is one line of text" in done.stderr


@pytest.mark.parametrize(
    "host", [f"{'h' * 40}.{'i' * 40}.org", "192.0.2.7", "2001:db8::7", "my_host", "xn--mnchen-3ya.de"]
)
def test_a_certificate_can_be_made_for_any_host(host, tmp_path):
    """Also for one that is longer than a common name may be."""
    from cryptography import x509

    run("init", tmp_path / "p", "--silos", "a,b,c", "--host", host)
    leaf = x509.load_pem_x509_certificate((tmp_path / "p" / "certificates" / "server.pem").read_bytes())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert host in [str(name.value) for name in names]


def test_without_flower_the_command_says_what_to_install(monkeypatch, tmp_path):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'dualfl[flower]'" in run("try", code=2).stderr


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", ".hidden", "a/b", "", "x" * 200, "a\nb"])
def test_a_run_cannot_leave_the_folder_of_runs(name, tmp_path):
    with pytest.raises(InputError, match="--name must be made of letters"):
        checked_name(name)
    assert checked_name("fit-2_b.1") == "fit-2_b.1"


def test_a_loss_that_contradicts_the_task_is_refused(tmp_path):
    words = ("init", tmp_path / "p", "--silos", "a,b,c", "--host", "h", "--loss")
    for loss, task in (("logistic", "regression"), ("squared", "classification"), ("quantile:0.9", "classification")):
        assert "is for" in run(*words, loss, "--task", task, code=2).stderr
    assert not (tmp_path / "p").exists()


def test_a_method_that_needs_a_penalised_intercept_is_refused_with_the_setting(made):
    said = run("run", made / "project", "--algorithm", "dualfl", code=2).stderr
    assert "dualfl needs a penalty on the intercept too, but it is free" in said
    assert 'set "intercept" to "penalised" in project.json, or take --algorithm auto' in said
    path = made / "project" / "project.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"intercept": "penalised"}))
    assert "has not been admitted" in run("run", made / "project", "--algorithm", "dualfl", code=2).stderr
    path.write_text(json.dumps(json.loads(path.read_text()) | {"intercept": "fre"}))
    assert "There is no intercept 'fre'; did you mean free?" in run("run", made / "project", code=2).stderr


# -- the network, for cost = time ------------------------------------------------------------------


@pytest.fixture
def measured(made, monkeypatch):
    """The project, and how often its network was measured."""
    project, times = Project(made / "project"), []

    def submit_and_watch(project, work, *ignored):
        times.append(pickle.loads((work / "job.pkl").read_bytes()).names)
        (work / "result.pkl").write_bytes(pickle.dumps(Speed(Network(0.2, 50.0))))

    monkeypatch.setattr(network, "submit_and_watch", submit_and_watch)
    monkeypatch.setattr(Project, "missing", property(lambda self: []))
    return project, times


def timed(project, said, fresh=False):
    work = project.folder / "runs" / "auto" / "work"
    found = network.with_network(project, Auto(cost="time"), work, fresh, None, said.append)
    return found.latency, found.bandwidth


def test_the_network_is_measured_once_and_its_figures_are_the_plans(measured):
    (project, times), said = measured, []
    assert timed(project, said) == timed(project, said, fresh=True) == (0.2, 50)
    assert times == [tuple(sorted(project.settings.silos))] and "200 ms and 50 Mbit/s" in said[-1]


def test_a_run_goes_on_with_the_figures_that_it_began_with(measured):
    """Others would make it another run, which is refused: measured anew, nothing could be continued."""
    (project, _), said = measured, []
    assert timed(project, said) == (0.2, 50)
    (project.folder / "network.json").write_text('{"latency": 0.01, "bandwidth": 7}')
    assert timed(project, said) == (0.2, 50) and "when this run began" in said[-1]
    assert timed(project, said, fresh=True) == timed(project, said) == (0.01, 7)
    kept = project.folder / "runs" / "auto" / "work" / "network.json"
    kept.write_text("{")
    with pytest.raises(InputError, match="--fresh to begin the run anew"):
        timed(project, said)
    assert timed(project, said, fresh=True) == (0.01, 7)


def test_two_do_not_measure_at_once(measured):
    project, times = measured
    with alone(project.folder / "network"), pytest.raises(InputError, match="Another process is writing to"):
        network.measure(project, None, print)
    assert not times and not (project.folder / "network.json").exists()


def test_a_measurement_that_is_interrupted_notes_nothing(measured, monkeypatch):
    def interrupted(*ignored):
        raise KeyboardInterrupt("The run was ended.")

    monkeypatch.setattr(network, "submit_and_watch", interrupted)
    with pytest.raises(KeyboardInterrupt, match="nothing was noted"):
        network.measure(measured[0], None, print)
    assert network.known(measured[0].folder) is None


@pytest.mark.parametrize("stated", [{}, {"cost": "time", "latency": 0.1}, {"cost": "time", "bandwidth": 10.0}])
def test_what_is_stated_is_not_measured(made, stated):
    algorithm, project = Auto(**stated), Project(made / "project")
    assert network.with_network(project, algorithm, project.folder / "work", False, None, print) is algorithm


@pytest.mark.parametrize("content", ["{}", "", "[1]", '{"latency": -1, "bandwidth": 1}', '{"latency": "x"}'])
def test_a_damaged_file_of_the_network_is_said_to_be_so(made, content):
    folder = made / "project"
    (folder / "network.json").write_text(content)
    if content == "{}":
        assert network.known(folder) is None
        return
    with pytest.raises(InputError, match=r"network\.json .*`dualfl deploy measure` again"):
        network.known(folder)


def test_a_coordinator_that_is_not_there_measures_nothing(made):
    said = run("measure", made / "project", code=2).stderr
    assert "has not been admitted" in said and not (made / "project" / "network.json").exists()


COMMANDS = {
    "fit": ("--target", "sick", "--model", "logistic"),
    "describe": (),
    "km": ("--time", "days", "--event", "sick"),
    "check": (),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_has_who_is_waited_for_and_not_every_exchange(command, made, monkeypatch):
    """Nobody watches a command that a script has started, and a silo that is away may keep it for an hour."""

    def waiting(project, work, bar, say, alive, at):
        at(1, "the columns")
        say("Waiting for silo 'b' ...")
        raise InputError("That is all.")

    monkeypatch.setattr("dualfl.deploy.study.submit_and_watch", waiting)
    monkeypatch.setattr(Project, "check_complete", lambda self: None)
    words = [command, "--study", str(made / "project"), *COMMANDS[command]]
    words += ["--out", str(made / "out")] if command == "fit" else []
    done = CliRunner().invoke(main, words, prog_name="dualfl", catch_exceptions=False)
    assert done.stderr == "Waiting for silo 'b' ...\nError: That is all.\n"
