"""The paper's Table 2 in our fields: everything can be made, and the paper's values lie on the paper's grids."""

import pytest

from dualfl.algorithms.contract import Constants
from dualfl.algorithms.registry import algorithm_class, make
from dualfl.experiments.table2 import DATASETS, FIXED, GRIDS, LINES, MU, PAPER

HERE = Constants(mu=MU, L=20.0, N=8, d=7850)  # about that of MNIST with pixels up to 1


@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("dataset", DATASETS)
def test_the_papers_values_make_an_algorithm(name, dataset):
    algorithm = make(name, **PAPER[name][dataset])
    assert algorithm.resolve(HERE).resolved


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_values_are_on_the_papers_grids(name):
    for values in PAPER[name].values():
        for field, value in values.items():
            assert value in GRIDS[name].get(field, (FIXED.get(name, {}).get(field),))


def test_formulas_are_the_papers():
    five = make("5gcs", **PAPER["5gcs"]["mnist"]).resolve(HERE)
    assert five.tau == pytest.approx(1 / (2 * 1e-4 * 8))
    apda = make("apda-inexact", **PAPER["apda-inexact"]["mnist"]).resolve(HERE)
    assert apda.eta_y == pytest.approx(1 / (32 * 1e-3))
    assert apda.theta == pytest.approx(max(2 / (2 + MU * 1e-3), 1 - 1e-2 * apda.eta_y))
    assert make("dualfl", **PAPER["dualfl"]["mnist"]).resolve(HERE).nu == MU


def test_every_line_is_a_field_of_its_algorithm():
    assert {line.algorithm for line in LINES} == set(PAPER)
    for line in LINES:
        assert line.field in algorithm_class(line.algorithm).__dataclass_fields__


@pytest.mark.parametrize("name", PAPER)
def test_the_wider_grids_go_beyond_one(name):
    wider = algorithm_class(name).grid
    assert set(wider) <= set(GRIDS[name])
    for field in set(wider) & {"eta", "eta_x", "gamma"} - ({"gamma"} if name == "scaffnew" else set()):
        assert max(wider[field]) > 1
    if name == "feddyn":
        assert min(wider["alpha"]) < 1
