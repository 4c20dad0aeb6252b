"""`dualfl check`: every kind of fault is found with its file, column, rows and remedy, and the remedy mends it."""

import csv
import json
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dualfl.cli import main
from dualfl.tables.advice import for_silo, matters
from dualfl.tables.comparison import compare
from dualfl.tables.findings import Inspection
from dualfl.tables.inspection import inspect
from dualfl.tables.reading import read_table
from dualfl.tables.rules import Rules

FILES = ("north.csv", "river.csv", "hill.csv")
CHECK = ("check", *FILES, "--target", "died", "--model", "logistic")


def run(*words, code=0):
    done = CliRunner().invoke(main, [*map(str, words)], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    assert all(len(line) <= 80 or "/" in line for line in done.stdout.splitlines()), done.stdout  # paths may be long
    return done


def clean(n, seed):
    """Rows in which nothing is wrong."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        row = {
            "age": int(rng.integers(20, 91)),
            "crp": round(float(rng.gamma(2, 5)), 1),
            "dose": rng.choice([5, 10, 20]),
        }
        row |= {"sex": rng.choice(["F", "M"]), "ward": rng.choice(["Surgery", "Heart ward", "General"])}
        rows.append({name: str(value) for name, value in row.items()} | {"died": ["yes", "no"][i % 2]})
    return rows


def write(path, rows, encoding="utf-8", delimiter=","):
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    """Three clean files, as rows by the name of the file."""
    monkeypatch.chdir(tmp_path)
    found = {name: clean(120 - 20 * i, i) for i, name in enumerate(FILES)}
    for name, rows in found.items():
        write(name, rows)
    return found


def spoilt(tables, change, *names):
    """The tables with a change in some of their files, written down."""
    for name in names or FILES:
        for i, row in enumerate(tables[name]):
            change(i, row)
        write(name, tables[name])


def findings(*more, code=None):
    """All findings of the command, as JSON."""
    done = CliRunner().invoke(main, [*CHECK, *more, "--json"], prog_name="dualfl", catch_exceptions=False)
    assert code is None or done.exit_code == code, done.output
    content = json.loads(done.stdout)
    found = [one for silo in content["silos"] for one in silo["findings"]] + content["together"]
    assert done.exit_code == int(any(one["stops"] for one in found))
    return found


def test_clean_tables_are_one_line():
    assert run(*CHECK).stdout == "3 files, 300 rows with a target, 6 columns: nothing is wrong.\n"
    assert run(*CHECK, "--strict").exit_code == 0
    assert run("check", *FILES).stdout == "3 files, 300 rows, 6 columns: nothing is wrong.\n"
    assert run("check", "north.csv", "--target", "died").stdout.endswith("nothing is wrong.\n")


# -- every fault, and its remedy -------------------------------------------------------------------------------


def put(column, value, rows=(3, 11, 20)):
    return lambda i, row: row.update({column: value}) if i in rows else None


def each(column, make):
    return lambda i, row: row.update({column: make(i, row)})


def day(i, row):
    return f"2021-{1 + i % 12:02d}-{1 + i % 28:02d}"


def comma(i, row):
    return row["crp"].replace(".", ",")


def code(i, row):
    return f"{i % 3}{'a' * (i % 3 < 2)}"


ODD, EVERY = ("river.csv",), FILES
FAULTS = {  # what is changed, in which files; kind, column, whether it stops a fit, part of the remedy
    "columns": (lambda i, row: row.pop("dose"), ODD, "columns", "dose", True, "--drop dose"),
    "types": (
        each("dose", lambda i, row: "lmh"[i % 3]), ODD, "types", "dose", True, "--recode 'dose=...:h,...:l,...:m'"
    ),
    "codes": (each("dose", code), ODD, "types", "dose", True, "--categorical dose"),
    "commas": (each("crp", comma), ODD, "decimal", "crp", True, "--decimal river.csv=,"),
    "commas everywhere": (each("crp", comma), EVERY, "decimal", "crp", True, "--decimal hill.csv=,"),
    "commas and points": (
        each("crp", lambda i, row: f"1.{100 + i},{i % 10}"), ODD, "decimal", "crp", True, "--decimal river.csv=,"
    ),
    "commas before three digits": (
        each("crp", lambda i, row: f"4,{100 + i}"), ODD, "decimal", "crp", True, "take them out, or if they are decimal"
    ),
    "units": (
        each("dose", lambda i, row: f"${i % 40},{100 + i}.5"), ODD, "odd", "dose", True, "take '$' out of the file"
    ),
    "dates": (each("seen", day), EVERY, "dates", "seen", True, "--dates as-days-since:2020-01-01"),
    "names of rows": (each("who", lambda i, row: f"P{i}-{row['age']}"), EVERY, "identifier", "who", True, "--id who"),
    "numbers of rows": (each("who", lambda i, row: 40210 + 3 * i), EVERY, "identifier", "who", False, "--id who"),
    "rows in any order": (
        each("x7", lambda i, row: 1 + i * 49 % 121), EVERY, "identifier", "x7", False, "--id x7"
    ),
    "digits of rows": (
        each("x7", lambda i, row: (i * 7919 + 104729) % 900001 + 100000), EVERY, "identifier", "x7", False, "--id x7"
    ),
    "yes and 1": (
        each("died", lambda i, row: int(row["died"] == "yes")), ODD, "yes/no", "died", True, "--recode died=no:0,yes:1"
    ),
    "yes and ja": (
        each("died", lambda i, row: {"yes": "ja", "no": "nein"}[row["died"]]), ODD, "yes/no", "died", True,
        "--recode died=ja:yes,nein:no",
    ),
    "case": (each("sex", lambda i, row: row["sex"].lower()), ODD, "spelling", "sex", False, "--fold-case"),
    "case in a file": (put("ward", "SURGERY"), ODD, "spelling", "ward", False, "--fold-case"),
    "blanks": (put("ward", "Heart  ward"), ODD, "spelling", "ward", False, "--fold-case"),
    "no blanks": (put("ward", "Heartward"), ODD, "spelling", "ward", False, "--recode 'ward=Heartward:Heart ward'"),
    "only here": (put("ward", "Eyes", range(0, 40)), ODD, "only here", "ward", False, "--recode 'ward=Eyes:...'"),
    "999": (put("age", "999"), ODD, "placeholder", "age", False, "--na age=999"),
    "-1": (put("dose", "-1"), ODD, "placeholder", "dose", False, "--na dose=-1"),
    "99 often": (put("age", "99", range(0, 60, 5)), ODD, "placeholder", "age", False, "--na age=99"),
    "unknown": (put("ward", "unknown", range(0, 40)), ODD, "placeholder", "ward", False, "--na ward=unknown"),
    "odd entry": (put("age", "5O"), ODD, "odd", "age", True, "--na age=5O"),
    "gaps": (put("crp", ""), ODD, "gaps", "crp", False, "fill them"),
    "no target": (put("died", ""), ODD, "gaps", "died", False, "fill them"),
    "empty": (each("dose", lambda i, row: ""), ODD, "empty", "dose", True, "--drop dose"),
    "constant": (each("site", lambda i, row: "x"), EVERY, "constant", "site", False, "--drop site"),
    "constant numbers": (each("site", lambda i, row: "4"), EVERY, "constant", "site", False, "--drop site"),
    "constant here": (each("dose", lambda i, row: "5"), ODD, "constant", "dose", False, "look whether"),
    "infinite": (put("crp", "inf"), ODD, "numbers", "crp", True, "put numbers between"),
    "long text": (put("ward", "x" * 201), ODD, "text", "ward", True, "--drop ward"),
    "many texts": (each("note", lambda i, row: f"n{i % 60}"), EVERY, "levels", "note", True, "--drop note"),
    "class": (lambda i, row: row.update(died="yes"), ODD, "classes", "died", False, "look whether"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_found_and_mended(fault, tables):
    change, names, kind, column, stops, remedy = FAULTS[fault]
    spoilt(tables, change, *names)
    found = findings()
    own = [one for one in found if one["kind"] == kind and one["column"] == column]
    assert own and all(one["stops"] == stops for one in own), found
    assert {silo for one in own for silo in one["silos"]} >= set(names) or kind in ("yes/no", "spelling", "columns")
    said = run(*CHECK, code=int(stops)).stdout
    flat = " ".join(said.split())
    assert remedy in flat and f"{column}: " in flat and names[0] in flat, said
    assert not re.search(rf"--categorical '?{column}", said) or fault == "codes"
    if options := proposed(said):
        left = findings(*options)
        assert not [one for one in left if one["stops"]], left
        assert not [one for one in left if one["kind"] == kind and one["column"] == column], left


def proposed(said):
    """The options that the command offers, as a shell reads them."""
    _, _, text = said.partition("and then to fit:\n")
    return shlex.split(text.replace("\\\n", " "))


def test_a_feature_that_is_yes_here_and_1_there(tables):
    spoilt(tables, each("icu", lambda i, row: (i // 3) % 2))
    assert findings() == []
    spoilt(tables, each("icu", lambda i, row: ["N", "Y"][row["icu"]]), "river.csv")
    said = run(*CHECK, code=1).stdout
    assert "'N' and 'Y', where north.csv, hill.csv have 0 and 1" in said and proposed(said) == [
        "--recode",
        "icu=N:0,Y:1",
    ]
    assert findings(*proposed(said)) == []
    spoilt(tables, each("icu", lambda i, row: {"N": "ward", "Y": "unit"}[row["icu"]]), "river.csv")
    said = run(*CHECK, code=1).stdout
    assert "say which is 1 by --recode 'icu=...:1,...:0'" in said and proposed(said) == []


@pytest.mark.parametrize(
    ("cells", "silos"),
    [
        (lambda i: f"{i},5", ODD),
        (lambda i: f"{i},5", EVERY),
        (lambda i: f"1.{100 + i},5", ODD),
        (lambda i: f"1.{100 + i},5", EVERY),
        (lambda i: f"{i},5" if i % 5 < 2 else "low", ODD),
        (lambda i: f"{i},5" if i % 5 < 2 else "low", EVERY),
        (lambda i: f"{i},5" if i % 5 < 3 else "low", ODD),
        (lambda i: f",{i}e2" if i % 2 else i, ODD),
        (lambda i: f"{i % 7},5" if i == 4 else i % 9, EVERY),
    ],
)
@pytest.mark.parametrize("more", [[], ["--decimal", "river.csv=,"], ["--decimal", "dose=,"]])
def test_a_decimal_comma_is_never_to_become_a_category(cells, silos, more, tables):
    spoilt(tables, each("dose", lambda i, row: cells(i)), *silos)
    found = findings(*more)
    said = CliRunner().invoke(main, [*CHECK, *more], prog_name="dualfl").stdout
    fit = CliRunner().invoke(main, ["fit", *CHECK[1:], "--no-influence", "--no-report", *more], prog_name="dualfl")
    if not more or "low" not in map(cells, range(9)):  # once commas are read, "low" is a word among numbers
        assert "--categorical" not in said + fit.stderr
    assert (fit.exit_code != 0) == any(one["stops"] for one in found), fit.stderr
    if not more:
        assert any(one["kind"] in ("decimal", "types") and one["column"] == "dose" for one in found)


def test_yes_in_several_languages(tables):
    for name, words in {"north.csv": "10", "river.csv": ("oui", "non"), "hill.csv": ("ja", "nee")}.items():
        spoilt(tables, each("died", lambda i, row, words=words: words[row["died"] == "no"]), name)
    said = run(*CHECK, code=1).stdout
    assert proposed(said) == ["--recode", "died=ja:1,nee:0,non:0,oui:1"]
    assert findings(*proposed(said)) == []


def test_numbers_with_signs_between_thousands_are_read_as_such(tables):
    """In the English way, the Swiss one and the French one, no option is needed; in the German one, that for commas."""

    def write_costs(name, sign, end):
        spoilt(tables, each("cost", lambda i, row: f"{1234 * (i % 9 + 1):,}".replace(",", sign) + end), name)

    write_costs("north.csv", ",", ".0")
    write_costs("river.csv", "'", "")
    write_costs("hill.csv", "\u202f", "")
    assert findings() == []
    write_costs("river.csv", ".", ",0")
    said = run(*CHECK, code=1).stdout
    assert proposed(said) == ["--decimal", "river.csv:cost=,"] and findings(*proposed(said)) == []
    for name in FILES:
        costs = read_table(Path(name), Rules(commas=("cost",) * (name == "river.csv"))).columns["cost"]
        assert costs.tolist() == [1234 * (i % 9 + 1) for i in range(len(costs))]


def test_rows_without_any_entry_are_told_once(tables):
    for name in ("north.csv", "hill.csv"):
        with open(name, "a", encoding="utf-8") as file:
            file.write(",,,,,\n" * 2)
    (north, hill) = findings()
    assert north["kind"] == hill["kind"] == "gaps" and not north["column"] and north["rows"] == 2
    assert "hill.csv   2 rows: 81, 82" in run(*CHECK).stdout
    done = run("fit", *CHECK[1:], "--no-influence", "--no-report")
    assert "300 rows, 4 more without a target were left out" in " ".join(done.stdout.split())
    assert "without any entry" not in done.stderr


def test_a_column_that_names_its_file_is_told_once(tables):
    for name in FILES:
        spoilt(tables, each("site", lambda i, row, name=name: name[0].upper()), name)
    (one,) = findings()
    assert one["kind"] == "constant" and one["silos"] == list(FILES) and "only which file a row is from" in one["what"]


def test_rows_are_told(tables):
    spoilt(tables, put("age", "999"), "river.csv")
    said = run(*CHECK).stdout
    assert "river.csv  3 rows: '999' (rows 4, 12, 21)" in said


def test_another_encoding_hides_no_other_fault(tables):
    spoilt(tables, put("ward", "Z\u00fcrich", range(30)), *EVERY)
    write("hill.csv", tables["hill.csv"], "cp1252")
    spoilt(tables, put("age", "999"), "river.csv")
    found = findings(code=1)
    assert {(one["kind"], one["column"]) for one in found} == {("encoding", ""), ("placeholder", "age")}
    assert "--encoding hill.csv=cp1252" in run(*CHECK, code=1).stdout
    assert findings("--encoding", "hill.csv=cp1252", "--na", "age=999")[0]["kind"] == "gaps"
    broken = findings("--encoding", "cp1252")  # which spoils the two others
    assert [(one["kind"], one["silos"]) for one in broken if one["kind"] == "encoding"] == [
        ("encoding", ["north.csv"]), ("encoding", ["river.csv"])
    ]  # fmt: skip
    assert "--encoding north.csv=utf-8" in run(*CHECK, "--encoding", "cp1252").stdout


def test_separation_is_seen_in_levels_and_in_numbers(tables):
    spoilt(tables, lambda i, row: row.update(ward="Eyes") if i % 10 == 0 else None)
    spoilt(tables, each("score", lambda i, row: 10 * (row["died"] == "yes") + i % 7))
    found = {one["column"]: one for one in findings() if one["kind"] == "separation"}
    assert found.keys() == {"ward", "score"}
    assert "'Eyes' (died = yes)" in found["ward"]["what"] and found["ward"]["rows"] == 30
    assert "died = no lie at or below those with yes" in found["score"]["what"]


def test_few_events_for_the_coefficients(tables):
    spoilt(tables, lambda i, row: row.update(died="yes" if i < 15 else "no"))
    (one,) = findings()
    assert one["kind"] == "few rows" and one["what"].startswith("45 rows of the rarest class, died = yes, for 6 coeff")
    done = run("fit", *CHECK[1:], "--no-influence", "--no-report")
    assert "6 coefficients and the intercept" in " ".join(done.stdout.split())


def test_columns_that_are_left_out_have_no_coefficient(tables):
    spoilt(tables, lambda i, row: row.update(died="yes" if i < 20 else "no", site="x"))
    assert [one["kind"] for one in findings()] == ["constant"]  # 60 events for 6 coefficients


def test_rows_without_a_target_do_not_count(tables):
    """A category with too many levels, and a column with entries, only in rows that no fit takes."""
    spoilt(tables, lambda i, row: row.update(died="", note=f"n{i}") if i % 3 == 0 else row.update(note=f"n{i % 4}"))
    assert [one for one in findings() if one["stops"]] == []
    spoilt(tables, lambda i, row: row.update(dose="") if i % 3 else None, "river.csv")
    (one,) = (one for one in findings(code=1) if one["stops"])
    assert one["kind"] == "empty" and one["column"] == "dose"


def test_a_file_that_cannot_be_read_and_a_copy(tables):
    Path("river.csv").write_text('age,died\n"1,2\n')
    Path("hill.csv").write_bytes(Path("north.csv").read_bytes())
    found = findings(code=1)
    assert [one["kind"] for one in found] == ["unreadable", "copy"] and "opens a cell" in found[0]["quotes"]
    said = " ".join(run(*CHECK, code=1).stdout.split())
    assert "hill.csv holds the same as north.csv" in said and "river.csv, line 2 is not CSV" in said


def test_what_only_a_fit_refuses_is_found_too(tables):
    spoilt(tables, each("(intercept)", lambda i, row: i % 5))
    (one,) = findings(code=1)
    assert one["kind"] == "refused" and "like that of the intercept" in one["what"]
    spoilt(tables, lambda i, row: (row.pop("(intercept)"), row.update(died="maybe") if i % 3 == 0 else None))
    (one,) = findings(code=1)
    assert "logistic is for two" in one["what"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "dead"], "There is no column 'dead'; did you mean died"),
        (["--drop", "agee"], "There is no column 'agee'; did you mean age?"),
        (["--na", "agee=3"], "There is no column 'agee'; did you mean age?"),
        (["--decimal", "x.csv=,"], "There is no column 'x.csv'"),
        (["--decimal", ";"], "The decimal sign must be '.' or ',', but it is ';'"),
        (["--decimal", "age=."], "--decimal is '.' or ',', for a file"),
        (["--encoding", "x.csv=cp1252"], "--encoding is for a file 'x.csv', and the files are north.csv"),
        (["--recode", "age"], "--recode is COLUMN=FROM:TO"),
        (["--columns", "age", "--drop", "age"], "contradict each other"),
    ],
)
def test_wrong_words_are_one_sentence(words, said):
    done = run(*CHECK, *words, code=2)
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_a_file_that_is_not_there():
    assert "There is no file none.csv." in run("check", "none.csv", code=2).stderr
    assert "is given twice" in run("check", "hill.csv", "./hill.csv", code=2).stderr
    assert "is a folder" in run("check", ".", code=2).stderr


# -- what a silo may tell --------------------------------------------------------------------------------------


def test_what_is_told_has_no_entry_and_no_count(tables):
    secret = ["Xenophon", "73129", "4711,5", "very long"]
    spoilt(tables, put("age", secret[0], (17,)), "river.csv")
    spoilt(tables, put("dose", "-1", (17,)), "river.csv")
    spoilt(tables, each("crp", lambda i, row: secret[2] if i == 0 else row["crp"].replace(".", ",")), "river.csv")
    tables["river.csv"] = tables["river.csv"][:40]  # fewer persons than a category may have levels
    spoilt(tables, each("person", lambda i, row: f"{secret[1]}-{i}"), "river.csv")
    spoilt(tables, put("ward", secret[3] * 40), "river.csv")
    found = inspect(read_table(Path("river.csv")), Rules(), "died", True)
    assert {one.kind for one in found.findings} == {"odd", "placeholder", "decimal", "identifier", "text"}
    own, told = json.dumps(found.as_json()), json.dumps(found.told.as_json())
    assert all(word in own for word in ("Xenophon", "4711,5", "=-1"))
    assert not any(word in told for word in (*secret, "=-1"))
    content = found.told.as_json()
    assert all(one["rows"] == 0 and one["quotes"] == "" for one in content["findings"])
    assert content["rows"] is None
    assert all(
        not facts["present"] and not facts["counts"] and not facts["spans"] for facts in content["columns"].values()
    )
    assert Inspection.from_json(json.loads(own)) == found and Inspection.from_json(json.loads(told)) == found.told


def test_silos_that_tell_no_number_are_compared_all_the_same(tables):
    spoilt(tables, each("sex", lambda i, row: row["sex"].lower()), "river.csv")
    spoilt(tables, each("died", lambda i, row: int(row["died"] == "yes")), "hill.csv")
    spoilt(tables, lambda i, row: row.pop("dose"), "north.csv")
    silos = [inspect(read_table(Path(name)), Rules(), "died", True) for name in FILES]
    whole, told = compare(silos), compare([silo.told for silo in silos])
    assert [(one.kind, one.column, one.silos, one.stops, one.mend) for one in told] == [
        (one.kind, one.column, one.silos, one.stops, one.mend)
        for one in whole
        if one.kind not in ("few rows", "separation")
    ]
    assert {one.kind for one in told} == {"spelling", "yes/no", "columns"}


def test_options_that_are_proposed_do_not_contradict_each_other(tables):
    spoilt(tables, put("age", "999"), "river.csv")
    spoilt(tables, lambda i, row: row.pop("age"), "hill.csv")
    spoilt(tables, each("who", lambda i, row: f"P{i}"), "north.csv", "river.csv")
    said = run(*CHECK, code=1).stdout
    assert sorted(zip(proposed(said)[::2], proposed(said)[1::2])) == [("--drop", "age"), ("--id", "who")]
    assert run(*CHECK, *proposed(said)).stdout.endswith("5 columns: nothing is wrong.\n")


def test_rules_for_a_silo_are_lines_of_its_settings():
    assert json.loads("{" + for_silo({"drop": ["a"], "recode": {"y": {"yes": "1"}}}) + "}") == {
        "ignore": ["a"], "recode": {"y": {"yes": "1"}}
    }  # fmt: skip


# -- fit warns of the same -------------------------------------------------------------------------------------


def test_a_fit_warns_in_a_line_each_and_keeps_the_warnings(tables):
    spoilt(tables, put("age", "999"), "river.csv")
    spoilt(tables, each("sex", lambda i, row: row["sex"].lower()), "river.csv")
    spoilt(tables, put("crp", "", range(40)), "river.csv")
    said = run("fit", *CHECK[1:], "--no-influence", "--no-report").stdout
    flat = " ".join(said.split())
    assert said.count("\nwarning ") == 3
    assert (
        "warning age in river.csv: a number, far from the others or often, that may stand for a gap (3 rows: '999'"
        in flat
    )
    assert "warning sex: levels that differ by case or blanks only: 'F' and 'f'; 'M' and 'm'; --fold-case" in flat
    assert "warning crp in river.csv: gaps, which become the mean of all (40 rows: 1, 2, 3, ...)" in flat
    kept = json.loads(Path("model/fit.json").read_text())["data"]["warnings"]
    assert len(kept) == 3 and "--na age=999" in kept[0]


def test_a_fit_of_clean_tables_warns_of_nothing():
    assert "warning" not in run("fit", *CHECK[1:], "--no-influence", "--no-report").stdout


def test_matters_are_findings_of_one_kind_in_several_files(tables):
    spoilt(tables, put("age", "999"))
    silos = [inspect(read_table(Path(name)), Rules(), "died", True) for name in FILES]
    (matter,) = matters(one for silo in silos for one in silo.findings)
    assert matter.silos == FILES and matter.remedy(FILES) == "--na age=999"


# -- a model reads new files as its own ------------------------------------------------------------------------


def test_a_model_keeps_the_rules_for_new_files(tables):
    """The same rows, once as they are and once as rules must read them, give the same model and predictions."""
    run("fit", *CHECK[1:], "--no-influence", "--no-report", "--columns", "age,crp,sex", "--out", "plain")
    plain = run("predict", "plain", "hill.csv").stdout
    for name in FILES:
        for i, row in enumerate(tables[name]):
            row["died"] = {"yes": "1", "no": "0"}[row["died"]]
            row["sex"] = row["sex"].lower() if i % 2 else row["sex"]
            row["crp"] = row["crp"].replace(".", ",")
            row["p\u00e4tient"] = f"00{i}"
        write(name, tables[name], "cp1252", ";")
    words = [
        "--decimal",
        ",",
        "--encoding",
        "cp1252",
        "--fold-case",
        "--recode",
        "died=1:Yes,0:no",
        "--id",
        "p\u00e4tient",
    ]
    words += ["--columns", "age,crp", "--columns", "sex", "--positive", "YES"]
    run("fit", *CHECK[1:], "--no-influence", "--no-report", *words, "--out", "ruled")
    first, second = (json.loads(Path(name, "model.json").read_text()) for name in ("plain", "ruled"))
    assert second["coefficients"] == first["coefficients"] and second["schema"]["classes"] == ["no", "yes"]
    found = list(csv.reader(run("predict", "ruled", "hill.csv").stdout.splitlines()))
    assert found[0] == ["row", "p\u00e4tient", "prediction", "probability no", "probability yes"]
    assert [line[:1] + line[2:] for line in found] == list(csv.reader(plain.splitlines()))
    assert [line[1] for line in found[1:4]] == ["000", "001", "002"]
    write("new.csv", [{"age": "30", "crp": "2.5", "sex": "M"}])
    assert "where commas are decimal" in run("predict", "ruled", "new.csv", code=2).stderr
    assert run("predict", "ruled", "new.csv", "--decimal", ".").stdout.startswith("row,prediction,")
    said = run("predict", "ruled", "new.csv", "--decimal", ".", "--id", "sex").stdout
    assert said.startswith("row,sex,prediction") and said.splitlines()[1].startswith("1,M,")
    assert "There is no column 'person'" in run("predict", "ruled", "new.csv", "--id", "person", code=2).stderr


def test_rules_of_one_file_stay_with_it(tables):
    coded = {"F": "1", "M": "2"}
    other = {"F": "2", "M": "1"}  # the other way round in the second file
    run("fit", *CHECK[1:], "--no-influence", "--no-report", "--out", "plain")
    spoilt(tables, each("sex", lambda i, row: coded[row["sex"]]), "north.csv")
    spoilt(tables, each("sex", lambda i, row: other[row["sex"]]), "river.csv")
    words = ["--recode", "north.csv:sex=1:F,2:M", "--recode", "river.csv:sex=2:F,1:M"]
    run("fit", *CHECK[1:], "--no-influence", "--no-report", *words, "--out", "ruled")
    first, second = (json.loads(Path(name, "model.json").read_text()) for name in ("plain", "ruled"))
    assert second["coefficients"] == first["coefficients"] and second["rules"] == {}


def test_dates_are_a_feature(tables):
    spoilt(tables, each("seen", day))
    run("fit", *CHECK[1:], "--no-influence", "--no-report", "--dates", "as-days-since:2021-01-01", "--out", "first")
    run("fit", *CHECK[1:], "--no-influence", "--no-report", "--dates", "as-days-since:2020-01-01", "--out", "second")
    first, second = (json.loads(Path(name, "model.json").read_text()) for name in ("first", "second"))
    mean = {name: model["schema"]["features"][-1]["mean"] for name, model in (("a", first), ("b", second))}
    assert first["columns"][-1] == "seen" and mean["b"] - mean["a"] == pytest.approx(366, rel=1e-12)
    np.testing.assert_allclose(first["coefficients"], second["coefficients"], rtol=1e-9)
    assert run("predict", "first", "hill.csv").stdout.splitlines()[1].startswith("1,")


def test_days_of_dates_are_no_identifier_though_none_occurs_twice(tables):
    spoilt(tables, each("seen", day))
    assert not [one for one in findings("--dates", "as-days-since:2020-01-01") if one["column"] == "seen"]
    spoilt(tables, each("seen", lambda i, row: 1000 + i))
    assert [one["kind"] for one in findings("--dates", "as-days-since:2020-01-01") if one["column"] == "seen"]


@pytest.mark.parametrize(
    ("change", "names", "option"),
    [
        (each("seen", day), EVERY, "--dates as-days-since:2020-01-01"),
        (each("who", lambda i, row: f"P{i}-{row['age']}"), EVERY, "--id 'who'"),
        (lambda i, row: row.update(died=str(int(row["died"] == "yes"))), ODD, "--recode died=no:0,yes:1"),
    ],
)
def test_a_refused_fit_names_the_option_that_check_names(change, names, option, tables):
    spoilt(tables, change, *names)
    assert option in run("fit", *CHECK[1:], code=2).stderr


def test_a_model_of_before_is_read_by_the_usual_rules(tables):
    import hashlib

    run("fit", *CHECK[1:], "--no-influence", "--no-report")
    now = run("predict", "model", "hill.csv").stdout
    path = Path("model/model.json")
    content = json.loads(path.read_text())
    del content["rules"]
    names = ("recipe", "schema", "outputs", "columns", "coefficients", "intercepts")
    decisive = json.dumps({name: content[name] for name in names}, sort_keys=True, ensure_ascii=False)
    content |= {"format": 2, "digest": hashlib.sha256(decisive.encode()).hexdigest()}
    path.write_text(json.dumps(content))
    assert run("predict", "model", "hill.csv").stdout == now


# -- the page --------------------------------------------------------------------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_untidy_files_with_the_options_that_are_proposed_give_the_model_of_the_tidy_ones(tmp_path, monkeypatch):
    runpy.run_path(str(EXAMPLES / "make_untidy.py"))["main"](tmp_path / "made")
    for name in FILES:
        assert (tmp_path / "made" / name).read_bytes() == (EXAMPLES / "untidy" / name).read_bytes()
    page = (EXAMPLES.parent / "docs" / "fit.md").read_text(encoding="utf-8")
    command = next(line.strip() for line in page.splitlines() if line.startswith("    dualfl check "))
    monkeypatch.chdir(EXAMPLES / "untidy")
    words = shlex.split(command)[2:]
    said = run("check", *words, code=1).stdout
    assert page.partition(f"{command}\n\n```text\n")[2].startswith(f"{said.rstrip()}\n```\n")
    more = ["--no-influence", "--no-report", "--out"]
    run("fit", *words, *proposed(said), *more, tmp_path / "untidy")
    monkeypatch.chdir(EXAMPLES / "hospitals")
    run("fit", *words, *more, tmp_path / "tidy")
    first, second = (json.loads((tmp_path / name / "model.json").read_text()) for name in ("tidy", "untidy"))
    assert first["columns"] == second["columns"]
    assert first["coefficients"] == second["coefficients"] and first["intercepts"] == second["intercepts"]


def test_join_takes_the_options_that_check_lists(tables):
    pytest.importorskip("flwr")
    spoilt(tables, each("crp", comma), "river.csv")
    spoilt(tables, each("who", lambda i, row: f"P{i}-{row['age']}"), "river.csv")
    one = ("check", "river.csv", "--target", "died")
    said = run(*one, code=1).stdout
    join = ("deploy", "join", "home", "--name", "river", "--coordinator", "a.org:9443", "--data", "river.csv")
    join = (*join, "--target", "died", "--insecure")
    refused = CliRunner().invoke(main, [*join], prog_name="dualfl")
    assert refused.exit_code == 2 and "read them with --decimal ','" in refused.stderr
    assert "`dualfl check river.csv --target died` lists all that is wrong" in refused.stderr
    assert proposed(said) and CliRunner().invoke(main, [*join, *proposed(said)], prog_name="dualfl").exit_code == 0
    settings = json.loads(Path("home/silo.json").read_text(encoding="utf-8"))
    assert settings["id"] == ["who"] and settings["decimal"] == ","
    assert settings["policy"]["classes"] == ["no", "yes"]


def test_a_check_of_a_study_that_was_approved_once_goes_on(monkeypatch):
    """A new plan each time would have to be approved each time, and never be carried out."""
    pytest.importorskip("flwr")
    from dualfl.deploy.study import Study

    asked = []
    monkeypatch.setattr(Study, "__init__", lambda self: None)
    monkeypatch.setattr(
        Study, "analyse", lambda self, one, name=None, fresh=False: asked.append(fresh) or type("A", (), {"result": []})
    )
    assert Study().check("died") == [] and asked == [False]


def test_letters_in_one_file_and_numbers_in_another_are_not_four_levels(tables):
    """As categories F, M, 1 and 2 would be four; which number is which only the user can say."""
    spoilt(tables, each("sex", lambda i, row: {"F": "1", "M": "2"}[row["sex"].upper()[:1]]), "river.csv")
    said = run(*CHECK, code=1).stdout
    assert "--recode 'sex=...:F,...:M'" in said and "--categorical" not in said
    left = findings("--recode", "sex=1:F,2:M")
    assert not [one for one in left if one["column"] == "sex"]
