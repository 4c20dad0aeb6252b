"""Losses with kinks: what one masked run of an honest coordinator tells of single rows, and the rule against it."""

import itertools
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hostile import RECIPE, WISHES, Hostile, far_run, fit, make_homes, refusals

from dualfl import estimators
from dualfl.algorithms.registry import make
from dualfl.analysis.model_kinds import MODELS
from dualfl.analysis.models import Recipe
from dualfl.data.problem import REGRESSION, TWO_CLASSES
from dualfl.errors import InputError
from dualfl.estimators.base import FederatedLinear
from dualfl.federation import far_silos, policy
from dualfl.federation.consent import Consent
from dualfl.federation.experiment import Experiment
from dualfl.federation.policy import Policy
from dualfl.federation.silo_folder import SiloFolder
from dualfl.federation.wire import decode
from dualfl.objectives.losses import Huber, PiecewiseLinear, SquaredHinge

RIDGE = 1e-2


def cuts(homes, monkeypatch):
    """Points and slopes of a bundle's run, as the coordinator sees them: of sums over all silos."""
    opened: list[dict] = []

    class Seen(far_silos.Opened):
        def __init__(self, silos, answers, totals):
            super().__init__(silos, answers, totals)
            opened.extend(sums for sums in self.sums.values() if np.ndim(sums.get("g")) == 2)

    monkeypatch.setattr(far_silos, "Opened", Seen)
    transport = Hostile(homes)
    problem = {"loss": "hinge", "ridge": RIDGE}
    far_run(homes, make("bundle"), rounds=16, problem=problem, transport=transport, task="classification")
    asked = [ask for message, _ in transport.heard for ask in decode(message).get("asks", ())]
    points = np.vstack([ask["message"]["X"] for ask in asked if "X" in (ask.get("message") or {})])
    slopes = list({sums["g"].tobytes(): sums["g"] for sums in opened}.values())  # each silo reads them, too
    return points, np.vstack(slopes)


@pytest.mark.unrefused("the operator allows kinks, and reads what that means")
def test_with_kinks_two_slopes_of_one_run_differ_by_one_row(tmp_path, monkeypatch):
    """Why the rule is there: rows of patients to the last digits, from masked sums that an approved plan asks for."""
    homes = make_homes(tmp_path, kinks=True)
    points, slopes = cuts(homes, monkeypatch)
    rows = np.vstack([Experiment(SiloFolder(home), "e").far.chamber.rows.X for home in homes])
    rows = np.column_stack([rows, np.ones(len(rows))])
    of_losses = len(rows) * (slopes - RIDGE * points)
    found = set()
    for a, b in itertools.combinations(of_losses, 2):
        off = np.abs(np.abs(a - b) - np.abs(rows)).max(axis=1)
        found |= {int(off.argmin())} if off.min() < 1e-9 else set()
    assert found


@pytest.fixture(params=["by name", "by what is asked"])
def refusing(request, monkeypatch):
    """Plans are refused by the names of their models, and questions by their losses, whatever a plan is called."""
    if request.param != "by name":
        monkeypatch.setattr(policy, "KINKED", frozenset())


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_without_the_operators_word_no_loss_with_kinks_is_asked(loss, tmp_path):
    homes = make_homes(tmp_path)
    with pytest.raises(InputError, match="has kinks, so sums at two points"):
        far_run(homes, make("auto"), problem={"loss": loss}, transport=Hostile(homes), task="classification")
    assert all("'kinks'" in refusals(home)[-1] for home in homes)


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("model", ["svm", "squared-hinge"])
def test_a_fit_with_kinks_is_refused_too(model, tmp_path):
    homes = make_homes(tmp_path)
    with pytest.raises(InputError, match="has kinks"):
        fit(homes, recipe=replace(RECIPE, model=model), wishes=WISHES)
    assert all("'kinks'" in refusals(home)[-1] for home in homes)


@pytest.mark.parametrize("model", ["svm", "quantile"])
def test_no_operator_has_to_read_a_plan_with_kinks_that_is_refused_anyway(model, tmp_path):
    homes = make_homes(tmp_path, approval="ask")
    with pytest.raises(InputError, match=f"{model} has kinks"):
        fit(homes, recipe=replace(RECIPE, model=model), wishes=WISHES)
    assert not any(Consent(home, Policy(), None).waiting() for home in homes)
    with pytest.raises(InputError, match="approve"):  # what the policy allows waits, as before
        fit(homes, recipe=RECIPE, wishes=WISHES, experiment="smooth")
    assert any(Consent(home, Policy(), None).waiting() for home in homes)


def loss_of_model(name):
    kind = MODELS[name]
    return Recipe(name, kind.penalty, delta=1.0 if name == "huber" else None).loss(3)


@pytest.mark.unrefused("a policy alone")
def test_plans_with_kinks_are_known_by_their_names():
    """All models, estimators and losses of this version, against what their losses are."""
    recipes = {name: loss_of_model(name) for name in MODELS}
    made = {name: getattr(estimators, name) for name in estimators.__all__}
    fitted = {name: one() for name, one in made.items() if isinstance(one, type) and issubclass(one, FederatedLinear)}
    for one in fitted.values():
        one.classes_, one.base_ = np.arange(2), (0.0,)
    losses = {name: one._cost(1.0).loss for name, one in fitted.items() if hasattr(one, "_cost")}
    runs = {name: make_loss() for name, make_loss in (TWO_CLASSES | REGRESSION).items()}
    assert len(losses) > 15
    for name, loss in [*recipes.items(), *losses.items(), *runs.items(), ("quantile:0.9", runs["quantile"])]:
        kinked = isinstance(loss, PiecewiseLinear | Huber | SquaredHinge)
        for allowed in (False, True):
            own = Policy(kinks=allowed)
            refused = pytest.raises(InputError, match="has kinks") if kinked and not allowed else nullcontext()
            with refused:
                own.check_method("auto", name)
