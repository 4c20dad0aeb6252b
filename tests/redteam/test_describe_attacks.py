"""Descriptions in the hands of a hostile coordinator: histograms that close in on a patient, groups of one."""

import numpy as np
import pytest
from hostile import Hostile, asks, make_homes

from dualfl.analysis.descriptions import TableDescription
from dualfl.analysis.tabulating import TableWishes, describing
from dualfl.errors import InputError
from dualfl.federation.fixed_point import BITS
from dualfl.silos import drive
from dualfl.tables.schema import Request

OTHER = "asks something else than the plan and the sums imply"
WISHES = TableWishes(Request("sick"))


def describe(homes, lie=None):
    from far import far_silos

    transport = Hostile(homes, lie)
    silos = far_silos(homes, BITS, transport=transport, analysis=TableDescription(WISHES).as_json())
    drive(describing(silos, WISHES), silos)
    return transport


def in_first(verb, change):
    def lie(number, content):
        found = asks(content, verb=verb)
        if not found:
            return None
        change(found[0]["given"])
        return content

    return lie


def around_one(given):
    edges = given["asked"][0]["edges"]
    given["asked"][0]["edges"] = np.linspace(92.9, 93.1, len(edges))


def one_more(given):
    given["asked"] = [*given["asked"], given["asked"][0]]


def by_something(given):
    given["by"] = given["layout"]["columns"][-1]


def crossed(given):
    given["crosses"] = [[given["layout"]["columns"][0]] * 2]


def other_levels(given):
    given["layout"]["levels"] = {name: (*levels, "x") for name, levels in given["layout"]["levels"].items()}


def far_centre(given):
    given["center"] = given["center"] + 1.0


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("cells", around_one),
        ("cells", one_more),
        ("cells", by_something),
        ("tally", by_something),
        ("tally", crossed),
        ("tally", other_levels),
        ("spreads", far_centre),
    ],
)
def test_no_question_but_those_of_the_plan(tmp_path, verb, change):
    with pytest.raises(InputError, match=OTHER):
        describe(make_homes(tmp_path), in_first(verb, change))


@pytest.mark.unrefused("an honest coordinator")
def test_an_honest_coordinator_gets_its_table(tmp_path):
    transport = describe(make_homes(tmp_path))
    assert transport.heard


def test_cells_may_not_be_smaller_than_the_operator_says(tmp_path):
    def small(given):
        given["small"] = 0

    with pytest.raises(InputError, match="policy wants 5 at least"):
        describe(make_homes(tmp_path), in_first("outline", small))
