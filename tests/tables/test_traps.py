"""Files that would give a wrong model in silence: each is refused in a sentence that says where, or read as meant.

By the commands, so that reading, agreeing and encoding are all in it.
"""

import csv
import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dualfl.cli import main
from dualfl.data import load
from dualfl.errors import InputError
from dualfl.tables.schema import Feature, Schema


def run(*words, code=0):
    done = CliRunner().invoke(main, [*map(str, words)], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def rows(n=60, seed=0, **columns):
    """A table with age, ward, y, and more; as a list of dictionaries."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        row = {"age": f"{rng.normal(50, 9):.1f}", "ward": rng.choice(["a", "b"]), "y": rng.choice(["no", "yes"])}
        found.append(row | {name: str(make(i, rng)) for name, make in columns.items()})
    return found


def write(path, table, delimiter=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    return path


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*words, files=("one.csv", "two.csv"), code=0, model="logistic"):
    done = run("fit", *files, "--target", "y", "--model", model, "--no-influence", "--no-report", *words, code=code)
    if code:
        assert done.stderr.count("\n") == 1 and not os.path.exists("model"), done.output
        return done.stderr
    with open("model/model.json", encoding="utf-8") as file:
        return json.load(file)


def feature(model, name):
    return next(one for one in model["schema"]["features"] if one["name"] == name)


def tables(change, seed=0, **columns):
    """one.csv, changed, and two.csv."""
    table = rows(seed=seed, **columns)
    change(table)
    write("one.csv", table)
    write("two.csv", rows(seed=seed + 1, **columns))


# -- rows that are swallowed -----------------------------------------------------------------------------------


def quote(first, last, ends='"', column=-1):
    """A quotation mark that opens a cell of one line, and one that ends a cell of a later line."""
    path = Path("one.csv")
    lines = path.read_text().splitlines()
    cells = lines[first].split(",")
    cells[column] = '"' + cells[column]
    lines[first] = ",".join(cells)
    cells = lines[last].split(",")
    cells[column] += ends
    lines[last] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("words", [[], ["--drop", "note"]])
@pytest.mark.parametrize("column", [-1, 1])
def test_rows_in_quotes_do_not_vanish(words, column):
    tables(lambda table: None, note=lambda i, rng: f"n{rng.integers(3)}")
    quote(5, 45, column=column)
    said = fit(*words, code=2)
    assert "one.csv" in said and "begins in line 6 and ends in line 46, as if 40 rows were in it" in said
    assert "quotation mark" in said and ("'note'" in said or column == 1)


def test_a_quote_that_nobody_closes_is_a_sentence():
    tables(lambda table: None)
    quote(5, 45, ends="")
    assert "a quotation mark opens a cell and none closes it" in fit(code=2)


def test_a_text_over_two_lines_or_of_a_page_is_no_category():
    def remark(table):
        table[3]["ward"] = "first\nsecond"

    tables(remark)
    said = fit(code=2)
    assert "one.csv has a text with a line break in column 'ward', row 4, that begins with 'first" in said
    tables(lambda table: table[7].update(ward="x" * 201))
    said = fit(code=2)
    assert "a text of more than 200 characters in column 'ward', row 8" in said and "--drop 'ward'" in said
    assert [one["name"] for one in fit("--drop", "ward")["schema"]["features"]] == ["age"]


# -- numbers that are none -------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ["5O", "<40", "12 mg", "1 234", "Total", "?", ".", "unknown", "#N/A", "1_000"])
def test_an_entry_that_is_no_number_does_not_make_categories_of_a_column(odd):
    def spoil(table):
        table[3]["age"] = table[11]["age"] = odd

    tables(spoil)
    write("two.csv", [row | {"age": odd if i == 30 else row["age"]} for i, row in enumerate(rows(seed=1))])
    said = fit(code=2)
    assert f"one.csv has {odd!r} (rows 4, 12) in column 'age', where 58 of 60 entries are numbers" in said
    assert f"--na {odd!r}" in said and "--categorical 'age'" in said
    model = fit("--na", odd)
    assert feature(model, "age")["kind"] == "numeric"
    one, two = rows(seed=0), rows(seed=1)
    there = [float(row["age"]) for i, row in enumerate(one) if i not in (3, 11)]
    there += [float(row["age"]) for i, row in enumerate(two) if i != 30]
    assert feature(model, "age")["mean"] == pytest.approx(np.mean(there), rel=1e-14)


def test_a_number_may_stand_for_a_gap():
    tables(lambda table: table[3].update(age="-999"))
    write("two.csv", [row | {"age": "-999.0" if i == 30 else row["age"]} for i, row in enumerate(rows(seed=1))])
    assert feature(fit("--na", "-999"), "age")["mean"] == pytest.approx(50, abs=5)


def test_an_odd_entry_may_be_a_category():
    tables(lambda table: table[3].update(code="7a"), code=lambda i, rng: rng.integers(1, 4))
    write("two.csv", rows(seed=1, code=lambda i, rng: f"0{rng.integers(1, 4)}.0"))
    said = fit(code=2)
    assert "'7a' (row 4) in column 'code'" in said
    model = fit("--categorical", "code")
    assert feature(model, "code")["levels"] == ["1", "2", "3", "7a"]  # 01.0 and 1 are the same code


@pytest.mark.parametrize("delimiter", [";", ","])
def test_decimal_commas_are_numbers_if_somebody_says_so(delimiter):
    for seed, name in enumerate(("one.csv", "two.csv")):
        write(name, [row | {"age": row["age"].replace(".", ",")} for row in rows(seed=seed)], delimiter)
    said = fit(code=2)
    assert "one.csv has commas in the numbers of column 'age', such as " in said and "--decimal ','" in said
    model = fit("--decimal", ",")
    means = [float(row["age"]) for seed in (0, 1) for row in rows(seed=seed)]
    assert feature(model, "age")["mean"] == pytest.approx(np.mean(means), rel=1e-14)


def test_points_among_decimal_commas_are_not_guessed():
    tables(lambda table: [row.update(age=row["age"].replace(".", ",")) for row in table[1:]])
    said = fit("--decimal", ",", code=2)
    assert "in column 'age', row 1, where commas are decimal" in said and "--drop 'age'" in said
    assert [one["name"] for one in fit("--decimal", ",", "--drop", "age")["schema"]["features"]] == ["ward"]


def test_a_comma_among_points_is_mended_by_itself():
    """To read the whole column by commas would then be refused, so that is not what is advised."""
    for seed, name in enumerate(("one.csv", "two.csv")):
        table = rows(seed=seed)
        table[3]["age"] = "41,5"
        write(name, table)
    said = run("check", "one.csv", "two.csv", "--target", "y", code=1).stdout
    remedy = """--recode 'age="41,5:41.5"'"""
    assert "commas in some numbers, and points in others" in said and remedy in said and "--decimal" not in said
    means = [41.5 if i == 3 else float(row["age"]) for seed in (0, 1) for i, row in enumerate(rows(seed=seed))]
    model = fit(*shlex.split(remedy))
    assert feature(model, "age")["mean"] == pytest.approx(np.mean(means), rel=1e-14)


def test_a_run_names_a_column_with_decimal_commas():
    table = [row | {"age": row["age"].replace(".", ","), "dose": str(i)} for i, row in enumerate(rows())]
    write("t.csv", table)
    said = run("run", "--dataset", "t.csv", "--target", "y", "--rounds", "1", "--out", "out", code=2).stderr
    assert "decimal commas in column 'age'" in said and not os.path.exists("out")


# -- one type for all files ------------------------------------------------------------------------------------


def test_a_code_has_one_name_in_all_files_and_in_predictions():
    codes = ["01", "02", "A3"]
    tables(lambda table: None, code=lambda i, rng: codes[i % 3])
    write("two.csv", rows(seed=1, code=lambda i, rng: f"{1 + i % 2}"))  # all of its codes are numbers
    model = fit("--categorical", "code")
    assert feature(model, "code")["levels"] == ["1", "2", "A3"]
    write("new.csv", rows(4, seed=2, code=lambda i, rng: "01"))
    text = write("new2.csv", rows(4, seed=2, code=lambda i, rng: "1"))
    assert run("predict", "model", "new.csv").stdout == run("predict", "model", text).stdout


@pytest.mark.parametrize("other", ["Zu\u0308rich", "Z\u00fcrich\u200b", "\ufeffZ\u00fcrich ", "\u00a0Z\u00fcrich"])
def test_texts_that_look_the_same_are_the_same(other):
    tables(lambda table: None, town=lambda i, rng: ["Z\u00fcrich", "Bern"][i % 2])
    write("two.csv", rows(seed=1, town=lambda i, rng: [other, "Bern"][i % 2]))
    assert feature(fit(), "town")["levels"] == ["Bern", "Z\u00fcrich"]


def test_true_and_false_are_two_levels_however_they_are_written(place):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    tables(lambda table: None, flag=lambda i, rng: ["TRUE", "FALSE", "true", "False"][i % 4])
    frame = pandas.DataFrame(rows(seed=1)).astype({"age": float}).assign(flag=np.arange(60) % 2 == 0)
    frame.to_parquet("two.parquet")
    model = fit(files=("one.csv", "two.parquet"))
    assert feature(model, "flag")["levels"] == ["false", "true"]


@pytest.mark.parametrize("parquet", [False, True])
def test_large_whole_numbers_stay_apart(parquet):
    base = 2**53
    codes = [base, base + 1, base + 2]
    tables(lambda table: None, code=lambda i, rng: codes[i % 3])
    if parquet:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pandas.DataFrame(rows(seed=1)).astype({"age": float})
        frame.assign(code=np.array([codes[i % 3] for i in range(60)])).to_parquet("two.parquet")
    model = fit("--categorical", "code", files=("one.csv", "two.parquet" if parquet else "two.csv"))
    assert feature(model, "code")["levels"] == [str(code) for code in codes]
    write("new.csv", rows(3, seed=2, code=lambda i, rng: codes[i]))
    assert run("predict", "model", "new.csv").exit_code == 0


def test_large_classes_stay_apart():
    for seed, name in enumerate(("one.csv", "two.csv")):
        write(name, [row | {"y": str(2**53 + (row["y"] == "yes"))} for row in rows(seed=seed)])
    assert fit()["schema"]["classes"] == [str(2**53), str(2**53 + 1)]


@pytest.mark.parametrize("parquet", [False, True])
def test_large_classes_stay_apart_in_a_run(parquet, place):
    labels = [2**53, 2**53 + 1, 2**53 + 2]
    table = [{"x": str(i * i % 7), "y": str(labels[i % 3])} for i in range(30)]
    path = write(place / "t.csv", table)
    if parquet:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        path = place / "t.parquet"
        pandas.DataFrame({"x": np.arange(30.0), "y": np.array([labels[i % 3] for i in range(30)])}).to_parquet(path)
    data = load(path)
    assert data.classes == tuple(map(str, labels)) and data.y.tolist() == [i % 3 for i in range(30)]


def test_a_copy_counts_once(place):
    write("one.csv", rows())
    (place / "copy.csv").write_bytes((place / "one.csv").read_bytes())
    assert "copy.csv holds the same as one.csv" in fit(files=("one.csv", "copy.csv"), code=2)


@pytest.mark.parametrize(
    ("name", "others"), [("(intercept)", "the intercept"), ("ward=b", "column 'ward'"), ("ward=a", "column 'ward'")]
)
def test_names_that_are_made_do_not_meet_names_of_columns(name, others):
    tables(lambda table: None, **{name: lambda i, rng: rng.normal()})
    said = fit("--coding", "full", code=2)
    assert f"{name!r}, like that of " in said and others in said and "rename the column" in said


def test_levels_of_a_model_that_an_older_version_wrote_have_the_names_of_now():
    then = Feature("flag", "categorical", levels=("007", "False", "True"), reference="True")
    now = Feature("flag", "categorical", levels=("7", "false", "true"), reference="true")
    content = {"target": "y", "classes": ["False", "True"], "features": [asdict(then)], "constant": []}
    assert Schema.from_json(content) == Schema("y", ("false", "true"), (now,))
    content["features"] = [asdict(Feature("flag", "categorical", levels=("01", "1"), reference="1"))]
    with pytest.raises(InputError, match="'flag' has two levels that are the same number"):
        Schema.from_json(content)


# -- predictions -----------------------------------------------------------------------------------------------


def test_predict_decides_types_by_the_model():
    tables(lambda table: None, code=lambda i, rng: rng.choice(["1", "2", "x"], p=[0.2, 0.2, 0.6]))
    fit()
    write("new.csv", rows(6, seed=2, code=lambda i, rng: "12x"[i % 3]))  # most of its codes are numbers
    assert run("predict", "model", "new.csv").exit_code == 0
    write("new.csv", [row | {"age": "5O" if i == 2 else row["age"], "code": "1"} for i, row in enumerate(rows(6))])
    said = run("predict", "model", "new.csv", code=2).stderr
    assert "new.csv has '5O' (row 3) in column 'age', where 5 of 6 entries are numbers" in said and "--na '5O'" in said
    assert run("predict", "model", "new.csv", "--na", "5O").exit_code == 0
    assert "--na '5O'" in run("evaluate", "model", "new.csv", code=2).stderr
    assert run("evaluate", "model", "new.csv", "--na", "5O").exit_code == 0


def test_predict_says_what_it_put_in_place_of_entries():
    tables(lambda table: None)
    fit()
    write("new.csv", rows(9, seed=2))
    assert run("predict", "model", "new.csv", "--out", "p.csv").stderr == ""
    table = rows(9, seed=2)
    table[0]["age"] = table[4]["age"] = ""
    table[5]["ward"] = "c"
    write("new.csv", table)
    said = run("predict", "model", "new.csv", "--unseen", "baseline").stderr
    assert said == (
        "new.csv: 2 missing numbers became the mean that the model was fitted with; "
        "1 level that the model does not know counts as the reference level.\n"
    )
