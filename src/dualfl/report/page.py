"""The page of one or several runs: one HTML file with everything in it, to be opened from disk.

Tables are written here, as HTML that prints and reads without scripts; pictures are drawn by assets/page.js with
plotly.js, which is part of the file. The page's own security policy forbids every request and every script but these.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from dualfl.colours import COLOURS, DARK, Style, styles
from dualfl.errors import InputError
from dualfl.files import write_atomically
from dualfl.outputs import check_file
from dualfl.report.figure import CEILING, FLOOR
from dualfl.report.markup import Markup, element, join
from dualfl.report.model_sections import LARGEST, by_size
from dualfl.report.results import COUNTS, REPORT, Results, read_all
from dualfl.report.sections import WORDS, Named, Section, default_title, make_sections, named_curves, subtitle
from dualfl.tables.schema import INTERCEPT
from dualfl.typing import AnyArray
from dualfl.version import __version__

DASHES = ("solid", "dash", "dashdot", "longdashdot", "dot")  # as LINES
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")  # as MARKERS
POINTS = 600  # of a curve at most; what is between them nobody could see


def write_page(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    title: str = "",
    any_version: bool = False,
    first: Sequence[Section] = (),
) -> Path:
    """Make the page of these folders, at `out` or as report.html in the only folder; its path. `first` comes first."""
    if out is None:
        out = folders[0] / REPORT if len(folders) == 1 else Path(REPORT)
    check_file(out, force=True)
    if out.exists():
        with open(out, "rb") as file:
            if b'content="dualfl ' not in file.read(4000):
                raise InputError(f"{out} is not a page of dualfl, and it would be lost; give another --out.")
    found = read_all(folders, any_version=any_version)
    try:
        content = page(found, title, first)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A record that somebody has edited can hold anything in the place of a number.
        names = ", ".join(map(str, folders))
        raise InputError(f"The records in {names} are not as they were written ({error!r}); make them anew.") from error
    write_atomically(out, content.encode())
    return out


def page(found: Sequence[Results], title: str = "", first: Sequence[Section] = ()) -> str:
    """The whole file."""
    from plotly.offline import get_plotlyjs

    asset = resources.files("dualfl.report") / "assets"
    style, script, frame = ((asset / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js", "html"))
    library = get_plotlyjs()
    sections = [*first, *make_sections(found)]
    values = {
        "title": join([title or default_title(found)]),
        "subtitle": join([subtitle(found)]),
        "contents": join(element("a", name, href=f"#{key}") for key, name, _ in sections),
        "body": join((section(*each) for each in sections), "\n"),
        "version": __version__,
        "policy": policy(library, script),
        "style": style,
        "script": script,
        "library": library,
        "data": safe_json(figure_data(found)),
    }
    return Template(frame).substitute(values)


def policy(*scripts: str) -> str:
    """Nothing may be fetched, and no script may run but these."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def safe_json(content: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def section(key: str, name: str, content: Markup) -> Markup:
    return element("section", element("h2", name, id=f"{key}-title"), content, id=key, aria_labelledby=f"{key}-title")


# -- what the script draws --------------------------------------------------------------------------------


def figure_data(found: Sequence[Results]) -> dict[str, Any]:
    """All numbers of the pictures."""
    curves = [each for each in named_curves(found) if len(each.curve)]
    return {
        "words": {key: label for key, (_, label) in WORDS.items()},
        "colours": [[colour, DARK.get(colour, colour)] for colour in COLOURS],
        "curves": [curve_data(each, look) for each, look in zip(curves, styles([each.label for each in curves]))],
        "partitions": [partition_data(one) for one in found],
        "fits": [fit_data(one) for one in found],
        "scores": [[score_data(each) for each in one.parts("curves")] for one in found],
        "paths": [path_data(one) for one in found],
    }


def curve_data(each: Named, look: Style) -> dict[str, Any]:
    curve = each.curve
    some = thinned(len(curve))
    return {
        "label": each.label,
        "colour": [look.colour, look.dark],
        "dash": DASHES[look.line],
        "symbol": SYMBOLS[look.marker],
        "x": {count: numbers(curve.count(count)[some], 6) for count in COUNTS},
        "y": {
            "error": numbers(np.clip(curve.error, FLOOR, CEILING)[some], 5),
            "bound": numbers(np.clip(curve.bound, FLOOR, CEILING)[some], 5),
            "energy": numbers(curve.columns["energy"][some], 12),
        },
    }


def thinned(length: int) -> AnyArray:
    """Which points to draw: all of a short curve, else many at its begin and evenly many after it, and the last."""
    if length <= POINTS:
        return np.arange(length)
    early = np.geomspace(1, length, POINTS // 3) - 1
    return np.unique(np.concatenate([early, np.linspace(0, length - 1, POINTS - POINTS // 3)]).round().astype(int))


def numbers(values: Iterable[Any], digits: int) -> list[float | None]:
    """As JSON takes them: null for what is not finite, or no number, as in a file that somebody has edited."""
    known = (value if isinstance(value, int | float | np.number) else math.nan for value in values)
    rounded = (float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in known)
    return [
        int(value) if value is not None and value.is_integer() and abs(value) < 2**53 else value for value in rounded
    ]


def partition_data(one: Results) -> dict[str, Any] | None:
    mix = one.partition
    return None if mix is None else {"clients": mix.clients, "labels": mix.labels, "counts": mix.counts}


def fit_data(one: Results) -> list[dict[str, Any]]:
    """For each class its coefficients without the intercept, largest first, each with the spread of its column."""
    groups: dict[str, list[Any]] = {}
    for each in by_size(one.coefficients, one.spread):
        groups.setdefault(each.label, []).extend([each] if each.feature != INTERCEPT else [])
    labels = dict.fromkeys(each.label for each in one.coefficients)  # as the list of classes on the page has them
    return [
        {
            "class": label,
            "rows": [
                [c.feature, *numbers([np.nan if v is None else v for v in (c.value, c.low, c.high)], 6)]
                + numbers([one.spread.get(c.feature, 1.0)], 6)
                for c in groups[label][:LARGEST]
            ],
        }
        for label in labels
    ]


def score_data(each: dict[str, Any]) -> dict[str, Any]:
    """Of one class the ROC curve and, where there are probabilities, the calibration."""
    names = ("false positives", "true positives", "predicted", "observed", "rows")
    return {"class": str(each.get("class"))} | {name: numbers(each.get(name, []), 5) for name in names}


def path_data(one: Results) -> dict[str, Any]:
    """What cross-validation tried."""
    columns = ("alpha", "loss", "error")
    found: dict[str, Any] = {name: numbers([getattr(each, name) for each in one.tried], 6) for name in columns}
    return found | {"chosen": next((place for place, each in enumerate(one.tried) if each.chosen), None)}
