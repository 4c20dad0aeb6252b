"""The card of a model: what it is, on what it was fitted, by whom, how good it is at each silo, and its limits."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dualfl.version import __version__

CARD = "card.md"
FEW, APART = 10, 1.5  # rows of the rarest outcome for each coefficient; how much worse than the whole a silo may be
SCORES = {"accuracy": "accuracy", "r2": "R2", "concordance": "concordance"}


def author() -> str:
    """Whoever is logged in; nobody where the system does not say."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def card(record: Mapping[str, Any], rules: Mapping[str, Any]) -> str:
    """Markdown, from fit.json; `rules` are those that new files are read by."""
    data, lines = record["data"], record.get("side by side") or []
    parts = [
        f"# {capital(str(record['settings']['model']).partition(': ')[2])}: {data['target']}",
        paragraph(made(record)),
        "## What it is",
        bullets(f"{name}: {text}" for name, text in (record.get("fitted") or {}).items()),
        "## On what",
        bullets(data_lines(record, rules)),
        "## How good it is",
        quality(lines, record),
        "## Limits",
        bullets(limits(record, lines)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def made(record: Mapping[str, Any]) -> Iterator[str]:
    who = author()
    yield f"Fitted by {who or 'nobody named'} on {datetime.now(UTC):%Y-%m-%d} with dualfl {__version__}."
    yield f"Command: `{str(record['command']).replace('`', '')}`."


def data_lines(record: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[str]:
    data = record["data"]
    yield f"columns: {', '.join(data['columns']) or 'without names'}"
    if data.get("left out, constant"):
        yield f"left out, because they say the same everywhere: {', '.join(data['left out, constant'])}"
    yield f"missing values: {record['settings'].get('missing values', '')}"
    if rules:
        yield "files are read by these rules: " + "; ".join(f"{name} = {value}" for name, value in rules.items())
    for warning in data.get("warnings") or ():
        yield f"warning: {warning}"


def quality(lines: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> str:
    """On the rows that it was fitted to; what a silo withholds is said."""
    if not lines:
        return ""
    names = [name for name in lines[-1] if name != "silo"]
    head = ["silo", *(SCORES.get(name, name) for name in names)]
    rows = [[str(line.get("silo", "")), *(cell(line.get(name)) for name in names)] for line in lines]
    table = [f"| {' | '.join(row)} |" for row in (head, ["---", *["---:"] * len(names)], *rows)]
    areas = [f"{one.get('class')} {one.get('auc'):.4f}" for one in record.get("curves") or () if one.get("auc")]
    said = "These are the rows that it was fitted to; `dualfl evaluate` says how good it is on others."
    return "\n".join(table) + f"\n\n{said}" + (f" Area under the ROC curve: {', '.join(areas)}." if areas else "")


def cell(value: Any) -> str:
    if value is None:
        return "withheld"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def limits(record: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the numbers of the fit warn of, and what no fit can know."""
    results, settings = record["results"], record["settings"]
    if results.get("certificate") is None:
        yield f"there is no proof that it is the best model: {results.get('no certificate because') or 'none was kept'}"
    else:
        yield f"its objective is proven to be within {results['certificate']:.1e} of the best one"
    if str(settings.get("standard errors", "")).startswith("none: "):
        yield f"there are no standard errors: {settings['standard errors'][6:]}"
    whole = lines[-1] if lines else {}
    events = whole.get("events")
    if isinstance(events, int):
        rarest = min(events, whole["rows"] - events)
        count = record.get("coefficients")
        if isinstance(count, int) and rarest < FEW * count:
            yield f"{rarest:,} rows of the rarer outcome for {count:,} coefficients are few"
    for line in lines[:-1]:
        loss, all_ = line.get("loss"), whole.get("loss")
        if isinstance(loss, float) and isinstance(all_, float) and loss > APART * all_ > 0:
            yield f"at {line['silo']} its loss is {loss / all_:.1f} times that of all rows"
    hidden = [str(line["silo"]) for line in lines[:-1] if line.get("rows") is None]
    if hidden:
        yield f"how good it is at {', '.join(hidden)} is not known here: they withhold their own numbers"
    yield "a coefficient tells what goes together in these silos, and not what causes what"
    yield "on rows of other silos, other years or other ways to measure it is untested"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def bullets(lines: Iterator[str] | Any) -> str:
    return "\n".join(f"* {line}" for line in lines)


def paragraph(sentences: Iterator[str]) -> str:
    return " ".join(sentences)
