"""The rules by which tables are read: what they say, where they contradict, and what becomes of cells."""

import json
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dualfl.errors import InputError, WrongEncoding
from dualfl.federation.silo_folder import SiloFolder
from dualfl.tables.dates import AmbiguousDates, days_since, is_date
from dualfl.tables.idle_rules import idle_rules
from dualfl.tables.reading import read_table
from dualfl.tables.rules import USUAL_RULES, Rules, parse_recode
from dualfl.tables.schema import Request, summarise


def table(path, text, rules=USUAL_RULES, encoding="utf-8", **more):
    path = path / "t.csv"
    path.write_bytes(text.encode(encoding))
    return read_table(path, rules, **more)


def test_rules_are_json_and_back():
    rules = Rules(
        columns=("a", "b"),
        drop=("c",),
        id=("p",),
        categorical=("a",),
        na=("999", "a=-1"),
        recode={"y": {"yes": "1"}},
        decimal=",",
        commas=("b",),
        encoding="cp1252",
        fold_case=True,
        dates="as-days-since:2020-01-01",
    )
    assert Rules.from_json(json.loads(json.dumps(rules.as_json()))) == rules
    assert Rules().as_json() == {}
    kept = rules.predicting
    assert kept.columns == kept.drop == kept.categorical == () and kept.id == ("p",) and kept.recode == rules.recode


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"decimel": ","}, "There is no rule 'decimel'; did you mean decimal"),
        ({"decimal": ";"}, "The decimal sign must be '.' or ',', but it is ';'"),
        ({"na": "999"}, "'na' must be a list of texts"),
        ({"na": [999]}, "'na' must be a list of texts"),
        ({"recode": {"y": "yes"}}, "'recode' must be like"),
        ({"recode": {"y": {"yes": 1}}}, "'recode' must be like"),
        ({"encoding": "utf-99"}, "There is no encoding 'utf-99'; utf-8, cp1252"),
        ({"encoding": "base64"}, "There is no encoding 'base64'"),
        ({"encoding": 8}, "There is no encoding 8"),
        ({"fold_case": "yes"}, "fold_case must be true or false"),
        ({"dates": "as-days-since:2020-13-01"}, "--dates is as-days-since:YEAR-MONTH-DAY"),
        ({"dates": "iso"}, "--dates is as-days-since:"),
        ({"dates": 3}, "--dates is as-days-since:"),
        ({"drop": ["a"], "columns": ["a"]}, "--drop 'a' and --columns 'a' contradict each other"),
        ({"drop": ["a"], "id": ["a"]}, "--drop 'a' and --id 'a' contradict each other"),
        ({"id": ["a"], "categorical": ["a"]}, "--id 'a' and --categorical 'a' contradict each other"),
        ([], "Rules are words with values"),
    ],
)
def test_rules_that_are_none(content, said):
    with pytest.raises(InputError) as error:
        Rules.from_json(content)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["died", "died=", "=yes:1", "died=yes", "died=:1", "died=a:1,a:2", 'died="a:1'])
def test_recodes_that_are_none(text):
    with pytest.raises(InputError, match="--recode is COLUMN=FROM:TO,FROM:TO"):
        parse_recode(text)


def test_more_rules_join_lists_and_replace_words():
    first = Rules(na=("999",), recode={"y": {"a": "b"}}, decimal=",", fold_case=True)
    both = first.with_more({"na": ["-1", "999"], "recode": {"y": {"c": "d"}, "z": {"e": "f"}}})
    assert both == Rules(
        na=("999", "-1"), recode={"y": {"a": "b", "c": "d"}, "z": {"e": "f"}}, decimal=",", fold_case=True
    )
    assert first.with_more({"decimal": "."}).decimal == "." and first.with_more({}) == first


# -- cells -----------------------------------------------------------------------------------------------------


def test_a_gap_of_one_column_is_a_number_in_another(tmp_path):
    found = table(tmp_path, "a,b\n999,999\n1,2\n?,?\n", Rules(na=("a=999", "?")))
    np.testing.assert_array_equal(found.columns["a"], [np.nan, 1, np.nan])
    np.testing.assert_array_equal(found.columns["b"], [999, 2, np.nan])


def test_recoded_entries_are_read_as_if_they_were_written_so(tmp_path):
    rules = Rules(recode={"died": {"yes": "1", "no": "0", "unclear": ""}, "arm": {"1": "drug", "2": "none"}})
    found = table(tmp_path, "died,arm,x\nyes,01,yes\nno,2.0,no\nunclear,1,yes\n1,3,no\n", rules)
    np.testing.assert_array_equal(found.columns["died"], [1, 0, np.nan, 1])
    assert found.columns["arm"].tolist() == ["drug", "none", "drug", "3"]
    assert found.columns["x"].tolist() == ["yes", "no", "yes", "no"]  # another column's words are its own


def test_a_word_that_is_a_gap_elsewhere_may_be_recoded(tmp_path):
    found = table(tmp_path, "a\nNA\nx\n", Rules(recode={"a": {"NA": "not applicable"}}))
    assert found.columns["a"].tolist() == ["not applicable", "x"]


def test_folded_levels(tmp_path):
    text = "a,y\nSurgery,Yes\n SURGERY ,yes\nheart  ward,NO\nHeart Ward,no\n"
    assert table(tmp_path, text, Rules(fold_case=True)).columns["a"].tolist() == ["surgery"] * 2 + ["heart ward"] * 2
    found = table(tmp_path, text, Rules(fold_case=True, recode={"y": {"YES": "1", "No": "0"}}))
    assert found.columns["y"].tolist() == [1, 1, 0, 0]


def test_commas_in_one_column_only(tmp_path):
    found = table(tmp_path, "a;b\n1,5;2.5\n2;3\n", Rules(commas=("a",)))
    assert found.columns["a"].tolist() == [1.5, 2] and found.columns["b"].tolist() == [2.5, 3]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-8", "cp1250"])
def test_encodings(tmp_path, encoding):
    text = "town,y\nZ\u00fcrich,1\nBern,0\n"
    found = table(tmp_path, text, Rules(encoding=encoding), encoding)
    assert found.columns["town"].tolist() == ["Z\u00fcrich", "Bern"]


def test_another_encoding_is_told_with_the_likely_one(tmp_path):
    with pytest.raises(WrongEncoding, match=r"not text .*may be cp1252 \(--encoding, or in silo.json\)") as error:
        table(tmp_path, "a,town\n1,Bern\n2,Z\u00fcrich\n", encoding="cp1252")
    assert error.value.where == "line 3"
    with pytest.raises(WrongEncoding, match="not text in ascii"):
        table(tmp_path, "a,town\n1,Z\u00fcrich\n", Rules(encoding="ascii"))
    with pytest.raises(WrongEncoding, match="utf-16"):
        table(tmp_path, "a,town\n1,Z\u00fcrich\n", encoding="utf-16")


def test_a_mark_of_utf_8_beats_what_was_said(tmp_path):
    found = table(tmp_path, "town,y\nZ\u00fcrich,1\n", Rules(encoding="cp1252"), "utf-8-sig")
    assert found.columns["town"].tolist() == ["Z\u00fcrich"]


def test_columns_ids_and_what_is_left_out(tmp_path):
    text = "p,a,b,c,y\n007,1,2,3,no\n008,4,5,6,yes\n"
    found = table(tmp_path, text, Rules(columns=("a", "b"), id=("p",)), needed=("y",))
    assert list(found.columns) == ["a", "b", "y"] and found.left_out == ("p", "c")
    assert found.ids["p"].tolist() == ["007", "008"]  # as it is written, not the number 7
    assert found.kept(np.array([False, True])).ids["p"].tolist() == ["008"]
    found = table(tmp_path, text, Rules(drop=("c",)))
    assert list(found.columns) == ["p", "a", "b", "y"]
    assert table(tmp_path, text, Rules(id=("a",)), needed=("a",)).columns["a"].tolist() == [1, 4]


# -- dates -----------------------------------------------------------------------------------------------------


def test_days_are_those_of_the_calendar():
    """Every day of 130 years in four ways, against the calendar of Python; leap years of centuries are in it."""
    since = date(2000, 3, 1)
    days = [date(1899, 12, 28) + timedelta(days=37 * i) for i in range(1300)]
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y", "%d-%m-%Y"):
        found = days_since([day.strftime(form) for day in days], since)
        assert [found[day.strftime(form)] for day in days] == [(day - since).days for day in days]


def test_times_and_zones():
    found = days_since(["2020-01-01T12:00Z", "2020-01-01 06:00:00.5+06:00", "2020-01-01 00:00-0600"], date(2020, 1, 1))
    assert list(found.values()) == [0.5, 0.5 / 86400, 0.25]
    assert datetime.fromisoformat("2020-01-01 06:00:00.5+06:00").timestamp() % 86400 == 0.5


@pytest.mark.parametrize(
    "text", ["2020-02-30", "31.4.2020", "20-01-2020x", "1.5", "03-04-05", "2020-1", "99999-1-1", "2020-01-01 25:00"]
)
def test_what_is_no_date(text):
    assert not is_date(text)


def test_the_order_of_day_and_month_is_not_guessed(tmp_path):
    assert days_since(["1/2/2020", "13/2/2020"], date(2020, 1, 1)) == {"1/2/2020": 31, "13/2/2020": 43}
    assert days_since(["1/2/2020", "2/13/2020"], date(2020, 1, 1)) == {"1/2/2020": 1, "2/13/2020": 43}
    assert days_since(["13/2/2020", "2/13/2020"], date(2020, 1, 1)) is None
    assert days_since(["5/5/2020"], date(2020, 5, 5)) == {"5/5/2020": 0}  # the same either way
    with pytest.raises(AmbiguousDates, match="3/4/2020"):
        days_since(["5/5/2020", "3/4/2020"], date(2020, 1, 1))
    found = table(tmp_path, "d,y\n5/5/2020,1\n3/4/2020,2\n", Rules(dates="as-days-since:2020-01-01"))
    with pytest.raises(
        InputError, match="'3/4/2020' in column 'd', row 2, and no row says whether the day or the month"
    ):
        summarise(found, Request("y", True))


def test_dates_are_days_and_other_columns_stay(tmp_path):
    text = "d,x,g\n2020-01-03,1,2020-01-01\n,2,later\nNA,3,2020-01-02\n"
    found = table(tmp_path, text, Rules(dates="as-days-since:2020-01-01"))
    np.testing.assert_array_equal(found.columns["d"], [2, np.nan, np.nan])
    assert found.columns["x"].tolist() == [1, 2, 3] and found.columns["g"].dtype.kind == "U"


def test_parquet_by_the_same_rules(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "when": pandas.to_datetime(["2020-01-02 12:00", None]),
            "day": [date(2020, 1, 3), date(2019, 12, 31)],
            "written": ["2020-02-01", "2020-02-02"],
            "arm": [1, 2],
            "died": ["yes", "no"],
            "crp": ["1,5", "2"],
            "code": ["12", "7"],
            "p": [7, 8],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    recode = {"arm": {"1": "drug"}, "died": {"yes": "1", "no": "0"}}
    rules = Rules(dates="as-days-since:2020-01-01", recode=recode, decimal=",", id=("p",))
    found = read_table(tmp_path / "t.parquet", rules)
    np.testing.assert_array_equal(found.columns["when"], [1.5, np.nan])
    assert found.columns["day"].tolist() == [2, -1] and found.columns["written"].tolist() == [31, 32]
    assert found.columns["arm"].tolist() == ["drug", "2"] and found.columns["died"].tolist() == [1, 0]
    assert found.columns["crp"].tolist() == [1.5, 2] and found.columns["code"].tolist() == ["12", "7"]
    assert found.ids["p"].tolist() == ["7", "8"]


# -- silos -----------------------------------------------------------------------------------------------------


def silo(path, **settings):
    (path / "silo.json").write_text(json.dumps({"name": "a", "data": "t.csv", "target": "y"} | settings))
    return SiloFolder(path)


def test_a_silo_reads_by_the_rules_of_its_operator(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        "p;crp;ward;note;y\n1;1,5;Z\u00fcrich;a;yes\n2;2,5;z\u00fcrich;b;no\n".encode("cp1252")
    )
    rules = {"ignore": ["note"], "id": ["p"], "decimal": ",", "encoding": "cp1252", "fold_case": True}
    home = silo(tmp_path, **rules, recode={"y": {"yes": "1", "no": "0"}})
    rows = home.rows()
    assert list(rows.table.columns) == ["crp", "ward", "y"] and rows.table.columns["crp"].tolist() == [1.5, 2.5]
    assert rows.table.columns["ward"].tolist() == ["z\u00fcrich"] * 2 and rows.table.columns["y"].tolist() == [1, 0]
    assert silo(tmp_path, **rules).fingerprint != home.fingerprint
    with pytest.raises(InputError, match=r"silo.json: The decimal sign must be") as error:
        silo(tmp_path, decimal="x").rows()
    assert error.value.told == "its silo.json has a rule that cannot be used"


def test_a_silo_of_an_older_version_has_the_fingerprint_that_it_had(tmp_path):
    """An experiment that goes on over an update must not take the silo for another one."""
    import hashlib

    (tmp_path / "t.csv").write_text("a,y\n1,0\n")
    home = silo(tmp_path, ignore=["z", "b"], categorical=["a"], na=["?"], decimal=".")
    digest = hashlib.sha256(b"a,y\n1,0\n").hexdigest()
    then = [digest, "y", ["b", "z"], ["a"], ["?"], "."]
    assert home.fingerprint == hashlib.sha256(json.dumps(then).encode()).hexdigest()


# -- rules that match nothing -----------------------------------------------------------------------------------

IDLE_CASES = {
    "na": (Rules(na=("999",)), "x\n1\n2\n", "x\n999.0\n2\n", "no entry of any column is '999', which --na counts"),
    "na of a column": (Rules(na=("x=9",)), "x,z\n1,9\n2,9\n", "x,z\n09,1\n2,1\n", "no entry is '9', which --na"),
    "a word for a gap": (Rules(na=("None",)), "x\na\nb\n", "x\nnone\nb\n", "no entry of any column is 'None'"),
    "recode": (Rules(recode={"x": {"Yes": "1"}}), "x\nyes\nno\n", "x\nYes\nno\n", "no entry is 'Yes', of which"),
    "recode by number": (Rules(recode={"x": {"1": "a"}}), "x\n2\n3\n", "x\n01\n3\n", "no entry is '1', of which"),
    "decimal": (Rules(decimal=","), "x;z\n1;2\n", "x;z\n1,5;2\n", "no number of any column has a comma"),
    "commas": (Rules(commas=("x",)), "x;z\n1;1,5\n", "x;z\n1,5;1,5\n", "no number has a comma, which --decimal"),
    "dates": (Rules(dates="as-days-since:2020-01-01"), "x\n1\n2\n", "x\n2020-01-03\n\n", "no column holds dates"),
    "fold_case": (Rules(fold_case=True), "x\na b\nc\n", "x\na  b\nc\n", "no text has capitals or double blanks"),
}  # fmt: skip


@pytest.mark.parametrize("case", IDLE_CASES)
@pytest.mark.parametrize("parquet", [False, True])
def test_a_rule_that_matches_nothing_is_told(tmp_path, case, parquet):
    rules, without, with_one, sentence = IDLE_CASES[case]
    tables = []
    for text in (without, with_one):
        path = tmp_path / f"{len(tables)}.csv"
        path.write_text(text)
        if parquet:
            columns = read_table(path, Rules(decimal="." if ";" not in text else ",")).columns
            typed = {
                name: [None if v in ("", None) or v != v else v for v in array.tolist()]
                for name, array in columns.items()
            }
            if case in ("decimal", "commas"):  # numbers have no commas there, but texts may
                typed = {name: [f"{v:g}".replace(".", ",") for v in values] for name, values in typed.items()}
            path = path.with_suffix(".parquet")
            pq.write_table(pa.table(typed), path)
        tables.append(read_table(path, rules))
    (found,) = idle_rules([rules], tables[:1])
    assert found.what.startswith(sentence) and not found.stops and found.silos == (tables[0].name,)
    assert not idle_rules([rules], tables[1:])
    assert not idle_rules([rules, rules], tables)  # one file is enough for a rule that is for all
    (alone,) = idle_rules([rules, USUAL_RULES], tables)  # and a rule for one file must match in that one
    assert alone == found


def test_what_is_left_out_does_not_count_as_a_match(tmp_path):
    rules = Rules(na=("999",), drop=("z",))
    assert len(idle_rules([rules], [table(tmp_path, "x,z\n1,999\n2,3\n", rules)])) == 1


def test_a_recode_shows_what_the_entries_are(tmp_path):
    rules = Rules(recode={"x": {"Yes": "1"}})
    (found,) = idle_rules([rules], [table(tmp_path, "x\nyes\nno\n", rules)])
    assert found.quotes == "its entries are 'no', 'yes'"
