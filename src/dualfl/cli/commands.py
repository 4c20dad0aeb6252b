"""The group of all commands. Each is imported when it is called, so that `dualfl --help` is quick."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from dualfl.errors import DualflError
from dualfl.files import in_words
from dualfl.lines import said_to
from dualfl.version import __version__

COMMANDS = {
    "check": ("dualfl.cli.check:check_command", "List what is wrong with tables, and how to fix it."),
    "describe": ("dualfl.cli.describe:describe_command", "Describe the rows, as the first table of a paper does."),
    "fit": ("dualfl.cli.fit:fit_command", "Fit a model to files or silos, as if they were pooled."),
    "predict": ("dualfl.cli.predict:predict_command", "Predict the rows of a file with a fitted model."),
    "evaluate": ("dualfl.cli.evaluate:evaluate_command", "Evaluate a fitted model on files or silos."),
    "table": ("dualfl.cli.table:table_command", "Print the coefficients of a model as a table for a paper."),
    "test": ("dualfl.cli.test:test_command", "Test nested models against each other, or the terms of one."),
    "km": ("dualfl.cli.km:km_command", "Draw Kaplan-Meier curves over all silos, and compare them."),
    "deploy": ("dualfl.cli.deploy:deploy_command", "Set up and operate silos in other places."),
    "run": ("dualfl.cli.run:run_command", "Run an algorithm on a data set, and keep the results."),
    "compare": ("dualfl.cli.compare:compare_command", "Compare algorithms on one problem."),
    "tune": ("dualfl.cli.tune:tune_command", "Search for hyperparameters, as for the paper's Table 2."),
    "report": ("dualfl.cli.report:report_command", "Make one page for the browser from one or several runs."),
    "algorithms": ("dualfl.cli.algorithms:algorithms_command", "List the algorithms, or explain one."),
    "datasets": ("dualfl.cli.datasets:datasets_command", "List the data sets, or show a partition."),
    "demo": ("dualfl.cli.demo:demo_command", "Draw the paper's Figure 1 on handwritten digits, in a minute."),
    "reproduce": ("dualfl.cli.reproduce:reproduce_command", "Run the paper's experiments, and some beyond them."),
    "theory": ("dualfl.cli.theory:theory_command", "Check the paper's theorems numerically."),
}
SECTIONS = {"Models on tables": "check", "Research on algorithms": "run", "The paper": "demo"}  # title: first command
INTERRUPTED = 130


class Lazy(click.Group):
    """Commands by name, imported on demand; errors as one line, never as a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = list(COMMANDS)
        starts = [names.index(first) for first in SECTIONS.values()]
        for title, start, end in zip(SECTIONS, starts, [*starts[1:], len(names)], strict=True):
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names[start:end]], col_max=12)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from dualfl.names import nearest

            fail(nearest("command", args[0], COMMANDS))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DualflError as error:
            fail(str(error))
        except KeyboardInterrupt as error:
            click.echo(f"\n{str(error) or 'Interrupted; nothing was written.'}", err=True)
            sys.exit(INTERRUPTED)
        except MemoryError as error:
            fail(f"There is not enough memory for this ({str(error) or 'it is used up'}); take fewer rows or columns.")
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            fail(in_words(error))
        except Exception as error:
            plugins = sys.modules.get("dualfl.algorithms.plugins")  # not imported just to look
            if plugins is not None and (sentence := plugins.blamed(error)):
                fail(sentence)
            raise


def fail(sentence: str) -> NoReturn:
    click.echo(said_to(sys.stderr, f"Error: {sentence}"), err=True)
    sys.exit(2)


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="dualfl", message="%(prog)s %(version)s")
def main() -> None:
    """Fit one model to tables that are kept in several places.

    The rows stay where they are, and only sums travel. The result is the
    model that the pooled table would have given, with a proof.

    \b
    Examples:
      dualfl fit a.csv b.csv c.csv --target outcome --model logistic
      dualfl compare --dataset digits --algorithms dualfl,fedavg,auto
      dualfl demo

    `dualfl COMMAND --help` explains a command and gives an example.
    """
