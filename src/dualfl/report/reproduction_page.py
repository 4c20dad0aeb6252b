"""The page of a reproduced experiment: the paper's claims and the figure first, then its curves as of a comparison."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dualfl.engines.history import Row
from dualfl.experiments.cells import Cell, Outcome
from dualfl.experiments.claims import Verdict
from dualfl.experiments.figure1 import RANDOM, Panel
from dualfl.experiments.store import Store
from dualfl.files import write_atomically
from dualfl.report.folder import environment
from dualfl.report.markup import Markup, element, join, table
from dualfl.report.reproduction import write_csv
from dualfl.report.results import HISTORY, REPORT, SUMMARY
from dualfl.report.sections import Section

CURVES = "curves"
SEED = "What is random was run once, with seed 0."


class Part(NamedTuple):
    """A panel or a row: the name of its folder, what the page calls it, and the outcomes to draw by their labels."""

    name: str
    label: str
    outcomes: Mapping[str, Outcome]
    title: str = ""
    note: str = ""


class Picture(NamedTuple):
    """What was drawn: an SVG file of the experiment's folder."""

    name: str
    file: str
    words: str = ""


FIGURE1 = Picture(
    "Figure 1",
    "figure1.svg",
    "Where there are several seeds, the line is their median and the band goes from the lowest to the highest. What is "
    "exchanged before the first round counts here as a round, as it does below against exchanges.",
)
EXCHANGES = Picture("Exchanges", "exchanges.svg")


def write_report(
    folder: Path,
    parts: Sequence[Part],
    command: str,
    title: str,
    picture: Picture,
    verdicts: Sequence[Verdict] = (),
    notes: Sequence[str] = (),
) -> Path:
    """The page, and for each part a folder of which `dualfl report` makes one again."""
    from dualfl.report.page import write_page

    folders = {folder / CURVES / part.name.replace("/", "-"): part for part in parts if part.outcomes}
    for path, part in folders.items():
        write_curves(path, part, command)
    first = [verdict_section(verdicts)] if verdicts else []
    first.append(picture_section(picture, folder / picture.file, notes))
    return write_page(list(folders), folder / REPORT, title=title, first=first)


def write_curves(folder: Path, part: Part, command: str) -> None:
    """The files that a comparison leaves: one name a curve."""
    rows: list[list[Any]] = [["name", *Row._fields]]
    about: list[list[Any]] = [["name", "hyperparameters", "given", "status"]]
    for label, outcome in part.outcomes.items():
        given = dict(outcome.cell.hyperparameters)  # what theory adds to them is not kept
        about.append([label, json.dumps(given), " ".join(given), outcome.status])
        for n in range(len(outcome.errors)):
            known = {column: values[n] for column, values in outcome.columns.items()}
            rows.append([label, *(known.get(column, "") for column in Row._fields)])
    write_csv(folder / HISTORY, rows)
    write_csv(folder / SUMMARY, about)
    told = {"label": part.label, "title": part.title, "note": part.note}
    record = {"command": command, **told, "environment": environment()}
    write_atomically(folder / "reproduce.json", (json.dumps(record, indent=2) + "\n").encode())


# -- a panel of Figure 1 ----------------------------------------------------------------------------------


def panel_part(panel: Panel, lines: Mapping[str, Sequence[Cell]], store: Store) -> Part:
    """A panel by its letter and its title; of several seeds the first."""
    outcomes = {label: store[cells[0]] for label, cells in lines.items()}
    label = f"{panel.dataset} ({panel.letter})"  # as verdicts call it
    return Part(f"{panel.dataset}-{panel.name}", label, outcomes, panel.title, seed_note(lines))


def seed_note(lines: Mapping[str, Sequence[Cell]]) -> str:
    """Which seed is shown of what is random."""
    found = []
    for label, (first, *others) in lines.items():
        if others:
            found.append(f"{label} is random: shown is seed {first.seed}, one of {len(others) + 1} that were run.")
        elif first.algorithm in RANDOM:
            found.append(f"{label} is random: it was run with seed {first.seed} only.")
    return " ".join(found)


# -- what the page says first -----------------------------------------------------------------------------


def verdict_section(verdicts: Sequence[Verdict]) -> Section:
    """Every claim with its verdict and what was measured."""
    counts = f"{sum(v.holds is True for v in verdicts)} of {len(verdicts)} hold"
    rows = [[v.panel, v.claim, element("span", v.word, class_="word"), v.sentence] for v in verdicts]
    caption = f"What the paper says of its figure, and what was measured here; {counts}"
    return "claims", "The paper's claims", table(caption, ["panel", "claim", "verdict", "measured"], rows)


def picture_section(picture: Picture, svg: Path, notes: Sequence[str]) -> Section:
    """The picture as an image, so that its styles and names stay its own, and what a reader should know."""
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg.read_bytes()).decode()}"
    words = f"{picture.name}; its numbers are in the tables of this page"
    image = Markup(element("img", src=source, alt=words, class_="picture").removesuffix("</img>"))
    texts = [element("p", text, class_="note") for text in (picture.words, *notes) if text]
    return "figure", picture.name, join([image, *texts])
