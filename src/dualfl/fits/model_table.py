"""The coefficients of one model, or of several side by side, as a table that can be pasted into a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.estimators.statistics import Coefficients
from dualfl.fits.kept import Kept, kept, named
from dualfl.report.sheets import Line, Sheet, rendered

SHORT = {"odds ratio": "OR", "rate ratio": "RR", "hazard ratio": "HR", "mean ratio": "ratio"}


def model_sheet(found: Sequence[Kept]) -> Sheet:
    """Categories have a heading and their reference level."""
    if not found:
        raise InputError("Give the folder of a model at least.")
    alone = len(found) == 1
    columns = [single(found[0])] if alone else [brief(one) for one in found]
    head = [name for names, _ in columns for name in names]
    if not alone:
        head = [f"{name}: {word}" for name, (words, _) in zip(named(found), columns) for word in words]
    blanks = [("",) * len(words) for words, _ in columns]
    features = {name for one in found for name in one.model.schema.names}
    keys = dict.fromkeys(key for _, cells in columns for key in cells)
    names = sorted(keys, key=lambda key: key[0] not in features)  # intercepts and thresholds last
    lines = []
    for line, key in layout(found, names):
        own = [cells.get(key, blank) if key else () for (_, cells), blank in zip(columns, blanks)]
        lines.append(Line(line.label, line.cells or tuple(cell for part in own for cell in part), line.depth))
    return Sheet(caption(found), ("", *head), tuple(lines), tuple(notes(found)))


def folder_table(folders: Sequence[Path], form: str) -> str:
    """The table of the models in these folders, as `dualfl table` prints it."""
    return rendered(model_sheet([kept(folder) for folder in folders]), form) + "\n"


Key = tuple[str, str]  # feature and class


def layout(found: Sequence[Kept], keys: Sequence[Key]) -> Iterator[tuple[Line, Key | None]]:
    """Lines in their order: classes, then columns with their levels."""
    levels = {
        f"{feature.name}={level}": (feature.name, level, feature.reference)
        for one in found
        for feature in one.model.schema.features
        if feature.kind == "categorical"
        for level in feature.levels
    }
    classes = list(dict.fromkeys(label for _, label in keys))
    for label in classes:
        deep = int(len(classes) > 1)
        if deep:
            yield Line(f"{found[0].model.schema.target} = {label}"), None
        last = ""
        for key in keys:
            if key[1] != label:
                continue
            column, level, reference = levels.get(key[0], ("", key[0], None))
            if column and column != last:
                beside = f" (reference: {reference})" if reference is not None else ""
                yield Line(f"{column}{beside}", depth=deep), None
            last = column
            yield Line(level, depth=deep + bool(column)), key


def single(one: Kept) -> tuple[list[str], dict[Key, tuple[str, ...]]]:
    """All numbers of one model."""
    tests = one.tests
    keys = [(each.feature, each.label) for each in one.lines]
    if tests is None:
        return ["coefficient"], {key: (figures(value),) for key, value in zip(keys, one.estimates)}
    head = ["coefficient", "std error", interval_head(one) if one.ratio else f"{level(one)} CI", "p"]
    fixed = (tests.error > 5e-3).all() and (np.abs(tests.estimate) < 1e4).all()
    form = "{:.3f}".format if fixed else figures
    return head, {
        key: (form(value), form(off), interval(one, tests, i, one.ratio), p_value(float(tests.p[i])))
        for i, (key, value, off) in enumerate(zip(keys, tests.estimate, tests.error))
    }


def brief(one: Kept) -> tuple[list[str], dict[Key, tuple[str, ...]]]:
    """The ratio or the coefficient, and p."""
    tests = one.tests
    keys = [(each.feature, each.label) for each in one.lines]
    if tests is None:
        return ["coefficient"], {key: (figures(value),) for key, value in zip(keys, one.estimates)}
    head = [interval_head(one), "p"]
    return head, {key: (interval(one, tests, i, True), p_value(float(tests.p[i]))) for i, key in enumerate(keys)}


def interval_head(one: Kept) -> str:
    what = SHORT[one.ratio] if one.ratio else "coefficient"
    return f"{what} ({level(one)} CI)"


def level(one: Kept) -> str:
    return f"{100 * one.level:.12g}%"


def interval(one: Kept, tests: Coefficients, i: int, middle: object) -> str:
    """exp of the coefficient with its interval, of an intercept or a threshold nothing; or without ratios the interval
    of the coefficient, which stands in `middle` of it where it has no column of its own."""
    if one.ratio:
        if one.lines[i].feature not in one.model.schema.names:
            return ""
        three = [float(part[i]) for part in tests.ratio]
    else:
        three = [float(part[i]) for part in (tests.estimate, tests.lower, tests.upper)]
    places = decimals(three[0], three[2] - three[1])
    estimate, low, high = (written(value, places) for value in three)
    return f"{estimate} ({low}, {high})" if middle else f"{low}, {high}"


def decimals(value: float, width: float) -> int:
    """So many that the width of the interval has two digits; two at least, and more where the estimate would be 0."""
    if not np.isfinite(width) or not np.isfinite(value):
        return 2
    places = int(np.clip(1 - np.floor(np.log10(width)), 2, 8)) if width > 0 else 2
    while places < 4 and value and not round(value, places):
        places += 1
    return places


def written(value: float, places: int) -> str:
    """
    >>> written(-0.00004, 3), written(-0.0004, 4), written(1e7, 2)
    ('0.000', '-0.0004', '1e+07')
    """
    if not np.isfinite(value) or abs(value) >= 1e6:
        return f"{value:.3g}"
    return f"{value:z.{places}f}"


def figures(value: float) -> str:
    """Three of them, zeros included.

    >>> figures(0.1003), figures(123.4), figures(-0.0), figures(1e-7)
    ('0.100', '123', '0.00', '1.00e-07')
    """
    return f"{value:z#.3g}".removesuffix(".")


def p_value(p: float) -> str:
    return "<0.001" if p < 1e-3 else f"{p:.3f}"


# -- words ------------------------------------------------------------------------------------------------


def caption(found: Sequence[Kept]) -> str:
    models = list(dict.fromkeys(str(one.record["settings"]["model"]).partition(": ")[2] for one in found))
    targets = list(dict.fromkeys(one.model.schema.target for one in found))
    return f"{'; '.join(models)[:1].upper()}{'; '.join(models)[1:]}, {', '.join(targets)}"


def notes(found: Sequence[Kept]) -> Iterator[str]:
    words = {SHORT[one.ratio]: one.ratio for one in found if one.ratio and one.tests is not None}
    if words:
        said = ", ".join(f"{short}: {name}" for short, name in words.items() if short != name)
        yield f"{said}{', ' * bool(said)}CI: confidence interval."
    for name, one in zip(named(found), found):
        text = ". ".join(part for part in about(one) if part)
        yield f"{name}: {text}." if len(found) > 1 else f"{text}."


def about(one: Kept) -> Iterator[str]:
    """What a reader must know of the numbers."""
    settings, data, statistics = one.record["settings"], one.record["data"], one.statistics
    rows = f"{data['rows']:,} rows of {len(data['silos'])} silo{'s' * (len(data['silos']) > 1)}"
    events = statistics.get("events")
    yield f"{rows}, {events:,} events" if isinstance(events, int) else rows
    if len(one.model.schema.classes) == 2 and one.model.recipe.model in ("logistic", "cloglog"):
        yield f"Coefficients are for {one.model.schema.target} = {one.model.schema.classes[1]}"
    fitted = one.record.get("fitted", {})
    yield f"With {fitted['with']}" if fitted.get("with") else ""
    yield f"Site effect {fitted['site effect']}" if fitted.get("site effect") else ""
    penalty = settings["penalty"]
    if penalty != "none":
        yield f"Penalty {penalty}, alpha = {settings.get('alpha', float('nan')):.3g}"
    form = str(settings.get("standard errors", ""))
    yield f"There are no standard errors: {one.why_no_errors}" if form.startswith("none") else f"Errors: {form}"
    yield ", ".join(likelihood(statistics))


def likelihood(statistics: Mapping[str, Any]) -> Iterator[str]:
    for name, digits in (("log-likelihood", 6), ("AIC", 6), ("BIC", 6)):
        value = statistics.get(name)
        if isinstance(value, int | float):
            yield f"{name} {value:.{digits}g}"
