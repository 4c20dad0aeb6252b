"""Losses with kinks: what one masked run of an honest coordinator tells of single rows, and the rule against it."""

import itertools

import numpy as np
import pytest
from hostile import RECIPE, WISHES, Hostile, far_run, fit, make_homes, refusals

from dualfl.algorithms.registry import make
from dualfl.errors import InputError
from dualfl.federation import far_silos
from dualfl.federation.experiment import Experiment
from dualfl.federation.silo_folder import SiloFolder
from dualfl.federation.wire import decode

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


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_without_the_operators_word_no_loss_with_kinks_is_asked(loss, tmp_path):
    homes = make_homes(tmp_path)
    with pytest.raises(InputError, match="has kinks, so sums at two points"):
        far_run(homes, make("auto"), problem={"loss": loss}, transport=Hostile(homes), task="classification")
    assert all("'kinks'" in refusals(home)[-1] for home in homes)


@pytest.mark.parametrize("model", ["svm", "squared-hinge"])
def test_a_fit_with_kinks_is_refused_too(model, tmp_path):
    from dataclasses import replace

    homes = make_homes(tmp_path)
    with pytest.raises(InputError, match="has kinks"):
        fit(homes, recipe=replace(RECIPE, model=model), wishes=WISHES)
    assert all("'kinks'" in refusals(home)[-1] for home in homes)
