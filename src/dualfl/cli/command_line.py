"""What commands share, and what costs no library to import: KEY=VALUE pairs, the line that repeats a call, a word."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dualfl.errors import InputError
from dualfl.lines import paragraph, said_to

if TYPE_CHECKING:
    from dualfl.deploy.study import Study

Command = TypeVar("Command", bound=Callable[..., Any])

fresh_option = click.option(
    "--fresh", is_flag=True, help="With --study: start again, if a silo says that the analysis has ended."
)


def tell(sentences: str) -> None:
    """Prints them, wrapped at 80 columns."""
    click.echo(paragraph(sentences))


def check_fresh(fresh: bool, study: Path | None) -> None:
    if fresh and study is None:
        raise InputError("--fresh is for --study, where it begins anew what silos were asked before; leave it out.")


def parse_set(items: tuple[str, ...], option: str = "set") -> dict[str, Any]:
    """KEY=VALUE pairs; a value is a number, true, false, null, or else a word."""
    found: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key or not text:
            example = {"policy": "least_rows=20"}.get(option, "certificate=vector")
            raise InputError(f"--{option} takes KEY=VALUE, such as --{option} {example}, but it got {item!r}.")
        if key in found:
            raise InputError(f"--{option} gives {key} twice; give it once.")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def command_line(ctx: click.Context, kept: bool = False) -> str:
    """What one would type to have this run again: all that was given, nothing else. In a file that is `kept`, and may
    leave this machine, a folder that was not given from here has its own name only."""
    words = ctx.command_path.split()
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if source is not click.core.ParameterSource.COMMANDLINE or option.name in ("force", "resume", "page"):
            continue
        value = ctx.params[option.name or ""]
        if kept and option.name in ("out", "plugins"):
            value = tuple(portable_path(path) for path in value) if isinstance(value, tuple) else portable_path(value)
        if isinstance(option, click.Argument):
            words += [str(item) for item in (value if isinstance(value, tuple) else (value,))]
            continue
        flag = max(option.opts, key=len)
        if isinstance(option, click.Option) and option.is_flag:
            words.append(flag if value else option.secondary_opts[0])
        else:
            for item in value if isinstance(value, tuple) else (value,):
                words += [flag, str(item)]
    return shlex.join(words)


def portable_path(path: Path) -> Path:
    """A path as it may stand in a file that leaves this machine."""
    return path if below_here(path) else Path(path.resolve().name)


def below_here(path: Path) -> bool:
    """Whether a path was given as a folder below this one, and so tells nothing of the machine."""
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def note(sentence: str) -> None:
    """A line for whoever watches, and for a log where nobody does."""
    click.echo(said_to(sys.stderr, sentence), err=True)


def connected(study: Path, fresh: bool = False) -> Study:
    """The silos of --study. Exchanges are for whoever watches; who keeps all others waiting is for a log, too."""
    from dualfl.deploy.study import connect

    return connect(study, say=say, fresh=fresh, warn=note)


def say(sentence: str) -> None:
    """A line for whoever watches."""
    if sys.stderr.isatty():
        note(sentence)
