"""A random site effect of a whole fit: R's numbers, and those of dense matrices, by one exchange."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualfl.analysis.fit_result import Wishes
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import fit_tables
from dualfl.errors import InputError
from dualfl.fits.model_folder import coefficient_rows
from dualfl.tables.schema import Request
from oracle_tables import oracles
from random_effects import Split

RANDOM = Recipe("linear", "none", site_effect="random")
WISHES = Wishes(Request("y", numeric_target=True), influence=False)


def exchanges_of(fit: Any) -> int:
    return sum(entry.exchanges for entry in fit.spent if entry.what == "the site effect")


@pytest.mark.parametrize("name", ["ozone", "trees", "mtcars"])
def test_files_need_one_exchange_and_have_the_numbers_of_r(name):
    split, r = Split(name), oracles()[f"random {name}"]
    fit = fit_tables(split.tables, RANDOM, WISHES)
    assert exchanges_of(fit) == 1 and fit.more["site effect"].exchanges == 1
    split.check(fit)
    order = np.append(len(fit.theta) - 1, np.arange(len(fit.theta) - 1))
    assert_allclose(fit.theta[order, 0], r["coef"], rtol=1e-4)  # R ends its search early, where all is flat
    assert_allclose(fit.standard_errors[order, 0], r["se"], rtol=1e-4)
    restricted = fit.more["site effect"].log_likelihood - float(np.log(fit.scaling.spread).sum())
    assert restricted == pytest.approx(r["loglik"][0], rel=1e-8)


def test_an_offset_is_taken_off_the_target():
    split = Split("trees", offset=np.linspace(-20.0, 30.0, 31))
    fit = fit_tables(split.tables, RANDOM, replace(WISHES, request=replace(WISHES.request, roles={"offset": "known"})))
    split.check(fit)


def test_every_table_has_the_same_intervals():
    fit = fit_tables(Split("trees").tables, RANDOM, WISHES)
    low, high = zip(*(row[4:6] for row in coefficient_rows(fit)))
    assert_allclose([low, high], [fit.coefficients.lower, fit.coefficients.upper], rtol=1e-12)
    assert_allclose(np.subtract(high, low), 2 * 1.959963984540054 * fit.standard_errors[:, 0], rtol=1e-12)


@pytest.mark.parametrize(
    ("files", "recipe", "roles", "sentence"),
    [
        (5, RANDOM, {"weights": "x"}, "rows that count once each, and --weights is x"),
        (1, RANDOM, {}, "needs at least 2 silos, and there is 1"),
    ],
)
def test_what_has_no_such_likelihood_is_refused_before_anything_is_computed(files, recipe, roles, sentence):
    with pytest.raises(InputError, match=sentence):
        fit_tables(Split("trees").tables[:files], recipe, Wishes(Request("y", True, roles=roles)))


def test_other_errors_than_its_own_are_refused():
    with pytest.raises(InputError, match="--errors is robust"):
        Recipe("linear", "none", site_effect="random", errors="robust")
