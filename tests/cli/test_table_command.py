"""`dualfl table`, `fit --table` and the model card, on models that were fitted here."""

import csv
import io
import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import norm

from dualfl.cli import main
from dualfl.estimators.standard_errors import LIKELIHOODS
from dualfl.estimators.statistics import ratio_name
from dualfl.fits.model_table import SHORT, decimals, figures, written

HOSPITALS = [f"examples/hospitals/{name}.csv" for name in ("north", "river", "hill")]


def run(*given):
    return CliRunner().invoke(main, [*map(str, given)])


def fit(out, *given, model="logistic", target="readmitted"):
    done = run("fit", *HOSPITALS, "--target", target, "--model", model, "--no-report", "--out", out, *given)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fit(tmp_path_factory.mktemp("a") / "whole", "--penalty", "none", "--table", "tex")


def test_the_table_has_ratios_intervals_and_p_values(folder):
    rows = list(csv.reader(io.StringIO(run("table", folder, "--format", "csv").output)))
    assert rows[0] == ["", "", "coefficient", "std error", "OR (95% CI)", "p"]
    shown = {(row[0], row[1]): row[2:] for row in rows[1:]}
    kept = {line["feature"]: line for line in csv.DictReader((folder / "coefficients.csv").read_text().splitlines())}
    current = kept["smoker=current"]
    value, off = float(current["coefficient"]), float(current["std_error"])
    low, high = (np.exp(value + sign * norm.ppf(0.975) * off) for sign in (-1, 1))
    expected = [f"{value:.3f}", f"{off:.3f}", f"{np.exp(value):.2f} ({low:.2f}, {high:.2f})", "<0.001"]
    assert shown["smoker (reference: never)", "current"] == expected
    age = kept["age"]
    p = 2 * norm.sf(abs(float(age["coefficient"]) / float(age["std_error"])))
    assert shown["age", ""][-1] == f"{p:.3f}"
    assert shown["(intercept)", ""][2] == ""


def test_a_fit_writes_the_table_that_is_printed_later(folder):
    assert (folder / "table.tex").read_text() == run("table", folder, "--format", "tex").output
    assert "1.94 (1.57, 2.41)" in (folder / "table.tex").read_text()


def test_models_stand_side_by_side(folder, tmp_path):
    small = fit(tmp_path / "small", "--penalty", "none", "--columns", "age,smoker")
    rows = list(csv.reader(io.StringIO(run("table", small, folder, "--format", "csv").output)))
    assert rows[0][2:] == ["small: OR (95% CI)", "small: p", "whole: OR (95% CI)", "whole: p"]
    shown = {(row[0], row[1]): row[2:] for row in rows[1:]}
    assert shown["days", ""][:2] == ["", ""] and shown["days", ""][2]
    assert rows[-1][0] == "(intercept)"
    assert max(map(len, run("table", small, folder).output.split("\n"))) <= 80


@pytest.mark.parametrize(
    ("given", "model", "target", "words"),
    [
        (
            ["--penalty", "l1", "--alpha", "0.05"],
            "logistic",
            "readmitted",
            "There are no standard errors: an l1 penalty",
        ),
        (["--penalty", "none"], "linear", "age", "95% CI"),
        (["--categorical", "earlier_admissions"], "multinomial", "ward", "ward = heart"),
        (["--level", "0.9"], "poisson", "earlier_admissions", "RR (90% CI)"),
        ([], "gamma", "age", "ratio: mean ratio, CI: confidence interval"),
        ([], "tweedie", "days", "ratio (95% CI)"),
    ],
)
def test_every_model_has_a_table(tmp_path, given, model, target, words):
    out = fit(tmp_path / "m", *given, model=model, target=target)
    done = run("table", out)
    assert done.exit_code == 0
    assert words in " ".join(done.output.split())


@pytest.mark.parametrize("loss", [*LIKELIHOODS, "cox", "ordinal"])
def test_every_ratio_has_a_name_in_tables(loss):
    """Of each kind of likelihood, also those that no table above was made of."""
    made = loss if isinstance(loss, str) else object.__new__(loss)
    assert ratio_name(made) in ("", *SHORT)


def test_errors_beside_small_ones_keep_their_zeros():
    assert [figures(value) for value in (0.1003, 0.00942, 12.0, -1.0)] == ["0.100", "0.00942", "12.0", "-1.00"]


def test_a_small_estimate_is_not_minus_zero():
    assert [written(value, decimals(-0.00356, 0.147)) for value in (-0.00356, -0.0769, 0.0698)] == [
        "-0.004",
        "-0.077",
        "0.070",
    ]
    assert written(-1e-9, decimals(-1e-9, 0.147)) == "0.0000" and decimals(0.0, 0.147) == 2


def test_what_a_reader_must_know_of_a_model_is_below_its_table(tmp_path):
    out = fit(tmp_path / "m", "--penalty", "none", "--site-effect", "random", model="linear", target="age")
    said = " ".join(run("table", out).output.split())
    assert "Site effect random: variance" in said and "restricted log-likelihood" in said


def test_the_card_says_what_on_what_by_whom_how_good_and_the_limits(folder):
    text = (folder / "card.md").read_text()
    for words in ("Fitted by", "128 events in 456 rows", "river.csv | 158 |", "0.7555", "proven", "untested"):
        assert words in text
    assert "/tmp/" not in text.partition("Command")[0]


def test_a_card_warns_of_few_events_and_of_silos_that_withhold():
    from dualfl.fits.card import card

    record = {
        "settings": {"model": "logistic: logistic regression", "standard errors": "none: no reason"},
        "data": {"target": "y", "columns": ["a"]},
        "results": {"certificate": None, "no certificate because": "nobody asked"},
        "command": "dualfl fit",
        "coefficients": 5,
        "side by side": [
            {"silo": "a", "rows": None, "events": None, "loss": None},
            {"silo": "b", "rows": 40, "events": 9, "loss": 0.9},
            {"silo": "all", "rows": 90, "events": 20, "loss": 0.5},
        ],
    }
    text = card(record, {"na": ["9"]})
    assert "20 rows of the rarer outcome for 5 coefficients are few" in text
    assert "at b its loss is 1.8 times" in text and "at a is not known here" in text
    assert "no proof that it is the best model: nobody asked" in text and "na = ['9']" in text


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: (folder / "fit.json").unlink(), "has no fit.json"),
        (lambda folder: (folder / "fit.json").write_text("{"), "fit.json is damaged"),
        (lambda folder: (folder / "fit.json").write_text(json.dumps({"settings": {}})), "fit.json is damaged"),
        (lambda folder: (folder / "coefficients.csv").write_text("x\n1\n"), "coefficients.csv"),
    ],
)
def test_a_damaged_folder_is_one_sentence(folder, tmp_path, spoil, sentence):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "copy")
    spoil(copy)
    done = run("table", copy)
    assert done.exit_code == 2 and sentence in done.stderr and "Traceback" not in done.stderr


def test_no_folder_and_a_file_that_is_there(folder, tmp_path):
    assert "does not exist" in run("table", tmp_path / "none").stderr
    (tmp_path / "t.md").write_text("mine")
    assert run("table", folder, "--out", tmp_path / "t.md").exit_code == 2
    assert (tmp_path / "t.md").read_text() == "mine"


def test_the_walk_ends_with_this_table(tmp_path, monkeypatch):
    from pathlib import Path

    page = Path("docs/fit.md").read_text(encoding="utf-8").partition("dualfl table model --format md")[2]
    shown = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("|")]
    printed = run("table", fit(tmp_path / "model"), "--format", "md").output.splitlines()
    assert shown == [line for line in printed if line.startswith("|")]
