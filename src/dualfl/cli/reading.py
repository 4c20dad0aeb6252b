"""Options that say how files are read, and the rules that they make: one for all files, or one for each."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dualfl.cli.command_line import Command
from dualfl.errors import InputError
from dualfl.names import nearest
from dualfl.tables.rules import USUAL_RULES, Rules, parse_recode

COLUMNS = (
    click.option("--columns", multiple=True, metavar="A,B,C", help="Take only these features; repeatable."),
    click.option("--drop", multiple=True, metavar="COLUMN", help="Leave this column out; repeatable."),
    click.option(
        "--id", "id", multiple=True, metavar="COLUMN", help="An identifier of rows, not a feature; repeatable."
    ),
    click.option("--categorical", multiple=True, metavar="COLUMN", help="Treat its numbers as categories; repeatable."),
)
SPELLING = (
    click.option(
        "--na",
        multiple=True,
        metavar="[COLUMN=]VALUE",
        help="An entry that means missing, in one column or in all; repeatable.",
    ),
    click.option(
        "--recode",
        multiple=True,
        metavar="COLUMN=FROM:TO,...",
        help="Replace entries of a column, as in died=yes:1,no:0; FILE:COLUMN=... for one file only.",
    ),
    click.option(
        "--decimal",
        multiple=True,
        metavar="[FILE=]SIGN",
        help="The decimal sign, a point or a comma; COLUMN=SIGN for one column only.",
    ),
    click.option(
        "--encoding", multiple=True, metavar="[FILE=]NAME", help="Encoding of the text: utf-8, cp1252, utf-16, ..."
    ),
    click.option("--fold-case", is_flag=True, help="Treat texts that differ only in case or blanks as one level."),
    click.option(
        "--dates",
        default="",
        show_default=False,
        metavar="RULE",
        help="as-days-since:2020-01-01 turns dates into numbers of days.",
    ),
)


def spelling_options(command: Command) -> Command:
    """How files write gaps, numbers, levels and dates."""
    for option in reversed(SPELLING):
        command = option(command)
    return command


def table_options(command: Command) -> Command:
    """The same, and which columns are features."""
    for option in reversed((*COLUMNS, *SPELLING)):
        command = option(command)
    return command


def refuse_reading(ctx: click.Context, more: Sequence[str] = ()) -> None:
    """With --study, options that say how files are read are not the analyst's."""
    for option in ("na", "recode", "decimal", "encoding", "fold_case", "dates", "id", *more):
        if ctx.get_parameter_source(option) not in (None, ParameterSource.DEFAULT):
            raise InputError(
                f"--{option.replace('_', '-')} says how a file is read, and with --study that is the operators' to "
                "say, in silo.json; leave it out."
            )


def rules_for(given: Mapping[str, Any], files: Sequence[Path], base: Rules = USUAL_RULES) -> tuple[Rules, list[Rules]]:
    """The rules for files that nobody knows yet, and those for each of these; both begin with `base`."""
    content: dict[str, Any] = {word: given[word] for word in ("drop", "id", "categorical", "na") if given.get(word)}
    if given.get("columns"):
        content["columns"] = tuple(name for text in given["columns"] for name in parts("--columns", text))
    if given["fold_case"]:
        content["fold_case"] = True
    if given["dates"]:
        content["dates"] = given["dates"]
    common = base.with_more(content)
    each = [common] * len(files)
    for text in given["encoding"]:
        name, _, value = text.rpartition("=")
        common, each = _changed(common, each, files, "encoding", name, {"encoding": value})
    for text in given["decimal"]:
        place, _, sign = text.rpartition("=") if text not in (".", ",") else ("", "", text)
        whole = not place or any(_is(place, path) for path in files)
        name, column = (place, "") if whole else _placed(place, files)
        if column and sign != ",":
            raise InputError(
                f"--decimal is '.' or ',', for a file FILE=',' or for a column COLUMN=',', but it is {text!r}."
            )
        content = {"commas": [column]} if column else {"decimal": sign}
        common, each = _changed(common, each, files, "decimal", name, content)
    for text in given["recode"]:
        place, pairs = parse_recode(text)
        name, column = _placed(place, files)
        common, each = _changed(common, each, files, "recode", name, {"recode": {column: pairs}})
    return _agreed(common, each), each


def _placed(place: str, files: Sequence[Path]) -> tuple[str, str]:
    """(file, column) of FILE:COLUMN; no file where none of this name is given."""
    for path in files:
        for name in (str(path), path.name):
            if place.startswith(f"{name}:") and len(place) > len(name) + 1:
                return name, place[len(name) + 1 :]
    return "", place


def _changed(
    common: Rules, each: list[Rules], files: Sequence[Path], word: str, name: str, content: dict[str, Any]
) -> tuple[Rules, list[Rules]]:
    """One more rule for all files, or for the file of this name."""
    if not name:
        return common.with_more(content), [own.with_more(content) for own in each]
    if not any(_is(name, path) for path in files):
        raise InputError(
            f"--{word} is for a file {name!r}, and the files are {', '.join(path.name for path in files[:4])}"
            f"{', ...' if len(files) > 4 else ''}; name one of them."
        )
    return common, [own.with_more(content) if _is(name, path) else own for own, path in zip(each, files)]


def _is(name: str, path: Path) -> bool:
    return name in (str(path), path.name)


def _agreed(common: Rules, each: Sequence[Rules]) -> Rules:
    """New files are probably written as all of these are, if they are written alike."""
    for word in ("decimal", "encoding"):
        values = {getattr(own, word) for own in each}
        if len(values) == 1:
            common = replace(common, **{word: values.pop()})
    return common


def check_columns(rules: Sequence[Rules], tables: Sequence[Any]) -> None:
    """A name that no file has is a mistake."""

    known = {name for table in tables for name in (*table.columns, *table.left_out)}
    for name in dict.fromkeys(name for own in rules for name in own.named_columns):
        if name not in known:
            raise InputError(nearest("column", name, known))


def tell_idle(given: Mapping[str, Any], files: Sequence[Path], tables: Sequence[Any]) -> None:
    """Say which options match no entry; rules that a model brings along need not match in new files."""
    from dualfl.tables.idle_rules import sentences

    for sentence in sentences(rules_for({**given, "columns": ()}, files)[1], tables):
        click.echo(f"Worth a look: {sentence}.", err=True)


def parts(option: str, text: str) -> list[str]:
    """The words of an option that takes several, between commas; in quotes, a comma is part of a word.

    >>> parts("--columns", 'age, "a, b"')
    ['age', 'a, b']
    """
    try:
        words = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise InputError(f"{option} takes words between commas, in one line, but it is {text!r} ({error}).") from None
    return [word.strip() for word in words]
