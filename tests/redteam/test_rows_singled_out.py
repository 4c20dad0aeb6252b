"""Plans that would single out a few patients: folds of one row, rows that a gap leaves out, fine histograms."""

import numpy as np
import pytest
from hostile import change, fit, make_homes, refusals

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes
from dualfl.errors import InputError
from dualfl.objectives import Logistic
from dualfl.silos.chamber import Chamber, Least, SiloRows
from dualfl.silos.costs import Cost, Rows
from dualfl.silos.verbs import answered
from dualfl.tables.schema import Request


def chamber(n, least):
    rng = np.random.default_rng(0)
    made = Chamber(SiloRows("a", rng.normal(size=(n, 2)), np.where(rng.random(n) < 0.5, 1.0, -1.0)))
    made.least = Least(fold=least)
    return made


FOLD = {"which": "test", "folds": 20, "fold": 3, "silo": ""}
COST = Cost(Logistic(), rows=Rows(**FOLD)).as_json()
QUESTIONS = {
    "moments": {"rows": [FOLD], "center": np.zeros(2), "target": 0.0},
    "curvatures": {"costs": [COST], "thetas": [np.zeros((1, 3))]},
    "measure": {"rows": [FOLD], "classes": 0, "loss": COST["loss"], "centre": 0.0},
    "columns": {"rows": FOLD, "center": None},
    "products": {"rows": FOLD},
    "gradient": {"cost": COST, "theta": np.zeros(3)},
    "losses": {"costs": [COST], "thetas": [np.zeros(3)]},
    "information": {"cost": COST, "theta": np.zeros(3)},
    "wrong": {"cost": COST | {"positive": 1}, "theta": np.zeros(3)},
}


@pytest.mark.unrefused("verbs are asked without a silo around them")
@pytest.mark.parametrize("verb", QUESTIONS)
def test_no_verb_answers_about_a_fold_of_one_or_two_rows(verb):
    with pytest.raises(InputError, match="one of 20 folds has too few rows of this silo"):
        answered(chamber(40, 3), verb, QUESTIONS[verb])
    answered(chamber(60, 3), verb, QUESTIONS[verb])


def test_a_plan_with_folds_of_one_row_is_refused_at_its_first_sum(tmp_path):
    homes = make_homes(tmp_path)
    wishes = Wishes(Request("sick"), influence=False, cross_validate=True, cv=30)
    with pytest.raises(InputError, match="too few rows of this silo"):
        fit(homes, recipe=Recipe("logistic", tol=1e-4), wishes=wishes)
    assert any("least_per_fold" in one for home in homes for one in refusals(home))


def with_gap(home, row, column=1):
    path = home / "data.csv"
    lines = path.read_text().splitlines()
    cells = lines[row].split(",")
    cells[column] = ""
    path.write_text("\n".join([*lines[:row], ",".join(cells), *lines[row + 1 :]]) + "\n")


def test_leaving_out_rows_with_gaps_does_not_single_out_one_patient(tmp_path):
    """One plan over all rows, and one without those that have a gap: their difference is one patient."""
    homes = make_homes(tmp_path, least_per_level=0)  # which would fill the gap
    with_gap(homes[0], 5)
    for home in homes:
        change(home, allow_drop_rows=True)
    fit(homes)
    with pytest.raises(InputError, match="differ by fewer than 10 from those of an earlier experiment"):
        fit(homes, experiment="f", wishes=Wishes(Request("sick", missing="drop"), influence=False))
    fit(homes, experiment="g")


@pytest.mark.unrefused("what two plans have in common")
def test_folds_of_many_plans_are_made_of_the_same_heaps():
    """Sums over folds of 2, 3, 4, ... are equations; without heaps every single row would be a solution."""

    def solved(least):
        silo = chamber(40, least)
        known = [silo._dealt_of(k) == fold for k in range(2, 13) for fold in range(k)]
        A = np.array(known, dtype=float)
        H = np.linalg.pinv(A) @ A  # the rows that follow from these sums: those with a 1 here
        return int((np.diag(H) > 1 - 1e-9).sum()), A

    alone, _ = solved(0)
    assert alone == 40
    alone, A = solved(3)
    assert alone == 0
    patterns, counts = np.unique(A.T, axis=0, return_counts=True)
    assert len(patterns) <= 13 and counts.min() >= 3
