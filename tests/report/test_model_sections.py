"""The page of a fit: what was fitted on what, how good it is, and what silos withhold."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reader import Reader, without_library
from scipy.special import expit

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fit_tables
from dualfl.fits import model_folder
from dualfl.fits.page_facts import thinned
from dualfl.report.page import fit_data, page
from dualfl.report.results import read
from dualfl.silos.classification_scores import ClassificationSums, histograms, squashed
from dualfl.tables.reading import read_table
from dualfl.tables.schema import INTERCEPT, Request

HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"


@pytest.fixture(scope="module")
def fit():
    tables = [read_table(HOSPITALS / f"{name}.csv") for name in ("hill", "north", "river")]
    return fit_tables(tables, Recipe("logistic", "l2", 0.01), Wishes(Request("readmitted")))


def written(fit, folder):
    folder.mkdir()
    for name, data in model_folder.files(fit, "dualfl fit"):
        (folder / name).write_bytes(data)
    found = read(folder)
    return found, Reader(without_library(page([found])))


@pytest.fixture(scope="module")
def shown(fit, tmp_path_factory):
    return written(fit, tmp_path_factory.mktemp("fit") / "model")


def test_what_was_fitted_on_what(fit, shown):
    rows = {row[0]: row[1] for row in reversed(shown[1].rows) if len(row) == 2}  # the first of a name counts
    events = int(fit.overview.classes[1])
    assert rows["target"] == f"readmitted = yes: {events} events in 456 rows ({events / 456:.1%})"
    assert rows["rows"] == "456; 4 more without a target were left out"
    assert "smoker=never" in rows["reference levels"] and "became the mean" in rows["gaps"]
    assert rows["penalty"] == "l2, alpha = 0.01, on standardised columns"


def test_the_forest_has_no_intercept_and_knows_the_spread(fit, shown):
    (group,) = fit_data(shown[0])
    spread = dict(zip(fit.schema.names, fit.scaling.spread))
    assert {row[0] for row in group["rows"]} == set(fit.schema.names)
    assert all(row[4] == pytest.approx(spread[row[0]], rel=1e-5) for row in group["rows"])
    sizes = [abs(row[1] * row[4]) for row in group["rows"]]
    assert sizes == sorted(sizes, reverse=True)
    value = next(each.value for each in shown[0].coefficients if each.feature == INTERCEPT)
    assert f"Not drawn: the intercept, {value:.4g}. Bars are intervals at 95%." in shown[1].text
    assert [a.get("value") for _, a in shown[1].tags if a.get("name") == "scale-0"] == ["deviation", "unit"]


def test_what_travelled_is_the_whole_account(fit, shown):
    exchanges, numbers = sum(one.exchanges for one in fit.spent), sum(one.numbers for one in fit.spent)
    assert ["in all", f"{exchanges:,}", f"{numbers:,}"] in shown[1].rows
    assert exchanges > shown[0].curves[0].columns["exchanges"][-1]  # more than the fit alone


def test_how_the_minimum_was_reached_is_folded_at_the_end(shown):
    ids = [(tag, a["id"]) for tag, a in shown[1].tags if tag in ("section", "details") and "id" in a]
    assert [name for tag, name in ids if tag == "section"][:3] == ["fitted", "coefficients", "silos"]
    at = ids.index(("section", "way"))
    folded = {"partition", "convergence", "levels", "certificate", "hyperparameters"}
    assert {name for _, name in ids[at + 1 :]} == folded and all(tag == "details" for tag, _ in ids[at + 1 :])
    assert "this is proven" in shown[1].text


def test_a_silo_that_withholds_its_numbers_is_said_to(fit, tmp_path):
    hidden = replace(
        fit,
        own=(None, None, fit.own[2]),
        losses=(None, None, fit.losses[2]),
        evaluation=replace(fit.evaluation, silos={fit.silos[2]: fit.evaluation.silos[fit.silos[2]]}),
        without=(),
    )
    found, reader = written(hidden, tmp_path / "some")
    assert [fit.silos[0], *["withheld"] * 4] in reader.rows
    assert "3 silos, 456 rows" in reader.text and found.partition.clients == (fit.silos[2],)
    nobody = replace(hidden, own=(None,) * 3, losses=(None,) * 3, evaluation=replace(fit.evaluation, silos={}))
    found, reader = written(nobody, tmp_path / "none")
    assert reader.rows.count([fit.silos[2], *["withheld"] * 4]) == 1 and "Who holds what" not in reader.text


def test_without_a_certificate_the_reason_is_said(shown, tmp_path):
    record = json.loads(json.dumps(shown[0].record))
    record["results"] |= {"certificate": None, "no certificate because": "the loss is odd."}
    text = Reader(without_library(page([replace(shown[0], record=record)]))).text
    assert "There is no proof that this is the best model: the loss is odd." in text


def test_numbers_have_no_roc_and_a_path_has_its_choice(tmp_path):
    tables = [read_table(HOSPITALS / f"{name}.csv") for name in ("hill", "north", "river")]
    wishes = Wishes(Request("days", True), cross_validate=True, influence=False)
    linear = fit_tables(tables, Recipe("linear", "l2"), wishes)
    found, reader = written(linear, tmp_path / "linear")
    assert "ROC" not in reader.text and f"alpha = {linear.path.value:.4g}, with the ring" in reader.text
    assert [each.alpha for each in found.tried if each.chosen] == [linear.path.value]
    overall = linear.evaluation.overall.r2
    assert ["all", "460", f"{linear.loss:.4g}", f"{overall:.4g}"] in reader.rows


def test_without_standard_errors_changes_have_no_column_of_them(shown, tmp_path):
    tables = [read_table(HOSPITALS / f"{name}.csv") for name in ("hill", "north", "river")]
    sparse = fit_tables(tables, Recipe("linear", "l1", 0.1), Wishes(Request("days", True)))
    found, reader = written(sparse, tmp_path / "sparse")
    assert found.influence and "How much each silo moved the answer" in reader.text
    assert "in standard errors" not in reader.text
    assert "in standard errors" in Reader(without_library(page([shown[0]]))).text


# -- ROC and calibration -------------------------------------------------------------------------------------


def sums(z, y, bins=1000):
    own = (y == 1)[:, None]
    place = squashed(z[:, None], bins)
    of_class, of_others = (histograms(place, mask * 1.0, bins) for mask in (own, ~own))
    return ClassificationSums(len(y), float(len(y)), 0.0, 0.0, of_class, of_others, *[np.zeros((1, 10))] * 3)


@pytest.mark.parametrize("shift", [0.0, -4.0, 30.0])
def test_calibration_by_quantiles_is_that_of_sorted_rows(shift):
    rng = np.random.default_rng(0)
    z = rng.normal(shift, 0.5, 5000)
    y = (rng.random(5000) < expit(z)).astype(int)
    predicted, observed, mass = sums(z, y).calibration_by_quantiles()
    largest = np.bincount(squashed(z, 1000)).max()  # rows of one bin stay together
    assert mass.sum() == 5000 and mass.max() <= 500 + largest
    assert len(mass) == 10 or shift == 30
    ends = np.cumsum(mass).astype(int)
    order = np.argsort(z)
    for begin, end, p, o in zip([0, *ends], ends, predicted, observed):
        rows = order[begin:end]
        assert p == pytest.approx(expit(z[rows]).mean(), abs=1e-3)
        assert o == pytest.approx(y[rows].mean(), abs=1e-12)


def test_one_bin_is_one_group():
    predicted, observed, mass = sums(np.zeros(4), np.array([0, 1, 1, 1])).calibration_by_quantiles()
    assert mass.tolist() == [4] and observed.tolist() == [0.75] and predicted[0] == pytest.approx(0.5, abs=1e-3)


def test_a_thinned_roc_curve_keeps_its_ends_and_its_area():
    rng = np.random.default_rng(1)
    z = rng.normal(size=3000)
    total = sums(z, (rng.random(3000) < expit(2 * z)).astype(int))
    fpr, tpr = thinned(*total.roc())
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1) and len(fpr) <= 100
    area = float((np.diff(fpr) * (np.array(tpr[1:]) + tpr[:-1]) / 2).sum())
    assert area == pytest.approx(total.auc, abs=2e-3)
    assert thinned(*sums(z, np.zeros(3000)).roc()) == ([], [])
