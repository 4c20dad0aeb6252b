"""Evaluations in the hands of a hostile coordinator: a model that is written by hand asks about lines of its choice."""

from dataclasses import replace

import numpy as np
import pytest
from hostile import POLICY, Hostile, change, make_homes
from hypothesis import given, settings
from hypothesis import strategies as st

from dualfl.analysis.descriptions import ModelEvaluation
from dualfl.errors import InputError
from dualfl.federation.audit import AuditLog
from dualfl.federation.consent import Consent, description
from dualfl.federation.fixed_point import BITS
from dualfl.federation.keeper import Keeper
from dualfl.silos import drive
from dualfl.silos.chamber import SiloRows
from dualfl.silos.classification_scores import classification_sums
from dualfl.silos.levelled_scores import levelled
from dualfl.silos.predictor import Predictor
from dualfl.silos.regression_scores import regression_sums
from dualfl.tables.schema import Feature, Schema
from dualfl.tables.terms import Factor, Term


@pytest.mark.unrefused("what is asked is answered, and tells of no few rows")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(2, 4), st.sampled_from([1.0, 1e3, 1e9]))
def test_no_cell_of_a_histogram_has_fewer_rows_of_a_silo_than_its_policy_says(seed, least, classes, scale):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    X, y = rng.normal(size=(n, 2)).round(1), rng.integers(0, classes, n)
    outputs = 1 if classes == 2 else classes
    kind = ["probabilities", "margins"][seed % 2]
    model = Predictor.from_json(
        {"kind": kind, "W": scale * rng.normal(size=(outputs, 2)), "b": rng.normal(size=outputs), "classes": classes}
    )
    sums = classification_sums(model, SiloRows("a", X, y), together=least)
    for k in range(outputs):
        own = y == (1 if classes == 2 else k)
        for histogram, rows in ((sums.of_class[k], own.sum()), (sums.of_others[k], (~own).sum())):
            cells = histogram[histogram > 0]
            assert histogram.sum() == rows and (cells >= min(least, rows)).all()
        if kind == "probabilities":
            others = sums.shelf_mass[k] - sums.shelf_class[k]
            for shelf, rows in ((sums.shelf_class[k], own.sum()), (others, (~own).sum())):
                assert (shelf[shelf > 0] >= min(least, rows)).all()


@pytest.mark.unrefused("an honest evaluation")
def test_what_is_blurred_is_still_the_area_and_the_calibration():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=2000) > 0).astype(int)
    model = Predictor.from_json(
        {"kind": "probabilities", "W": np.array([[1.0, -1.0, 0.5]]), "b": np.zeros(1), "classes": 2}
    )
    exact, blurred = (classification_sums(model, SiloRows("a", X, y), together=k) for k in (1, 5))
    assert abs(exact.auc - blurred.auc) < 2e-3 and abs(exact.accuracy - blurred.accuracy) < 5e-3
    assert exact.log_loss == blurred.log_loss and exact.n == blurred.n
    for one, other in zip(exact.calibration(), blurred.calibration()):
        assert np.abs(one - other).max() < 0.02 * max(1.0, np.abs(one).max())


def by_hand(W, b=0.0):
    """A model of nobody's fit."""
    schema = Schema("sick", ("no", "yes"), (Feature("age", "numeric"), Feature("income", "numeric")))
    predictor = Predictor.from_json({"kind": "probabilities", "W": np.array([W]), "b": np.array([b]), "classes": 2})
    return ModelEvaluation(predictor, schema)


def evaluate(homes, model, experiment="e"):
    from far import far_silos

    transport = Hostile(homes)
    silos = far_silos(homes, BITS, transport=transport, analysis=model.as_json(), experiment=experiment)
    return drive(model.conversation(silos), silos).overall


@pytest.mark.unrefused("it is answered, in cells of three rows of each silo at least")
def test_scores_that_are_ages_show_no_patient(tmp_path):
    """The histogram of age/1000: without the rule, a bin for nearly every patient."""
    homes = make_homes(tmp_path)
    model = by_hand([0.02, 0.0], -1.0)
    singles = evaluate(homes, model)
    assert (singles.of_class == 1).sum() > 20
    for home in homes:
        change(home, policy=POLICY | {"least_per_cell": 3, "forbidden_columns": ["town"]})
    found = evaluate(homes, model, "f")
    for histogram in (found.of_class, found.of_others, found.shelf_class, found.shelf_mass - found.shelf_class):
        cells = histogram[histogram > 0]
        assert (cells >= 3).all() and cells.sum() == histogram.sum()
    assert found.n == singles.n == 105


def test_more_bins_than_a_thousand_are_refused(tmp_path):
    homes = make_homes(tmp_path)
    model = by_hand([0.02, 0.0])
    with pytest.raises(InputError, match="a histogram of scores has at most 1000 bins"):
        evaluate(homes, ModelEvaluation(model.predictor, model.schema, bins=100_000))


def test_a_model_waits_for_the_operator_who_reads_its_digest(tmp_path):
    from click.testing import CliRunner

    from dualfl.cli import main
    from dualfl.federation.plan_in_words import digest_of_model

    homes = make_homes(tmp_path)
    change(homes[0], policy=POLICY | {"approval": "ask"})
    model = by_hand([1e9, -4.7e6])
    with pytest.raises(InputError, match="the plan waits for this silo's operator"):
        evaluate(homes, model)
    said = " ".join(CliRunner().invoke(main, ["deploy", "approve", str(homes[0])], input="no\n").output.split())
    assert (
        "2 coefficients of up to 1e+09" in said
        and digest_of_model(model.predictor.as_json(), model.schema.as_json()) in said
    )
    assert "can count patients on one side of any line" in said and "'least_per_cell'" in said
    with pytest.raises(InputError, match="has said no to this plan"):
        evaluate(homes, model)


@pytest.mark.unrefused("consent is asked without a silo around it")
@pytest.mark.parametrize("change_of", ["a digit that nobody prints", "a number among a thousand others"])
def test_a_model_that_changes_after_it_was_approved_waits_again(change_of, tmp_path):
    """Arrays that were shown as NumPy prints them left out digits, and most numbers of long ones."""
    homes = make_homes(tmp_path)
    long = change_of.startswith("a number")
    W = np.ones(2000 if long else 2)
    other = W.copy()
    other[1000 if long else 1] += 1.0 if long else 1e-12

    def plan(W):
        return {"names": ("a", "b", "c"), "secure": BITS, "analysis": by_hand(W).as_json()}

    roster = {"a": "1", "b": "2", "c": "3"}
    for home, answer in zip(homes, ("once", "always")):
        consent = Consent(home, replace(Keeper(home).home.policy, approval="ask"), AuditLog(home))
        with pytest.raises(InputError, match="the plan waits"):
            consent.check(plan(W), "e", roster)
        (name,) = consent.waiting()
        consent.decide(name, answer)
        consent.check(plan(W), "e", roster)
        with pytest.raises(InputError, match="the plan waits"):
            consent.check(plan(other), "e", roster)
    assert description(plan(W), roster) != description(plan(other), roster)
    with pytest.raises(InputError, match="cannot be shown to anybody"):
        description(plan(W) | {"analysis": {"hidden": object()}}, roster)


# -- sums other than histograms: whatever one evaluation tells is of scores that three neighbours share ---------


def one_column(kind, W, b, classes):
    return Predictor.from_json({"kind": kind, "W": np.array([[W]]), "b": np.array([b]), "classes": classes})


@pytest.mark.unrefused("what is asked is answered, and tells of no few rows")
@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 1e6]), st.sampled_from(["probabilities", "margins", "cloglog"])
)
def test_losses_of_a_classifier_are_those_of_rows_in_threes(seed, scale, kind):
    """They were of single rows: beyond an edge, the log loss was the distance of one patient from it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 40))
    x, y = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    model = one_column(kind, scale, scale * rng.normal(), 2)
    exact = classification_sums(model, SiloRows("a", x, y), together=3, by_hand=True)
    z = model.decision_function(x)
    if kind != "margins":
        logs = model.predict_log_proba(x)
        z = logs[:, 1] - logs[:, 0]
    shared = np.clip(levelled(z[:, None], (y == 1)[:, None], 3), -30, 30)
    again = classification_sums(
        one_column("margins" if kind == "margins" else "probabilities", 1.0, 0.0, 2),
        SiloRows("a", shared, y),
        together=1,
        by_hand=True,
    )
    for name in ("right", "log_loss_sum", "of_class", "of_others", "shelf_mass", "shelf_probability", "shelf_class"):
        np.testing.assert_allclose(getattr(exact, name), getattr(again, name), rtol=1e-9, atol=1e-9)


@pytest.mark.unrefused("what is asked is answered, and tells of no few rows")
@pytest.mark.parametrize("kind", ["values", "counts"])
def test_no_sum_of_a_regressor_is_about_its_farthest_row(kind):
    """Exponents of a steep model were those of the row that lies farthest out; a median of few was one of them."""
    rng = np.random.default_rng(1)
    x, y = np.sort(rng.normal(size=(40, 1)), axis=0), rng.poisson(2.0, 40).astype(float)
    moved = x.copy()
    moved[-1] += 0.3  # the farthest, and the other two of its group, so that their mean stays
    moved[-3:-1] -= 0.15
    moved[-4] = x[-4]
    steep = one_column(kind, 40.0 if kind == "counts" else 1.0, -60.0 if kind == "counts" else 0.0, 0)
    one, other = (regression_sums(steep, SiloRows("a", rows, y), 0.5, 3, by_hand=True) for rows in (x, moved))
    exact = [regression_sums(steep, SiloRows("a", rows, y), 0.5) for rows in (x, moved)]
    assert abs(exact[0].squared - exact[1].squared) > 1e-3
    for name in ("squared", "absolute", "pinball_sum", "deviance_sum"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)


@pytest.mark.unrefused("it is answered, and tells of three patients at least")
def test_the_loss_beyond_an_edge_is_not_the_age_of_one_patient(tmp_path):
    """A model of age alone, so steep that its loss adds up years: two of them told the age of the youngest sick."""
    homes = make_homes(tmp_path, forbidden_columns=["town"])
    tables = [np.genfromtxt(home / "data.csv", delimiter=",", dtype=None, encoding=None, names=True) for home in homes]
    ages = np.concatenate([table["age"][table["sick"] == "yes"] for table in tables])
    well = np.concatenate([table["age"][table["sick"] == "no"] for table in tables])
    youngest, second = np.sort(ages)[:2]

    def told(experiment):
        edge = (youngest + second) / 2
        found = evaluate(homes, by_hand([1.0, 0.0], -edge), experiment)
        at_rest = np.logaddexp(0.0, well - edge).sum() + np.logaddexp(0.0, edge - np.sort(ages)[1:]).sum()
        return edge + np.log(np.expm1(max(found.log_loss_sum - at_rest, 1e-9)))

    assert abs(told("e") + youngest - 2 * (youngest + second) / 2) < 1e-6
    for home in homes:
        change(home, policy=POLICY | {"least_per_cell": 3, "forbidden_columns": ["town"]})
    assert abs(told("f") + youngest - 2 * (youngest + second) / 2) > 1e-2


def test_a_model_of_endless_numbers_is_refused(tmp_path):
    """Whether a sum overflows would be one bit about the farthest row of one silo."""
    homes = make_homes(tmp_path, least_per_cell=3, forbidden_columns=["town"])
    with pytest.raises(InputError, match="holds NaN, infinity, or a number beyond 1e"):
        evaluate(homes, by_hand([1e308, 0.0]))


@pytest.mark.unrefused("what the operator reads")
@pytest.mark.parametrize("trick", ["columns change places", "a term", "what a gap becomes"])
def test_the_digest_of_a_model_says_how_columns_become_numbers(trick):
    """Fitted coefficients on other columns: the digest that the operator knew was shown for both."""
    from dualfl.federation.plan_in_words import digest_of_model, in_words

    fitted = by_hand([0.1, -0.2])
    age, income = fitted.schema.features
    changed = {
        "columns change places": {"features": (income, age)},
        "a term": {"terms": tuple(Term((Factor(name, "pow", 4),), (False,)) for name in ("age", "income"))},
        "what a gap becomes": {"features": (replace(age, mean=1e6), income)},
    }[trick]
    other = ModelEvaluation(fitted.predictor, replace(fitted.schema, **changed))
    digests = []
    for model in (fitted, other):
        plan = {"names": ["a"], "secure": 57, "analysis": model.as_json()}
        waiting = {"plan": description(plan, {}), "experiment": "e", "since": "now"}
        digests.append(digest_of_model(model.predictor.as_json(), model.schema.as_json()))
        assert digests[-1] in " ".join(in_words(waiting, "somewhere").split())  # as the file and as the plan have it
    assert digests[0] != digests[1]
