"""Every Python block of the README, of CONTRIBUTING and of every page in docs/ runs, page by page and in order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)  # what a snippet writes is not for the repository
    names = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        above = text.count("\n", 0, block.start(1))  # so that a traceback shows the line of the page
        exec(compile("\n" * above + block.group(1), page.name, "exec"), names)
    assert text.count("```python") == len(BLOCK.findall(text)), "a block that does not end was left out"


def test_there_are_pages():
    assert PAGES
