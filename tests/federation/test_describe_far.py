"""A description is the same wherever the silos are; a silo's rules for small cells are its own."""

import json

import numpy as np
import pytest
from far import far_silos, make_homes
from test_same_as_fit import hospitals

from dualfl.analysis.descriptions import TableDescription, from_json
from dualfl.analysis.tabulating import Numbers, TableWishes, describing
from dualfl.errors import InputError
from dualfl.federation.fixed_point import BITS
from dualfl.fits.table_one import table_one
from dualfl.silos import Chamber, SilosHere, drive
from dualfl.tables.reading import read_table
from dualfl.tables.schema import Request

TARGET = Request("readmitted")
WISHES = (TableWishes(TARGET), TableWishes(TARGET, by="readmitted", crosses=(("smoker", "ward"),)))


def far(homes, secure, wishes, **more):
    silos = far_silos(homes, secure, analysis=TableDescription(wishes).as_json(), **more)
    return drive(describing(silos, wishes), silos)


def here(paths, wishes):
    silos = SilosHere([Chamber(read_table(path), name=path.stem) for path in sorted(paths)])
    return drive(describing(silos, wishes), silos)


@pytest.mark.parametrize("secure", [None, BITS])
@pytest.mark.parametrize("wishes", WISHES, ids=["by silo", "by group"])
def test_files_and_silos_give_the_same_table(tmp_path, secure, wishes):
    paths = hospitals(tmp_path)
    homes = make_homes(tmp_path / "silos", paths, "readmitted", secure, show_own_numbers=True)
    found, expected = far(homes, secure, wishes), here(paths, wishes)
    assert found.layout == expected.layout and found.withheld == ()
    for one, other in zip(found.groups, expected.groups, strict=True):
        assert (one.name, one.rows) == (other.name, other.rows)
        for name, cell in one.columns.items():
            same = other.columns[name]
            if isinstance(cell, Numbers):
                assert np.isclose(cell.mean, same.mean, rtol=1e-12) and np.isclose(cell.deviation, same.deviation)
                assert np.allclose(cell.quartiles.values, same.quartiles.values, rtol=1e-9)
            else:
                assert cell.counts == same.counts and cell.missing == same.missing
    assert table_one(found).lines == table_one(expected).lines


@pytest.mark.parametrize(("shown", "named"), [((), []), (("river",), ["river"]), (("river", "hill"), [])])
def test_what_a_silo_withholds_is_not_shown_nor_given_away(tmp_path, shown, named):
    homes = make_homes(tmp_path / "silos", hospitals(tmp_path), "readmitted", BITS)
    for home in homes:
        settings = json.loads((home / "silo.json").read_text())
        (home / "silo.json").write_text(json.dumps(settings | {"show_own_numbers": home.name in shown}))
    found = far(homes, BITS, WISHES[0])
    assert [one.name for one in found.groups] == [*named, "all"]
    assert set(found.withheld) == {home.name for home in homes} - set(named)
    assert "withhold" in " ".join(table_one(found).notes)


def with_policy(homes, **policy):
    for home in homes:
        settings = json.loads((home / "silo.json").read_text())
        given = {"approval": "none", "least_per_cell": 0, "least_per_level": 0, "least_rows": 0} | policy
        (home / "silo.json").write_text(json.dumps(settings | {"policy": given}))


@pytest.mark.parametrize(
    ("policy", "wishes", "sentence"),
    [
        ({"least_per_level": 8}, WISHES[0], "this silo's policy wants 8 at least .*take --least 8"),
        ({"least_rows": 60}, WISHES[0], "fewer rows than its policy wants"),
        ({"least_per_level": 17}, TableWishes(TARGET, by="readmitted", small=17), "fewer than 17 rows at this silo"),
        ({"columns": ["age"]}, TableWishes(TARGET, by="ward"), "There is no column 'ward'"),
        ({"models": ["logistic"]}, WISHES[0], "'describe' is not among those that this silo's operator allows"),
    ],
)
def test_the_operator_has_the_last_word(tmp_path, policy, wishes, sentence):
    homes = make_homes(tmp_path / "silos", hospitals(tmp_path), "readmitted", BITS)
    with_policy(homes, **policy)
    with pytest.raises(InputError, match=sentence):
        far(homes, BITS, wishes)


def test_a_cross_table_with_a_cell_of_one_is_refused_by_the_silo(tmp_path):
    paths = []
    for name in ("a", "b"):
        lines = ["sex,ward,y"] + [f"{'fm'[i % 2]},{'uv'[i // 2 % 2]},{i % 3 % 2}" for i in range(40)]
        lines += ["x,u,0"] * 6 + (["x,v,1"] if name == "b" else ["x,v,1"] * 5)
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join(lines) + "\n")
    homes = make_homes(tmp_path / "silos", paths, "y", BITS)
    with_policy(homes, least_per_level=5, least_per_cell=0)
    wishes = TableWishes(Request("y"), crosses=(("sex", "ward"),))
    assert far(homes, BITS, wishes).crosses["sex", "ward"].sum() == 40 * 2 + 6 * 2 + 6
    with_policy(homes, least_per_level=5, least_per_cell=3)
    with pytest.raises(InputError, match="too few rows of this silo"):
        far(homes, BITS, wishes, experiment="f")


@pytest.mark.parametrize(
    "change",
    [
        {"group": 9},
        {"column": "ward"},
        {"edges": np.array([1.0])},
        {"edges": np.array([2.0, 1.0])},
        {"edges": np.array([0.0, np.inf])},
        {"edges": np.zeros(1000)},
    ],
)
def test_a_histogram_has_a_shape_and_a_range(tmp_path, change):
    from dualfl.silos.verbs import answered, request_to_json

    chamber = Chamber(read_table(hospitals(tmp_path)[0]))
    told = answered(chamber, "outline", {"request": request_to_json(TARGET), "small": 5})
    levels = {name: kind for name, kind in told["columns"].items() if kind is not None}
    layout = {"columns": tuple(told["columns"]), "levels": levels, "others": {}}
    one = {"group": 0, "column": "age", "edges": np.array([50.0, 60.0])}
    assert answered(chamber, "cells", {"layout": layout, "by": None, "asked": [one]})["below"].shape == (2,)
    with pytest.raises(InputError, match="a histogram has a known column and group"):
        answered(chamber, "cells", {"layout": layout, "by": None, "asked": [one | change]})


def test_the_description_travels():
    wishes = TableWishes(Request("y", drop=("a",), columns=("b", "c")), "c", (("b", "c"),), 7, 2)
    content = json.loads(json.dumps(TableDescription(wishes).as_json()))
    assert from_json(content).as_json() == TableDescription(wishes).as_json()
