"""No query but the plan's: a coordinator that controls no silo and chooses what it asks gets nothing."""

import json
import shutil

import numpy as np
import pytest
from hostile import TABLE, Hostile, asks, change, fit, make_homes, refusals

from dualfl.errors import InputError
from dualfl.federation.field import P
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.wire import decode, encode

OTHER = "asks something else than the plan and the sums imply"


@pytest.fixture
def homes(tmp_path):
    return make_homes(tmp_path)


@pytest.mark.unrefused("an honest coordinator")
def test_an_honest_coordinator_gets_its_model(homes):
    transport = fit(homes)
    kinds = [decode(message)["kind"] for message, _ in transport.heard]
    assert kinds[:3] == ["open", "join", "ask"] and len(kinds) > 5
    assert all(refusals(home) == [] for home in homes)


# -- a, c: other shapes, other points, other steps -------------------------------------------------------


def with_question(change, **wanted):
    """Change the first such question."""

    def lie(number, content):
        found = asks(content, **wanted)
        if not found:
            return None
        change(found[0])
        return content

    return lie


def flat(question):
    center = question["given"]["center"]
    question["given"]["center"] = center.reshape(1, 1, -1)


def set_in(*path, to):
    def change(question):
        for name in path[:-1]:
            question = question[name]
        question[path[-1]] = to(question[path[-1]]) if callable(to) else to

    return change


def is_step(question):
    return question.get("step") is not None and question["round"] >= 0


def with_step(change):
    def lie(number, content):
        found = [one for one in content.get("asks", ()) if is_step(one)]
        if not found:
            return None
        change(found[0])
        return content

    return lie


def chosen_point(question):
    for name, value in question["message"].items():
        if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size:
            question["message"][name] = np.where(np.arange(value.size).reshape(value.shape) % 2, 1e9, -1e9)
            return
    question["probe"] = np.full(5, 1e9)


def nudged(question):
    for name, value in question["message"].items():
        if isinstance(value, np.ndarray) and value.dtype == np.float64 and np.abs(value).max(initial=0) > 0:
            question["message"][name] = value + 1e-3 * np.abs(value).max()
            return
    question["probe"] = np.full(5, 1.0)


LIES = {
    "a: a centre of another shape": with_question(flat, verb="deviate"),
    "a: another centre": with_question(set_in("given", "center", to=lambda x: x + 1.0), verb="deviate"),
    "a: a question that the analysis does not ask": lambda number, content: (
        {**content, "asks": [*content["asks"], {"verb": "products", "given": {"rows": {}}, "reduce": "sum"}]}
        if content["kind"] == "ask"
        else None
    ),
    "c: a point far out": with_step(chosen_point),
    "c: a point near by": with_step(nudged),
    "c: the value at another point": with_step(set_in("probe", to=np.full(5, 1e9))),
    "c: a finer grid": with_step(set_in("fit", "mass", to=1e-3)),
    "c: another step": with_step(set_in("step", to="slope")),
    "c: another round": with_step(set_in("round", to=lambda r: r + 1)),
    "c: another algorithm": with_step(set_in("algorithm", to='{"algorithm": "dualfl"}')),
    "c: fewer rows than the algorithm wants": with_step(
        set_in("fit", "under", to=lambda text: json.dumps(json.loads(text) | {"least_rows": 3}))
    ),
    "c: rows of one silo": with_step(
        set_in("fit", "cost", "rows", to={"which": "only", "folds": 0, "fold": 0, "silo": "a"})
    ),
    "c: another loss": with_step(set_in("fit", "cost", "loss", to={"name": "Hinge"})),
    "c: another penalty": with_step(set_in("fit", "cost", "ridge", to=1e-9)),
    "a level of its own": with_question(
        set_in("given", "schema", to=lambda schema: schema | {"target": "other"}), verb="encode"
    ),
    "another spread": with_question(set_in("given", "spread", to=lambda x: 1e6 * x), verb="encode"),
    "not what came of the last": lambda number, content: (
        content | {"opened": None} if content["kind"] == "ask" and number > 4 else None
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_another_question_is_refused_and_logged(lie, homes):
    with pytest.raises(InputError) as caught:
        fit(homes, LIES[lie])
    expected = "does not hand on what came" if lie.startswith("not what") else OTHER
    assert expected in str(caught.value)
    for home in homes:
        assert len(refusals(home)) == 1 and expected in refusals(home)[0]


# -- sums that are not the sums --------------------------------------------------------------------------


def shifted(words):
    changed = words.copy()
    changed[0] = (int(changed[0]) + 1) % P
    return changed


@pytest.mark.parametrize(
    "false",
    [shifted, lambda x: np.zeros_like(x), lambda x: (x.astype(object) * 2 % P).astype(np.uint64), lambda x: x[1:]],
)
@pytest.mark.parametrize("number", [4, 6])
def test_a_sum_that_silos_did_not_send_ends_the_experiment(false, number, homes):
    def lie(at, content):
        if at != number or content["kind"] != "ask":
            return None
        what = "sums" if content["opened"]["sums"] is not None else "largest"
        content["opened"][what] = false(content["opened"][what])
        return content

    with pytest.raises(InputError, match="is not the sum of what silos sent"):
        fit(homes, lie)
    assert "this experiment is over" in refusals(homes[0])[0]
    assert not (homes[0] / "experiments" / "e").exists()
    with pytest.raises(InputError, match="this experiment has ended at this silo"):
        fit(homes)


def test_a_message_that_is_late_ends_nothing(homes):
    def again(number, content):
        if number == 7:
            keeper = Keeper(homes[0])
            assert "does not hand on what came of the last" in decode(keeper.handle(asked[4]))["refusal"]
        asked.append(encode(content))

    asked = []
    assert fit(homes, again).number > 7


# -- b: masks are used once ------------------------------------------------------------------------------


def test_b_a_silo_repeats_its_last_answer_alone(homes):
    transport = fit(homes)
    asked = [message for message, _ in transport.heard if decode(message)["kind"] == "ask"]
    answers = dict(transport.heard)
    keeper = Keeper(homes[0])
    assert keeper.handle(asked[-1]) == answers[asked[-1]][100]
    for message in asked[:-1]:
        assert "refusal" in decode(keeper.handle(message))
    again = decode(asked[-1]) | {"version": "other"}  # the same question in other words
    assert "refusal" in decode(keeper.handle(encode(again)))


def test_b_going_back_to_an_earlier_exchange_gives_no_second_answer_under_its_masks(homes, tmp_path):
    """A folder that is restored from a backup: what it may answer is what it answered then."""
    backup = {}

    def lie(number, content):
        if number == 6 and not backup:
            backup["folder"] = shutil.copytree(homes[0], tmp_path / "backup")

    transport = fit(homes, lie)
    sixth = [message for message, _ in transport.heard][5]
    keeper = Keeper(backup["folder"])
    other = decode(sixth)
    other["asks"][0] = other["asks"][0] | {"probe": np.ones(5)} if "probe" in other["asks"][0] else {}
    assert OTHER in decode(keeper.handle(encode(other)))["refusal"]
    assert keeper.handle(sixth) == dict(transport.heard)[sixth][100]


# -- d: other rosters ------------------------------------------------------------------------------------


def test_d_a_plan_that_leaves_out_a_silo_is_refused(tmp_path):
    homes = make_homes(tmp_path, rows=(40, 30, 35, 45))
    with pytest.raises(InputError, match="leaves out silo 'd' of this silo's roster"):
        fit(homes[:3])
    fit(homes, experiment="f")


# -- e: what is told before the plan ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "to", "sentence"),
    [
        (("given", "request", "numeric_target"), True, "for classification, and the analysis is for another kind"),
        (("given", "request", "target"), "age", "this silo's target is 'sick'"),
        (("given", "request", "categorical"), ("age",), "not among the 'categorical'"),
        (("given", "request", "missing"), "drop", "which rows count is the operator's to say"),
        (("given", "least"), 0.5, "not how they compare with other numbers"),
        (("verb",), "count", "tells the names of its columns, and nothing else"),
        (("reduce",), "sum", "tells the names of its columns, and nothing else"),
    ],
)
def test_e_before_a_plan_names_are_told_as_the_operator_fixed_them(path, to, sentence, homes):
    def lie(number, content):
        if content["kind"] != "open":
            return None
        set_in(*path, to=to)(content["asks"][0])
        return content

    with pytest.raises(InputError, match=sentence):
        fit(homes, lie)
    assert all(len(refusals(home)) == 1 for home in homes)


@pytest.mark.unrefused("the level is joined with others")
def test_e_a_level_that_one_patient_has_is_told_to_nobody(homes):
    path = homes[0] / "data.csv"
    lines = path.read_text().splitlines()
    cells = lines[1].split(",")
    path.write_text("\n".join([lines[0], ",".join([*cells[:2], "hermitage", cells[3]]), *lines[2:]]) + "\n")
    transport = fit(homes)
    assert not any(b"hermitage" in answer for _, by in transport.heard for answer in by.values())


# -- hellos and messages of others -----------------------------------------------------------------------


def test_a_hello_that_was_changed_or_swapped_is_refused(homes):
    def forged(number, content):
        if content["kind"] != "join":
            return None
        content["met"]["b"] = content["met"]["b"] | {"withholds": not content["met"]["b"]["withholds"]}
        return content

    def swapped(number, content):
        if content["kind"] != "join":
            return None
        content["met"]["b"], content["met"]["c"] = content["met"]["c"], content["met"]["b"]
        return content

    for experiment, lie in (("e", forged), ("f", swapped)):
        with pytest.raises(InputError, match="said to be of silo 'b' is not signed by it"):
            fit(homes, lie, experiment)


def test_shares_of_the_common_key_that_were_changed_are_refused(homes):
    def lie(number, content):
        if content["kind"] != "join":
            return None
        content["met"]["b"] = content["met"]["b"] | {"boxes": content["met"]["c"]["boxes"]}
        return content

    with pytest.raises(InputError, match="said to be of silo 'b' is not signed by it"):
        fit(homes, lie)


# -- two coordinators, old experiments -------------------------------------------------------------------


def test_an_experiment_that_has_ended_is_not_answered_again_and_its_secrets_are_gone(homes):
    transport = fit(homes)
    asked = [message for message, _ in transport.heard]
    keeper = Keeper(homes[0])
    assert decode(keeper.handle(encode({"kind": "end", "protocol": PROTOCOL, "experiment": "e", "to": None})))["ended"]
    assert not (homes[0] / "experiments" / "e").exists()
    for message in (asked[0], asked[1], asked[2], asked[-1]):
        assert "has ended at this silo" in decode(keeper.handle(message))["refusal"]


def test_two_coordinators_with_two_experiments_do_not_disturb_each_other_and_one_cannot_go_on_for_the_other(homes):
    one = fit(homes, experiment="one")
    other = Hostile(homes)
    fit(homes, experiment="two", transport=other)
    last = decode([message for message, _ in one.heard][-1]) | {"experiment": "two"}
    assert "refusal" in decode(Keeper(homes[0]).handle(encode(last)))


def test_an_analysis_waits_until_its_operator_has_read_it(homes):
    from click.testing import CliRunner
    from hostile import POLICY

    from dualfl.cli import main

    change(homes[2], policy=POLICY | {"approval": "ask"})
    with pytest.raises(InputError, match="Silo 'c': the plan waits for this silo's operator"):
        fit(homes)
    shown = CliRunner().invoke(main, ["deploy", "approve", str(homes[2])], input="once\n").output
    assert "--model logistic" in shown and "age, income, town" in shown and "tolerance of 0.0001" in shown
    fit(homes)
    assert not any("waits" in one for one in refusals(homes[0]))


def test_another_plan_for_the_same_experiment_is_refused(homes):
    transport = fit(homes)
    joined = decode(transport.heard[1][0])
    other = joined["plan"] | {"withheld": ()}
    assert "another plan was agreed" in decode(Keeper(homes[0]).handle(encode(joined | {"plan": other})))["refusal"]
    joined["plan"]["analysis"]["recipe"]["alpha"] = 1e-9
    assert "another analysis than it began with" in decode(Keeper(homes[0]).handle(encode(joined)))["refusal"]


def test_questions_of_a_run_are_not_answered_under_the_plan_of_an_analysis(homes):
    """Steps and values of `deploy run` have no replica, so a plan that was approved for an analysis opens none."""
    transport = fit(homes)
    head = {"protocol": PROTOCOL, "experiment": "e", "to": ("a", "b", "c")}
    keeper = Keeper(homes[0])
    step = {"round": 0, "exchange": 0, "step": "slope", "message": {}, "reduce": "sum", "probe": np.zeros(5)}
    for kind, more in (("step", step), ("value", {"probe": np.zeros(5)}), ("moments", {"center": np.zeros(2)})):
        said = decode(keeper.handle(encode(head | {"kind": kind, "scaling": None} | more)))
        assert "answers only what it can foresee" in said["refusal"]
    joined = decode(transport.heard[1][0])
    wider = joined | {
        "experiment": "f",
        "plan": joined["plan"] | {"problem": {"loss": "auto"}, "seed": 0, "start": None},
    }
    assert "other words than this version knows" in decode(keeper.handle(encode(wider)))["refusal"]


def test_a_plan_with_another_grid_is_refused(homes):
    def lie(number, content):
        if content["kind"] != "join":
            return None
        content["plan"]["secure"] = 40
        return content

    with pytest.raises(InputError, match="57 bits after the point, and the plan has 40"):
        fit(homes, lie)


def test_runs_that_a_silo_cannot_follow_are_refused_under_masks(homes):
    """The messages of a run without masks, with a plan that says it has some."""
    plan = {"names": ("a", "b", "c"), "offers": None, "secure": 40, "problem": TABLE, "draft": None, "seed": 0}
    asked = {
        "kind": "agree",
        "protocol": PROTOCOL,
        "experiment": "e",
        "to": None,
        "algorithm": '{"algorithm": "dualfl"}',
    }
    for home in homes:
        said = decode(Keeper(home).handle(encode(asked | plan)))
        assert "answers only what it can foresee" in said["refusal"] and len(refusals(home)) == 1


# -- h: what is left behind ------------------------------------------------------------------------------


@pytest.mark.unrefused("hellos are answered")
def test_h_hellos_without_a_plan_are_forgotten(homes):
    transport = fit(homes)
    hello = decode(transport.heard[0][0])
    keeper = Keeper(homes[0])
    for number in range(40):
        keeper.handle(encode(hello | {"experiment": f"x{number}"}))
    assert len(list((homes[0] / "experiments").iterdir())) <= 23
    assert (homes[0] / "experiments" / "e").exists()


@pytest.mark.unrefused("the attack is on the coordinator")
def test_h_what_a_silo_says_is_cleaned_before_it_is_shown(homes):
    change(homes[1], name="b")

    class Rude(Hostile):
        def push(self, messages):
            ids = super().push(messages)
            self.box = [
                came._replace(answer=encode(decode(came.answer) | {"refusal": "no\x1b[2J\x1b]0;owned\x07"}))
                for came in self.box
            ]
            return ids

    with pytest.raises(InputError) as caught:
        fit(homes, transport=Rude(homes))
    assert "\x1b" not in str(caught.value) and "\x07" not in str(caught.value)
