"""The sections of the page as HTML: switches, tables and the boxes into which assets/page.js draws."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dualfl.experiments.compare import LEVELS
from dualfl.experiments.network import Network
from dualfl.report.markup import Markup, element, join, table
from dualfl.report.results import COUNTS, GIVEN, Curve, Move, Results, known

WORDS = {
    "round": ("Rounds", "communication rounds"),
    "exchanges": ("Exchanges", "exchanges"),
    "contacts": ("Contacts", "contacts with single clients"),
    "floats": ("Floats", "floats up and down, all clients"),
    "network": ("On a network", f"seconds on a network with {Network()}, computing left out"),
    "local_gradients": ("Local gradients", "local gradients, all clients"),
    "seconds": ("Seconds", "seconds in rounds"),
}
LARGEST = 400  # coefficients of a fit at most
MOVES = 3  # coefficients shown for every silo that is left out
NEVER = "\N{EN DASH}"
Section = tuple[str, str, Markup]  # key, title and content


class Named(NamedTuple):
    """A curve as the page calls it."""

    label: str
    curve: Curve
    results: Results


def named_curves(found: Sequence[Results]) -> list[Named]:
    """All curves, with the folder in their names where there are several."""
    several = len(found) > 1
    return [
        Named(f"{curve.name} · {one.label}" if several else curve.name, curve, one)
        for one in found
        for curve in one.curves
    ]


# -- the title --------------------------------------------------------------------------------------------


def default_title(found: Sequence[Results]) -> str:
    if len(found) > 1:
        return f"{len(found)} runs compared"
    names = [curve.name for curve in found[0].curves]
    data = setting(found[0], "dataset")
    what = title_of(names[0]) if len(names) == 1 else f"{len(names)} algorithms" if names else "Model"
    if found[0].coefficients:
        model, target = str(setting(found[0], "model") or "model"), found[0].part("data").get("target")
        words = model.partition(": ")[0]
        return f"{words[:1].upper()}{words[1:]} model of {target}" if target else f"Model {found[0].label}"
    return f"{what} on {data}" if data else f"{what}: {found[0].label}"


def title_of(name: str) -> str:
    """An algorithm's name as its paper writes it."""
    from dualfl.algorithms.registry import ALGORITHMS

    return ALGORITHMS[name].card.title if name in ALGORITHMS else name


def subtitle(found: Sequence[Results]) -> str:
    """What problem it was, if it was one problem."""
    texts = {problem(one) for one in found}
    return (
        texts.pop() if len(texts) == 1 else "; ".join(f"{one.label}: {problem(one) or 'not recorded'}" for one in found)
    )


def problem(results: Results) -> str:
    clients, ridge = setting(results, "clients"), setting(results, "ridge")
    if results.coefficients:
        data = results.part("data")
        silos = sum(name.startswith("rows of ") for name in data)
        rows = data.get("rows")
        return f"{silos} silos, {rows:,} rows" if silos and isinstance(rows, int) else ""
    words = [
        str(setting(results, "dataset") or ""),
        f"{clients} clients ({setting(results, 'partition')})" if clients is not None else "",
        f"ridge {ridge:g}" if isinstance(ridge, int | float) else "",
        f"seed {setting(results, 'seed')}" if setting(results, "seed") is not None else "",
    ]
    return ", ".join(word for word in words if word)


def setting(results: Results, name: str) -> Any:
    return results.part("settings").get(name)


# -- the sections -----------------------------------------------------------------------------------------


def make_sections(found: Sequence[Results]) -> Iterator[Section]:
    """Each section that has something to show."""
    all_curves = named_curves(found)
    curves = [each for each in all_curves if len(each.curve)]
    if len(found) == 1 and found[0].part("results"):
        yield "result", "Result", glance(found[0])
    about_model = list(model_sections(found))
    about_run = list(run_sections(found, all_curves, curves))
    if any(one.coefficients for one in found):  # whoever wanted a model looks for it first
        yield from (*about_model, *about_run)
    else:
        yield from (*about_run, *about_model)
    if any(each.curve.hyperparameters for each in all_curves):
        yield "hyperparameters", "Hyperparameters", hyperparameters(all_curves)
    yield "origin", "How it was made", origin(found)


def run_sections(found: Sequence[Results], all_curves: Sequence[Named], curves: Sequence[Named]) -> Iterator[Section]:
    """How the minimum was reached."""
    if curves:
        yield "convergence", "Convergence", convergence(found, curves)
        yield "levels", "Cost of accuracy", levels(all_curves)
    if any(known(each.curve.bound) for each in curves):
        yield "certificate", "Certificate", CERTIFICATE


def model_sections(found: Sequence[Results]) -> Iterator[Section]:
    """What was found, and in whose rows."""
    if any(one.partition for one in found):
        yield "partition", "Who holds what", partitions(found)
    if any(one.coefficients for one in found):
        yield "coefficients", "Coefficients", coefficients(found)
    if any(one.influence for one in found):
        yield "influence", "How much each silo moved the answer", influence(found)


def glance(one: Results) -> Markup:
    """The few numbers one looks for first."""
    results = one.part("results")
    energy, bound = results.get("best energy"), results.get("certificate")
    proven = bound / abs(energy) if isinstance(bound, float) and isinstance(energy, float) and energy else None
    cards = [
        ("relative error", results.get("relative error of the model"), "(E - E*)/|E*|"),
        ("proven bound of it", proven, "known without E*"),
        ("rounds", results.get("round"), {"tol": "the tolerance is reached"}.get(str(results.get("stopped")), "")),
        ("exchanges", results.get("exchanges"), ""),
        ("contacts", results.get("contacts"), "a client asked once is one"),
        ("floats", total(results.get("floats_up"), results.get("floats_down")), "up and down, all clients"),
        ("local gradients", results.get("local_gradients"), "all clients"),
        ("training accuracy", percent(results.get("training accuracy")), ""),
    ]
    shown = [
        element("div", element("dt", name), element("dd", short(value)), element("dd", note, class_="note"))
        for name, value, note in cards
        if value is not None
    ]
    return element("dl", *shown, class_="cards")


def total(*values: Any) -> Any:
    return sum(values) if all(isinstance(value, int | float) for value in values) else None


def percent(share: Any) -> str | None:
    return f"{share:.2%}" if isinstance(share, int | float) else None


def convergence(found: Sequence[Results], curves: Sequence[Named]) -> Markup:
    """The switches, the picture, and a legend that is a list of check boxes."""
    measures = {
        "error": ("Relative error", any(known(each.curve.error) for each in curves)),
        "bound": ("Proven bound", any(known(each.curve.bound) for each in curves)),
        "energy": ("Energy", any(known(each.curve.columns["energy"]) for each in curves)),
    }
    there = {key: name for key, (name, some) in measures.items() if some}
    return join(
        [
            element(
                "div",
                radios("x", "Against", {count: WORDS[count][0] for count in counted(curves)}),
                radios("y", "Show", there),
                element("label", Markup('<input type="checkbox" id="log-x">'), " log x axis", class_="check"),
                class_="controls",
            ),
            element("div", id="chart", class_="chart", tabindex=0, role="application", aria_describedby="chart-help"),
            element(
                "p",
                "Point at a curve to read it. With the keyboard: ← → go along a curve, ↑ ↓ to another one.",
                id="chart-help",
                class_="note",
            ),
            Markup('<p id="reading" class="reading" aria-live="polite"></p>'),
            *(legend(one, curves, len(found) > 1) for one in found if any(each.results is one for each in curves)),
            *(element("p", text, class_="note") for text in notes(found)),
        ]
    )


def counted(curves: Sequence[Named]) -> list[str]:
    """Those of COUNTS that some curve has."""
    return [count for count in COUNTS if any(known(each.curve.count(count)) for each in curves)]


def notes(found: Sequence[Results]) -> list[str]:
    """What the records say about the curves, once each, with those it is about unless it is about all."""
    about: dict[str, list[str]] = {}
    for one in found:
        if text := one.text_of("note"):
            about.setdefault(text, []).append(one.label)
    return [text if len(labels) == len(found) else f"{', '.join(labels)}: {text}" for text, labels in about.items()]


def radios(name: str, label: str, choices: dict[str, str]) -> Markup:
    buttons = [
        element(
            "label",
            Markup(f'<input type="radio" name="{name}" value="{key}"{" checked" if number == 0 else ""}>'),
            element("span", word),
        )
        for number, (key, word) in enumerate(choices.items())
    ]
    return element("fieldset", element("legend", label), *buttons, class_="switch")


def legend(one: Results, curves: Sequence[Named], several: bool) -> Markup:
    """A check box for each curve of a folder, with the line's own colour, dash and symbol beside it."""
    boxes = [
        element(
            "label",
            Markup(f'<input type="checkbox" class="curve" value="{number}" checked><span class="swatch"></span>'),
            element("span", each.curve.name),
            class_="check",
        )
        for number, each in enumerate(curves)
        if each.results is one
    ]
    buttons = Markup(
        '<span class="both"><button type="button" data-all="true">All</button>'
        '<button type="button" data-all="">None</button></span>'
    )
    return element("fieldset", element("legend", heading(one, several)), *boxes, buttons, class_="legend")


def heading(one: Results, several: bool) -> str:
    if title := one.text_of("title"):
        return f"{one.label}: {title}"
    return one.label if several or one.text_of("label") else "Algorithms"


def levels(curves: Sequence[Named]) -> Markup:
    """One table for each count; the switch of the picture shows one of them, and paper all."""
    ranked = sorted((each for each in curves if len(each.curve)), key=rank)
    proven = any(not known(each.curve.error) and known(each.curve.bound) for each in ranked)
    tables = [
        table(
            f"{WORDS[count][0]} until the relative error is at most",
            ["", *(element("span", f"{level:.0e}") for level in LEVELS), "last error"],
            (level_row(each, count) for each in ranked),
            data_count=count,
            class_="numbers",
        )
        for count in counted(ranked)
    ]
    note = "Best first, by exchanges." if len(ranked) > 1 else ""
    if proven:
        note += " Where E* is not known the proven bound of the error counts, marked “proven”."
    idle = [(each.label, each.curve.status) for each in curves if not len(each.curve)]
    items = [element("li", element("b", name), f" {status}") for name, status in idle]
    others = element("details", element("summary", f"{len(idle)} without a result"), element("ul", *items))
    return join([*tables, element("p", note, class_="note"), others if idle else ""])


def rank(each: Named) -> tuple[float, ...]:
    if each.curve.status != "ok":
        return (math.inf,) * (len(LEVELS) + 2)
    reached = [each.curve.reached(level, "exchanges") for level in reversed(LEVELS)]
    last = float(each.curve.measure[-1])
    return (0.0, *(math.inf if r is None else r for r in reached), math.inf if math.isnan(last) else last)


def level_row(each: Named, count: str) -> list[object]:
    curve = each.curve
    reached = [curve.reached(level, count) for level in LEVELS]
    final = float(curve.measure[-1])
    last = "" if math.isnan(final) else f"{final:.2e}"
    if curve.status != "ok":
        last = curve.status
    elif not known(curve.error):
        last += " proven" if known(curve.bound) else ""
    return [each.label, *(NEVER if r is None else short(r) for r in reached), last]


CERTIFICATE = join(
    [
        element(
            "p",
            "After each round the server knows, without E* and without seeing a row, how far its best model is "
            "from the optimum at most. Thin lines with hollow marks are this bound, thick lines the error itself.",
        ),
        element("div", id="certificate-chart", class_="chart", role="img", aria_label="Error and proven bound"),
    ]
)


def partitions(found: Sequence[Results]) -> Markup:
    shown = []
    for number, one in enumerate(found):
        if one.partition is None:
            continue
        mix = one.partition
        labels = f"{len(mix.labels)} labels, " if len(mix.labels) > 1 else ""
        words = f"{len(mix.clients)} clients, {labels}{sum(map(sum, mix.counts)):,} rows"
        if mix.heterogeneity is not None:
            words += f"; heterogeneity {mix.heterogeneity:.3f} (0: all clients alike, 1: one label each)"
        if len(found) > 1:
            words = f"{one.label}: {words}"
        shown.append(element("p", words))
        shown.append(
            element(
                "div", class_="chart heat", role="img", aria_label=f"Rows of each label, {words}", data_partition=number
            )
        )
        if len(mix.clients) <= 64 and len(mix.labels) <= 64:
            rows = ([client, *counts] for client, counts in zip(mix.clients, mix.counts))
            counted = table("Rows of each label", ["client", *mix.labels], rows, class_="numbers")
            shown.append(element("details", element("summary", "The numbers"), counted))
    return join(shown)


def coefficients(found: Sequence[Results]) -> Markup:
    shown = []
    for number, one in enumerate(found):
        if not one.coefficients:
            continue
        if len(found) > 1:
            shown.append(element("h3", one.label))
        classes = list(dict.fromkeys(each.label for each in one.coefficients))
        if len(classes) > 1:
            options = [element("option", name, value=place) for place, name in enumerate(classes)]
            choice = element("select", *options, data_fit=number)
            shown.append(element("label", "Class ", choice, class_="check"))
        shown.append(
            element(
                "div",
                class_="chart forest",
                role="img",
                aria_label="Coefficients with intervals",
                data_coefficients=number,
            )
        )
        largest = sorted(one.coefficients, key=lambda each: -abs(each.value))[:LARGEST]
        some = f", the {LARGEST} largest of {len(one.coefficients):,}" if len(one.coefficients) > LARGEST else ""
        with_class = len(classes) > 1
        rows = (
            [
                each.feature,
                *([each.label] if with_class else []),
                *map(short, (each.value, each.error, each.low, each.high)),
            ]
            for each in largest
        )
        head = ["feature", *(["class"] if with_class else []), "coefficient", "standard error", "low", "high"]
        shown.append(
            element(
                "details",
                element("summary", f"The numbers{some}"),
                table(f"Coefficients{some}", head, rows, class_="numbers"),
            )
        )
    return join(shown)


def influence(found: Sequence[Results]) -> Markup:
    """For every silo the coefficients that would go farthest without it."""
    shown = [element("p", "What would change most if a silo were left out and the model fitted again.")]
    for one in found:
        if not one.influence:
            continue
        if len(found) > 1:
            shown.append(element("h3", one.label))
        rows = []
        for silo in dict.fromkeys(move.silo for move in one.influence):
            moves = [move for move in one.influence if move.silo == silo and not math.isnan(move.change)]
            if not moves:
                rows.append([silo, "no model without it", "", ""])
            for move in sorted(moves, key=lambda move: -farness(move))[:MOVES]:
                name = f"{move.feature} ({move.label})" if move.label else move.feature
                rows.append([silo, name, short(move.change), short(move.in_errors)])
        shown.append(table("Changes", ["silo", "coefficient", "change", "in standard errors"], rows, class_="numbers"))
    return join(shown)


def farness(move: Move) -> float:
    return abs(move.change if math.isnan(move.in_errors) else move.in_errors)


def hyperparameters(curves: Sequence[Named]) -> Markup:
    """Every hyperparameter that has a value, with its formula where theory chose it."""
    rows = []
    for each in curves:
        formulas = theory_of(str(each.results.part("algorithm").get("algorithm", each.curve.name)))
        values, sources = each.curve.hyperparameters, each.curve.sources
        words = {key: GIVEN if sources.get(key) == GIVEN else formulas.get(key, "") for key in sources}
        pairs = [pair(key, value, words.get(key, "")) for key, value in values.items() if value is not None]
        rows.append([each.label, join(pairs, " ")])
    caption = "In brackets: that a value was given, or the formula by which theory chose it"
    rest = "What is not listed has its default, which `dualfl algorithms NAME` shows."
    note = [element("p", rest, class_="note")] if any(only_given(each.curve) for each in curves) else []
    return join([table(caption, ["", "hyperparameters"], rows), *note])


def only_given(curve: Curve) -> bool:
    """Whether the list has what was given, and not what theory added to it."""
    return bool(curve.hyperparameters) and all(curve.sources.get(key) == GIVEN for key in curve.hyperparameters)


def pair(key: str, value: Any, origin: str) -> Markup:
    source = [" ", element("small", f"({origin})")] if origin else []
    return element("span", f"{key} = ", element("b", short(value)), *source, class_="pair")


def theory_of(name: str) -> dict[str, str]:
    """The formulas by which this version chooses hyperparameters of that algorithm."""
    from dualfl.algorithms.registry import ALGORITHMS

    known_as = name if name in ALGORITHMS else name.rpartition("-")[0]  # compare numbers those that occur twice
    if known_as not in ALGORITHMS:
        return {}
    fields = dataclasses.fields(ALGORITHMS[known_as])
    return {each.name: str(each.metadata["formula"]) for each in fields if "formula" in each.metadata}


def origin(found: Sequence[Results]) -> Markup:
    """Commands to repeat it all, then settings and versions, side by side for several runs."""
    commands = [command_of(one, len(found) > 1) for one in found]
    parts = {"Settings": "settings", "Data": "data", "Constants": "constants", "Versions and machine": "environment"}
    tables = [facts(found, caption, key) for caption, key in parts.items()]
    boxes = [each for each in tables if each]
    return join([*commands, element("div", *boxes, class_="facts" if len(found) == 1 else None)])


def command_of(one: Results, several: bool) -> Markup:
    label = element("p", one.label, class_="note") if several else Markup("")
    command = one.record.get("command")
    if command is None:
        return join([label, element("p", "The command was not recorded.")])
    button = Markup('<button type="button" class="copy">Copy</button>')
    return join([label, element("div", element("pre", element("code", command)), button, class_="command")])


def facts(found: Sequence[Results], caption: str, key: str) -> Markup | None:
    """One part of the records as a table, a column a run; None if it says nothing."""
    maps = [one.part(key) for one in found]
    names = dict.fromkeys(name for each in maps for name in each)
    rows = [[name, *(short(each.get(name)) for each in maps)] for name in names]
    told = [highlighted(row) for row in rows if any(row[1:])]
    head = ["", *(one.label for one in found)] if len(found) > 1 else []
    return table(caption, head, told) if told else None


def highlighted(row: list[str]) -> list[object]:
    """A row of settings; values that differ between runs stand out."""
    name, *values = row
    differ = len(set(filter(None, values))) > 1
    return [name, *(element("strong", value) if differ else value for value in values)]


def short(value: Any) -> str:
    """A value for a person: four digits of a number, no more."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e7):
        return f"{int(value):,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {short(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(short, value))
    return str(value)
