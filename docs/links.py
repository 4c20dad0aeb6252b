"""Checks the links of the site: `python docs/links.py build/site`.

Every link inside the site must lead to a page, and to a place on it that exists. External links are not followed, since
the check needs no network; they are listed in its external-links.txt. Then the five things that a stranger wants must
be at most three clicks from the front page, and nothing may be loaded from elsewhere.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

CLICKS = 3
TASKS = {  # what somebody wants to do, and where the page says how
    "fit three files": "fit.html",
    "add an algorithm": "contributing.html#an-algorithm",
    "read a certificate": "certificates.html#how-to-read-one",
    "start a silo": "deployment.html#three-organisations-step-by-step",
    "cite it": "cite.html",
}
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


class Page(HTMLParser):
    """The links of a page, its places, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.places |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"] or "")
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") not in ("canonical", "author"):
            self.loaded.add(given[LOADED[tag]] or "")


def external(link: str) -> bool:
    return bool(urlsplit(link).scheme or urlsplit(link).netloc)


def broken(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Links that lead nowhere, and what would have to be fetched from elsewhere."""
    wrong = []
    for path, page in pages.items():
        here = path.relative_to(site)
        wrong += [f"{here}: loads {each}" for each in sorted(page.loaded) if external(each)]
        for link in sorted(page.links | page.loaded):
            if external(link):
                continue
            file, place = urldefrag(link)
            target = (path.parent / unquote(urlsplit(file).path)).resolve() if file else path
            if not target.exists():
                wrong.append(f"{here}: {link} is not there")
            elif place and target in pages and unquote(place) not in pages[target].places | {"top"}:
                wrong.append(f"{here}: {link} names a place that is not there")
    return wrong


def clicks(site: Path, pages: dict[Path, Page], goal: str) -> int | None:
    """From the front page to a page; the place on it is a click of its own only if no link names it."""
    wanted, place = urldefrag(goal)
    target, seen, now = (site / wanted).resolve(), {(site / "index.html").resolve()}, {(site / "index.html").resolve()}
    if target not in pages or (place and place not in pages[target].places):
        return None
    for count in range(1, 10):
        reached = {
            (path.parent / urldefrag(link)[0]).resolve()
            for path in now
            for link in pages[path].links
            if not external(link) and urldefrag(link)[0]
        }
        if target in reached:
            return count
        now = (reached & set(pages)) - seen
        seen |= now
    return None


def main(site: Path) -> int:
    files = [path.resolve() for path in site.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    wrong = broken(site.resolve(), pages)
    for line in wrong:
        print(line)
    listed = sorted({link for page in pages.values() for link in page.links if external(link)})
    (site / "external-links.txt").write_text("\n".join(listed) + "\n", encoding="utf-8")
    inside = sum(not external(link) for page in pages.values() for link in page.links)
    print(f"{len(pages)} pages, {inside} links inside, {len(wrong)} broken; {len(listed)} external links listed.")
    far = 0
    for task, goal in TASKS.items():
        count = clicks(site, pages, goal)
        print(f"{task}: {goal}, {'not reached' if count is None else f'{count} clicks'}")
        far += count is None or count > CLICKS
    return 1 if wrong or far else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
