"""Who is compared with whom: entries and times that make an analysis of a few patients, or two that differ by a few.

And tables without names of columns: what is looked for in a table with names is looked for in these too.
"""

import numpy as np
import pytest
from hostile import POLICY, change, fit, make_homes, refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from test_new_questions import add_column, rows_of
from test_plans_that_single_out import SAFE, cox, curves, edit, survival

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes
from dualfl.errors import InputError
from dualfl.objectives import CoxPartialLikelihood
from dualfl.silos.survival_sums import portions, told_counts
from dualfl.tables.schema import Request


@pytest.fixture
def homes(tmp_path):
    made = make_homes(tmp_path)
    for home in made:
        change(home, policy=SAFE)
    survival(made, roles={"time": ["days"], "entry": ["began"], "strata": ["ward"]})
    return made


def column(home, name):
    head, *lines = (home / "data.csv").read_text().splitlines()
    place = head.split(",").index(name)
    return [line.split(",")[place] for line in lines]


@pytest.mark.unrefused("what an attack would learn")
def test_with_one_event_that_is_compared_the_gradient_is_two_patients():
    """All enter just before their own time but two: the gradient at 0 is half the difference of these two rows."""
    rng = np.random.default_rng(0)
    X, time = rng.normal(size=(30, 3)), np.sort(rng.exponential(size=30)) + 1
    entry = np.append(0.0, (time[:-1] + time[1:]) / 2)
    entry[9] = time[7]  # at risk, with its neighbour, when that one dies
    f = CoxPartialLikelihood(X, time, np.ones(30), entry=entry)
    np.testing.assert_allclose(30 * f.gradient(np.zeros(3)), (X[9] - X[8]) / 2, atol=1e-12)


def test_a_model_in_which_one_event_is_compared_is_refused(homes):
    for home in homes:
        days = np.array(column(home, "days"), dtype=float)
        order = np.sort(days)
        before = {t: (order[i - 1] + t) / 2 if i else t / 2 for i, t in enumerate(order)}
        began = [before[t] for t in days]
        dead = [i for i, one in enumerate(column(home, "died")) if one == "1"]
        add_column(home, "began", [repr(float(one)) for one in began])
        second = next(i for i in dead if days[i] > order[3])
        after = next(i for i in range(len(days)) if days[i] == order[list(order).index(days[second]) + 1])
        began[after] = before[days[second]]
        edit(home, "began", after, repr(float(began[after])))
    with pytest.raises(InputError, match="few events of this silo have somebody else at risk"):
        cox(homes, entry="began")
    assert "events are compared with somebody else" in refusals(homes[0])[-1]


def test_an_entry_that_few_have_is_not_an_analysis_without_them(homes):
    """With the entry one patient is in no risk set but his own; the two plans would differ by him."""
    for home in homes:
        days = np.array(column(home, "days"), dtype=float)
        began = [d - 0.001 if i == int(np.argmax(days)) else 0.0 for i, d in enumerate(days)]
        add_column(home, "began", [repr(float(one)) for one in began])
        change(home, policy=SAFE | {"classes": ["0", "1"], "columns": ["age", "income", "days", "died", "began"]})
        for row in range(5):  # not a column of two numbers
            edit(home, "began", row, repr(1e-6 * row))
    cox(homes)
    with pytest.raises(InputError, match="the entry sets few rows of this silo apart"):
        cox(homes, "f", entry="began")
    assert "keeps 1 rows out of risk sets" in refusals(homes[0])[-1]


def test_an_event_at_the_end_of_the_world_is_no_test_of_proportional_hazards(homes):
    for home in homes:
        edit(home, "days", column(home, "died").index("1"), "1e9")
    with pytest.raises(InputError, match="few events of this silo come far later than all others"):
        cox(homes)
    assert "so much later than the others" in refusals(homes[0])[-1]


ALTERNATIVES = {
    "two times": ("time", "weeks", lambda i, d: 0.5 * (d if i != 4 else 1.0) / 7),
    "two wards": ("strata", "unit", lambda i, d: "x" if i % 2 or i == 6 else "y"),
}


@pytest.mark.parametrize("case", ALTERNATIVES)
def test_two_columns_of_a_role_that_differ_by_one_patient_are_not_both_taken(case, homes):
    """Weeks are days in another unit, but for one patient; wards and units differ by one."""
    role, name, value = ALTERNATIVES[case]
    for home in homes:
        days = np.array(column(home, "days"), dtype=float)
        add_column(home, name, [value(i, d) for i, d in enumerate(days)])
        add_column(home, "ward", ["x" if i % 2 else "y" for i in range(rows_of(home))])
        roles = {"time": ["days"], "strata": ["ward"]}
        roles[role] = [*roles[role], name]
        change(home, roles=roles, policy=SAFE | {"classes": ["0", "1"], "least_per_cell": 0, "forbidden_columns": []})
    with pytest.raises(InputError, match=f"another that may be the {role} of rows at this silo differ in few rows"):
        cox(homes, strata="ward")
    assert "they differ in 1 rows" in refusals(homes[0])[-1]


# -- grids of curves ---------------------------------------------------------------------------------------


@pytest.mark.unrefused("about sums")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(1, 6), st.booleans()), min_size=12, max_size=50),
    st.integers(2, 5),
    st.integers(2, 21),
)
def test_where_a_grid_ends_tells_nothing_of_those_near_it(rows, least, until):
    """Events, leavers and who has entered, told up to a time: the same whichever grid asks, and in steps."""
    entry, last, event = (np.array(part) for part in zip(*rows))

    def told(grid):
        grid = np.array(grid, dtype=float)
        found = portions(entry + last, event.astype(int), grid, None, 1, entry.astype(float), least)
        assert not ((found.events > 0) & (found.events < least)).any()
        entered = found.at_risk[:, 0] + np.append(0.0, np.cumsum(found.events + found.left)[:-1])
        sure = found.at_risk[:, 0] > (found.events + found.left)[:, 0]  # otherwise it says no more than who is gone
        return np.cumsum(found.events), np.cumsum(found.left), np.where(sure, entered, np.nan)

    one, other = told(range(1, until + 1)), told(range(1, 23))
    for a, b in zip(one[:2], other[:2]):
        assert np.array_equal(a, b[:until])
    both = ~np.isnan(one[2]) & ~np.isnan(other[2][:until])
    assert np.array_equal(one[2][both], other[2][:until][both])
    entered = np.unique(one[2][~np.isnan(one[2])])
    assert (np.diff(entered) >= least).all()


@pytest.mark.unrefused("about sums")
def test_two_curves_that_end_a_day_apart_do_not_tell_who_died_on_it():
    rng = np.random.default_rng(1)
    time, event = np.sort(rng.uniform(1, 100, 60)), np.ones(60, dtype=int)
    for i in range(10, 40):
        grids = [np.linspace(0.1, 1, 10) * (time[i] + by) for by in (-0.01, 0.01)]
        before, after = (float(told_counts(time, event, grid, None, 1, None, 5).events.sum()) for grid in grids)
        assert before == pytest.approx(5 * (i // 5)) and after == pytest.approx(5 * ((i + 1) // 5))


def test_curves_with_an_entry_that_one_patient_has_are_refused(homes):
    for home in homes:
        days = np.array(column(home, "days"), dtype=float)
        last = int(np.argmax(days))
        add_column(home, "began", [float(d) - 0.001 if i == last else 1e-6 * i for i, d in enumerate(days)])
    with pytest.raises(InputError, match="the entry sets few rows of this silo apart"):
        curves(homes, roles={"entry": "began"})


# -- tables without names ----------------------------------------------------------------------------------


def libsvm(homes, rare):
    """Sparse rows; `rare` has (row, column, number) of entries that no other row has."""
    for home in homes:
        rng, n = np.random.default_rng(5), rows_of(home)
        X = np.where(rng.random((n, 4)) < 0.6, rng.normal(size=(n, 4)), 0.0)
        X = np.column_stack([X, np.zeros((n, 2))])
        for row, at, number in rare:
            X[row, at] = number
        lines = [
            f"{1 if i % 2 else -1} "
            + " ".join(f"{j + 1}:{x!r}" for j, x in enumerate(row.tolist()) if x or (j == 5 and i == 0))
            for i, row in enumerate(X)
        ]
        (home / "data.svm").write_text("\n".join(lines) + "\n")
        change(home, data="data.svm", target="y", policy=POLICY | {"least_per_cell": 3, "classes": ["-1", "1"]})


@pytest.mark.parametrize("rare", [[(7, 4, 0.7)], [(7, 4, 0.7), (9, 4, 1.9)]])
def test_a_word_that_one_patient_has_is_no_column_of_a_sparse_table(rare, tmp_path):
    homes = make_homes(tmp_path)
    libsvm(homes, rare)
    with pytest.raises(InputError, match=r"two different numbers, one of which few|about too few rows of this silo"):
        fit(homes, wishes=Wishes(Request("y"), influence=False), recipe=Recipe("logistic", tol=1e-4))


def test_two_sparse_columns_that_differ_in_one_row_are_refused(tmp_path):
    homes = make_homes(tmp_path)
    libsvm(homes, [])
    for home in homes:
        path = home / "data.svm"
        lines = []
        for i, line in enumerate(path.read_text().splitlines()):
            words = [word for word in line.split() if not word.startswith(("5:", "6:"))]
            first = next((word[2:] for word in words if word.startswith("1:")), "0.0")
            words += [f"5:{first if i != 8 else '0.25'}"] + (["6:0.0"] if i == 0 else [])
            lines.append(" ".join(words))
        path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="some combination of columns is about too few rows"):
        fit(homes, wishes=Wishes(Request("y"), influence=False), recipe=Recipe("logistic", tol=1e-4))
    assert "nearly 0 in all rows but 1" in refusals(homes[0])[-1]
