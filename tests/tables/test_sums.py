"""Sums over all silos give the columns' means and spreads as exactly as each silo's own moments do."""

from fractions import Fraction

import numpy as np
import pytest

from dualfl.tables.encoding import Scaling, features, scaling
from dualfl.tables.reading import Table
from dualfl.tables.schema import Request, agree, drafted, settled, summarise
from dualfl.tables.sums import Totals, centre, counted, deviations


def exactly(values):
    """Mean and spread by fractions."""
    x = [Fraction(float(value)) for value in values if not np.isnan(value)]
    mean = sum(x, Fraction(0)) / len(x)
    return float(mean), float(sum(((a - mean) ** 2 for a in x), Fraction(0))), len(values)


def summed(tables, request):
    """What the coordinator learns: a draft, and sums over all silos."""
    draft = drafted([summarise(table, request) for table in tables], request)
    first = [counted(table, draft) for table in tables]
    sums = {name: sum(one[name] for one in first) for name in first[0]}
    around = [deviations(table, draft, centre(sums)) for table in tables]
    return draft, Totals(draft, sums, centre(sums), {name: sum(one[name] for one in around) for name in around[0]})


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e8, -1e12])
@pytest.mark.parametrize("spread", [1e-8, 1.0, 1e8])
def test_means_and_spreads_are_those_of_fractions(mean, spread):
    spread = max(spread, 1e-10 * abs(mean))
    rng = np.random.default_rng(3)
    tables = []
    for j, n in enumerate((1, 40, 300)):
        x = mean + spread * (rng.normal(size=n) + j)
        x[rng.random(n) < 0.1 * (n > 1)] = np.nan
        text = rng.choice(["a", "b", "b", ""], n)
        tables.append(Table(f"silo {j}", {"x": x, "text": text, "y": rng.normal(size=n)}))
    request = Request("y", True)
    draft, totals = summed(tables, request)
    schema = settled(draft, totals.columns(), request, "reference")
    assert schema.names == agree([summarise(table, request) for table in tables], request).names
    found, other = totals.scaling(schema), scaling([features(table, schema) for table in tables], True)
    m, squares, n = exactly(np.concatenate([table.columns["x"] for table in tables]))
    place = schema.names.index("x")
    for one in (found, other):
        assert one.mean[place] == pytest.approx(m, rel=3e-16, abs=1e-14 * spread)
        assert one.spread[place] == pytest.approx(np.sqrt(squares / n), rel=1e-13)
    np.testing.assert_allclose(found.spread, other.spread, rtol=1e-13)


def test_a_column_of_one_number_has_no_spread():
    tables = [Table(f"silo {j}", {"x": np.full(7, 0.1), "z": np.arange(7.0), "y": np.arange(7.0)}) for j in range(3)]
    request = Request("y", True)
    draft, totals = summed(tables, request)
    assert settled(draft, totals.columns(), request, "reference").constant == ("x",)
    assert Scaling.around(np.array([0.1]), np.array([1e-36]), 21.0).spread.tolist() == [1.0]
