"""`dualfl fit --refit`: what an l1 penalty chose, without it, and labelled."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dualfl.cli import main
from dualfl.fits.model_folder import read

HOSPITALS = [f"examples/hospitals/{name}.csv" for name in ("north", "river", "hill")]


def fit(out, *given):
    words = ["fit", *HOSPITALS, "--target", "readmitted", "--model", "logistic", "--no-influence", "--out", str(out)]
    return CliRunner().invoke(main, [*words, *given])


def test_the_chosen_columns_are_fitted_again_and_labelled(tmp_path):
    done = fit(tmp_path / "m", "--penalty", "l1", "--alpha", "0.03", "--refit")
    assert done.exit_code == 0, done.output
    first, second = read(tmp_path / "m"), read(tmp_path / "m-refit")
    places = dict(zip(first.schema.names, first.W[0]))
    kept = {one.name for one in first.schema.features if any(places[name] for name in one.names)}
    assert {one.name for one in second.schema.features} == kept and 0 < len(kept) < len(first.schema.features)
    assert second.recipe.penalty == "none" and np.all(second.W) and second.recipe.tol == 1e-12 < first.recipe.tol
    record = json.loads((tmp_path / "m-refit" / "fit.json").read_text())
    for words in (record["settings"]["standard errors"], " ".join(done.output.split())):
        assert "of a refit of what an l1 penalty chose" in words
    page = (tmp_path / "m" / "report.html").read_text()
    assert "There are no standard errors: an l1 penalty" in page and "--refit" in page


@pytest.mark.parametrize("model", ["lasso", "elastic-net"])
def test_what_a_model_named_by_its_penalty_chose_is_fitted_by_the_linear_one(tmp_path, model):
    words = ["fit", *HOSPITALS, "--target", "age", "--model", model, "--alpha", "1", "--errors", "robust", "--refit"]
    done = CliRunner().invoke(main, [*words, "--no-influence", "--no-report", "--out", str(tmp_path / "m")])
    assert done.exit_code == 0, done.output
    second = read(tmp_path / "m-refit")
    assert second.recipe.model == "linear" and second.recipe.penalty == "none" and second.recipe.errors == "robust"
    assert "robust" in json.loads((tmp_path / "m-refit" / "fit.json").read_text())["settings"]["standard errors"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--model", "svm", "--penalty", "l1", "--refit"], "--refit fits without a penalty, and --model svm needs one"),
        (["--refit"], "--refit is for a penalty that chooses columns, l1 or elastic-net, and it is l2"),
        (["--penalty", "l1", "--alpha", "5", "--refit"], "chose no column"),
    ],
)
def test_where_there_is_nothing_to_refit(tmp_path, given, sentence):
    done = fit(tmp_path / "m", "--no-report", *given)
    said = done.stdout + done.stderr
    assert sentence in said and "Traceback" not in said
    assert not Path(tmp_path / "m-refit").exists()
