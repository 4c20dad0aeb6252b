"""The table "who is kept from what" of docs/deployment.md cites tests that there are, one for every cell."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.unrefused("about the documentation")


def rows():
    text = (ROOT / "docs" / "deployment.md").read_text()
    table = text[text.index("| who | can | cannot | tested by |") :].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def test_every_cell_of_what_cannot_be_done_has_a_test():
    assert len(rows()) > 20
    for who, _, cannot, tested in rows():
        assert (cannot == "-") == (tested == "-"), (who, cannot)


def test_every_test_that_is_cited_is_there():
    cited = [name for row in rows() for name in re.findall("`([^`]+)`", row[3])]
    assert len(cited) > 30
    for name in cited:
        file, _, function = name.partition("::")
        path = ROOT / file if "/" in file else Path(__file__).parent / file
        assert path.exists(), name
        assert not function or f"def {function}(" in path.read_text(), name
