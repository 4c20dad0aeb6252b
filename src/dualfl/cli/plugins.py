"""The option --plugin, apart from the others so that a command which needs no problem starts quickly."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, cast

import click

from dualfl.cli.command_line import Command


def plugin_option(command: Command) -> Command:
    """--plugin, whose files are loaded before the command runs; put it right above the function."""

    @functools.wraps(command)
    def with_plugins(*args: Any, plugins: tuple[Path, ...], **given: Any) -> Any:
        from dualfl.algorithms.plugins import load_plugin

        for path in plugins:
            load_plugin(path)
        return command(*args, **given)

    option = click.option(
        "--plugin",
        "plugins",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A Python file with algorithms of your own; repeatable.",
    )
    return cast(Command, option(with_plugins))
