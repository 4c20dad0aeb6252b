"""A random site effect on a study: moments only where they are shown, sums under masks."""

from __future__ import annotations

import pytest
from far import BITS, far_fit, far_silos, make_homes

from dualfl.analysis.fit_result import Wishes
from dualfl.analysis.models import Recipe
from dualfl.errors import InputError
from dualfl.tables.schema import Request
from random_effects import Split

RANDOM = Recipe("linear", "none", site_effect="random")
WISHES = Wishes(Request("y", numeric_target=True), influence=False)


@pytest.fixture
def paths(tmp_path):
    made = []
    for table in Split("mtcars").tables:
        made.append(tmp_path / f"{table.name}.csv")
        rows = [",".join(map(repr, map(float, row))) for row in zip(*table.columns.values())]
        made[-1].write_text("\n".join([",".join(table.columns), *rows]) + "\n")
    return made


@pytest.mark.parametrize(("secure", "most"), [(None, 1), (BITS, 10)])
def test_a_study_asks_once_for_moments_that_are_shown_and_searches_under_masks(paths, tmp_path, secure, most):
    silos = far_silos(make_homes(tmp_path / "homes", paths, "y", secure, show_own_numbers=True), secure)
    asked, carry = [], silos.carry

    def listening(exchange):
        asked.extend((ask.verb, ask.reduce) for ask in exchange.asks if exchange.purpose == "the site effect")
        return carry(exchange)

    silos.carry = listening
    fit = far_fit(silos, RANDOM, WISHES)
    Split("mtcars").check(fit)
    assert set(asked) == {("moments", "each") if secure is None else ("site_terms", "sum")}
    assert 1 <= len(asked) <= most


def test_moments_that_a_silo_keeps_are_not_used(paths, tmp_path):
    """One silo without `show_own_numbers`: sums are asked for, as under masks, and its moments are not given."""
    homes = make_homes(tmp_path / "homes", paths, "y", None, show_own_numbers=True)
    settings = homes[2] / "silo.json"
    settings.write_text(settings.read_text().replace('"show_own_numbers": true', '"show_own_numbers": false'))
    silos = far_silos(homes, None)
    fit = far_fit(silos, RANDOM, WISHES)
    Split("mtcars").check(fit)
    assert fit.more["site effect"].exchanges > 1
    silos = far_silos(homes, None, experiment="f")
    silos._meet, meet = lambda met: (meet(met), setattr(silos, "_reserved", False)), silos._meet
    with pytest.raises(InputError, match="its own moments"):
        far_fit(silos, RANDOM, WISHES)
