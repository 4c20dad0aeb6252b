"""The first table of a paper against pandas and NumPy on the pooled rows; small cells stay hidden."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualfl.analysis.quantiles import Search
from dualfl.analysis.tabulating import TableWishes, describe_tables, largest_difference, standardised_difference
from dualfl.errors import InputError
from dualfl.fits.table_one import cross_tables, hidden, table_one, with_sums
from dualfl.tables.reading import Table
from dualfl.tables.schema import Request


def quartiles(x, least=0):
    search = Search(len(x), float(np.mean(x)), float(np.std(x)), least)
    asked = []
    while edges := search.edges():
        asked += edges
        search.told(edges, [np.searchsorted(np.sort(x), one, side="right").astype(float) for one in edges])
    return search.found(), asked


CASES = {
    "normal": lambda rng: rng.normal(size=501),
    "one outlier": lambda rng: np.append(rng.normal(size=400), 1e8),
    "mostly zero": lambda rng: np.where(rng.random(300) < 0.9, 0.0, rng.normal(size=300)),
    "whole numbers": lambda rng: rng.poisson(2.0, 999).astype(float),
    "far from zero": lambda rng: 1e8 + rng.normal(size=300),
    "tiny": lambda rng: 1e-8 * rng.normal(size=77),
    "two values": lambda rng: np.repeat([0.0, 1.0], [30, 31]),
    "three rows": lambda rng: np.array([3.0, 1.0, 8.0]),
}


@pytest.mark.parametrize("case", CASES)
def test_quartiles_are_those_of_numpy_within_the_error_that_is_stated(case):
    x = CASES[case](np.random.default_rng(3))
    expected = np.quantile(x, [0.25, 0.5, 0.75])
    found, _ = quartiles(x)
    scale = expected[2] - expected[0] or np.std(x)
    assert found.error <= 2e-3 * scale
    assert (np.abs(np.array(found.values) - expected) <= found.error * (1 + 1e-9)).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=60), st.sampled_from([0, 3, 5]))
def test_the_stated_error_holds_for_any_numbers(numbers, least):
    x = np.array(numbers, dtype=float)
    found, _ = quartiles(x, least)
    if len(x) < 2 * least:
        assert found is None
        return
    expected = np.quantile(x, [0.25, 0.5, 0.75])
    assert (np.abs(np.array(found.values) - expected) <= found.error + 1e-9 * np.abs(x).max()).all()


def test_no_cell_with_few_rows_is_cut():
    x = np.random.default_rng(0).normal(size=200)
    _, asked = quartiles(x, least=5)
    for edges in asked:
        assert np.count_nonzero((x > edges[0]) & (x <= edges[-1])) >= 10


# -- whole tables --------------------------------------------------------------------------------------------


def silos(seed=1):
    rng = np.random.default_rng(seed)
    tables = []
    for j, n in enumerate((120, 60, 33)):
        age = np.round(60 + 10 * rng.normal(size=n) + j)
        age[rng.random(n) < 0.1] = np.nan
        sex = rng.choice(["f", "m", ""], n, p=[0.5, 0.45, 0.05])
        ward = rng.choice(["a", "b", "c"], n, p=[0.6, 0.38, 0.02])
        columns = {"age": age, "sex": sex, "ward": ward, "all the same": np.full(n, 7.0), "none": np.full(n, "")}
        tables.append(Table(f"silo {j}", columns | {"id": np.array([f"p{j}-{i}" for i in range(n)])}))
    frame = pd.concat([pd.DataFrame(dict(one.columns)) for one in tables]).replace("", np.nan)
    return tables, frame


def test_means_deviations_levels_and_gaps_are_those_of_pandas():
    tables, frame = silos()
    found = describe_tables(tables, TableWishes(cut=0))
    whole = found.groups[-1]
    assert [one.rows for one in found.groups] == [120, 60, 33, 213]
    age = whole.columns["age"]
    assert age.mean == pytest.approx(frame["age"].mean(), rel=1e-14)
    assert age.deviation == pytest.approx(frame["age"].std(), rel=1e-13)
    assert age.missing == frame["age"].isna().sum()
    assert np.abs(np.array(age.quartiles.values) - frame["age"].quantile([0.25, 0.5, 0.75])).max() < 0.02
    assert whole.columns["sex"].counts == frame["sex"].value_counts().sort_index().to_dict()
    assert whole.columns["none"].present == 0 and whole.columns["id"].present == 213
    own = pd.DataFrame(dict(tables[1].columns))["age"]
    assert found.groups[1].columns["age"].deviation == pytest.approx(own.std(), rel=1e-13)
    constant = whole.columns["all the same"]
    assert constant.mean == 7 and constant.deviation == 0 and constant.quartiles.values == (7, 7, 7)


def test_groups_and_differences():
    tables, frame = silos()
    found = describe_tables(tables, TableWishes(by="sex", crosses=(("ward", "sex"),)))
    there = frame.dropna(subset="sex")
    assert found.left_out == len(frame) - len(there)
    a, b = (there[there["sex"] == one]["age"] for one in ("f", "m"))
    expected = (a.mean() - b.mean()) / np.sqrt((a.var() + b.var()) / 2)
    f, m, _ = found.groups
    assert standardised_difference(f.columns["age"], m.columns["age"]) == pytest.approx(expected, rel=1e-12)
    # Yang and Dalton, by hand: T' S^-1 T of the shares without the first level.
    p, q = (there[there["sex"] == one]["ward"].value_counts(normalize=True)[["b", "c"]].to_numpy() for one in "fm")
    S = (np.diag(p) - np.outer(p, p) + np.diag(q) - np.outer(q, q)) / 2
    assert largest_difference([f, m], "ward") == pytest.approx(np.sqrt((p - q) @ np.linalg.solve(S, p - q)), rel=1e-9)
    cross = pd.crosstab(frame["ward"], frame["sex"]).to_numpy()
    assert (found.crosses["ward", "sex"] == cross).all()
    assert cross.min() < 5  # so something must be hidden
    (sheet,) = cross_tables(found)
    shown = {line.label: line.cells for line in sheet.lines}
    assert "< 5" in shown["c"] and sum(cell in ("< 5", "hidden") for cell in shown["c"]) >= 2


def test_no_hidden_cell_follows_by_subtraction():
    rng = np.random.default_rng(5)
    for _ in range(200):
        counts = with_sums(rng.integers(0, 12, size=rng.integers(1, 5, size=2)).astype(float))
        gone = hidden(counts, 5)
        assert gone[(counts > 0) & (counts < 5)].all()
        assert not gone[counts == 0].any()
        for cells, own in ((gone, counts), (gone.T, counts.T)):
            for line, values in zip(cells, own):
                assert line.sum() != 1 or np.count_nonzero(values) == 1


def test_a_table_says_what_it_hides_and_how_exact_it_is():
    tables, _ = silos()
    sheet = table_one(describe_tables(tables, TableWishes()))
    rare = next(line for line in sheet.lines if line.label == "c")
    assert any(cell == "< 5" for cell in rare.cells)
    text = " ".join(sheet.notes)
    assert "none is off by more than" in text and "fewer than 10 rows" in text and "subtraction" in text
    labels = [line.label for line in sheet.lines]
    assert "none, no entry" in labels and "id, texts" in labels


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"by": "age"}, "--by takes a column of levels, and 'age' is numbers; make levels"),
        ({"by": "id"}, "'id' is texts"),
        ({"by": "none"}, "'none' is gaps only"),
        ({"by": "sx"}, "There is no column 'sx'"),
        ({"crosses": (("sex", "sex"),)}, "both are 'sex'"),
    ],
)
def test_what_cannot_be_grouped_is_said_in_a_sentence(wishes, sentence):
    tables, _ = silos()
    with pytest.raises(InputError, match=sentence):
        describe_tables(tables, TableWishes(**wishes))


def test_a_column_that_is_numbers_here_and_text_there_is_refused():
    tables = [Table("a", {"x": np.array([1.0, 2.0])}), Table("b", {"x": np.array(["u", "v"])})]
    with pytest.raises(InputError, match="b has text such as 'u' in column 'x', and a has numbers there"):
        describe_tables(tables, TableWishes())


def test_rows_without_a_target_are_left_out_if_one_is_named():
    tables, frame = silos()
    found = describe_tables(tables, TableWishes(Request("sex")))
    assert found.groups[-1].rows == frame["sex"].notna().sum()
