"""`dualfl algorithms`."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import io
import textwrap

import click

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.registry import ALGORITHMS, algorithm_class

WIDTH = 80
COLUMNS = (
    "name",
    "year",
    "reference",
    "exchanges",
    "up",
    "down",
    "participation",
    "needs",
    "rate",
    "accelerated",
    "deterministic",
)


@click.command("algorithms")
@click.argument("name", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="The whole table as CSV.")
def algorithms_command(name: str | None, as_csv: bool) -> None:
    """List the algorithms, or explain the one called NAME.

    `up` and `down` are floats per client and round, for d coefficients.
    """
    if name is not None:
        click.echo(explain(algorithm_class(name)))
        return
    rows = [row(algorithm) for algorithm in ALGORITHMS.values()]
    click.echo(to_csv(rows) if as_csv else table(rows), nl=not as_csv)


def row(algorithm: type[Algorithm]) -> dict[str, str]:
    """One algorithm's card, in words."""
    values = {"name": algorithm.name} | dataclasses.asdict(algorithm.card)
    words = {True: "yes", False: "no"}
    return {c: words[values[c]] if isinstance(values[c], bool) else str(values[c]) for c in COLUMNS}


def to_csv(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def table(rows: list[dict[str, str]]) -> str:
    """What is short in a line, 80 columns wide; the rest below it."""
    line = ("name", "year", "participation", "accelerated", "deterministic", "reference")
    heads = {c: {"participation": "clients", "accelerated": "acc", "deterministic": "det"}.get(c, c) for c in line}
    widths = {c: max(len(r[c]) for r in [heads, *rows]) + 2 for c in line}
    lines = ["".join(f"{heads[c]:<{widths[c]}}" for c in line).rstrip()]
    for r in rows:
        short = r | {"reference": authors(r["reference"])}
        lines.append("".join(f"{short[c]:<{widths[c]}}" for c in line).rstrip())
        lines += below(f"exchanges {r['exchanges']}; up {r['up']}; down {r['down']}")
        lines += below(f"needs {r['needs']}; rate {r['rate']}" if r["rate"] else f"needs {r['needs']}")
    lines.append("")
    lines += textwrap.wrap(
        "up, down: floats per client and round, for d coefficients; acc: accelerated; det: deterministic. "
        "`dualfl algorithms NAME` explains one.",
        WIDTH,
    )
    return "\n".join(lines)


def below(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False)


def authors(reference: str) -> str:
    """More than two authors are the first one et al."""
    return reference.split(",")[0] + " et al." if "," in reference else reference


def explain(algorithm: type[Algorithm]) -> str:
    """The page of one algorithm: its citation and update, and its hyperparameters with their defaults."""
    module = inspect.getmodule(algorithm)
    fields = []
    for field in dataclasses.fields(algorithm):  # type: ignore[arg-type]
        default = field.metadata.get("formula", field.default)
        fields.append(f"  {field.name:<14}default: {default}")
    doc = inspect.getdoc(algorithm) or ""
    head = inspect.cleandoc(module.__doc__ or "") if module is not None else ""
    return "\n\n".join([head, doc, "Hyperparameters\n" + ("\n".join(fields) or "  none")])
