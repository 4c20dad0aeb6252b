"""A run in words: what was run, what it cost, how good it is and how one knows."""

from __future__ import annotations

import dataclasses
from typing import Any

from dualfl.engines.in_words import STOPPED, certificate_line, work_lines
from dualfl.experiments.single_run import Finished
from dualfl.lines import entry, span


def summary(run: Finished) -> str:
    """The whole account, 80 columns wide.

    Parameters
    ----------
    run : Finished
        A finished run, as `dualfl run` makes it.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> import dualfl
    >>> print(dualfl.report.summary(finished))  # doctest: +SKIP
    """
    entries = [
        ("data", data_line(run)),
        ("clients", clients_line(run)),
        ("chosen", run.result.choice),
        ("algorithm", algorithm_line(run)),
        ("constants", constants_line(run)),
        ("rounds", rounds_line(run)),
        *work_lines(run.result.history[-1]),
        *quality_lines(run),
        *remarks(run),
    ]
    return "\n".join(entry(label, text) for label, text in entries if text)


def data_line(run: Finished) -> str:
    return f"{run.dataset.title}, from {run.dataset.source}"


def clients_line(run: Finished) -> str:
    rows = [f.n for f in run.problem.clients]
    model = run.problem.clients[0]
    l1 = f", l1 {run.settings.l1:g}" if run.settings.l1 else ""
    split = f"{run.settings.partition}, heterogeneity {run.mix.heterogeneity:.2f}"
    return (
        f"{run.problem.N} with {span(rows)} rows each ({split}), "
        f"{model.name}, ridge {run.settings.ridge:g}{l1}, {run.problem.d:,} coefficients"
    )


def algorithm_line(run: Finished) -> str:
    chosen = ", ".join(f"{name} = {text}" for name, text in hyperparameters(run))
    return f"{run.result.algorithm.name}: {chosen}" if chosen else run.result.algorithm.name


def hyperparameters(run: Finished) -> list[tuple[str, str]]:
    """Every hyperparameter that has a value, with its formula where theory chose it."""
    listed, formulas = [], by_theory(run)
    for field in dataclasses.fields(run.asked):
        value = getattr(run.result.algorithm, field.name)
        if value is None:
            continue
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        if field.name in formulas:
            text += f" ({formulas[field.name]})"
        listed.append((field.name, text))
    return listed


def by_theory(run: Finished) -> dict[str, str]:
    """The formulas of those hyperparameters that nobody gave, neither the user nor `auto`."""
    fields = [each for each in dataclasses.fields(run.asked) if "formula" in each.metadata]
    return {each.name: each.metadata["formula"] for each in fields if getattr(run.asked, each.name) is None}


def constants_line(run: Finished) -> str:
    c = run.result.constants
    return "" if c is None or c.L != c.L else f"mu = {c.mu:.4g}, L = {c.L:.4g}, kappa = L/mu = {c.kappa:.4g}"


def rounds_line(run: Finished) -> str:
    line = f"{run.result.history[-1].round:,}; {STOPPED.get(run.result.stopped, run.result.stopped)}"
    if run.stages:
        last = run.stages[-1]
        line += f"; {len(run.stages)} regularised problem(s), the last with alpha = {last.alpha:.3g}"
    return line


def quality_lines(run: Finished) -> list[tuple[str, str]]:
    result = run.result
    lines = [("energy", "" if result.energy is None else f"E = {result.energy:.12g}")]
    if run.error is not None:
        lines.append(("error", f"(E - E*)/|E*| = {run.error:.2e}, with E* = {run.minimum:.12g} {found_by(run)}"))
    else:
        lines.append(("error", f"not known, there is no E*: {run.no_minimum}"))
    lines.append(("certificate", certificate_line(result.certificate, result.energy, result.certificate_reason)))
    if run.stages and run.stages[-1].gradient_norm == run.stages[-1].gradient_norm:
        lines.append(("gradient", f"|E'(theta)| = {run.stages[-1].gradient_norm:.2e}, of the problem itself"))
    if run.accuracy is not None:
        lines.append(("accuracy", f"{run.accuracy:.2%} of the training rows"))
    return lines


def found_by(run: Finished) -> str:
    """By which method E* was found, and how well where that is not to rounding."""
    assert run.reference is not None
    known = f", known to {run.reference.accuracy:.0e}" if run.reference.accuracy > 1e-14 else ""
    return f"by {run.reference.method}{known}"


def remarks(run: Finished) -> list[tuple[str, str]]:
    """What a reader should know before trusting the numbers."""
    result, lines = run.result, []
    if result.capped:
        lines.append(("note", f"{result.capped:,} local solves ended at their cap, not by their stopping rule."))
    note: Any = getattr(result.algorithm, "note", None)
    if note is not None and result.constants is not None and (text := note(result.constants)):
        lines.append(("note", text))
    return lines
