"""`dualfl fit`, `predict` and `evaluate`: from three files to a model, and what they refuse."""

import csv
import json
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mean_poisson_deviance, roc_auc_score

from dualfl.cli import main
from dualfl.report.results import read
from dualfl.report.sheets import harmless

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [EXAMPLES / "hospitals" / f"{name}.csv" for name in ("north", "river", "hill")]
NEW = EXAMPLES / "hospitals" / "new.csv"


def dualfl(*words, code=0):
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    assert all(len(line) <= 80 or "/" in line for line in done.stdout.splitlines()), done.stdout  # paths may be long
    return done


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The model of the three hospitals, and what was said about it."""
    out = tmp_path_factory.mktemp("fit") / "model"
    said = dualfl("fit", *FILES, "--target", "readmitted", "--model", "logistic", "--tol", 1e-12, "--out", out)
    return out, said.output


def pooled():
    """The table that nobody has, as pandas makes it."""
    frame = pd.concat([pd.read_csv(path, keep_default_na=True) for path in FILES])
    return frame[frame.readmitted.notna()].reset_index(drop=True)


# -- a model -------------------------------------------------------------------------------------------------


def test_the_example_files_are_those_that_the_script_makes(tmp_path):
    runpy.run_path(str(EXAMPLES / "make_hospitals.py"))["main"](tmp_path)
    for path in (*FILES, NEW):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_three_files_become_a_model_a_certificate_and_a_page(model):
    out, said = model
    for word in (
        "alpha = 0.001, the default, a small ridge",
        "auto runs",
        "proven",
        "4 more without a target",
        "sandwich",
    ):
        assert word in " ".join(said.split()), said
    names = {path.name for path in out.iterdir()}
    wanted = {"model.json", "coefficients.csv", "fit.json", "history.csv", "influence.csv", "partition.json", "card.md"}
    assert names == wanted | {"report.html"}
    assert [path.name for path in out.parent.iterdir()] == ["model"]  # nothing is left beside it
    found = read(out)
    assert len(found.coefficients) == 10 and all(one.error > 0 for one in found.coefficients)
    assert found.partition.clients == tuple(str(path) for path in FILES)
    assert shlex.split(found.record["command"])[:5] == ["dualfl", "fit", *map(str, FILES)]
    content = json.loads((out / "model.json").read_text())
    assert content["certificate"] <= 1e-12 * content["objective"]


def test_its_page_is_about_the_model_first(model):
    text = (model[0] / "report.html").read_text(encoding="utf-8")
    assert "<h1>Logistic model of readmitted<" in text and "3 silos, 456 rows" in text
    places = [text.index(f'id="{name}"') for name in ("coefficients", "influence", "convergence", "hyperparameters")]
    assert places == sorted(places)


def test_its_coefficients_are_scikit_learns_on_the_pooled_table(model):
    out, _ = model
    frame = pooled()
    X = frame[["age", "blood_pressure", "earlier_admissions", "days"]].fillna(frame.mean(numeric_only=True))
    dummies = pd.get_dummies(frame[["smoker", "ward"]].fillna("(missing)"), prefix_sep="=").astype(float)
    X = pd.concat([X, dummies.drop(columns=["smoker=never", "ward=general"])], axis=1)
    right = LogisticRegression(C=1 / (0.001 * len(X)), tol=1e-12, solver="newton-cholesky")
    right.fit((X - X.mean()) / X.std(ddof=0), frame.readmitted)
    expected = dict(zip(X.columns, right.coef_[0] / X.std(ddof=0)))
    expected["(intercept)"] = right.intercept_[0] - sum(expected[name] * X[name].mean() for name in X)
    found = {row["feature"]: float(row["coefficient"]) for row in rows(out / "coefficients.csv")}
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[name] for name in expected], list(expected.values()), rtol=1e-6)


def test_predictions_are_those_of_the_coefficients(model, tmp_path):
    out, _ = model
    printed = dualfl("predict", out, FILES[2]).stdout
    dualfl("predict", out, FILES[2], "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == printed
    frame = pd.read_csv(FILES[2])
    found = rows(tmp_path / "p.csv")
    w = {row["feature"]: float(row["coefficient"]) for row in rows(out / "coefficients.csv")}
    mean = pooled().mean(numeric_only=True)
    z = w["(intercept)"] + sum(w[name] * frame[name].fillna(mean[name]) for name in mean.index)
    for name in ("smoker", "ward"):
        z = z + frame[name].fillna("(missing)").map(lambda level, name=name: w.get(f"{name}={level}", 0.0))
    np.testing.assert_allclose([float(row["probability yes"]) for row in found], expit(z), rtol=1e-9)
    assert [row["prediction"] for row in found] == list(np.where(z > 0, "yes", "no"))
    assert [row["row"] for row in found] == [str(i + 1) for i in range(len(frame))]


def test_evaluation_is_that_of_the_pooled_predictions(model, tmp_path):
    out, _ = model
    said = dualfl("evaluate", out, *FILES, "--out", tmp_path / "e.json").stdout
    content = json.loads((tmp_path / "e.json").read_text())
    p, y = [], []
    for number, path in enumerate(FILES):
        dualfl("predict", out, path, "--out", tmp_path / f"{number}.csv")
        truth = pd.read_csv(path).readmitted
        p += [float(r["probability yes"]) for r, t in zip(rows(tmp_path / f"{number}.csv"), truth) if not pd.isna(t)]
        y += [t == "yes" for t in truth if not pd.isna(t)]
    overall = content["silos"]["overall"]
    assert overall["log_loss"] == pytest.approx(log_loss(y, p), rel=1e-9)
    assert abs(overall["auc"] - roc_auc_score(y, p)) <= overall["auc_error"] + 1e-12
    assert overall["accuracy"] == pytest.approx(np.mean((np.array(p) > 0.5) == y))
    assert "1,000 bins" in said and "4 rows without it" in said
    assert sum(content["curves"][0]["calibration"]["rows"]) == len(y)


@pytest.mark.parametrize(
    "words",
    [
        ["--target", "days", "--model", "quantile", "--quantile", "0.9", "--penalty", "l2"],
        ["--target", "days", "--model", "huber", "--missing", "indicator"],
        ["--target", "earlier_admissions", "--model", "poisson", "--penalty", "none"],
        ["--target", "ward", "--model", "svm", "--alpha", "0.1"],
        ["--target", "ward", "--model", "multinomial", "--penalty", "l1", "--alpha", "0.02"],
        ["--target", "days", "--model", "linear", "--categorical", "earlier_admissions", "--missing", "drop"],
    ],
)
def test_every_kind_of_model_is_kept_and_used(words, tmp_path):
    out = tmp_path / "m"
    said = dualfl("fit", *FILES, *words, "--no-report", "--out", out).stdout
    assert "coefficient" in said and not (out / "report.html").exists()
    read(out)
    assert len(dualfl("predict", out, FILES[2], "--unseen", "baseline").stdout.splitlines()) == 61
    said = dualfl("evaluate", out, FILES[0], FILES[1], "--unseen", "baseline").stdout
    assert "overall" in said and "nan" not in said


def test_cross_validation_draws_its_path(tmp_path):
    out = tmp_path / "m"
    words = ["fit", *FILES, "--target", "days", "--model", "lasso", "--no-influence", "--rule", "1se", "--out", out]
    said = " ".join(dualfl(*words).stdout.split())
    path = rows(out / "path.csv")
    chosen = [row for row in path if row["chosen"] == "1"]
    assert len(path) == 20 and len(chosen) == 1
    assert f"alpha = {float(chosen[0]['alpha']):.4g}, chosen among 20" in said
    best = min(path, key=lambda row: float(row["held_out_loss"]))
    strongest = [
        row
        for row in path
        if float(row["held_out_loss"]) <= sum(map(float, [best["held_out_loss"], best["std_error"]]))
    ]
    assert chosen[0] == strongest[0]
    assert (out / "path.png").read_bytes()[:4] == b"\x89PNG" and "influence" not in said


def test_a_model_is_replaced_only_when_asked_and_as_a_whole(model, tmp_path):
    words = ["fit", *FILES, "--target", "days", "--model", "ridge", "--no-report", "--out", tmp_path / "m"]
    dualfl(*words, "--positive", "x")  # no classes: nothing to be positive, and no harm
    before = (tmp_path / "m" / "model.json").read_bytes()
    assert "--force" in dualfl(*words, code=2).stderr
    dualfl(*words, "--alpha", "1", "--force")
    assert (tmp_path / "m" / "model.json").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years")
    assert "would be lost" in dualfl(*words[:-1], tmp_path / "other", "--force", code=2).stderr
    assert (tmp_path / "other" / "thesis.txt").read_text() == "years"


RIDGE = ["fit", *FILES, "--target", "days", "--model", "ridge", "--no-influence", "--no-report", "--out"]


def test_files_that_no_fit_wrote_are_never_replaced(tmp_path):
    out = tmp_path / "m"
    dualfl(*RIDGE, out)
    dualfl("predict", out, NEW, "--out", out / "predictions.csv")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for words in ([], ["--force"]):
        said = dualfl(*RIDGE, out, *words, code=2).stderr
        assert "predictions.csv, which would be lost" in said and "model.json" not in said and str(out) in said
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (out / "predictions.csv").unlink()
    dualfl(*RIDGE, out, "--force")


def test_a_folder_that_cannot_be_replaced_is_refused_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("dualfl.analysis.whole_fit.fit_tables", None)
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path / "m")
    for out in (".", "../m", tmp_path / "m"):
        assert f"{out} is the folder that you are in" in dualfl(*RIDGE, out, code=2).stderr
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.path.ismount", lambda path: str(path).endswith("m"))
    assert "m is where a disk is mounted" in dualfl(*RIDGE, "m", code=2).stderr
    assert [*tmp_path.rglob("*")] == [tmp_path / "m"]


def test_a_model_is_replaced_by_any_name_of_its_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    dualfl(*RIDGE, "../m")
    (tmp_path / "link").symlink_to("m")
    for out in ("../here/../m", "../link"):
        dualfl(*RIDGE, out, "--force")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "link", "m"]  # nothing hidden is left
    assert (tmp_path / "link").is_symlink() and (tmp_path / "m" / "model.json").is_file()


# -- bad input -----------------------------------------------------------------------------------------------

GOOD = "x,g,y\n" + "".join(f"{i},{'ab'[i % 2]},{'no' if (i * 7) % 5 < 2 else 'yes'}\n" for i in range(20))
NUMBERS = GOOD.replace("no", "0").replace("yes", "1")
SIDES = "x,g,y\n" + "".join(f"{i},{'ab'[i % 2]},{'no' if i < 10 else 'yes'}\n" for i in range(20))
QUASI = GOOD.replace("a,no", "a,yes")  # level a has one class only

BAD = {
    "no target": ("a,b,z\n1,2,3\n", [], ["b.csv", "'y'", "the target", "Rename"]),
    "target is empty": (GOOD.replace("yes", "").replace("no", ""), [], ["b.csv", "no entry at all", "'y'", "fill it"]),
    "column lacking": (GOOD.replace("x,g", "x,h"), [], ["has no column", "'h'", "--drop 'h'"]),
    "other type": (GOOD.replace("\n3,", "\nthree,"), [], ["b.csv", "'three'", "'x'", "--categorical 'x'"]),
    "empty column": (
        "x,g,y\n" + "".join(f",a,{'no' if i % 3 else 'yes'}\n" for i in range(9)),
        [],
        ["b.csv", "no entry at all in column 'x'", "--drop 'x'", "--allow-empty"],
    ),
    "not UTF-8": (b"x,g,y\n1,caf\xe9,no\n", [], ["b.csv", "not text", "UTF-8"]),
    "empty file": ("", [], ["b.csv is empty", "first line"]),
    "header only": ("x,g,y\n", [], ["b.csv", "no rows"]),
    "ragged": ("x,g,y\n1,a\n", [], ["b.csv", "line 2", "2 entries"]),
    "infinite": (GOOD.replace("\n3,", "\ninf,"), [], ["b.csv", "inf", "'x'", "row 4", "--drop 'x'"]),
    "other classes": (NUMBERS, [], ["'y'", "the target", "a.csv", "b.csv", "alike"]),
    "three classes": (GOOD.replace("\n3,b,no", "\n3,b,maybe"), [], ["'y'", "3 classes", "multinomial"]),
    "text for a regression": (GOOD, ["--model", "linear"], ["a.csv", "'y'", "needs numbers"]),
    "names": (
        "x,g,y\n" + "".join(f"1,patient {i},{'no' if i % 3 else 'yes'}\n" for i in range(60)),
        [],
        ["b.csv", "'g'", "60 different texts", "--drop 'g'"],
    ),
    "not a column": (GOOD, ["--drop", "gg"], ["There is no column 'gg'", "g"]),
    "not a class": (GOOD, ["--positive", "yess"], ["'yess'", "did you mean yes"]),
    "alpha": (GOOD, ["--alpha", "little"], ["--alpha", "'little'", "cv"]),
    "alpha 0": (GOOD, ["--alpha", "0"], ["--alpha must be a number greater than 0", "it is 0", "--penalty none"]),
    "alpha 0 of a ridge": (GOOD, ["--model", "ridge", "--alpha", "0"], ["take --model linear --penalty none"]),
    "alpha without a penalty": (GOOD, ["--penalty", "none", "--alpha", "5"], ["--alpha 5", "the penalty is none"]),
    "folds without a choice": (GOOD, ["--cv", "silo"], ["--cv silo is for --alpha cv", "alpha is 0.001"]),
    "rule without a choice": (GOOD, ["--rule", "1se", "--alpha", "2"], ["--rule 1se is for --alpha cv", "alpha is 2"]),
    "quantile of another": (GOOD, ["--quantile", "0.5"], ["--quantile 0.5 is for --model quantile", "is logistic"]),
    "delta of another": (GOOD, ["--delta", "2"], ["--delta 2.0 is for --model huber", "is logistic"]),
    "delta": (GOOD, ["--model", "huber", "--delta", "0"], ["--delta must be a number greater than 0"]),
    "ratio of another": (GOOD, ["--l1-ratio", "0.3"], ["--l1-ratio 0.3 is for --penalty elastic-net", "is l2"]),
    "huge": (GOOD.replace("\n3,", "\n1e200,"), [], ["b.csv", "1e+200", "'x'", "row 4", "1e+100", "--drop 'x'"]),
    "rare class": (
        GOOD.replace("\n0,a,no", "\n0,a,maybe"),
        ["--model", "multinomial", "--alpha", "cv"],
        ["only 2 of 3 classes are left to train on; give rare classes more rows"],
    ),
    "two penalties": (GOOD, ["--model", "lasso", "--penalty", "l2"], ["lasso", "l1", "--model linear"]),
    "folds": (GOOD, ["--cv", "1"], ["--cv", "silo"]),
    "full without a penalty": (GOOD, ["--penalty", "none", "--coding", "full"], ["--coding full", "reference"]),
    "drop the target": (GOOD, ["--drop", "y"], ["'y' is the target"]),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(GOOD + "\n")  # no copy of another with the same rows
    return tmp_path


def refused(place, words, *, files=("a.csv", "b.csv")):
    """The one sentence; nothing else is there afterwards."""
    before = sorted(path.name for path in place.iterdir())
    done = dualfl("fit", *files, "--target", "y", "--model", "logistic", *words, code=2)
    assert sorted(path.name for path in place.iterdir()) == before
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1 and done.stdout == "", done.output
    return done.stderr


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_nothing_is_written(place, name):
    content, words, said = BAD[name]
    (place / "b.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    sentence = refused(place, words)
    for word in said:
        assert word in sentence, sentence


def test_one_class_only(place):
    (place / "a.csv").write_text(GOOD.replace("no", "yes"))
    (place / "b.csv").write_text(GOOD.replace("no", "yes") + "\n")
    sentence = refused(place, [])
    assert "'y', the target, is 'yes' in all rows of a.csv, b.csv" in sentence
    (place / "b.csv").write_text(GOOD)  # one file with one class is fine
    dualfl("fit", "a.csv", "b.csv", "--target", "y", "--model", "logistic", "--no-report")


def test_classes_that_can_be_separated_need_a_penalty(place):
    for name, end in (("a.csv", ""), ("b.csv", "\n")):
        (place / name).write_text(SIDES + end)
    sentence = refused(place, ["--penalty", "none"])
    assert "The column x is in no row with y = no higher than in any row with y = yes" in sentence
    assert "--penalty l2" in sentence
    dualfl("fit", "a.csv", "b.csv", "--target", "y", "--model", "logistic", "--no-report")


def test_a_level_with_one_class_only_needs_a_penalty(place):
    for name, end in (("a.csv", ""), ("b.csv", "\n")):
        (place / name).write_text(QUASI + end)
    sentence = refused(place, ["--penalty", "none"])
    assert "The column g=b is in no row with y = yes higher than in any row with y = no" in sentence
    assert "--penalty l2" in sentence


@pytest.mark.parametrize("given", [(), ("--site-effect", "fixed")], ids=str)
def test_a_level_whose_rows_have_all_happened_needs_a_penalty_by_the_clog_log_link(place, given):
    """Its loss goes to 0 so fast that the curvature is not seen to vanish: silos are asked what separates."""
    for name, rest in (("a.csv", 0), ("b.csv", 1)):
        rng = np.random.default_rng(20)
        x, rare = rng.normal(size=200), np.arange(200) < 20
        y = rare | (rng.random(200) < -np.expm1(-np.exp(x - 1)))
        rows = [f"{x[i]:.6f},{'a' if rare[i] else 'b'},{'yes' if y[i] else 'no'}" for i in range(rest, 200, 2)]
        (place / name).write_text("x,g,y\n" + "\n".join(rows))
    sentence = refused(place, ["--model", "cloglog", *given])
    assert "g=a" in sentence and "grow for ever" in sentence and "--penalty l2" in sentence


def test_counts_whose_dispersion_is_searched_name_what_separates(place):
    """The dispersion was said to have no estimate, and --model poisson to help."""
    rng = np.random.default_rng(3)
    for name in ("a.csv", "b.csv"):
        x, ward = rng.normal(size=90), rng.integers(0, 3, 90)
        y = np.where(ward == 2, 0, rng.negative_binomial(1, 1 / (1 + np.exp(x + 1))))
        (place / name).write_text("x,g,y\n" + "\n".join(f"{a},{'abc'[b]},{c}" for a, b, c in zip(x, ward, y)))
    sentence = refused(place, ["--model", "negative-binomial"])
    assert "g=c" in sentence and "grow for ever" in sentence and "dispersion" not in sentence


def test_site_effects_that_explain_all_are_told(place):
    for name, outcome in (("a.csv", "yes"), ("b.csv", "no")):
        (place / name).write_text("x,y\n" + "\n".join(f"{i % 7},{outcome}" for i in range(20)))
    assert "is of one kind in every silo" in refused(place, ["--model", "logistic", "--site-effect", "fixed"])


def test_columns_that_repeat_each_other_need_a_penalty(place):
    lines = GOOD.splitlines()
    doubled = ["z," + lines[0], *(f"{3 * float(line.split(',')[0]) + 1}," + line for line in lines[1:])]
    for name, end in (("a.csv", ""), ("b.csv", "\n")):
        (place / name).write_text("\n".join(doubled) + end)
    sentence = refused(place, ["--penalty", "none"])
    assert "'x'" in sentence and "'z'" in sentence and "determine each other" in sentence
    dualfl("fit", "a.csv", "b.csv", "--target", "y", "--model", "logistic", "--no-report")


def test_a_file_twice_a_folder_and_no_file(place):
    assert "given twice" in refused(place, [], files=["a.csv", "./a.csv"])
    assert "is a folder" in refused(place, [], files=["a.csv", "."])
    assert "no file none.csv" in refused(place, [], files=["none.csv"])
    (place / "b.parquet").write_bytes(b"PAR1 but not really")
    assert "b.parquet" in refused(place, [], files=["a.csv", "b.parquet"])


def test_counts_are_not_negative_and_targets_differ(place):
    (place / "a.csv").write_text("x,y\n1,2\n2,-1\n")
    assert "a.csv has -1 in column 'y'" in refused(place, ["--model", "poisson"], files=["a.csv"])
    (place / "a.csv").write_text("x,y\n1,2\n2,2\n")
    assert "'y', the target, is 2 in every row" in refused(place, ["--model", "ridge"], files=["a.csv"])
    (place / "a.csv").write_text("x,y\n1,2\n1,3\n")
    assert "nothing to learn from" in refused(place, ["--model", "ridge"], files=["a.csv"])
    (place / "a.csv").write_text("x,y\n1,2\n2,-1e200\n")
    assert "a.csv has -1e+200 in column 'y', row 2; put a number" in refused(
        place, ["--model", "ridge"], files=["a.csv"]
    )


def test_empty_columns_are_filled_when_allowed_and_constant_ones_left_out(place):
    (place / "a.csv").write_text(GOOD.replace("x,g,y", "k,x,g,y").replace("\n", "\n7,").removesuffix("7,"))
    (place / "b.csv").write_text("k,x,g,y\n" + "".join(f"7,,a,{'no' if i % 3 else 'yes'}\n" for i in range(9)))
    words = ["a.csv", "b.csv", "--target", "y", "--model", "logistic", "--no-report", "--allow-empty"]
    said = " ".join(dualfl("fit", *words).stdout.split())
    assert "left out k: the same in every row" in said and "9 numbers became the mean" in said


GAPPY = {
    "k1.csv": "x,k,y\n1,5,0\n2,,1\n3,5,0\n0,5,1\n",
    "k2.csv": "x,k,y\n1.5,5,0\n2.5,5,1\n3,,0\n0.5,5,1\n",
}


def test_numbers_that_are_the_same_but_for_gaps_are_left_out(place):
    for name, text in GAPPY.items():
        (place / name).write_text(text)
    words = ["fit", *GAPPY, "--target", "y", "--model", "linear", "--no-report", "--out"]
    said = " ".join(dualfl(*words, "m").stdout.split())
    assert "left out k: the same in every row of every file that has an entry" in said
    assert [row["feature"] for row in rows("m/coefficients.csv")] == ["x", "(intercept)"]
    dualfl(*words, "i", "--missing", "indicator")
    assert [row["feature"] for row in rows("i/coefficients.csv")] == ["x", "k is missing", "(intercept)"]
    w = {row["feature"]: float(row["coefficient"]) for row in rows("i/coefficients.csv")}
    (place / "new.csv").write_text("x,k\n2,9\n2,\n")
    found = [float(line.split(",")[1]) for line in dualfl("predict", "i", "new.csv").stdout.splitlines()[1:]]
    assert found[1] - found[0] == pytest.approx(w["k is missing"])


# -- what is said of a fit -----------------------------------------------------------------------------------


def said_of(place, text, *words, model="linear"):
    """One file, and the account of it in one line."""
    (place / "a.csv").write_text(text)
    words = ["--target", "y", "--model", model, "--no-report", "--force", "--out", "m", *words]
    return " ".join(dualfl("fit", "a.csv", *words).stdout.split())


@pytest.mark.parametrize(("level", "shown"), [(0.999, "99.9%"), (0.975, "97.5%"), (0.95, "95%"), (0.57, "57%")])
def test_the_level_of_the_intervals_is_not_rounded(place, level, shown):
    assert f"intervals at {shown} " in said_of(place, NUMBERS, "--level", level)


@pytest.mark.parametrize("penalty", ["l2", "none"])
def test_as_many_coefficients_as_rows_have_no_errors(place, penalty):
    said = said_of(place, "a,b,y\n1,2,3\n4,7,1\n2,2,9\n", "--penalty", penalty)
    assert "errors none: there are as many coefficients as rows (3 and 3)" in said
    assert all(row["std_error"] == row["low"] == "" for row in rows(place / "m" / "coefficients.csv"))


def test_a_perfect_fit_has_no_share_and_no_division_by_zero(place):
    (place / "b.csv").write_text("x,z,y\n" + "".join(f"{i / 7},{i * i / 3},{0.3 * i + 1}\n" for i in range(3, 17)))
    text = "x,z,y\n" + "".join(f"{i / 7},{i % 3 / 3},{0.3 * i + 1}\n" for i in range(12))
    said = said_of(place, text, "b.csv", "--penalty", "none")
    assert "|E|" not in said and "E - E* <= " in said and "not certified" not in said


def test_long_names_do_not_make_long_lines(place):
    """`dualfl` checks the width."""
    names = ["x" * 90, "grade_" + "g" * 90, "constant" + "k" * 90, "y"]
    lines = [f"{i * i % 7},{('low' if i % 3 else 'high') * 30},7,{'abc'[i * i % 3 + i % 2] * 95}" for i in range(30)]
    for name in ("a.csv", "b.csv"):
        (place / name).write_text("\n".join([",".join(names), *lines]))
        lines = lines[7:]
    words = ["a.csv", "b.csv", "--target", "y", "--no-report", "--out"]
    said = dualfl("fit", *words, "m", "--model", "multinomial").stdout
    assert "grade_" in said and "aaa..." in said
    dualfl("evaluate", "m", "a.csv")
    dualfl("fit", *words[:2], "--target", names[0], "--no-report", "--model", "linear", "--drop", "y", "--out", "l")
    dualfl("evaluate", "l", "a.csv")


def test_measures_that_are_not_known_are_shown_as_a_dash(place):
    said_of(place, GOOD, model="svm")
    head, _, first, overall = dualfl("evaluate", "m", "a.csv").stdout.splitlines()[2:6]
    assert head.split()[:6] == ["silo", "rows", "log", "loss", "accuracy", "auc"]
    assert first.split()[:3] == ["a.csv", "20", "-"] and overall.split()[:3] == ["overall", "20", "-"]
    said_of(place, GOOD, model="logistic")
    (place / "one.csv").write_text(GOOD.replace("no", "yes"))
    assert dualfl("evaluate", "m", "one.csv").stdout.splitlines()[5].split()[-1] == "-"  # one class has no ROC curve


def test_the_deviance_of_counts_is_shown(place):
    said_of(place, "x,y\n1,2\n2,3\n3,1\n4,7\n5,6\n", model="poisson")
    said = dualfl("evaluate", "m", "a.csv", "--out", "e.json").stdout
    found = json.loads((place / "e.json").read_text())["silos"]["overall"]["deviance"]
    predicted = [float(line.split(",")[1]) for line in dualfl("predict", "m", "a.csv").stdout.splitlines()[1:]]
    assert found == pytest.approx(mean_poisson_deviance([2, 3, 1, 7, 6], predicted))
    assert said.splitlines()[2].split()[-1] == "deviance" and said.splitlines()[5].split()[-1] == f"{found:.4g}"
    said_of(place, "x,y\n1,2\n2,3\n3,1\n4,7\n5,6\n")
    assert "deviance" not in dualfl("evaluate", "m", "a.csv").stdout


# -- bad input for a model -----------------------------------------------------------------------------------


def test_what_a_model_cannot_predict(model, tmp_path):
    out, _ = model
    good = FILES[2].read_text()

    def sentence(text, *words, command="predict"):
        (tmp_path / "new.csv").write_text(text)
        target = tmp_path / "p"
        done = dualfl(command, out, tmp_path / "new.csv", "--out", target, *words, code=2)
        assert not target.exists() and done.stderr.count("\n") == 1
        return done.stderr

    strange = good.replace("former", "pipe")
    said = sentence(strange)
    for word in ("new.csv", "'smoker'", "'pipe'", "row 1", "never", "--unseen baseline"):
        assert word in said
    done = dualfl("predict", out, tmp_path / "new.csv", "--unseen", "baseline")
    (tmp_path / "never.csv").write_text(good.replace("former", "never"))
    assert done.stdout == dualfl("predict", out, tmp_path / "never.csv").stdout
    assert "no column 'age'" in sentence(good.replace("age", "years", 1))
    assert "'old'" in sentence(good.replace(",67,", ",old,")) and "'age'" in sentence(good.replace(",67,", ",old,"))
    assert "no column 'readmitted', the target" in sentence(good.replace("readmitted", "back", 1), command="evaluate")
    assert "the class 'perhaps'" in sentence(good.replace("\nno,", "\nperhaps,"), command="evaluate")
    (tmp_path / "new.csv").write_text(good.replace("readmitted", "back", 1))
    dualfl("predict", out, tmp_path / "new.csv")  # predictions need no target


def changed(text, change):
    content = json.loads(text)
    change(content)
    return json.dumps(content)


def unsigned(change):
    """The change in a model of dualfl 0.1.0, which has no digest."""

    def change_old(content):
        content["format"] = 1
        del content["digest"]
        change(content)

    return change_old


def test_a_model_of_version_0_1_0_is_read_and_spaces_do_not_matter(model, tmp_path):
    out, _ = model
    expected = dualfl("predict", out, FILES[2]).stdout
    (tmp_path / "m").mkdir()
    text = (out / "model.json").read_text()
    for written in (changed(text, unsigned(lambda content: None)), changed(text, lambda content: None)):
        (tmp_path / "m" / "model.json").write_text(written)
        assert dualfl("predict", tmp_path / "m", FILES[2]).stdout == expected


def test_predictions_are_harmless_in_a_spreadsheet(tmp_path):
    """A class may be called anything; numbers stay numbers."""
    names = ["=cmd|' /C calc'!A0", "@SUM(1)", "+cmd", "-1"]
    lines = [f'{i},"{names[i % 4]}"' for i in range(80)]
    (tmp_path / "a.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    words = ("--target", "y", "--model", "multinomial", "--alpha", 1, "--no-influence", "--no-report")
    dualfl("fit", tmp_path / "a.csv", *words, "--out", tmp_path / "m")
    dualfl("predict", tmp_path / "m", tmp_path / "a.csv", "--out", tmp_path / "p.csv")
    found = {row["prediction"] for row in rows(tmp_path / "p.csv")}
    assert found <= {"'=cmd|' /C calc'!A0", "'@SUM(1)", "'+cmd", "-1"}
    assert harmless("-1") == "-1" and harmless("+2.5e3") == "+2.5e3" and harmless("-inf") == "'-inf"
    assert harmless("=1") == "'=1" and harmless("-٣") == "'-٣" and harmless("\tx") == "'\tx"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text.replace('"format": 3', '"format": 4').replace('"dualfl": "0.', '"dualfl": "9.'), "format 4"),
        (lambda text: text[:200], "not JSON"),
        (lambda text: "[]", "format None"),
        (lambda text: text.replace('"intercepts"', '"constants"'), "somebody has edited it"),
        (lambda text: changed(text, lambda model: model["coefficients"][0].__setitem__(0, None)), "edited"),
        (lambda text: changed(text, lambda model: model["schema"]["features"].reverse()), "edited"),
        (lambda text: changed(text, lambda model: model["coefficients"][0].reverse()), "edited"),
        (lambda text: changed(text, lambda model: model["rules"].update(decimal=",")), "edited"),
        (lambda text: changed(text, lambda model: model.pop("digest")), "edited"),
        (lambda text: changed(text, unsigned(lambda model: model.pop("intercepts"))), "damaged"),
        (lambda text: changed(text, unsigned(lambda model: model["coefficients"][0].__setitem__(0, None))), "damaged"),
        (lambda text: changed(text, unsigned(lambda model: model["columns"].reverse())), "damaged"),
        (lambda text: changed(text, unsigned(lambda model: model.update(schema=[1]))), "damaged"),
        (lambda text: changed(text, unsigned(lambda model: model.update(recipe={"model": 3}))), "damaged"),
    ],
)
def test_a_model_that_this_version_cannot_read(model, tmp_path, damage, said):
    out, _ = model
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.json").write_text(damage((out / "model.json").read_text()))
    for command in ("predict", "evaluate"):
        sentence = dualfl(command, tmp_path / "m", FILES[2], code=2).stderr
        assert said in sentence and "fit the model again" in sentence and str(tmp_path / "m") in sentence


def test_a_folder_without_a_model(tmp_path):
    assert "has no model.json" in dualfl("predict", tmp_path, FILES[2], code=2).stderr
    assert "does not exist" in dualfl("predict", tmp_path / "m", FILES[2], code=2).stderr


def test_an_interruption_leaves_nothing(model, tmp_path, monkeypatch):
    from dualfl.report import page

    def interrupted(folders):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "write_page", interrupted)
    words = ["fit", *FILES, "--target", "days", "--model", "ridge", "--no-influence", "--out", tmp_path / "m"]
    assert "nothing was written" in dualfl(*words, code=130).stderr
    assert list(tmp_path.iterdir()) == []


# -- the pages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "docs/fit.md"])
def test_the_commands_of_the_pages_run(page, tmp_path, monkeypatch):
    shutil.copytree(EXAMPLES / "hospitals", tmp_path / "examples" / "hospitals")
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES.parent / page).read_text(encoding="utf-8")
    block = text[text.index("    cd examples/hospitals") :].partition("\n\n")[0]
    for line in block.splitlines():
        command, *words = shlex.split(line)
        if command == "cd":
            monkeypatch.chdir(words[0])
        else:
            assert command == "dualfl" and dualfl(*words).stdout
    assert block.count("dualfl") >= 2


def test_the_documentation_shows_what_is_printed(tmp_path, monkeypatch):
    for path in FILES:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    page = (EXAMPLES.parent / "docs" / "fit.md").read_text(encoding="utf-8")
    command = next(line.strip() for line in page.splitlines() if line.startswith("    dualfl fit "))
    shown = page.partition("```text\n")[2].partition("```")[0].splitlines()
    printed = dualfl(*shlex.split(command)[1:]).stdout.splitlines()
    for one, other in zip(shown, printed, strict=True):
        if not one.startswith("certificate") and "E - E*" not in one:  # rounding differs between machines
            assert one == other
