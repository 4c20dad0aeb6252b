"""What came of a run on silos, in the files and the words of any other run."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from dualfl.analysis.one_algorithm import LinearProblem
from dualfl.deploy.project import plain as problem_of
from dualfl.deploy.runs import Finished
from dualfl.engines.in_words import STOPPED, certificate_line, work_lines
from dualfl.fits.model_folder import as_csv
from dualfl.lines import entry
from dualfl.outputs import adding
from dualfl.report.figure import convergence_figure, save_png
from dualfl.report.folder import environment, plain
from dualfl.report.page import write_page
from dualfl.report.results import FIT, REPORT
from dualfl.silos.ledger import as_rows, in_words, with_all
from dualfl.tables.encoding import Scaling
from dualfl.tables.schema import INTERCEPT, Schema

HISTORY, RUN, MODEL, PICTURE = "history.csv", "run.json", "model.npz", "convergence.png"
COEFFICIENTS = "coefficients.csv"


def write(run: Finished, command: str) -> None:
    """All files and the page that is made of them, or none. The caller has the lock of the folder."""
    settings = run.project.settings
    title = f"{len(settings.silos)} silos, ridge {settings.ridge:g}"
    record = json.dumps(plain(describe(run, command)), indent=2, allow_nan=False) + "\n"
    with adding(run.folder, RUN, (HISTORY, RUN, MODEL, PICTURE, COEFFICIENTS, REPORT)) as folder:
        run.result.history.to_csv(folder / HISTORY)
        (folder / MODEL).write_bytes(model_file(run))
        (folder / COEFFICIENTS).write_bytes(as_csv(FIT, coefficient_rows(run)))
        save_png(convergence_figure({run.result.algorithm.card.title: run.result.history}, title), folder / PICTURE)
        (folder / RUN).write_bytes(record.encode())
        write_page([folder])


def model_file(run: Finished) -> bytes:
    """theta and what it takes to use it: predictors are x' theta[:-1] + theta[-1], x = (raw - center) / spread.

    `schema` says, as JSON, how columns of a file become raw: what gaps become, and which level has no column.
    """
    schema, buffer = run.setup.schema, io.BytesIO()
    assert schema is not None
    arrays: dict[str, Any] = {
        "theta": run.result.model,
        "shape": np.array(run.result.shape),
        "classes": np.array(schema.classes, dtype=np.str_),
        "features": np.array(schema.names, dtype=np.str_),
        "scale": np.array(1.0),
        "schema": np.array(json.dumps(schema.as_json())),
    }
    if run.setup.center is not None and run.setup.spread is not None:
        arrays |= {"center": run.setup.center, "spread": run.setup.spread}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def coefficient_rows(run: Finished) -> Iterator[list[Any]]:
    """Of the columns as they are, the intercept last; a run has no standard errors."""
    schema, setup = run.setup.schema, run.setup
    assert schema is not None
    theta = np.asarray(run.result.model).reshape(len(schema.names) + 1, -1)
    if setup.center is not None and setup.spread is not None:
        theta = Scaling(setup.center, setup.spread).back @ theta
    classes = schema.classes[1:] if theta.shape[1] == 1 else schema.classes
    for name, line in zip((*schema.names, INTERCEPT), theta):
        for label, value in zip(classes or ("",), line):
            yield [name, label, float(value), "", "", ""]


def describe(run: Finished, command: str) -> dict[str, Any]:
    result, last, schema = run.result, run.result.history[-1], run.setup.schema
    assert schema is not None
    return {
        "command": command,
        "project": run.project.settings,
        "seed": run.seed,
        "algorithm": json.loads(result.algorithm.to_json()),
        "constants": run.constants,
        "settings": {"model": model_name(run)},
        "fitted": fitted(run),
        "data": {
            "silos": list(run.project.settings.silos),
            "target": target(schema),
            "rows": total_rows(run),
            "features": list(schema.names),
            "classes": list(schema.classes),
        },
        "results": {
            "stopped": result.stopped,
            **(with_all(last._asdict(), run.spent) if run.spent else last._asdict()),
            "best energy": result.energy,
            "certificate": result.certificate,
            "no certificate because": result.certificate_reason,
            "capped local solves": result.capped,
        },
        **({"spent": as_rows(run.spent)} if run.spent else {}),
        "traffic": dict(run.traffic),
        "environment": environment(),
    }


def model_name(run: Finished) -> str:
    """By its loss."""
    schema = run.setup.schema
    assert schema is not None
    return type(LinearProblem(**problem_of(run.project.settings)).cost(schema).loss).__name__.lower()


def target(schema: Schema) -> str:
    """What is predicted, as far as the coordinator knows: every silo has its own name for the column."""
    if not schema.classes:
        return "the silos' target"
    first, *others = schema.classes
    return f"{others[0]} against {first}" if len(others) == 1 else f"{len(schema.classes)} classes"


def fitted(run: Finished) -> dict[str, str]:
    """What was fitted on what, a line each, for the page."""
    settings, schema, rows = run.project.settings, run.setup.schema, total_rows(run)
    assert schema is not None
    penalty = f"ridge {settings.ridge:g}" + (f", l1 {settings.l1:g}" if settings.l1 else "")
    spared = "it spares the intercept" if settings.intercept == "free" else "the intercept is penalised, too"
    on = "on standardised columns" if run.setup.center is not None else "on the columns as they are"
    return {
        "model": f"{model_name(run)} loss of a linear predictor",
        "target": f"{target(schema)}; every silo names the column itself",
        "silos": f"{len(settings.silos)}: {', '.join(settings.silos)}",
        "rows": "every silo counts alike, so nobody was asked" if rows is None else f"{rows:,}",
        "columns": f"{len(schema.names):,} after coding, and the intercept",
        "penalty": f"{penalty}; {spared}; {on}",
        "errors": "none: they are not part of a run of one algorithm; dualfl fit --study has them",
        "algorithm": f"{run.result.algorithm.card.title}, {run.result.history[-1].round:,} rounds",
        "safety": "sums under masks" if settings.secure else "the coordinator saw what each silo sent",
    }


def total_rows(run: Finished) -> int | None:
    """Of all silos together; silos that all have as many count 1 each, and then it is not known."""
    return None if run.setup.equal else round(run.setup.mass)


def summary(run: Finished) -> str:
    """The account, 80 columns wide."""
    result, settings, schema, traffic = run.result, run.project.settings, run.setup.schema, run.traffic
    assert schema is not None
    kind = f"{len(schema.classes)} classes" if schema.classes else "real targets"
    rows = total_rows(run)
    all_rows = "equal silos" if rows is None else f"{rows:,} rows in all"
    chosen = ", ".join(f"{name} = {text}" for name, text in hyperparameters(run))
    c = run.constants
    safety = "TLS and silo authentication" if settings.tls else "no TLS, no authentication"
    lines = [
        ("silos", f"{len(settings.silos)} ({', '.join(settings.silos)}), {all_rows}"),
        (
            "data",
            f"{len(schema.names)} features, {kind}, ridge {settings.ridge:g}, {result.theta.size:,} coefficients",
        ),
        ("safety", safety + (", sums masked" if settings.secure else ", uploads visible to the coordinator")),
        ("chosen", result.choice),
        ("algorithm", f"{result.algorithm.name}: {chosen}" if chosen else result.algorithm.name),
        ("constants", "" if c.L != c.L else f"mu = {c.mu:.4g}, L = {c.L:.4g}, kappa = L/mu = {c.kappa:.4g}"),
        ("rounds", f"{result.history[-1].round:,}; {STOPPED.get(result.stopped, result.stopped)}"),
        *effort_lines(run),
        ("traffic", f"{traffic['messages']:,} messages, {traffic['down']:,} bytes down, {traffic['up']:,} up"),
        ("energy", "" if result.energy is None else f"E = {result.energy:.12g}"),
        ("certificate", in_silos(certificate_line(result.certificate, result.energy, result.certificate_reason))),
        ("files", f"in {run.folder}: {HISTORY}, {RUN}, {MODEL}, {COEFFICIENTS}, {PICTURE} and {REPORT}"),
    ]
    return "\n".join(entry(label, text) for label, text in lines if text)


def effort_lines(run: Finished) -> list[tuple[str, str]]:
    """All that travelled by its purpose, where that is known, and what the rounds took."""
    rounds = work_lines(run.result.history[-1])
    if not run.spent:
        return rounds
    named = {"exchanges": "of rounds"}
    return [("exchanges", in_words(run.spent)), *((named.get(label, label), text) for label, text in rounds)]


def in_silos(line: str) -> str:
    """A proof rests on what silos say, and nobody can look."""
    return line.replace("proven", "proven, if every silo answered truly", 1) if "proven" in line else line


def hyperparameters(run: Finished) -> list[tuple[str, str]]:
    """Every hyperparameter that has a value, with its formula where theory chose it."""
    listed = []
    for field in dataclasses.fields(run.asked):
        value = getattr(run.result.algorithm, field.name)
        if value is None:
            continue
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        if getattr(run.asked, field.name) is None and "formula" in field.metadata:
            text += f" ({field.metadata['formula']})"
        listed.append((field.name, text))
    return listed
