"""The sections of the page as HTML: switches, tables and the boxes into which assets/page.js draws."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dualfl.experiments.compare import level_text, levels_to
from dualfl.experiments.network import Network
from dualfl.report.markup import Markup, cards, element, folded, join, radios, short, table
from dualfl.report.model_sections import model_sections
from dualfl.report.results import COUNTS, GIVEN, Curve, Results, known

WORDS = {
    "round": ("Rounds", "communication rounds"),
    "exchanges": ("Exchanges", "exchanges"),
    "contacts": ("Contacts", "contacts with single clients"),
    "floats": ("Floats", "floats up and down, all clients"),
    "network": ("On a network", f"seconds on a network with {Network()}, computing left out"),
    "local_gradients": ("Local gradients", "local gradients, all clients"),
    "seconds": ("Seconds", "seconds in rounds"),
}
SPENT = ("exchanges", "numbers")
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
    ridge, held = setting(results, "ridge"), results.part("data").get("rows of each client")
    clients = len(held) if isinstance(held, list) else setting(results, "clients")
    if results.coefficients:
        data = results.part("data")
        names = data.get("silos")
        silos = len(names) if isinstance(names, list) else sum(name.startswith("rows of ") for name in data)
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
    curves = named_curves(found)
    held = partitions(found)
    partition = [("partition", "Who holds what", held)] if held else []
    made = "origin", "How it was made", origin(found)
    if wants_model(found):
        yield from model_sections(found)
        yield made
        details = [folded(name, content, id=key) for key, name, content in (*partition, *run_sections(found, curves))]
        yield "way", "How the minimum was reached", join([*way(found), *details])
        return
    if len(found) == 1 and found[0].part("results"):
        yield "result", "Result", glance(found[0])
    about_run = list(run_sections(found, curves))
    settings = [section for section in about_run if section[0] == "hyperparameters"]
    yield from (section for section in about_run if section not in settings)
    yield from (*partition, *model_sections(found), *settings, made)


def wants_model(found: Sequence[Results]) -> bool:
    """Whoever has fitted a model looks for it first; who lays runs of several algorithms side by side does not."""
    return any(one.is_fit and (len(found) == 1 or one.parts("spent")) for one in found)


def run_sections(found: Sequence[Results], all_curves: Sequence[Named]) -> Iterator[Section]:
    """How the minimum was reached."""
    curves = [each for each in all_curves if len(each.curve)]
    if curves:
        yield "convergence", "Convergence", convergence(found, curves)
        yield "levels", "Cost of accuracy", levels(all_curves)
    if any(known(each.curve.bound) for each in curves):
        yield "certificate", "Certificate", CERTIFICATE
    if any(each.curve.hyperparameters for each in all_curves):
        yield "hyperparameters", "Hyperparameters", hyperparameters(all_curves)


def way(found: Sequence[Results]) -> Iterator[Markup]:
    """All that travelled for a fit, by its purpose: the curves below are of the last fit alone."""
    for one in found:
        spent = one.parts("spent")
        if not spent:
            continue
        rows = [[line.get("for"), *(short(line.get(name)) for name in SPENT)] for line in spent]
        sums = [total(*(line.get(name) for line in spent)) for name in SPENT]
        caption = "All that silos and server sent" + (f", {one.label}" if len(found) > 1 else "")
        yield table(caption, ["for", *SPENT], [*rows, ["in all", *map(short, sums)]], class_="numbers")
        own = one.part("results").get("of the algorithm alone")
        if isinstance(own, dict):
            exchanges, numbers = (short(own.get(name)) for name in SPENT)
            yield element(
                "p",
                f"The curves below, and history.csv, count the rounds of the algorithm alone: {exchanges} of these "
                f"exchanges, and {numbers} numbers.",
            )


def glance(one: Results) -> Markup:
    """The few numbers one looks for first."""
    results = one.part("results")
    energy, bound = results.get("best energy"), results.get("certificate")
    proven = bound / abs(energy) if isinstance(bound, float) and isinstance(energy, float) and energy else None
    return cards(
        [
            ("relative error", results.get("relative error of the model"), "(E - E*)/|E*|"),
            ("proven bound of it", proven, "known without E*"),
            ("rounds", results.get("round"), {"tol": "the tolerance is reached"}.get(str(results.get("stopped")), "")),
            ("exchanges", results.get("exchanges"), ""),
            ("contacts", results.get("contacts"), "a client asked once is one"),
            ("floats", total(results.get("floats_up"), results.get("floats_down")), "up and down, all clients"),
            ("local gradients", results.get("local_gradients"), "all clients"),
            ("training accuracy", percent(results.get("training accuracy")), ""),
        ]
    )


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
    wanted = levels_to(tolerance(curves))
    ranked = sorted((each for each in curves if len(each.curve)), key=lambda each: rank(each, wanted))
    proven = any(not known(each.curve.error) and known(each.curve.bound) for each in ranked)
    tables = [
        table(
            f"{WORDS[count][0]} until the relative error is at most",
            ["", *(element("span", level_text(level)) for level in wanted), "last error"],
            (level_row(each, count, wanted) for each in ranked),
            data_count=count,
            class_="numbers",
        )
        for count in counted(ranked)
    ]
    note = "Best first, by exchanges." if len(ranked) > 1 else ""
    if any(each.results.part("settings").get("seeds", 1) != 1 for each in ranked):
        note += " Where several seeds ran, this is the one in the middle."
    if proven:
        note += " Where E* is not known the proven bound of the error counts, marked “proven”."
    idle = [(each.label, each.curve.status) for each in curves if not len(each.curve)]
    items = [element("li", element("b", name), f" {status}") for name, status in idle]
    others = element("details", element("summary", f"{len(idle)} without a result"), element("ul", *items))
    return join([*tables, element("p", note, class_="note"), others if idle else ""])


def tolerance(curves: Sequence[Named]) -> float | None:
    """The relative error at which the runs of comparisons end; None if some have none."""
    settings = [each.results.part("settings") for each in curves]
    tols = [one["tol"] for one in settings if "seeds" in one and isinstance(one.get("tol"), float)]
    return min(tols) if tols and len(tols) == len(curves) else None


def rank(each: Named, levels: Sequence[float]) -> tuple[float, ...]:
    if each.curve.status != "ok":
        return (math.inf,) * (len(levels) + 2)
    reached = [each.curve.reached(level, "exchanges") for level in reversed(levels)]
    last = float(each.curve.measure[-1])
    return (0.0, *(math.inf if r is None else r for r in reached), math.inf if math.isnan(last) else last)


def level_row(each: Named, count: str, levels: Sequence[float]) -> list[object]:
    curve = each.curve
    reached = [curve.reached(level, count) for level in levels]
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
        if one.partition is None or not one.partition.clients:  # all silos of a fit may withhold it
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
