"""The colours of all pictures and pages, and who has which: an algorithm looks the same wherever it is drawn.

The first seven are Okabe and Ito's palette without its yellow, which is too light on paper; the others are as dark, and
told apart from them by colour-blind readers, too. More than a dozen algorithms share colours, and differ by line and
marker. An algorithm of a plugin has a style of its own by its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MORE = ("#882255", "#332288", "#8A8A1C", "#8C5A2B", "#5F6B73")
# What is hard to see on a dark ground, and what is there instead.
DARK = {
    "#000000": "#f2f2f2",
    "#0072B2": "#3f9bd8",
    "#882255": "#d1669f",
    "#332288": "#8f83f0",
    "#8A8A1C": "#b9b93a",
    "#8C5A2B": "#c08f60",
    "#5F6B73": "#9aa6ae",
}
LINES, MARKERS = 5, 7  # kinds of lines and markers that pictures and pages have

# The first dozen is what is most often seen together. Names are only ever added, at the end.
ORDER = (
    "fedpd", "dualfl", "feddualavg", "feddyn", "feddr", "scaffnew", "apda-inexact", "auto", "sketched-newton",
    "lbfgs", "disco", "fedavg", "fista-dual", "nesterov", "bundle", "cocoa", "dane", "giant", "scaffold", "fedprox",
    "apda", "fedipm", "gd", "prox-newton", "apcg-dual", "dualfl-recentred", "one-shot", "aide", "s-dane",
    "acc-s-dane", "fedred", "extragradient", "svrp", "catalyzed-svrp", "accsvrs", "fednl", "shed", "fedns", "fedpm",
    "fednew", "fedsplit", "gradskip", "randprox", "proxskip-vr", "tamuna", "compressed-scaffnew", "locodl", "5gcs",
    "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedexp", "fedac", "fedcm", "fedsam", "fedlin", "fedosaa",
    "s-local-svrg", "local-secants",
)  # fmt: skip


class Style(NamedTuple):
    """How a curve looks: its colour on paper and on a dark ground, and which line and marker."""

    colour: str
    dark: str
    line: int
    marker: int


def algorithm_in(label: str) -> str:
    """The algorithm that a label names: `dualfl, rho = 1` and `DualFL · run-2` are both dualfl."""
    return re.split(r"[\s,:(·]", label.strip().lower(), maxsplit=1)[0]


def style_of(label: str, turn: int = 0) -> Style:
    """The style of an algorithm; `turn`: another line and marker, where it is drawn several times."""
    name = algorithm_in(label)
    if name in ORDER:
        number = ORDER.index(name)
    else:
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return numbered(number, turn)


def numbered(number: int, turn: int = 0) -> Style:
    palette = COLOURS + MORE
    colour, row = palette[number % len(palette)], number // len(palette) + turn
    return Style(colour, DARK.get(colour, colour), row % LINES, (number + row) % MARKERS)


def styles(labels: Sequence[str]) -> list[Style]:
    """One for each curve of a picture: the algorithm's. Runs of one algorithm alone, or of none, have a colour each."""
    names = [algorithm_in(label) for label in labels]
    known = [name in ORDER for name in names]
    if len(names) > 1 and (len(set(names)) == 1 or not any(known)):
        return [numbered(n) for n in range(len(names))]
    return [style_of(name, names[:n].count(name)) for n, name in enumerate(names)]
