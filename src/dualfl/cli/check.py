"""`dualfl check`."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dualfl.analysis.model_kinds import MODELS
from dualfl.cli.reading import check_columns, refuse_reading, rules_for, table_options
from dualfl.errors import InputError
from dualfl.lines import WIDTH

if TYPE_CHECKING:
    from dualfl.tables.advice import Matter
    from dualfl.tables.findings import Finding, Inspection
    from dualfl.tables.reading import Table
    from dualfl.tables.rules import Rules

MOST = 12  # matters of one kind that are shown
NAME = 24  # characters of a file's name


@click.command("check")
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--study", metavar="FOLDER", type=click.Path(path_type=Path), help="Ask the silos of this deployment instead."
)
@click.option("--target", default="", help="The column to predict; without it, no target is checked.")
@click.option("--model", type=click.Choice(list(MODELS)), metavar="NAME", help="The model to fit, as for `dualfl fit`.")
@table_options
@click.option("--strict", is_flag=True, help="Exit with code 1 for warnings, too.")
@click.option("--json", "as_json", is_flag=True, help="Print all findings and facts as JSON.")
@click.pass_context
def check_command(
    ctx: click.Context,
    /,
    files: tuple[Path, ...],
    study: Path | None,
    target: str,
    model: str | None,
    strict: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """List everything that is wrong with tables, before a model is fitted.

    FILE is CSV or Parquet, each a silo. Every finding names its files,
    column and rows, and what you can do about it. Where options of `dualfl
    fit` fix it, they are listed at the end; use them with this command to see
    what is left.

    With --study every silo of a deployment checks its own table, after
    its operator has approved it. It reports the columns and their faults,
    but no entries, rows or counts. Its operator sees these with `dualfl
    deploy check`, and fixes the faults in silo.json.

    The exit code is 1 if a finding would stop a fit, 0 if there are only
    warnings (1 with --strict) or nothing, and 2 if the command is wrong.

    \b
    Example:
      dualfl check a.csv b.csv c.csv --target outcome --model logistic
    """
    if bool(files) == (study is not None):
        said = "both were given." if study else "neither was given."
        raise InputError(f"Give files to check, or --study with the folder of a deployment; {said}")
    if study is None:
        silos, found = examined(files, rules_for(given, files)[1], target, model)
    else:
        silos, found = examined_afar(ctx, study, target, model)
    if as_json:
        content = {"silos": [silo.as_json() for silo in silos], "together": [one.as_json() for one in found]}
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(lines(silos, found, far=study is not None)))
    findings = [one for silo in silos for one in silo.findings] + list(found)
    if any(one.stops for one in findings) or (strict and findings):
        ctx.exit(1)


def examined(
    files: Sequence[Path], rules: Sequence[Rules], target: str, model: str | None
) -> tuple[list[Inspection], tuple[Finding, ...]]:
    """What each file shows, and what all of them do."""
    from dualfl.names import nearest
    from dualfl.tables.comparison import compare
    from dualfl.tables.idle_rules import idle_rules
    from dualfl.tables.inspection import inspect_file
    from dualfl.tables.reading import check_given_once

    for path in files:
        if not path.is_file():
            raise InputError(
                f"{path} is a folder; give the files in it." if path.is_dir() else f"There is no file {path}."
            )
    check_given_once(files)
    classes = None if model is None else MODELS[model].classes
    pairs = [inspect_file(path, own, target, classes) for path, own in zip(files, rules)]
    if (
        len({silo.classes for silo, table in pairs if table is not None}) > 1
    ):  # then it is numbers, of which one has few
        pairs = [inspect_file(path, own, target, False) for path, own in zip(files, rules)]
    tables = [table for _, table in pairs if table is not None]
    if len(tables) == len(files):
        check_columns(rules, tables)
        if target and not any(target in table.columns for table in tables):
            raise InputError(nearest("column", target, {name for table in tables for name in table.columns}))
    silos = [silo for silo, _ in pairs]
    readable = [own for own, (_, table) in zip(rules, pairs) if table is not None]
    found = (*copies(files), *compare(silos), *idle_rules(readable, tables))
    if target and not any(one.stops for one in (*found, *(one for silo in silos for one in silo.findings))):
        found += tuple(refusals(tables, rules[0], silos[0], model))
    return silos, found


def examined_afar(
    ctx: click.Context, study: Path, target: str, model: str | None
) -> tuple[list[Inspection], tuple[Finding, ...]]:
    """What each silo tells of its table, and what they show together."""
    from dualfl.cli.command_line import connected
    from dualfl.tables.comparison import compare

    refuse_reading(ctx, ("columns", "drop", "categorical"))
    silos = connected(study).check(target, None if model is None else MODELS[model].classes)
    return silos, compare(silos)


def copies(files: Sequence[Path]) -> Iterator[Finding]:
    from dualfl.tables.findings import Finding
    from dualfl.tables.reading import check_no_copies

    try:
        check_no_copies(files)
    except InputError as error:
        yield Finding("copy", "", tuple(map(str, files)), str(error).rstrip("."), stops=True)


def refusals(tables: Sequence[Table], rules: Rules, silo: Inspection, model: str | None) -> Iterator[Finding]:
    """What a fit would say to tables in which nothing else was found: it has the last word."""
    from dualfl.analysis.agreeing import ColumnWishes, agreeing
    from dualfl.analysis.models import Recipe
    from dualfl.analysis.whole_fit import check_classes, least_target
    from dualfl.silos import Chamber, SilosHere, drive
    from dualfl.tables.findings import Finding
    from dualfl.tables.schema import Request

    request = Request(silo.target, not silo.classes, rules.drop, rules.categorical)
    recipe = None if model is None else Recipe(model, MODELS[model].penalty)
    here = SilosHere([Chamber(table) for table in tables])
    try:
        agreed = drive(
            agreeing(here, ColumnWishes(request, least=None if recipe is None else least_target(recipe))), here
        )
        if recipe is not None:
            check_classes(agreed.schema, recipe)
    except InputError as error:
        yield Finding("refused", "", tuple(table.name for table in tables), str(error).rstrip("."), stops=True)


# -- on the screen -----------------------------------------------------------------------------------------


def lines(silos: Sequence[Inspection], found: Sequence[Finding], far: bool = False) -> Iterator[str]:
    """A line on all, the matters one by one, and the options that mend them."""
    from dualfl.tables.advice import matters, options, together

    every = [silo.silo for silo in silos]
    findings = [one for silo in silos for one in silo.findings] + list(found)
    odd = matters(findings)
    stops = sum(matter.stops for matter in odd)
    yield from textwrap.wrap(f"{counted(silos)}: {verdict(stops, len(odd) - stops)}.", WIDTH)
    for title, group in (("Would stop a fit", odd[:stops]), ("Worth a look", odd[stops:])):
        if group:
            yield from ("", title)
        shown: Counter[str] = Counter()
        for matter in group:
            shown[matter.first.kind] += 1
            if shown[matter.first.kind] <= MOST:
                yield from ("", *told(matter, every, far))
        for kind, count in shown.items():
            if count > MOST:
                yield from ("", f"  and {count - MOST:,} more of this kind: {kind}; --json has all")
    mends = together([one for matter in odd for one in matter.findings if matter.stops or "drop" not in one.mend])
    if mends and not far:
        yield from ("", "These options fix some of it. Use them to check again, and then to fit:")
        yield from shell(options(mends, every))


def counted(silos: Sequence[Inspection]) -> str:
    columns = len({name for silo in silos for name in silo.columns})
    if any(silo.rows is None for silo in silos):
        return f"{len(silos)} silo{'s' * (len(silos) > 1)}, {columns:,} columns"
    rows = sum(silo.rows or 0 for silo in silos)
    files = f"{len(silos)} file{'s' * (len(silos) > 1)}"
    return f"{files}, {rows:,} rows{' with a target' if silos[0].target else ''}, {columns:,} columns"


def verdict(stops: int, others: int) -> str:
    if not stops and not others:
        return "nothing is wrong"
    first = f"{stops} finding{'s' * (stops > 1)} would stop a fit" if stops else "nothing would stop a fit"
    return (
        f"{first}, {others or 'nothing'} more {'is' if others <= 1 else 'are'} worth a look"
        if stops
        else (f"{first}, {others} finding{'s' * (others > 1)} {'is' if others == 1 else 'are'} worth a look")
    )


def told(matter: Matter, every: Sequence[str], far: bool) -> Iterator[str]:
    """What it is; in each file, how often and where; and what can be done."""
    from dualfl.lines import short
    from dualfl.tables.advice import brief

    yield from wrapped(matter.title, "  ", "    ")
    entries: list[tuple[str, str]] = []
    alike: dict[str, dict[str, None]] = {}
    for one in matter.findings:
        rows = f"{one.rows:,} row{'s' * (one.rows > 1)}" if one.rows else ""
        detail = ": ".join(filter(None, (rows, one.quotes)))
        names = [brief(silo, every) for silo in one.silos]
        if detail and len(names) == 1:
            entries.append((short(names[0], NAME), detail))
        else:
            alike.setdefault(detail, {}).update(dict.fromkeys(names))
    for detail, found in alike.items():
        yield from wrapped(f"{', '.join(found)}{f': {detail}' if detail else ''}", "    ", "      ")
    remedy = matter.remedy_in_silos() if far else matter.remedy(every)
    entries += [("remedy", remedy)] if remedy else []
    width = max((len(label) for label, _ in entries), default=0) + 2
    for label, text in entries:
        yield from wrapped(text, f"    {label:<{width}}", " " * (4 + width))


def wrapped(text: str, first: str, then: str) -> list[str]:
    """Within 80 columns; names and options are not broken."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=then, break_long_words=False, break_on_hyphens=False
    )


def shell(words: Sequence[str]) -> Iterator[str]:
    """Words that can be pasted into a shell, an option and its value together."""
    line = " "
    for i, word in enumerate(words):
        if word.startswith("--"):
            value = words[i + 1] if i + 1 < len(words) and not words[i + 1].startswith("--") else None
            part = word if value is None else f"{word} {shlex.quote(value)}"
            if len(line) + 1 + len(part) > WIDTH - 2 and line.strip():
                yield line + " \\"
                line = " "
            line += f" {part}"
    yield line
