"""What an operator reads before saying yes: plain sentences, and nothing of the plan left out."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from dualfl.algorithms.registry import make
from dualfl.analysis.descriptions import SurvivalCurves, TableCheck, TableDescription, WholeFit
from dualfl.analysis.fit_result import Wishes
from dualfl.analysis.models import Recipe
from dualfl.analysis.one_algorithm import LinearProblem, OneAlgorithm
from dualfl.analysis.survival_curves import CurveWishes
from dualfl.analysis.tabulating import TableWishes
from dualfl.federation.consent import description
from dualfl.federation.plan_in_words import in_words
from dualfl.lines import WIDTH
from dualfl.tables.summaries import Request

REQUEST = Request("died", False)


def told(analysis, secure=True) -> str:
    content = analysis if isinstance(analysis, dict) else analysis.as_json()
    plan = {"names": ["north", "south"], "secure": 32 if secure else None, "analysis": json.loads(json.dumps(content))}
    waiting = {"plan": description(plan, {"north": "a"}, ["age"]), "experiment": "e1", "since": "2026-01-01"}
    return in_words(waiting, "fl.north.org:9443")


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_fit_reads_as_a_person_would_say_it():
    text = told(WholeFit(Recipe("logistic"), Wishes(REQUEST)))
    assert "{" not in text and "null" not in text and "false" not in text
    assert all(len(line) <= WIDTH for line in text.splitlines())
    for part in ("--model logistic", "died", "penalty l2, alpha 0.001", "north, south", "Nobody learns what this silo"):
        assert part in flat(text)
    assert "also" not in text  # everything was told in a sentence


@pytest.mark.parametrize(
    "wishes",
    [
        {"cross_validate": True},
        {"cross_validate": True, "cv": "silo"},
        {"cross_validate": True, "cv": 7},
        {"cross_validate": True, "rule": "1se"},
        {"standardise": False},
        {"allow_empty": True},
        {"coding": "full"},
        {"positive": "yes"},
        {"influence": False},
        {"alpha_of_sum": True},
        {"request": replace(REQUEST, drop=("ward",))},
        {"request": replace(REQUEST, columns=("ward",))},
        {"request": replace(REQUEST, categorical=("ward",))},
        {"request": replace(REQUEST, missing="drop")},
        {"request": replace(REQUEST, roles={"weights": "w"})},
        {"request": replace(REQUEST, levels=("low", "high"))},
        {"request": replace(REQUEST, target="other")},
    ],
)
def test_whatever_changes_what_is_asked_of_a_fit_changes_its_words(wishes):
    usual = told(WholeFit(Recipe("logistic"), Wishes(REQUEST)))
    folds = told(WholeFit(Recipe("logistic"), Wishes(REQUEST, cross_validate=True)))
    text = told(WholeFit(Recipe("logistic"), replace(Wishes(REQUEST), **wishes)))
    assert text != usual
    assert (text == folds) == (wishes == {"cross_validate": True})


@pytest.mark.parametrize(
    ("model", "change"),
    [
        ("logistic", {"penalty": "l1"}),
        ("logistic", {"penalty": "none"}),
        ("logistic", {"alpha": 0.5}),
        ("logistic", {"class_weight": "balanced"}),
        ("logistic", {"errors": "robust"}),
        ("logistic", {"site_effect": "fixed"}),
        ("elastic-net", {"penalty": "elastic-net", "l1_ratio": 0.25}),
        ("quantile", {"quantile": 0.9}),
        ("huber", {"delta": 2.0}),
        ("tweedie", {"penalty": "none", "power": 1.25}),
        ("negative-binomial", {"penalty": "none", "dispersion": 3.0}),
        ("cox", {"penalty": "none", "ties": "breslow"}),
    ],
)
def test_so_does_whatever_changes_its_model(model, change):
    usual = Recipe(model, **{name: value for name, value in change.items() if name == "penalty" and len(change) > 1})
    assert told(WholeFit(replace(usual, **change), Wishes(REQUEST))) != told(WholeFit(usual, Wishes(REQUEST)))


def test_what_no_sentence_tells_is_shown_as_it_is():
    content = WholeFit(Recipe("logistic"), Wishes(REQUEST)).as_json()
    content["wishes"]["rows_one_by_one"] = True
    content["secret"] = {"row": 7}
    text = flat(told(content))
    assert "wishes.rows_one_by_one true" in text and "secret.row 7" in text


@pytest.mark.parametrize(
    ("analysis", "parts"),
    [
        (
            TableDescription(TableWishes(Request(""), "ward", (("sex", "ward"),))),
            ("a table that describes", "by group ward", "sex by ward", "fewer than"),
        ),
        (
            SurvivalCurves(CurveWishes(Request("died", False, roles={"time": "days"}), "ward", 365.0)),
            ("survival curves", "days as time", "until 365", "are joined"),
        ),
        (TableCheck("died", True), ("a check of the silos' tables", "no entry, no row, no count")),
        (
            OneAlgorithm(make("dualfl"), LinearProblem("logistic", ridge=0.01), rounds=50),
            ("a run of the algorithm dualfl", "at most 50 rounds", "ridge 0.01"),
        ),
    ],
)
def test_other_analyses_have_sentences_of_their_own(analysis, parts):
    text = flat(told(analysis))
    assert all(part in text for part in parts), text
    assert "also" not in text


def test_a_plan_without_masks_says_so():
    assert "Nothing is masked" in told(WholeFit(Recipe("logistic"), Wishes(REQUEST)), secure=False)


def test_control_characters_of_a_plan_reach_no_terminal():
    text = told(WholeFit(Recipe("logistic"), Wishes(replace(REQUEST, target="x\x1b[2J"))))
    assert "\x1b" not in text


def test_every_field_of_a_recipe_is_known_here():
    """A field that is added to recipes gets a sentence; until then it is shown as it is, which this test points out."""
    content = WholeFit(Recipe("logistic"), Wishes(REQUEST)).as_json()
    assert set(asdict(Recipe("logistic"))) == set(content["recipe"])
    assert "also" not in told(content)
