"""Pages are read in the repository too, where they link to files beside docs/. On the site such a link leads to the
page that shows the file, if there is one. Any other file is offered as a download, and a folder is named.

A page may be a file of the repository: `<!-- the file ../README.md -->` stands for all of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PAGES = {  # a file of the repository, and the page that shows it
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
WHOLE = re.compile(r"<!-- the file \.\./(\S+) -->")
OWN = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")  # a link as it stands in a file of the root
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?:\.\./)+([^)#\s]+)(#[^)\s]*)?\)")


def whole(found: re.Match[str]) -> str:
    """The file, with its links as a page of docs/ would have them."""
    text = (ROOT / found[1]).read_text(encoding="utf-8")
    return OWN.sub(lambda link: f"]({link[1][5:] if link[1].startswith('docs/') else '../' + link[1]})", text)


def rewritten(found: re.Match[str], up: str) -> str:
    """The link as the site has it; `up` leads from the page to docs/."""
    words, target, place = found[1], found[2], found[3] or ""
    if target in PAGES:
        return f"[{words}]({up}{PAGES[target]}{place})"
    if (ROOT / target).is_file():
        return f"{{download}}`{words} <{up}../{target}>`"
    if (ROOT / target).is_dir():
        return f"{words} (`{target}`)"
    return found[0]


def read(app: Sphinx, name: str, source: list[str]) -> None:
    if app.env.doc2path(name, base=False).suffix != ".md":
        return
    for found in WHOLE.finditer(source[0]):
        app.env.note_dependency(str(ROOT / found[1]), docname=name)
    up = "../" * name.count("/")
    source[0] = LINK.sub(lambda found: rewritten(found, up), WHOLE.sub(whole, source[0]))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
