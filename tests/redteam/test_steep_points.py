"""Points so far out that a smooth model has kinks: a plan may have a step of 1e9, and its run goes there by itself."""

import itertools
import json

import numpy as np
import pytest
from hostile import RECIPE, Hostile, change, far_run, fit, make_homes, refusals

from dualfl.algorithms.registry import from_json, make
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes
from dualfl.errors import InputError
from dualfl.federation import far_silos
from dualfl.federation.experiment import Experiment
from dualfl.federation.silo_folder import SiloFolder
from dualfl.federation.steep_points import check_point
from dualfl.objectives import (
    CoxPartialLikelihood,
    Gamma,
    LinearModel,
    Logistic,
    NegativeBinomial,
    OwnIntercept,
    Poisson,
    ProportionalOdds,
    Softmax,
    Squared,
    Tweedie,
)
from dualfl.tables.schema import Request

STEEP = "so steep at a point of this analysis"
RULES = {"forbidden_columns": ["town"], "experiments_per_day": 100}


def algorithm(name, **given):
    return from_json(json.dumps({"algorithm": name} | given))


def opened_gradients(homes, monkeypatch, algorithm, rounds, loss="logistic", task="classification"):
    """All sums of gradients that this run tells the coordinator, without a ridge: of all silos' rows."""
    found: dict[bytes, np.ndarray] = {}

    class Seen(far_silos.Opened):
        def __init__(self, silos, answers, totals):
            super().__init__(silos, answers, totals)
            found.update({sums["g"].tobytes(): sums["g"] for sums in self.sums.values() if "g" in sums})

    monkeypatch.setattr(far_silos, "Opened", Seen)
    far_run(homes, algorithm, rounds, problem={"loss": loss, "ridge": 0.0}, transport=Hostile(homes), task=task)
    rows = np.vstack([Experiment(SiloFolder(home), "e").far.chamber.rows.X for home in homes])
    return len(rows) * np.array(list(found.values())), np.column_stack([rows, np.ones(len(rows))])


@pytest.mark.unrefused("an operator who has switched the rule off")
def test_gradient_descent_with_a_huge_step_tells_patients_to_their_last_digits(tmp_path, monkeypatch):
    """Why the rule is there: one masked run that an operator had read and approved, "step 1e9"."""
    homes = make_homes(tmp_path, least_per_cell=0, **RULES)
    gradients, rows = opened_gradients(homes, monkeypatch, algorithm("gd", step=1e9), 120)
    told = set()
    for a, b in itertools.combinations(gradients, 2):
        off = np.abs(np.abs(a - b) - np.abs(rows)).max(axis=1)
        told |= {int(off.argmin())} if off.min() < 1e-9 else set()
    assert len(told) >= 10


def counts(homes):
    """Targets that are amounts."""
    for home in homes:
        path = home / "data.csv"
        path.write_text(path.read_text().replace("yes", "3.5").replace("no\n", "0.5\n"))
        policy = json.loads((home / "silo.json").read_text())["policy"]
        change(home, policy=policy | {"task": "regression", "classes": None})


@pytest.mark.unrefused("an operator who has switched the rule off")
def test_a_loss_of_counts_is_about_its_largest_row_far_out(tmp_path, monkeypatch):
    homes = make_homes(tmp_path, least_per_cell=0, **RULES)
    counts(homes)
    gradients, rows = opened_gradients(homes, monkeypatch, algorithm("gd", step=9.0), 2, "poisson", "regression")
    far = gradients[np.abs(gradients).max(axis=1).argmax()]
    assert np.abs(far / far[-1] - rows).max(axis=1).min() < 0.1  # of values that differ by 3: one patient's


PLANS = {
    "one step of 1e9": ("gd", {"step": 1e9}),
    "a step of 1,000": ("gd", {"step": 1e3}),
    "an accelerated method": ("nesterov", {"step": 1e6}),
    "a server's step after local ones": ("fedavg", {"eta_s": 1e9}),
    "the same with control variates": ("scaffold", {"eta_g": 1e6}),
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_with_a_huge_step_is_refused_where_its_sums_become_those_of_a_few_rows(plan, tmp_path):
    homes = make_homes(tmp_path, least_per_cell=3, **RULES)
    name, given = PLANS[plan]
    problem = {"loss": "logistic", "ridge": 1e-10}
    with pytest.raises(InputError, match=STEEP):
        far_run(homes, algorithm(name, **given), rounds=60, problem=problem, transport=Hostile(homes))
    assert any(STEEP in reason for home in homes for reason in refusals(home))


def test_counts_far_out_are_refused_too(tmp_path):
    homes = make_homes(tmp_path, least_per_cell=3, **RULES)
    counts(homes)
    with pytest.raises(InputError, match=STEEP):
        far_run(homes, algorithm("gd", step=9.0), 3, problem={"loss": "poisson"}, task="regression",
                transport=Hostile(homes))  # fmt: skip


def test_a_fit_without_a_penalty_of_classes_that_a_column_tells_apart_is_refused_before_it_is_about_a_few(tmp_path):
    """Its curvature is that of the rows nearest to the edge between the classes."""
    homes = make_homes(tmp_path, least_per_cell=3, **RULES)
    for home in homes:
        path = home / "data.csv"
        head, *lines = path.read_text().splitlines()
        parts = [line.split(",") for line in lines]
        path.write_text(
            "\n".join([head, *(",".join([*p[:3], "yes" if float(p[0]) > 50 else "no"]) for p in parts)]) + "\n"
        )
    recipe = Recipe("logistic", alpha=1e-9, tol=1e-9)
    with pytest.raises(InputError, match=STEEP):
        fit(homes, recipe=recipe, wishes=Wishes(Request("sick"), influence=False))


HONEST = ["s-local-svrg", "gd", "lbfgs", "nesterov", "dualfl", "fedavg", "scaffnew", "giant", "feddr", "auto"]


@pytest.mark.unrefused("honest runs")
@pytest.mark.parametrize("name", HONEST)
def test_honest_runs_are_not_refused_and_have_the_bits_of_runs_without_the_rule(name, tmp_path):
    found = []
    for least in (0, 3):
        homes = make_homes(tmp_path / str(least), least_per_cell=least, **RULES)
        for home in homes:
            (home / "folds").write_text("secret")  # by which rows are drawn
        asked = algorithm(name, batch=10) if name == "s-local-svrg" else make(name)
        ran = far_run(homes, asked, rounds=6, problem={"ridge": 1e-3}, transport=Hostile(homes))
        found.append(ran.result.theta.tobytes())
    assert found[0] == found[1]


@pytest.mark.unrefused("an honest fit")
def test_an_honest_fit_is_not_refused(tmp_path):
    fit(make_homes(tmp_path, least_per_cell=3, **RULES), recipe=RECIPE)


def visits(homes, days):
    """Targets that are counts with a mean of 12, or of 0.3 a day over days of three orders of magnitude."""
    rng = np.random.default_rng(0)
    for home in homes:
        path = home / "data.csv"
        head, *lines = path.read_text().splitlines()
        rows = [line.split(",")[:3] for line in lines]
        age = np.array([float(row[0]) for row in rows]) / 10 - 5
        spent = np.round(10 ** rng.uniform(0, 3, len(rows)), 3)
        y = rng.poisson(np.exp(0.4 * age) * (0.3 * spent if days else 11))
        more = [f"{d},{n}" for d, n in zip(spent, y)] if days else [f"{n}" for n in y]
        head = "age,income,town,days,sick" if days else head
        path.write_text("\n".join([head, *(",".join([*row, one]) for row, one in zip(rows, more))]) + "\n")
        policy = json.loads((home / "silo.json").read_text())["policy"]
        roles = {"exposure": ["days"]} if days else {}
        change(home, policy=policy | {"task": "regression", "classes": None}, roles=roles)


@pytest.mark.unrefused("an honest fit")
@pytest.mark.parametrize("days", [False, True])
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_an_honest_path_of_counts_is_not_refused(penalty, days, tmp_path):
    """Newton's method from zero would try means of e^11 on its first step; columns vary it by further powers of e."""
    homes = make_homes(tmp_path, rows=(60, 45, 50), least_per_cell=3, **RULES)
    visits(homes, days)
    request = Request("sick", True, roles={"exposure": "days"} if days else {})
    wishes = Wishes(request, influence=False, cross_validate=True)
    fit(homes, recipe=Recipe("poisson", penalty), wishes=wishes)


def kinds():
    rng = np.random.default_rng(0)
    X, time = rng.normal(size=(40, 2)), rng.exponential(size=40) + 0.1
    y, levels = np.where(X[:, 0] + rng.normal(size=40) > 0, 1.0, -1.0), np.arange(40) % 3
    return {
        "logistic": LinearModel(X, y, Logistic()),
        "counts": LinearModel(X, levels.astype(float), Poisson()),
        "amounts": LinearModel(X, time, Gamma()),
        "amounts with site effects": OwnIntercept(X, time, Gamma()),
        "amounts or nothing": LinearModel(X, time * (levels > 0), Tweedie(1.5)),
        "counts that spread": LinearModel(X, levels.astype(float), NegativeBinomial(0.5)),
        "classes": LinearModel(X, levels, Softmax(3)),
        "times": CoxPartialLikelihood(X, time, np.ones(40)),
        "levels": ProportionalOdds(X, levels, 3),
        "site effects": OwnIntercept(X, y, Logistic()),
        "with a tilt": LinearModel(X, y, Logistic()).tilted(0.1, np.ones(2)),
    }


@pytest.mark.unrefused("the rule itself")
@pytest.mark.parametrize("kind", kinds())
def test_every_smooth_model_is_steep_far_out_and_not_at_zero(kind):
    f, rng = kinds()[kind], np.random.default_rng(1)
    check_point(f, np.zeros(f.d), 3)
    far = 1e4 * rng.normal(size=f.d)
    if kind == "levels":
        far[-2:] = 0.0  # its thresholds stay in order
    with pytest.raises(InputError, match=STEEP):
        check_point(f, far, 3)
    check_point(f, far, 0)


@pytest.mark.unrefused("the rule itself")
def test_least_squares_are_as_steep_everywhere():
    X = np.random.default_rng(0).normal(size=(9, 2))
    check_point(LinearModel(X, X[:, 0], Squared()), np.full(2, 1e12), 3)


@pytest.mark.unrefused("the rule itself")
@pytest.mark.parametrize("model", [LinearModel, OwnIntercept])
def test_amounts_may_be_as_unequal_as_they_are_but_a_point_may_not_make_them_so(model):
    rng = np.random.default_rng(3)
    X, bill = rng.normal(size=(40, 2)), np.exp(2 * rng.normal(size=40))
    bill[0] = 1e4  # more than all others together
    f = model(X, bill, Gamma())
    for x in (np.zeros(2), np.array([0.3, -0.4])):
        check_point(f, x, 3)
    for x in (np.array([4.0, 0.0]), np.array([0.0, -4.0])):
        with pytest.raises(InputError, match=STEEP):
            check_point(f, x, 3)
