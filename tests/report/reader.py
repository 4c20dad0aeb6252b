"""What a page says, without a browser."""

import re
from html.parser import HTMLParser

SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class Reader(HTMLParser):
    """Elements with their attributes, and the rows of tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.text, self._cell = [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._cell = tag in ("td", "th") or (self._cell and tag in ("span", "b", "small", "strong"))

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data):
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data


def without_library(text):
    """The page but for plotly.js, which is five megabytes and not ours."""
    longest = max(SCRIPT.findall(text), key=len)
    return text.replace(longest, "")
