"""The sections about a model, for the person who wanted it: what it is made of, what it says, how good it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dualfl.report.markup import Markup, cards, element, folded, join, radios, short, table
from dualfl.report.results import Coefficient, Move, Results
from dualfl.tables.schema import INTERCEPT

LARGEST = 400  # coefficients of a fit at most
MOVES = 3  # coefficients shown for every silo that is left out
WITHHELD = "withheld"
SCORES = {"accuracy": "accuracy", "r2": "R2", "concordance": "concordance"}
SCALES = {"deviation": "per standard deviation", "unit": "per unit"}


def model_sections(found: Sequence[Results]) -> Iterator[tuple[str, str, Markup]]:
    """Each section that some folder has something for."""
    kinds: dict[str, tuple[str, Callable[[int, Results], Markup]]] = {
        "fitted": ("What was fitted on what", fitted),
        "coefficients": ("Coefficients", coefficients),
        "silos": ("Silos side by side", side_by_side),
        "quality": ("How good the model is on its own rows", quality),
        "path": ("How the penalty was chosen", penalty_path),
        "influence": ("How much each silo moved the answer", influence),
        "proof": ("The proof", proof),
    }
    for key, (title, show) in kinds.items():
        shown = [(one, show(number, one)) for number, one in enumerate(found)]
        told = [(one, content) for one, content in shown if content]
        names = [element("h3", one.label) if len(found) > 1 else Markup("") for one, _ in told]
        if told:
            yield key, title, join(join([name, content]) for name, (_, content) in zip(names, told))


# -- what it is made of -----------------------------------------------------------------------------------


def fitted(number: int, one: Results) -> Markup:
    lines = one.part("fitted")
    if not one.is_fit:
        return Markup("")
    return join([glance(one), table("The model and its data", [], lines.items()) if lines else ""])


def glance(one: Results) -> Markup:
    """The few numbers one looks for first; exchanges are those of the whole account."""
    results, scores, rows = one.part("results"), one.parts("curves"), one.parts("side by side")
    overall = rows[-1] if rows else {}
    return cards(
        [
            ("rows", overall.get("rows", one.part("data").get("rows")), ""),
            ("events", overall.get("events"), ""),
            ("accuracy", percent(results.get("training accuracy")), "on its own rows"),
            ("R2", overall.get("r2"), "on its own rows"),
            ("concordance", overall.get("concordance"), "of pairs within silos"),
            ("area under the ROC curve", scores[0].get("auc") if len(scores) == 1 else None, "on its own rows"),
            ("exchanges", results.get("exchanges"), "everything included" if one.parts("spent") else "of the run"),
            ("numbers", results.get("numbers up and down"), "up and down, all silos"),
        ]
    )


def percent(share: Any) -> str | None:
    return f"{share:.2%}" if isinstance(share, int | float) else None


def side_by_side(number: int, one: Results) -> Markup:
    """Rows, loss and score of each silo; what it withholds is said."""
    lines = one.parts("side by side")
    if not lines:
        return Markup("")
    names = [name for name in lines[-1] if name != "silo"]
    rows = [[line.get("silo"), *(told(line.get(name), name) for name in names)] for line in lines]
    head = ["silo", *(SCORES.get(name, name) for name in names)]
    hidden = any(line.get(name) is None for line in lines for name in names)
    note = "A silo that withholds its own numbers still had its part in the sums of all."
    return join(
        [
            table("The model on the rows of each silo", head, rows, class_="numbers"),
            element("p", note, class_="note") if hidden else "",
        ]
    )


def told(value: Any, name: str) -> str:
    if value is None:
        return WITHHELD
    return f"{value:.4g}" if name in ("loss", *SCORES) and isinstance(value, int | float) else short(value)


# -- what it says -----------------------------------------------------------------------------------------


def coefficients(number: int, one: Results) -> Markup:
    if not one.coefficients:
        return Markup("")
    classes = list(dict.fromkeys(each.label for each in one.coefficients))
    switches = [radios(f"scale-{number}", "Coefficients", SCALES)] if one.spread else []
    if len(classes) > 1:
        options = [element("option", name, value=place) for place, name in enumerate(classes)]
        choice = element("select", *options, data_fit=number)
        switches.append(element("label", "Class ", choice, class_="check"))
    return join(
        [
            element("div", *switches, class_="controls") if switches else "",
            element(
                "div",
                class_="chart forest",
                role="img",
                aria_label="Coefficients with intervals",
                data_coefficients=number,
            ),
            element("p", intercepts(one), class_="note"),
            element("p", why_no_errors(one), class_="note"),
            coefficient_table(one, with_class=len(classes) > 1),
            term_table(one),
        ]
    )


def intercepts(one: Results) -> str:
    """In words: it is of another size than the coefficients, and nothing is read from its length."""
    found = [each for each in one.coefficients if each.feature == INTERCEPT]
    if not found:
        return ""
    values = ", ".join(short(each.value) + (f" ({each.label})" if len(found) > 1 else "") for each in found)
    level = one.part("settings").get("level of the intervals")
    bars = f" Bars are intervals at {100 * level:.12g}%." if isinstance(level, float) else ""
    return f"Not drawn: the intercept, {values}.{bars}"


def coefficient_table(one: Results, with_class: bool) -> Markup:
    """All of them, per unit, as they are in coefficients.csv."""
    largest = by_size(one.coefficients, one.spread)[:LARGEST]
    some = f", the {LARGEST} largest of {len(one.coefficients):,}" if len(one.coefficients) > LARGEST else ""
    unit = " per unit" if one.spread else ""
    head = ["feature", *(["class"] if with_class else []), "coefficient", "standard error", "low", "high"]
    rows = [
        [
            each.feature,
            *([each.label] if with_class else []),
            *map(short, (each.value, each.error, each.low, each.high)),
        ]
        for each in largest
    ]
    return folded(f"The numbers{unit}{some}", table(f"Coefficients{unit}{some}", head, rows, class_="numbers"))


def why_no_errors(one: Results) -> str:
    """Nothing is made up where there are none."""
    said = str(one.part("settings").get("standard errors", ""))
    return f"There are no standard errors: {said.removeprefix('none: ')}." if said.startswith("none: ") else ""


def term_table(results: Results) -> Markup:
    """Wald's tests of terms with several coefficients."""
    found = results.parts("terms")
    if not found:
        return Markup("")
    rows = [
        [one.get("term"), short(one.get("statistic")), short(one.get("df")), p_value(one.get("p"))] for one in found
    ]
    head = ["term", "statistic", "df", "p"]
    return table("Terms with several coefficients: whether all of them are zero (Wald)", head, rows, class_="numbers")


def p_value(p: Any) -> str:
    if not isinstance(p, int | float):
        return ""
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def by_size(found: Sequence[Coefficient], spread: dict[str, float]) -> list[Coefficient]:
    """The largest first: for a standard deviation of their columns, where that is known."""
    return sorted(found, key=lambda each: -abs(each.value) * spread.get(each.feature, 1.0))


def influence(number: int, one: Results) -> Markup:
    """For every silo the coefficients that would go farthest without it."""
    if not one.influence:
        return Markup("")
    rows, several = [], len({move.label for move in one.influence}) > 1
    for silo in dict.fromkeys(move.silo for move in one.influence):
        moves = [move for move in one.influence if move.silo == silo and not math.isnan(move.change)]
        if not moves:
            rows.append([silo, "no model without it", "", ""])
        for move in sorted(moves, key=lambda move: -farness(move))[:MOVES]:
            name = f"{move.feature} ({move.label})" if several else move.feature
            rows.append([silo, name, short(move.change), short(move.in_errors)])
    head = ["silo", "coefficient", "change", "in standard errors"]
    if all(math.isnan(move.in_errors) for move in one.influence):  # of a model without standard errors
        head, rows = head[:-1], [row[:-1] for row in rows]
    words = "What would change most if a silo were left out and the model fitted again."
    return join([element("p", words), table("Changes", head, rows, class_="numbers")])


def farness(move: Move) -> float:
    return abs(move.change if math.isnan(move.in_errors) else move.in_errors)


# -- how good it is ---------------------------------------------------------------------------------------


def quality(number: int, one: Results) -> Markup:
    """The ROC curve, and whether what is given a probability of 0.3 happens in three of ten cases."""
    curves = one.parts("curves")
    if not curves:
        return Markup("")
    areas = "; ".join(f"{each.get('class')}: {short(each.get('auc'))}" for each in curves)
    shown = [
        element("p", f"Area under the ROC curve, {areas}. These rows are those that the model was fitted to."),
        picture("ROC curve", roc=number),
    ]
    rows = [
        [each.get("class"), short(row[2]), *(f"{value:.3f}" for value in row[:2])]
        for each in curves
        for row in zip(*(each.get(name, []) for name in ("predicted", "observed", "rows")))
    ]
    if rows:
        words = "Calibration: rows in groups of about equal size, by their predicted probability"
        shown.append(picture("Predicted probabilities and observed frequencies", calibration=number))
        head = ["class", "rows", "predicted", "observed"]
        shown.append(folded("The numbers of the calibration", table(words, head, rows, class_="numbers")))
        return join([element("div", *shown[1:3], class_="pair-of-charts"), shown[0], *shown[3:]])
    return join(shown)


def picture(label: str, **data: int) -> Markup:
    return element("div", class_="chart", role="img", aria_label=label, **{f"data_{k}": v for k, v in data.items()})


def penalty_path(number: int, one: Results) -> Markup:
    """The held-out loss of every penalty that was tried."""
    if not one.tried:
        return Markup("")
    best = next((each for each in one.tried if each.chosen), None)
    chosen = f", and alpha = {short(best.alpha)}, with the ring, was chosen" if best else ""
    rows = [[short(each.alpha), short(each.loss), short(each.error), "chosen" * each.chosen] for each in one.tried]
    numbers = table("Penalties", ["alpha", "held-out loss", "standard error", ""], rows, class_="numbers")
    return join(
        [
            element("p", f"Cross-validation tried {len(one.tried)} penalties{chosen}."),
            picture("Held-out loss against the penalty", path=number),
            folded("The numbers", numbers),
        ]
    )


def proof(number: int, one: Results) -> Markup:
    """One sentence."""
    results = one.part("results")
    bound, energy = results.get("certificate"), results.get("best energy")
    if not one.is_fit:
        return Markup("")
    if not isinstance(bound, int | float) or not isinstance(energy, int | float):
        reason = results.get("no certificate because") or "none was recorded"
        return element("p", f"There is no proof that this is the best model: {str(reason).rstrip('.')}.")
    share = f", {bound / abs(energy):.1e} of its value" if abs(energy) > abs(bound) else ""
    return element(
        "p",
        f"No model of this kind, not even one fitted to all rows in one place, has an objective that is lower by more "
        f"than {bound:.1e}{share}: this is proven, rounding included, without any row having left its silo.",
    )
