"""What lies beside an approved plan: the question before it, its name, how many there are, the digits of its points."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hostile import RECIPE, WISHES, Hostile, change, far_run, fit, make_homes, refusals

from dualfl.algorithms.registry import make
from dualfl.analysis.descriptions import WholeFit
from dualfl.analysis.models import Recipe
from dualfl.analysis.one_algorithm import LinearProblem, OneAlgorithm
from dualfl.analysis.whole_fit import Wishes
from dualfl.errors import InputError
from dualfl.federation import consent, silo_folder
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.plan_in_words import in_words
from dualfl.federation.wire import decode, encode
from dualfl.tables.schema import Request
from dualfl.tables.terms import Factor, Term


def asking(**words):
    """The hello asks about other columns or rows than the plan."""

    def lie(number, content):
        if content["kind"] == "open":
            content["asks"][0]["given"]["request"] |= words
            return content
        return None

    return lie


@pytest.mark.parametrize("words", [{"columns": ()}, {"drop": ("town",)}, {"numeric_target": None}])
def test_the_first_question_is_that_of_the_plan(words, tmp_path):
    """The operator approved a fit to `age` alone, and silos fitted all columns that the hello had asked about."""
    homes = make_homes(tmp_path)
    with pytest.raises(InputError, match=f"the first question, given, request, {next(iter(words))}"):
        fit(homes, asking(**words), wishes=Wishes(Request("sick", columns=("age",)), influence=False))
    assert all("(the first question" in refusals(home)[-1] for home in homes)


def test_the_first_question_is_not_asked_again_in_other_words(tmp_path):
    """After the plan was approved, another hello would have changed which columns and rows it is about."""
    homes = make_homes(tmp_path)
    begun = fit(homes, wishes=Wishes(Request("sick", columns=("age",)), influence=False), experiment="e")
    hello = decode(begun.heard[0][0])
    again = hello | {"asks": [json.loads(json.dumps(hello["asks"][0]))]}
    again["asks"][0]["given"]["request"]["columns"] = []
    said = decode(Keeper(homes[0]).handle(encode(again)))
    assert "this experiment began with another question" in said["refusal"]


def nudged(number, content):
    """Within what rounding may explain: a few millionths of the largest number of each vector."""
    for ask in content.get("asks", ()):
        given = ask.get("given") or {}
        for place in (ask.get("message") or {}, given if "spread" in given else {}):
            for name, x in place.items():
                if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.size:
                    signs = np.where(np.arange(x.size) % 2, 1, -1).reshape(x.shape)
                    place[name] = x + 9e-7 * np.abs(x).max(initial=0.0) * signs
    return content


@pytest.mark.unrefused("what is within rounding is not refused, and changes nothing")
def test_what_rounding_explains_chooses_no_point(tmp_path):
    """Beside a column of large numbers 1e-6 of the largest is any spread of the others, and so any point."""
    homes = make_homes(tmp_path)
    honest, nudge = (
        far_run(homes, make("gd"), transport=Hostile(homes, lie), experiment=name).result.theta
        for name, lie in (("e", None), ("f", nudged))
    )
    assert honest.tobytes() == nudge.tobytes()


def test_an_experiment_that_has_ended_counts_among_those_of_the_day(tmp_path):
    """Each was ended at once, which deleted what it was counted by."""
    homes = make_homes(tmp_path, experiments_per_day=1)
    fit(homes, experiment="one")
    for home in homes:
        assert decode(Keeper(home).handle(encode({"kind": "end", "protocol": PROTOCOL, "experiment": "one"})))["ended"]
        assert not (home / "experiments" / "one").exists()
    with pytest.raises(InputError, match="allows no more experiments today"):
        fit(homes, experiment="two")


def test_a_plan_is_not_called_by_another_algorithm_than_it_runs(tmp_path):
    """The operator allows `dualfl` alone; a fit is done by `auto`, whatever the plan has beside it."""
    homes = make_homes(tmp_path)
    change(homes[0], policy=json.loads((homes[0] / "silo.json").read_text())["policy"] | {"algorithms": ["dualfl"]})

    def lie(number, content):
        if content["kind"] == "join":
            content["plan"]["algorithm"] = make("dualfl").to_json()
            return content
        return None

    with pytest.raises(InputError, match="the algorithm 'auto' is not among those"):
        fit(homes, lie)


def test_not_more_plans_wait_than_an_operator_can_read(tmp_path, monkeypatch):
    monkeypatch.setattr(consent, "WAITING", 3)
    homes = make_homes(tmp_path, approval="ask")
    for number in range(5):
        with pytest.raises(InputError, match="the plan waits for this" if number < 3 else "plans wait for this silo's"):
            fit(homes, experiment=f"e{number}")
    assert len(list((homes[0] / "approvals" / "waiting").iterdir())) == 3


@pytest.mark.unrefused("the operator is told that there is more")
def test_a_plan_that_is_longer_than_its_page_says_so_first():
    plan = {"silos": ["a", "b", "c"], "columns": ["x" * 40 + str(i) for i in range(1000)], "masks": True}
    plan |= {"analysis": {"analysis": "check", "target": "sick", "hidden": 1}, "model": "", "method": "auto"}
    waiting = {"plan": plan, "experiment": "e", "since": "now"}
    assert in_words(waiting, "somewhere").startswith("TAKE CARE: this plan is longer than what is shown of it.")
    shorter = in_words(waiting | {"plan": plan | {"columns": ["age"]}}, "somewhere")
    assert "TAKE CARE" not in shorter and "hidden 1" in shorter


@pytest.mark.unrefused("what the operator reads")
def test_a_term_is_shown_by_what_it_computes_and_a_run_with_all_that_it_is_given(tmp_path):
    """A term may have a name of its own, which was shown in its place; a run's tolerance and seed were not shown."""
    term = Term((Factor("income", "pow", 4), Factor("age")), (False, False), part_of="age")
    whole = WholeFit(RECIPE, replace(WISHES, terms=(term,)))
    run = OneAlgorithm(
        make("gd"), LinearProblem("logistic", 0.1, intercept="penalised", solver="sgd"), seed=7, tol=1e-300
    )
    base = WholeFit(Recipe("ordinal", base=(-3.0, 4.0)), WISHES)
    for analysis, words in (
        (whole, ["income^4:age"]),
        (run, ["seed 7", "tol 1e-300", 'solver "sgd"', 'intercept "penalised"']),
        (base, ["base [-3.0, 4.0]"]),
    ):
        plan = consent.description({"names": ["a"], "secure": 57, "analysis": analysis.as_json()}, {})
        said = " ".join(in_words({"plan": plan, "experiment": "e", "since": "now"}, "somewhere").split())
        assert all(word in said for word in words), said


@pytest.mark.unrefused("what the operator reads")
def test_a_zero_that_no_sentence_tells_is_shown():
    plan = {"silos": ["a"], "columns": ["age"], "masks": True, "model": "", "method": "auto"}
    plan |= {"analysis": {"analysis": "check", "target": "sick", "later": 0, "more": {"limit": 0.0}}}
    assert "later 0, more.limit 0.0" in in_words({"plan": plan, "experiment": "e", "since": "now"}, "somewhere")


@pytest.mark.parametrize("name", ["evaluate", "survival_target", "StandardScaler", "PenaltyPath", "os", "__name__"])
def test_a_plan_names_an_estimator_and_nothing_else_that_can_be_called(name, tmp_path):
    """Whatever the package of estimators exports was called at the silo, with arguments of the coordinator's."""
    homes = make_homes(tmp_path)
    analysis = {"analysis": "estimator", "estimator": name, "parameters": {}, "target": "sick"}

    def lie(number, content):
        for place in (content, content.get("plan", {})):
            if "analysis" in place:
                place["analysis"] = analysis
        return content

    with pytest.raises(InputError, match="is no estimator of this version"):
        fit(homes, lie)
    assert "is no estimator" in refusals(homes[0])[-1]


def test_nonsense_without_end_fills_no_disk_with_its_reasons(tmp_path, monkeypatch):
    """Every message that failed left a traceback in logs/silo.log, as many as a coordinator sends."""
    monkeypatch.setattr(silo_folder, "FULL", 10_000)
    home = make_homes(tmp_path)[0]
    keeper = Keeper(home)
    for number in range(60):
        said = decode(keeper.handle(encode({"kind": "ask", "protocol": PROTOCOL, "experiment": 7.5, "to": number})))
        assert "refusal" in said
    logs = list((home / "logs").iterdir())
    assert sorted(path.name for path in logs) == ["silo.log", "silo.log.1"]
    assert all(path.stat().st_size < 20_000 and path.stat().st_mode & 0o077 == 0 for path in logs)
    assert len(refusals(home)) == 60


def test_plans_that_wait_fill_no_disk(tmp_path, monkeypatch):
    """Fifty of them may wait, each of as many megabytes as a message takes."""
    monkeypatch.setattr(consent, "LONGEST", 20_000)
    homes = make_homes(tmp_path, approval="ask")
    columns = tuple(f"x{number}" * 20 for number in range(1000))
    with pytest.raises(InputError, match="are the most that wait for an operator"):
        fit(homes, wishes=Wishes(Request("sick", drop=columns), influence=False))
    assert not list((homes[0] / "approvals").glob("waiting/*.json"))
    assert "bytes to read" in refusals(homes[0])[-1]
