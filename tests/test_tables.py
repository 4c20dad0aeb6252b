"""Tables of the documents are what their commands print."""

import importlib.util
import itertools
import re
from pathlib import Path

import pytest

from dualfl import make_problem
from dualfl.algorithms.registry import ALGORITHMS, make
from dualfl.data import DATASETS
from dualfl.data.partitions import PARTITIONS
from dualfl.experiments.optimum_check import check
from dualfl.optimum import reference

ROOT = Path(__file__).parent.parent
SAMPLE = ["lbfgs", "fednl", "fednew", "shed", "gradskip"]  # quick ones; two of them draw random numbers


def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", list(tables().TABLES))
def test_a_table_is_what_its_command_prints(name):
    document, make_table = tables().TABLES[name]
    text = (ROOT / document).read_text(encoding="utf-8")
    assert tables().refreshed(text, name, make_table()) == text, "run `make refresh`"


def test_every_algorithm_is_in_the_table_of_verdicts():
    text = (ROOT / "results" / "algorithms-check.txt").read_text(encoding="utf-8")
    named = {line.split()[0] for line in text.splitlines() if line and len(line.split()) > 3}
    assert set(ALGORITHMS.own) <= named and "FAILS" not in text


@pytest.mark.parametrize("name", SAMPLE)
def test_verdicts_are_as_the_command_prints_them_today(name):
    text = (ROOT / "results" / "algorithms-check.txt").read_text(encoding="utf-8")
    for problem in ("quadratic", "logistic"):
        printed = next(line.split() for line in text.splitlines() if line.split()[:2] == [name, problem])
        verdict = check(make(name), problem)
        # the last bits of a sum differ from processor to processor, and a count with them by one at most
        assert abs(verdict.rounds - float(printed[2])) <= 1 and abs(verdict.exchanges - float(printed[3])) <= 3


def names_in(page, head):
    """What stands in backquotes in the first column of a table."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    first = lines.index(head) + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_data_set_and_partition_is_in_its_table():
    assert names_in("data.md", "| name | rows x features, classes | from | models see |") == set(DATASETS)
    named = names_in("data.md", "| name | rows of a client |")
    assert {name.partition(":")[0] for name in named} == set(PARTITIONS)


@pytest.mark.parametrize("given", [{"ridge": 0.01}, {"ridge": 0.01, "l1": 0.001}])
def test_a_printed_minimum_is_what_is_computed_today(given):
    words = " ".join(f"{name}={value}" for name, value in given.items())
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith(f"| digits {words} |"))
    found = reference(make_problem("digits", clients=2, **given), cache=False)
    assert found == pytest.approx(float(row.split("|")[2]), rel=1e-10)


def test_a_table_that_is_stale_is_found(capsys, tmp_path, monkeypatch):
    module = tables()
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- table groups -->\nold\n<!-- end groups -->\nafter\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "TABLES", {"groups": ("page.md", lambda: "new\n")})
    assert module.main(["--check"]) == 1 and "stale" in capsys.readouterr().out
    assert module.main([]) == 0 and module.main(["--check"]) == 0
    assert document.read_text() == "before\n<!-- table groups -->\nnew\n<!-- end groups -->\nafter\n"
    with pytest.raises(SystemExit, match="there is no table others"):
        module.main(["others"])
