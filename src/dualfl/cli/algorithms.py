"""`dualfl algorithms`."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import io
import sys
import textwrap

import click

from dualfl.algorithms.contract import Algorithm
from dualfl.algorithms.registry import ALGORITHMS, algorithm_class
from dualfl.cli.plugins import plugin_option

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
    "paper",
)


@click.command("algorithms")
@click.argument("name", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="The whole table as CSV.")
@click.option("--table1", "as_table1", is_flag=True, help="Table 1 of the paper: which methods accelerate, and where.")
@click.option("--check", is_flag=True, help="Test which algorithms reach the pooled optimum, and how fast.")
@plugin_option
def algorithms_command(name: str | None, as_csv: bool, as_table1: bool, check: bool) -> None:
    """List the algorithms, or explain the one called NAME.

    `up` and `down` are floats per client and round, for d coefficients.
    --check takes some minutes. With NAME it checks only that algorithm,
    and also whether it keeps the contract between algorithms and engines.

    \b
    Examples:
      dualfl algorithms dualfl
      dualfl algorithms --check
    """
    if check:
        check_gate(None if name is None else algorithm_class(name))
        if name is not None:
            check_contract(algorithm_class(name))
        return
    if name is not None:
        click.echo(explain(algorithm_class(name)))
        return
    if as_table1:
        from dualfl.experiments.table1 import REMARKS, table1

        click.echo("Communication acceleration (s.c.: strongly convex), as in Table 1 of the paper\n")
        click.echo(table1() + "\n")
        for remark in REMARKS:
            click.echo(textwrap.fill(remark, WIDTH, initial_indent="* ", subsequent_indent="  "))
        return
    rows = [row(algorithm) for algorithm in ALGORITHMS.values()]
    click.echo(to_csv(rows) if as_csv else table(rows), nl=not as_csv)


def check_gate(only: type[Algorithm] | None) -> None:
    """The gate, line by line as it goes; exit code 1 if anything is not as it should be."""
    from dualfl.experiments.optimum_check import PASS, PROBLEMS, check

    click.echo(f"relative energy error {PASS:g} on clients that are not alike, defaults from theory\n")
    click.echo(f"{'algorithm':<21}{'problem':<11}{'to 1e-8: rounds':>15}{'exchanges':>11}{'smallest':>10}  verdict")
    wrong = 0
    for cls in ALGORITHMS.values() if only is None else [only]:
        for problem in PROBLEMS:
            if problem == "hinge" and "dual" not in cls.needs:
                continue  # it is checked on smooth costs
            v = check(cls(), problem)
            wrong += not v.holds
            if not v.applies:
                text = f"{v.algorithm:<21}{v.problem:<11}does not apply: {v.reason}"
                click.echo(text if len(text) <= WIDTH else text[: WIDTH - 3] + "...")
                continue
            counts = [f"{'-' if n == float('inf') else int(n)}" for n in (v.rounds, v.exchanges)]
            verdict = ("drifts by design" if v.drifts else "exact") if v.holds else "FAILS"
            click.echo(f"{v.algorithm:<21}{v.problem:<11}{counts[0]:>15}{counts[1]:>11}{v.error:>10.1e}  {verdict}")
    click.echo(f"\n{wrong} verdicts are not as they should be." if wrong else "\nAll as it should be.")
    if wrong:
        sys.exit(1)


def check_contract(algorithm: type[Algorithm]) -> None:
    """The other checks of `dualfl.testing`, line by line as they go; what is broken is a sentence."""
    from dualfl.testing import CHECKS, OPTIMUM, SIGNED, Subject

    click.echo("\nThe contract between algorithms and engines:\n")
    subject = Subject.of(algorithm, None, SIGNED)
    for promise in (name for name in CHECKS if name != OPTIMUM):
        skipped = CHECKS[promise](subject)
        click.echo(f"{algorithm.name} {promise}" if not skipped else f"not checked whether it {promise}: {skipped}")
    click.echo(f"\n{algorithm.name} keeps the contract.")


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
    for field in dataclasses.fields(algorithm):
        default = field.metadata.get("formula", field.default)
        fields.append(f"  {field.name:<14}default: {default}")
    doc = inspect.getdoc(algorithm) or ""
    head = inspect.cleandoc(module.__doc__ or "") if module is not None else ""
    paper = [f"Paper: {algorithm.card.link}"] if algorithm.card.link else []
    return "\n\n".join([head, doc, *paper, "Hyperparameters\n" + ("\n".join(fields) or "  none")])
