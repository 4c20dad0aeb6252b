"""What a silo far away may tell of the faults of its table: enough to compare silos; entries stay where they are."""

import csv
import json

import pytest
from click.testing import CliRunner
from far import far_silos, make_homes
from loopback import Loopback

from dualfl.algorithms.registry import make
from dualfl.analysis.descriptions import TableCheck
from dualfl.cli.check import lines
from dualfl.cli.commands import main
from dualfl.deploy.silo_process import note_settings
from dualfl.errors import InputError
from dualfl.federation.consent import Consent
from dualfl.federation.fixed_point import BITS
from dualfl.federation.inspecting import found_here, inspected
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.plan_in_words import in_words
from dualfl.federation.silo_folder import LOG, SiloFolder
from dualfl.federation.wire import decode, encode
from dualfl.silos import drive
from dualfl.silos.verbs import request_to_json
from dualfl.tables.comparison import compare
from dualfl.tables.idle_rules import IDLE
from dualfl.tables.schema import Request

SECRET = "Xenophon-1973"
DESCRIBE = {"request": request_to_json(Request("died")), "least": None}


def write(path, rows, encoding="utf-8"):
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def paths(tmp_path):
    """Three files: commas and 0/1 in one, capitals and a word for a gap in another, a column less in the third."""
    files = []
    for j, name in enumerate(("a", "b", "c")):
        rows = []
        for i in range(40):
            row = {"age": 20 + (7 * i + j) % 31, "crp": f"{i % 9}.{i % 7}", "sex": "FM"[i % 2], "dose": 5 * (i % 3)}
            rows.append(row | {"died": ["no", "yes"][(i // 2) % 2]})
            if name == "a":
                rows[-1] |= {"crp": f"{i % 9},{i % 7}", "died": (i // 2) % 2}
            if name == "b":
                rows[-1] |= {"sex": rows[-1]["sex"].lower(), "age": SECRET if i == 6 else rows[-1]["age"]}
            if name == "c":
                del rows[-1]["dose"]
        files.append(tmp_path / f"{name}.csv")
        write(files[-1], rows)
    return files


def checked(homes, target="died"):
    return [inspected(SiloFolder(home), target, True) for home in homes]


def test_faults_are_found_and_entries_stay(paths, tmp_path):
    homes = make_homes(tmp_path / "silos", paths, "died", None)
    silos = checked(homes)
    found = [one for silo in silos for one in silo.findings] + list(compare(silos))
    kinds = {(one.kind, one.column, one.silos) for one in found}
    assert kinds >= {
        ("decimal", "crp", ("a",)),
        ("odd", "age", ("b",)),
        ("yes/no", "died", ("b", "c")),
        ("spelling", "sex", ("a", "b", "c")),
        ("columns", "dose", ("c",)),
    }
    told = json.dumps([silo.as_json() for silo in silos])
    assert SECRET not in told and str(tmp_path) not in told and all(silo.rows is None for silo in silos)
    assert SECRET in (homes[1] / LOG).read_text() and "row 7" in (homes[1] / LOG).read_text()
    text = "\n".join(lines(silos, compare(silos), far=True))
    assert '"decimal": "," in silo.json' in text and "--" not in text.replace("--recode", "")
    assert text.startswith("3 silos, 5 columns: 4 findings would stop a fit")


def test_an_operator_mends_by_the_same_rules(paths, tmp_path):
    rules = {"commas": ["crp"], "fold_case": True, "na": [SECRET], "recode": {"died": {"yes": "1", "no": "0"}}}
    homes = make_homes(tmp_path / "silos", paths, "died", None, ignore=["dose"])
    for home, words in zip(homes, (["commas"], ["na", "recode", "fold_case"], ["recode", "fold_case"])):
        settings = json.loads((home / "silo.json").read_text())
        (home / "silo.json").write_text(json.dumps(settings | {word: rules[word] for word in words}))
    (homes[0] / "silo.json").write_text(
        json.dumps(json.loads((homes[0] / "silo.json").read_text()) | {"fold_case": True})
    )
    silos = checked(homes)
    left = [one for silo in silos for one in silo.findings] + list(compare(silos))
    assert [(one.kind, one.silos) for one in left] == [("gaps", ("b",))]


def test_rules_that_match_nothing_are_for_the_operator_alone(paths, tmp_path):
    homes = make_homes(tmp_path / "silos", paths, "died", None)
    rules = {"na": [SECRET, "crp=-7"], "recode": {"sex": {"Q": "F"}}}
    for home in homes:
        settings = json.loads((home / "silo.json").read_text())
        (home / "silo.json").write_text(json.dumps(settings | rules))
    told = json.dumps([silo.as_json() for silo in checked(homes)])
    assert "-7" not in told and "matches" not in told and SECRET not in told and "silo.json" not in told
    a, b = (
        [one.what for one in found_here(SiloFolder(home))[0].findings if one.kind == IDLE]
        for home in (homes[0], homes[1])
    )
    assert (
        b
        == a[1:]
        == [
            "no entry is '-7', which 'na' of silo.json counts as missing",
            "no entry is 'Q', of which 'recode' of silo.json says what it means",
        ]
    )
    assert SECRET in a[0]  # b has such an entry, and a has none
    assert "no entry is 'Q'" in (homes[1] / LOG).read_text()
    home = SiloFolder(homes[2])
    (home.path / LOG).unlink()
    note_settings(home)  # as `deploy serve` does after silo.json has changed
    assert "silo.json: sex: no entry is 'Q'" in (home.path / LOG).read_text()


def test_what_a_policy_hides_is_not_told(paths, tmp_path):
    policy = {"approval": "none", "least_rows": 0, "least_per_level": 5, "forbidden_columns": ["age"]}
    homes = make_homes(tmp_path / "silos", paths, "died", None, policy=policy)
    _, b, _ = checked(homes)
    assert "age" not in b.columns and all(one.column != "age" for one in b.findings)
    assert "age" in (homes[1] / LOG).read_text()


def test_another_target_is_refused_and_none_is_the_silos_own(paths, tmp_path):
    homes = make_homes(tmp_path / "silos", paths, "died", None)
    with pytest.raises(InputError, match="this silo's target is 'died', and the check is about 'sex'"):
        checked(homes, target="sex")
    assert {silo.target for silo in checked(make_homes(tmp_path / "more", paths, "died", None), target="")} == {"died"}


# -- over messages --------------------------------------------------------------------------------------------


def over_messages(homes, secure):
    """What silos tell, and all bytes that left them."""
    analysis, heard = TableCheck("died", True), []
    transport = Loopback(homes, lambda *call: heard.append(call[3]), resident=True)
    silos = far_silos(homes, secure, transport=transport, analysis=analysis.as_json())
    return drive(analysis.conversation(silos), silos), b"".join(heard)


def homes_with(paths, tmp_path, secure=BITS, **policy):
    usual = {"approval": "none", "least_rows": 0, "least_per_level": 0, "least_per_cell": 0}
    return make_homes(tmp_path / "silos", paths, "died", secure, policy=usual | policy)


@pytest.mark.parametrize("secure", [None, BITS])
def test_silos_are_asked_and_entries_stay_with_them(paths, tmp_path, secure):
    paths[2].write_bytes(b'age,"crp,sex\n')  # cannot be read, and the others are heard all the same
    homes = homes_with(paths, tmp_path, secure)
    silos, heard = over_messages(homes, secure)
    assert silos[0].as_json() == inspected(SiloFolder(homes[0]), "died", True).as_json()
    assert [(one.kind, one.column) for one in silos[2].findings] == [("unreadable", "")] and not silos[2].columns
    assert SECRET.encode() not in heard and str(tmp_path).encode() not in heard
    assert b"decimal" in heard


def test_a_check_needs_the_operators_word(paths, tmp_path):
    homes = homes_with(paths, tmp_path, approval="ask")
    with pytest.raises(InputError, match="the plan waits for this silo's operator"):
        over_messages(homes, BITS)
    for home in homes:
        home = SiloFolder(home)
        consent = Consent(home.path, home.policy, home.log)
        ((name, plan),) = consent.waiting().items()
        assert "no entry, no row, no count" in " ".join(in_words(plan, "here").split())
        consent.decide(name, "once")
    assert len(over_messages(homes, BITS)[0]) == 3


def test_before_a_plan_and_by_the_plan_of_a_fit_no_faults_are_told(paths, tmp_path):
    homes = homes_with(paths, tmp_path, None)
    keeper, head = Keeper(homes[2]), {"protocol": PROTOCOL, "experiment": "x", "to": None}
    ask = {"verb": "inspect", "given": {"target": "died", "classes": True}, "reduce": "each"}
    analysis = TableCheck("died", True).as_json()

    def refused(**content):
        return decode(keeper.handle(encode(head | content))).get("refusal", "")

    assert "before there is a plan" in refused(kind="open", analysis=analysis, asks=[ask])
    greeting = {"verb": "greet", "given": {}, "reduce": "each"}
    for number, (kind, wanted) in enumerate([(analysis, "count"), ({"analysis": "fit"}, "inspect")]):
        head["experiment"] = f"x{number}"
        first = greeting if number == 0 else {"verb": "describe", "given": DESCRIBE, "reduce": "each"}
        refused(kind="open", analysis=kind, asks=[first])
        plan = {"names": ("a", "b", "c"), "offers": None, "secure": None, "algorithm": make("auto").to_json()}
        plan |= {"analysis": kind, "withheld": ()}
        given = ask["given"] if wanted == "inspect" else {"draft": {}}
        asks = [{"verb": wanted, "given": given, "reduce": "each"}]
        assert f"'{wanted}' is not of it" in refused(kind="join", plan=plan, ended=[], asks=asks)


def test_another_kind_of_target_is_refused_in_a_sentence(paths, tmp_path):
    homes = homes_with(paths, tmp_path, task="regression")
    with pytest.raises(InputError, match="the target of this silo is for regression"):
        over_messages(homes, BITS)


def test_the_operator_sees_all_of_it(paths, tmp_path):
    homes = homes_with(paths, tmp_path, None)
    result = CliRunner().invoke(main, ["deploy", "check", str(homes[1])])
    assert result.exit_code == 1 and SECRET in result.output and "row 7" in result.output
    assert "in silo.json" in result.output and max(map(len, result.output.splitlines())) <= 80
