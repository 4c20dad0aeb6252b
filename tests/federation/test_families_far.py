"""Survival, ordered levels, weights and site effects at silos far away: the fit of the files, by operators' rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from far import far_fit, far_silos, make_homes

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fitting
from dualfl.errors import InputError
from dualfl.federation.fixed_point import BITS
from dualfl.silos import Chamber, SilosHere, drive
from dualfl.tables.reading import read_table
from dualfl.tables.schema import Request

SURVIVAL = Path(__file__).parents[2] / "examples" / "survival"
PATHS = [SURVIVAL / f"{name}.csv" for name in ("north", "river", "hill")]
FEATURES = ("age", "stage", "treatment")
TIME = {"time": "days"}


def asked(target, **more):
    return Request(target, columns=FEATURES, **more)


CASES = {
    "cox": (asked("died", roles=TIME), Recipe("cox", "none")),
    "cox, strata and weights": (
        asked("died", roles=TIME | {"strata": "stage", "weights": "days_at_risk", "cluster": "family"}),
        Recipe("cox", "none", errors="cluster:family"),
    ),
    "ordinal": (asked("quality", levels=("poor", "fair", "good")), Recipe("ordinal", "none", errors="robust")),
    "site effect": (asked("died"), Recipe("logistic", "none", site_effect="fixed", class_weight="balanced")),
    "counts": (asked("falls", numeric_target=True, roles={"exposure": "days_at_risk"}), Recipe("poisson", "none")),
    "random effect": (asked("days_at_risk", numeric_target=True), Recipe("linear", "none", site_effect="random")),
}


def homes_for(folder, request, secure, **settings):
    return make_homes(folder, PATHS, request.target, secure, **({"show_own_numbers": True} | settings))


def here(request, recipe, wishes):
    silos = SilosHere([Chamber(read_table(path), name=path.stem) for path in sorted(PATHS)])
    return drive(fitting(silos, recipe, wishes), silos)


@pytest.mark.parametrize("case", CASES)
def test_a_study_gives_the_fit_of_the_files(case, tmp_path):
    request, recipe = CASES[case]
    wishes = Wishes(request, influence=case == "cox")
    expected = here(request, recipe, wishes)
    found = far_fit(far_silos(homes_for(tmp_path / "plain", request, None), None), recipe, wishes)
    assert found.theta.tobytes() == expected.theta.tobytes() and found.names == expected.names
    assert found.errors.covariance.tobytes() == expected.errors.covariance.tobytes()
    assert found.estimator.certificate_ == expected.estimator.certificate_
    assert found.statistics == expected.statistics and str(found.evaluation) == str(expected.evaluation)
    masked = far_fit(far_silos(homes_for(tmp_path / "masked", request, BITS), BITS), recipe, wishes)
    assert (np.abs(masked.theta - expected.theta) <= 1e-7 * expected.standard_errors).all()
    np.testing.assert_allclose(masked.standard_errors, expected.standard_errors, rtol=1e-7)
    if case != "random effect":
        assert masked.estimator.certificate_ <= 1e-6 * abs(masked.estimator.objective_)


def test_a_baseline_and_own_numbers_stay_unless_the_operator_shows_them(tmp_path):
    request, recipe = CASES["cox"]
    wishes = Wishes(request)
    roles = {"time": ["days"]}
    hidden = far_fit(far_silos(homes_for(tmp_path / "a", request, BITS, roles=roles), BITS), recipe, wishes)
    assert not hidden.more["baselines"] and hidden.evaluation.silos
    homes = homes_for(tmp_path / "b", request, BITS, roles=roles, show_baseline=True)
    shown = far_fit(far_silos(homes, BITS), recipe, wishes)
    assert set(shown.more["baselines"]) == {"north", "river", "hill"}
    homes = homes_for(tmp_path / "c", request, BITS, roles=roles, show_baseline=True, show_own_numbers=False)
    nothing = far_fit(far_silos(homes, BITS), recipe, wishes)
    assert not nothing.more["baselines"] and not nothing.evaluation.silos and not nothing.without


@pytest.mark.parametrize(
    ("roles", "settings", "sentence"),
    [
        (TIME | {"weights": "age"}, {"roles": {"time": ["days"]}}, "'age' may not be the weights"),
        (TIME, {"roles": {}}, "'days' may not be the time of rows at this silo"),
        (TIME, {"roles": {"tiem": ["days"]}}, "Did you mean|did you mean|tiem"),
        (
            TIME | {"weights": "falls"},
            {"policy": {"approval": "none", "whole_roster": False, "least_per_cell": 0}},
            "some rows have the weight 0",
        ),
    ],
)
def test_roles_are_the_operators_to_name(roles, settings, sentence, tmp_path):
    request = Request("died", columns=FEATURES, roles=roles)
    silos = far_silos(homes_for(tmp_path / "a", request, BITS, **settings), BITS)
    with pytest.raises(InputError, match=sentence):
        far_fit(silos, Recipe("cox", "none"), Wishes(request))
