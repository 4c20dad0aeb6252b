"""What a coordinator that writes the plan, and nothing else, can single out by the questions of an analysis.

Numbers that one patient has, gaps of one, two grids of times or of edges, columns in roles of their own, held-out rows,
terms of a formula; and a silo that speaks for another.
"""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hostile import POLICY, RECIPE, WISHES, Hostile, change, fit, make_homes, refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from test_evaluation_attacks import by_hand, evaluate

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes
from dualfl.errors import InputError
from dualfl.federation.guarded import rarest_cell, rarest_gaps, rarest_number
from dualfl.federation.wire import decode, encode
from dualfl.silos.chamber import Chamber, Least, in_steps
from dualfl.silos.survival_sums import GridCounts, delayed
from dualfl.silos.verbs import answered
from dualfl.tables.reading import Table
from dualfl.tables.schema import Request
from dualfl.tables.summaries import Request as Asked
from dualfl.tables.terms import Factor


@pytest.fixture
def homes(tmp_path):
    return make_homes(tmp_path)


def add_column(home, name, values):
    path = home / "data.csv"
    head, *lines = path.read_text().splitlines()
    rows = [f"{value},{line}" for value, line in zip(values, lines, strict=True)]
    path.write_text("\n".join([f"{name},{head}", *rows]) + "\n")


def rows_of(home):
    return len((home / "data.csv").read_text().splitlines()) - 1


# -- numbers and gaps that few have ----------------------------------------------------------------------


@pytest.mark.parametrize("few", [1, 4])
def test_a_column_of_0_and_1_that_few_rows_have_is_no_column_of_a_plan(few, homes):
    """Its products with the other columns are the rows of these few."""
    for home in homes:
        add_column(home, "rare", [int(i < few) for i in range(rows_of(home))])
    with pytest.raises(InputError, match="two different numbers, one of which few rows have"):
        fit(homes)
    assert all("'rare'" in refusals(home)[0] and f"{few} rows have one of them" in refusals(home)[0] for home in homes)
    for home in homes:
        change(home, policy=POLICY | {"forbidden_columns": ["rare"]})
    fit(homes, experiment="f")


@pytest.mark.unrefused("about tables")
def test_two_numbers_are_two_levels_where_cells_are_counted():
    table = Table("t", {"x": np.repeat([0.0, 1.0], [7, 3]), "town": np.array(["a"] * 6 + ["b"] * 4)})
    assert rarest_number(table) == ("x", 3) and rarest_cell(table) == 1
    assert rarest_number(table, ["x"]) == ("", 0)


def test_a_gap_of_one_patient_is_no_column_of_a_plan(homes):
    """Nor does the silo fill it by itself: the model would be another one than that of the files."""
    path = homes[0] / "data.csv"
    lines = path.read_text().splitlines()
    lines[3] = "," + lines[3].split(",", 1)[1]
    path.write_text("\n".join(lines) + "\n")
    marked = replace(WISHES, request=replace(WISHES.request, missing="indicator"))
    with pytest.raises(InputError, match="has gaps in few rows"):
        fit(homes, wishes=marked)
    assert "'age' has 1 gaps" in refusals(homes[0])[0]
    fit(homes, experiment="f")  # the gap becomes the mean of all silos, and no column tells of it


@pytest.mark.unrefused("about tables")
def test_the_fewest_gaps_of_columns_that_tell_of_them():
    x = np.array([1.0, np.nan, 3.0, 5.0, np.nan])
    y = np.array([1.0, 2.0, np.nan, 5.0, 6.0])
    table = Table("t", {"x": x, "y": y, "full": np.ones(5), "text": np.array(list("abcde"))})
    assert rarest_gaps(table, ["x", "y", "full", "text"]) == ("y", 1)
    assert rarest_gaps(table, ["x"]) == ("x", 2) and rarest_gaps(table, ["full"]) == ("", 0)


# -- two grids -------------------------------------------------------------------------------------------


@pytest.mark.unrefused("about sums")
@settings(max_examples=200)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(2, 6))
def test_what_two_histograms_differ_by_is_nothing_or_many_rows(values, least):
    told = in_steps(np.array([sum(v <= edge for v in values) for edge in range(-1, 32)]), len(values), least)
    differences = np.abs(told[:, None] - told)
    assert not ((differences > 0) & (differences < least)).any()
    assert (np.diff(told) >= 0).all() and told[0] == 0
    if len(values) >= least:
        assert told[-1] == len(values)


@pytest.mark.unrefused("about sums")
@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 20), min_size=5, max_size=60), st.integers(2, 5), st.sets(st.integers(1, 20), min_size=1)
)
def test_two_grids_of_times_tell_no_more_than_one(times, least, coarse):
    def told(grid):
        cells = np.histogram(times, [-1, *grid, 99])[0].astype(float)[:, None]
        found = delayed(GridCounts(np.zeros_like(cells), cells, np.zeros_like(cells)), least).events[:, 0]
        assert found.sum() == len(times)
        return dict(zip(grid, np.cumsum(found)))

    one, other = told(sorted(coarse)), told(range(1, 21))
    assert all(one[t] == other[t] for t in one)


@pytest.mark.unrefused("a verb without a silo around it")
def test_edges_around_one_patient_enclose_nobody():
    table = Table("t", {"age": np.arange(40.0), "sick": np.array(["no", "yes"] * 20)})
    chamber = Chamber(table, name="a")
    chamber.least = Least(5, 0, 0)
    chamber.take(Asked("sick"))
    layout = {"columns": ("age",), "levels": {}, "others": {}}
    asked = [{"group": 0, "column": "age", "edges": np.array([16.5, 17.5, 18.5, 19.5, 20.5, 21.5])}]
    found = answered(chamber, "cells", {"layout": layout, "by": None, "asked": asked})["below"]
    assert set(np.diff(found)) <= {0.0, 5.0}


# -- columns in roles of their own -----------------------------------------------------------------------


@pytest.mark.parametrize("role", ["weights", "offset", "cluster"])
def test_which_column_weighs_shifts_or_groups_rows_the_operator_says(role, homes):
    """Weights, or an offset, that are large in one row are that row."""
    for home in homes:
        change(home, roles={})
    wishes = Wishes(Request("sick", roles={role: "income"}), influence=False)
    with pytest.raises(InputError, match=f"may not be the {role} of rows at this silo"):
        fit(homes, recipe=Recipe("logistic", tol=1e-4), wishes=wishes)


# -- rows that differ by one -----------------------------------------------------------------------------


def test_held_out_rows_that_are_all_but_one_do_not_tell_that_one(homes):
    for home in homes:
        lines = (home / "data.csv").read_text().splitlines()
        (home / "held.csv").write_text("\n".join(lines[:-1]) + "\n")
        change(home, held_out="held.csv")
    fit(homes)
    with pytest.raises(InputError, match="differ by fewer than 10 from those of an earlier experiment"):
        evaluate(homes, by_hand([0.02, 0.0]), "f")


# -- terms of a formula ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "factor",
    [
        {"column": "age", "function": "above", "count": 89, "state": ()},
        {"column": "age", "function": "exp", "count": 0, "state": ()},
        {"column": "age", "function": "pow", "count": 40, "state": ()},
    ],
)
def test_a_term_that_is_about_one_row_is_no_term(factor, homes):
    """I(age > 89), exp(age) and the like: a plan with them is not understood, at any silo."""

    def lie(number, content):
        plan = content["plan"] if content["kind"] == "join" else content
        if content["kind"] in ("open", "join"):
            plan["analysis"]["terms"] = [{"factors": [factor], "full": [False]}]
        return content if content["kind"] in ("open", "join") else None

    with pytest.raises(InputError, match="A formula: "):
        fit(homes, lie)


# -- a silo that speaks for another ----------------------------------------------------------------------


@pytest.mark.unrefused("the coordinator finds it out first")
def test_a_silo_that_sends_what_another_has_signed_is_found_out(homes):
    class Borrowed(Hostile):
        """Silo c answers with what b has said, under its own name."""

        def push(self, messages):
            ids = super().push(messages)
            by_node = {node: place for place, node in enumerate(messages)}
            if decode(self.last)["kind"] == "open" and {101, 102} <= set(by_node):
                b, c = (self.box[by_node[node] - len(by_node)] for node in (101, 102))
                said = decode(c.answer) | {name: decode(b.answer)[name] for name in ("answers", "offer", "signed")}
                self.box[by_node[102] - len(by_node)] = c._replace(answer=encode(said))
            return ids

    with pytest.raises(InputError, match="what is said to be of silo 'c' is not signed by it"):
        fit(homes, transport=Borrowed(homes))


@pytest.mark.parametrize("changed", ["tol", "alpha", "model"])
def test_a_plan_that_changes_after_it_was_approved_waits_again(changed, homes):
    from click.testing import CliRunner

    from dualfl.cli import main

    change(homes[0], policy=POLICY | {"approval": "ask"})
    with pytest.raises(InputError, match="the plan waits"):
        fit(homes)
    CliRunner().invoke(main, ["deploy", "approve", str(homes[0])], input="always\n")
    fit(homes, experiment="f")
    to = {"tol": 1e-5, "alpha": 0.1, "model": "cloglog"}[changed]
    with pytest.raises(InputError, match="the plan waits"):
        fit(homes, experiment="g", recipe=Recipe(**{"model": "logistic", "tol": 1e-4, changed: to}), wishes=WISHES)
    assert json.loads((homes[0] / "approvals" / "given.json").read_text())["always"] and RECIPE.model == "logistic"


@pytest.mark.parametrize("factor", [("pow", 4), ("poly", 4), ("pow", 2)])
def test_a_product_of_powers_is_no_way_to_the_largest_number(factor, tmp_path):
    """No function has a power above 4, but products of three had the 12th, whose squares are sums of 24th powers: their
    24th root is the largest number of all patients to within a few percent."""
    homes = make_homes(tmp_path)
    age = Factor("age", *factor)
    high = {"factors": [asdict(age)] * 3, "full": [False] * 3, "part_of": ""}

    def lie(number, content):
        for place in (content, content.get("plan", {})):
            if "analysis" in place:
                place["analysis"]["terms"] = [high]
        return content

    with pytest.raises(InputError, match="to the power"):
        fit(homes, lie)
    assert any("to the power" in reason for reason in refusals(homes[0]))
