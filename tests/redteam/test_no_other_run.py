"""No query but the plan's, in a run of one algorithm: theta, steps, order and values follow from plan and sums."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hostile import Hostile, far_run, make_homes, refusals

from dualfl.algorithms.registry import make
from dualfl.errors import InputError
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.steep_points import GuardedCost
from dualfl.federation.wire import decode, encode

OTHER = "asks something else than the plan and the sums imply"


@pytest.fixture
def homes(tmp_path):
    return make_homes(tmp_path, experiments_per_day=100)


def steps(content):
    return [one for one in content.get("asks", ()) if one.get("step") is not None and one["round"] >= 0]


def at_step(number, change):
    """Change the first question of that step of the run."""
    seen = []

    def lie(_, content):
        found = steps(content)
        if not found:
            return None
        seen.append(found[0])
        if len(seen) != number:
            return None
        change(found[0])
        return content

    return lie


def far_out(question):
    name = next(name for name, value in question["message"].items() if isinstance(value, np.ndarray))
    value = question["message"][name]
    question["message"][name] = np.where(np.arange(value.size) % 2, 1e9, -1e9).reshape(value.shape)


def put(name, to):
    def change(question):
        question[name] = to(question[name]) if callable(to) else to

    return change


def hyper(**given):
    return put("algorithm", lambda text: json.dumps(json.loads(text) | given))


LIES = {
    "a point far out": at_step(2, far_out),
    "an earlier round": at_step(3, put("round", lambda r: r - 1)),
    "another step of the algorithm": at_step(2, put("step", "finish")),
    "another algorithm": at_step(2, put("algorithm", '{"algorithm": "gd", "step": 1.0}')),
    "another step size": at_step(1, hyper(rho=99.0)),
    "the value elsewhere": at_step(2, put("probe", lambda probe: None if probe is None else probe + 1.0)),
    "the largest in place of the sum": at_step(2, put("reduce", "max")),
    "two words where nothing was void": lambda _, content: content | {"wide": True} if steps(content) else None,
    "fits that have not ended": lambda _, content: content | {"ended": (1,)} if steps(content) else None,
    "another seed": at_step(1, lambda one: one["fit"].update(seed=7)),
    "another start": at_step(1, lambda one: one["fit"].update(start=np.ones(5))),
    "another solver": at_step(1, lambda one: one["fit"]["cost"].update(solver="sgd")),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_run_asks_what_the_plan_implies_and_nothing_else(lie, homes):
    with pytest.raises(InputError, match=OTHER):
        far_run(homes, make("dualfl"), rounds=4, transport=Hostile(homes, LIES[lie]))
    assert all(len(refusals(home)) == 1 and OTHER in refusals(home)[0] for home in homes)


def test_a_run_that_has_come_to_its_end_is_asked_nothing_more(homes):
    """More rounds than were approved, with the last question once more under a new name."""
    transport = Hostile(homes)
    far_run(homes, make("gd"), rounds=2, transport=transport)
    last = decode(transport.heard[-1][0])
    more = decode(Keeper(homes[0]).handle(encode(last | {"again": 1})))
    assert "refusal" in more


def test_a_plan_with_more_rounds_or_another_algorithm_is_another_plan(homes):
    transport = Hostile(homes)
    far_run(homes, make("gd"), rounds=2, transport=transport)
    joined = decode(transport.heard[1][0])
    for name, to in (("rounds", 3), ("seed", 1), ("algorithm", {"algorithm": "lbfgs"}), ("tol", 1e-9)):
        plan = joined["plan"] | {"analysis": joined["plan"]["analysis"] | {name: to}}
        said = decode(Keeper(homes[0]).handle(encode(joined | {"plan": plan})))
        assert "another analysis than it began with" in said["refusal"]


@pytest.mark.parametrize("codec", ["TopK", "RandK", "Quantise"])
def test_a_plan_has_no_room_for_a_codec(codec, homes):
    """Compressed differences under masks would tell which coordinates one silo sent."""

    def lie(_, content):
        return content | {"plan": content["plan"] | {"codec": (codec, {"k": 1})}} if content["kind"] == "join" else None

    with pytest.raises(InputError, match="other words than this version knows"):
        far_run(homes, make("gd"), rounds=1, transport=Hostile(homes, lie))


@pytest.mark.unrefused("allowed")
def test_stopping_early_is_allowed_and_leaves_nothing_behind(homes):
    transport = Hostile(homes)
    far_run(homes, make("dualfl"), rounds=3, transport=transport)
    keeper = Keeper(homes[0])
    assert decode(keeper.handle(encode({"kind": "end", "protocol": PROTOCOL, "experiment": "e", "to": None})))["ended"]
    assert not (homes[0] / "experiments" / "e").exists()


@pytest.mark.unrefused("about words")
def test_an_estimators_algorithm_is_what_the_policy_looks_at():
    """A plan says "auto" beside the analysis; what an estimator names itself is what would run."""
    from dualfl.federation.consent import description

    analysis = {"analysis": "estimator", "estimator": "Ridge", "parameters": {"algorithm": "giant"}}
    plan = {"names": ("a",), "secure": 40, "algorithm": '{"algorithm": "auto"}', "analysis": analysis}
    assert description(plan, {})["method"] == "giant"
    run = {"analysis": "run", "algorithm": {"algorithm": "gd"}, "problem": {"loss": "squared"}}
    described = description(plan | {"analysis": run}, {})
    assert (described["method"], described["model"]) == ("gd", "squared")


SAMPLING = ("s-local-svrg", "proxskip-vr")


@pytest.mark.parametrize("name", SAMPLING)
def test_a_method_that_draws_single_rows_is_refused(name, tmp_path):
    """Its first step would be a sum of one row of every silo, drawn by a seed that the coordinator has chosen."""
    homes = make_homes(tmp_path)
    with pytest.raises(InputError, match="looks at batches of 1 rows, and this silo's policy wants 10"):
        far_run(homes, make(name), rounds=3)
    assert all("batches of 1 rows" in refusals(home)[-1] for home in homes)


@pytest.mark.unrefused("what is drawn, not whether")
@pytest.mark.parametrize("name", SAMPLING)
def test_which_rows_a_silo_draws_is_its_secret(name, tmp_path):
    """The same plan on the same rows: with another secret other rows are drawn, so no seed tells which."""
    found = []
    for secret in "aab":
        homes = make_homes(tmp_path / f"{secret}{len(found)}")
        for home in homes:
            (home / "folds").write_text(secret)
        found.append(far_run(homes, replace(make(name), batch=10), rounds=3).result.theta)
    assert np.array_equal(found[0], found[1]) and not np.allclose(found[0], found[2], rtol=1e-9, atol=0)


@pytest.mark.unrefused("what is drawn, not whether")
@pytest.mark.parametrize("name", SAMPLING)
def test_batches_of_two_plans_do_not_differ_by_one_row_of_each_silo(name, tmp_path, monkeypatch):
    """The same draws with one more at the end: 11 times the mean of 11 less 10 times that of 10 is one patient's."""
    drawn: dict[int, list[int]] = {}
    honest = GuardedCost.sample_gradient

    def sample_gradient(self, rows, x):
        drawn.setdefault(len(rows), rows.tolist())  # the first batch of silo a
        return honest(self, rows, x)

    monkeypatch.setattr(GuardedCost, "sample_gradient", sample_gradient)
    for batch in (10, 11):
        homes = make_homes(tmp_path / str(batch))
        for home in homes:
            (home / "folds").write_text("secret")
        far_run(homes, replace(make(name), batch=batch), rounds=3)
    assert sum(a == b for a, b in zip(drawn[10], drawn[11])) < 5


@pytest.mark.parametrize("name", ["gd", "dualfl", "s-local-svrg"])
def test_how_far_out_the_farthest_patient_is_is_told_only_to_methods_that_draw_rows(name, tmp_path):
    """L_row, the largest squared norm of a row, went to every method: one patient's, to 2 %."""
    homes = make_homes(tmp_path)
    draws = name == "s-local-svrg"
    asked = replace(make(name), batch=10) if draws else make(name)
    transport = Hostile(homes)
    far_run(homes, asked, rounds=1, transport=transport)
    told = [decode(answer) for _, answers in transport.heard for answer in answers.values()]
    fields = [one.get("largest", {}).get("fields", "") for one in told]
    assert any("minus_inverse_L" in text for text in fields)
    assert any("minus_inverse_L_row" in text for text in fields) == draws

    def lie(_, content):
        for ask in content.get("asks", ()):
            if ask.get("step") == "constants":
                ask["algorithm"] = json.dumps(json.loads(ask["algorithm"]) | {"single_rows": not draws})
                return content
        return None

    with pytest.raises(InputError, match=OTHER):
        far_run(homes, asked, rounds=3, transport=Hostile(homes, lie), experiment="f")
