"""The threat model of docs/deployment.md cites tests that exist, one for every thing that is kept."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.unrefused("about the documentation")


def parties():
    """Who is kept, and the entries of the list, each with its tests."""
    text = (ROOT / "docs" / "deployment.md").read_text().partition("## Threat model\n")[2].partition("\n## ")[0]
    for section in text.split("\n### ")[1:-1]:  # the last one is not about a party
        who, _, words = section.partition("\n")
        yield who, re.findall(r"^\* (.*(?:\n  .*)*)", words, re.MULTILINE), words


def test_every_thing_that_cannot_be_done_has_a_test():
    assert sum(len(entries) for _, entries, _ in parties()) > 20
    for who, entries, words in parties():
        assert entries or "Nothing prevents that." in words, who
        assert all(re.search(r"\(`[^)]*test[^)]*`\)$|strangers\.py`\)$", entry) for entry in entries), who


def test_every_test_that_is_cited_is_there():
    entries = [entry for _, entries, _ in parties() for entry in entries]
    cited = [name for entry in entries for name in re.findall("`([^`]+)`", entry[entry.rindex("(`") :])]
    assert len(cited) > 30
    for name in cited:
        file, _, function = name.partition("::")
        path = ROOT / file if "/" in file else Path(__file__).parent / file
        assert path.exists(), name
        assert not function or f"def {function}(" in path.read_text(), name
