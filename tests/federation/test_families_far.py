"""Survival, ordered levels, weights and site effects at silos far away: the fit of the files, by operators' rules."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from far import far_fit, far_silos, make_homes

from dualfl.analysis.descriptions import SurvivalCurves
from dualfl.analysis.estimator_fits import as_whole_fit, take
from dualfl.analysis.models import Recipe
from dualfl.analysis.survival_curves import CurveWishes, curves_of_tables, drawing
from dualfl.analysis.whole_fit import Wishes, fitting
from dualfl.errors import InputError
from dualfl.estimators import CoxPH, CoxPHCV, OrdinalRegression, survival_target
from dualfl.federation.chambers import fold_dealing
from dualfl.federation.fixed_point import BITS
from dualfl.federation.silo_folder import SiloFolder
from dualfl.fits.curve_text import curve_text
from dualfl.silos import Chamber, SilosHere, drive
from dualfl.silos.chamber import Dealing
from dualfl.tables.encoding import features
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
    "amounts above 0": (asked("days_at_risk", numeric_target=True), Recipe("gamma", "none", errors="robust")),
    "amounts": (asked("falls", numeric_target=True), Recipe("tweedie", "none", power=1.3)),
    "searched dispersion": (asked("falls", numeric_target=True), Recipe("negative-binomial", "l2")),
    "clog-log site effect": (asked("died"), Recipe("cloglog", "none", site_effect="fixed")),
    "cox, an exposure": (asked("died", roles=TIME | {"exposure": "days_at_risk"}), Recipe("cox", "none")),
    "cox, cross-validated": (asked("died", roles=TIME), Recipe("cox", "l2")),
    "ordinal, cross-validated": (asked("quality", levels=("poor", "fair", "good")), Recipe("ordinal", "elastic-net")),
    "site effect, cross-validated": (asked("died"), Recipe("logistic", "l2", site_effect="fixed")),
    "random effect": (asked("days_at_risk", numeric_target=True), Recipe("linear", "none", site_effect="random")),
}


def homes_for(folder, request, secure, **settings):
    return make_homes(folder, PATHS, request.target, secure, **({"show_own_numbers": True} | settings))


def here(request, recipe, wishes, dealing=None):
    silos = SilosHere([Chamber(read_table(path), dealing or Dealing(), name=path.stem) for path in sorted(PATHS)])
    return drive(fitting(silos, recipe, wishes), silos)


@pytest.mark.parametrize("case", CASES)
def test_a_study_gives_the_fit_of_the_files(case, tmp_path):
    request, recipe = CASES[case]
    wishes = Wishes(request, influence=case == "cox", cross_validate="cross-validated" in case, cv=3)
    homes = homes_for(tmp_path / "plain", request, None)
    expected = here(request, recipe, wishes, fold_dealing(SiloFolder(homes[0])))
    found = far_fit(far_silos(homes, None), recipe, wishes)
    assert found.theta.tobytes() == expected.theta.tobytes() and found.names == expected.names
    if wishes.cross_validate:
        assert found.path.losses.tobytes() == expected.path.losses.tobytes() and found.recipe == expected.recipe
    if expected.errors is not None:
        assert found.errors.covariance.tobytes() == expected.errors.covariance.tobytes()
    assert found.estimator.certificate_ == expected.estimator.certificate_
    assert str(found.statistics) == str(expected.statistics)
    assert str(found.evaluation) == str(expected.evaluation)
    masked = far_fit(far_silos(homes_for(tmp_path / "masked", request, BITS), BITS), recipe, wishes)
    if expected.errors is None:
        np.testing.assert_allclose(masked.theta, expected.theta, rtol=1e-6)
    else:
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
        (
            TIME | {"strata": "stagee"},
            {"roles": {"time": ["days"], "strata": ["stagee"]}},
            "it has no column 'stagee', the",
        ),
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


@pytest.mark.parametrize("secure", [None, BITS])
def test_silos_say_which_direction_separates(secure, tmp_path):
    """A level of one class in all silos; the sentence names it, though age and treatment are there, too."""
    lines = [path.read_text().splitlines() for path in PATHS]
    paths = [tmp_path / path.name for path in PATHS]
    place = lines[0][0].split(",").index("died")
    for path, (head, *rows) in zip(paths, lines, strict=True):
        cells = [row.split(",") for row in rows]
        for row in cells:
            row[place] = "1" if "III" in row else row[place]
        path.write_text("\n".join([head, *map(",".join, cells)]) + "\n")
    request = asked("died")
    silos = far_silos(make_homes(tmp_path / "homes", paths, "died", secure), secure)
    with pytest.raises(InputError, match="Every row with stage=III has died = 1, so without a penalty"):
        far_fit(silos, Recipe("logistic", "none"), Wishes(request))


class Near:
    """As much of a study as estimators ask for."""

    def __init__(self, homes):
        self.homes = homes

    numbers = itertools.count()

    def fit_estimator(self, estimator, **roles):
        whole = as_whole_fit(estimator, roles)
        silos = far_silos(self.homes, BITS, experiment=f"e{next(self.numbers)}")
        take(estimator, far_fit(silos, whole.recipe, whole.wishes))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_estimators_on_a_study(tmp_path):
    """CoxPH and OrdinalRegression are what they are after a fit to the same rows here, with errors and curves."""
    ignored = ["falls", "days_at_risk", "quality", "family"]
    homes = homes_for(tmp_path / "a", Request("died"), BITS, ignore=ignored)
    model = CoxPH(tol=1e-10).fit_silos(Near(homes), time="days")
    fit = here(*CASES["cox"], Wishes(CASES["cox"][0]))
    tables = [read_table(path) for path in PATHS]
    X = np.concatenate([features(table, fit.schema) for table in tables])
    y = survival_target(*(np.concatenate([table.columns[name] for table in tables]) for name in ("died", "days")))
    groups = np.repeat([path.stem for path in PATHS], [table.rows for table in tables])
    pooled = CoxPH(tol=1e-10).fit(X, y, groups=groups)
    np.testing.assert_allclose(model.coef_, pooled.coef_, rtol=1e-6)
    for name in ("error", "statistic", "lower"):
        mine, other = (getattr(one.inference_.coefficients, name) for one in (model, pooled))
        np.testing.assert_allclose(mine, other, rtol=1e-5)
    assert model.inference_.ratio == "hazard ratio" and "treatment=new" in model.summary()
    curve, other = (one.predict_survival_function(X[:1], silo="hill")[0] for one in (model, pooled))
    np.testing.assert_allclose(curve(300.0), other(300.0), rtol=1e-6)
    with pytest.raises(InputError, match="needs the column of times"):
        CoxPH().fit_silos(Near(homes))
    for l1_ratio in (0.0, 1.0):  # alpha stands beside the sum over all rows, whose number the silos tell
        far, near = (CoxPH(alpha=9.0, l1_ratio=l1_ratio, tol=1e-10) for _ in range(2))
        far.fit_silos(Near(homes), time="days")
        np.testing.assert_allclose(far.coef_, near.fit(X, y, groups=groups).coef_, rtol=1e-5, atol=1e-9)
        assert far.objective_ == pytest.approx(near.objective_, rel=1e-9)
    with pytest.raises(InputError, match="by the algorithm auto, and algorithm is 'newton'; leave it out"):
        CoxPH(algorithm="newton").fit_silos(Near(homes), time="days")
    with pytest.raises(InputError, match="alpha must be a number >= 0"):
        CoxPH(alpha=-1.0).fit_silos(Near(homes), time="days")
    chosen = CoxPHCV(alphas=10, cv=3).fit_silos(Near(homes), time="days")
    assert chosen.alpha_ in chosen.path_.values and "sandwich" in chosen.summary()
    again = CoxPH(alpha=chosen.alpha_, tol=1e-10).fit(X, y, groups=groups)
    np.testing.assert_allclose(chosen.coef_, again.coef_, rtol=1e-5)
    with pytest.raises(InputError, match="give how many of them"):
        CoxPHCV(alphas=[1.0]).fit_silos(Near(homes), time="days")
    ignored = ["falls", "days_at_risk", "died", "days", "family"]
    homes = homes_for(tmp_path / "b", Request("quality"), BITS, ignore=ignored)
    ordered = OrdinalRegression(levels=["poor", "fair", "good"]).fit_silos(Near(homes))
    quality = np.concatenate([table.columns["quality"] for table in tables])
    other = OrdinalRegression(levels=["poor", "fair", "good"], tol=1e-12).fit(X, quality, groups=groups)
    np.testing.assert_allclose(ordered.coef_, other.coef_, rtol=1e-5)
    np.testing.assert_allclose(ordered.inference_.coefficients.error, other.inference_.coefficients.error, rtol=1e-5)
    np.testing.assert_allclose(ordered.predict_proba(X[:3]), other.predict_proba(X[:3]), rtol=1e-5)
    strong, other = (OrdinalRegression(9.0, levels=["poor", "fair", "good"], tol=1e-12) for _ in range(2))
    strong.fit_silos(Near(homes)), other.fit(X, quality, groups=groups)
    np.testing.assert_allclose(strong.coef_, other.coef_, rtol=1e-5)
    np.testing.assert_allclose(strong.thresholds_, other.thresholds_, rtol=1e-5)


def test_survival_curves_under_masks_are_those_of_the_files(tmp_path):
    request = Request("died", columns=("treatment",), roles=TIME | {"strata": "stage"})
    wishes = CurveWishes(request, "treatment", small=5)
    expected = curves_of_tables([read_table(path) for path in sorted(PATHS)], wishes)
    homes = homes_for(tmp_path / "a", request, BITS)
    silos = far_silos(homes, BITS, analysis=SurvivalCurves(wishes).as_json())
    found = drive(drawing(silos, wishes), silos)
    assert found.arms == expected.arms == ("new", "usual")
    assert found.stratified.statistic == pytest.approx(expected.stratified.statistic, rel=1e-9)
    for one, other in zip(found.curves, expected.curves, strict=True):
        np.testing.assert_allclose(one.survival, other.survival, rtol=1e-9)
    assert found.with_gaps == expected.with_gaps == 0
    # a silo with a rule tells of events in portions only
    policy = {"approval": "none", "whole_roster": False, "least_per_cell": 0}
    homes = homes_for(tmp_path / "b", request, BITS, policy=policy)
    silos = far_silos(homes, BITS, analysis=SurvivalCurves(wishes).as_json())
    rough = drive(drawing(silos, wishes), silos)
    for one, other in zip(rough.curves, expected.curves, strict=True):
        last = min(len(one.survival), len(other.survival))
        assert 0 < np.abs(one.survival[:last] - other.survival[:last]).max() < 0.2


def test_rows_without_a_time_or_an_event_are_counted_for_curves_of_a_study(tmp_path):
    lines = PATHS[0].read_text().splitlines()
    at = lines[0].split(",").index("days"), lines[0].split(",").index("died")
    for row, column in ((1, at[0]), (2, at[1]), (3, at[0]), (3, at[1])):
        cells = lines[row].split(",")
        cells[column] = ""
        lines[row] = ",".join(cells)
    (tmp_path / "north.csv").write_text("\n".join(lines) + "\n")
    wishes = CurveWishes(Request("died", columns=("days",), roles=TIME))
    paths = [tmp_path / "north.csv", *PATHS[1:]]
    expected = curves_of_tables([read_table(path) for path in paths], wishes)
    homes = make_homes(tmp_path / "silos", paths, "died", BITS)
    silos = far_silos(homes, BITS, analysis=SurvivalCurves(wishes).as_json())
    found = drive(drawing(silos, wishes), silos)
    assert found.with_gaps == expected.with_gaps == 3
    assert found.rows == expected.rows
    assert "3 rows without an entry in one of days, died" in curve_text(found, 5)
