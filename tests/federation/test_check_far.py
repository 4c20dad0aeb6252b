"""What a silo far away may tell of the faults of its table: enough to compare silos; entries stay where they are."""

import csv
import json

import pytest
from far import make_homes

from dualfl.cli.check import lines
from dualfl.errors import InputError
from dualfl.federation.inspecting import inspected
from dualfl.federation.silo_folder import LOG, SiloFolder
from dualfl.tables.comparison import compare

SECRET = "Xenophon-1973"


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
