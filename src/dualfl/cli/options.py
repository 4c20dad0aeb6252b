"""Options that several commands have: which problem is to be solved, and whether to make a page of it."""

from __future__ import annotations

import click

from dualfl.cli.command_line import Command
from dualfl.experiments.settings import RunSettings

HERE = RunSettings()

SPLIT = "How rows are split: even (file order), shuffled, label, dirichlet:0.5, labels:2, quantity:1000, column:NAME."
clients_option = click.option(
    "--clients", type=int, help="Number of clients.  [default: 8, or one for each value of column:NAME]"
)
BEFORE = (
    click.option(
        "--dataset", default=HERE.dataset, help="A name from `dualfl datasets`, or a file (CSV, npz, LIBSVM, ...)."
    ),
    click.option("--target", help="The column to predict, if the data are a file."),
    click.option(
        "--task",
        type=click.Choice(["classification", "regression"]),
        help="Kind of target, if the data are a file.  [default: guessed]",
    ),
    clients_option,
)
PARTITION = click.option("--partition", default=HERE.partition, help=SPLIT)
PARTITIONS = click.option(
    "--partition", multiple=True, default=(HERE.partition,), help=f"{SPLIT} Repeatable: a comparison for each."
)
AFTER = (
    click.option(
        "--scale",
        default=HERE.scale,
        help="Scale of the features: default (what suits the data set), raw, or a number.",
    ),
    click.option("--loss", default=HERE.loss, help="Loss: auto, softmax, logistic, hinge, squared, quantile:0.9, ..."),
    click.option("--ridge", default=HERE.ridge, help="Strength mu of the penalty (mu/2)|theta|^2."),
    click.option("--l1", default=HERE.l1, help="Strength alpha of the penalty alpha |theta|_1."),
    click.option("--seed", default=HERE.seed, help="Seed of all random numbers."),
)


def problem_options(command: Command) -> Command:
    """Data set, partition, loss and penalties."""
    for option in reversed((*BEFORE, PARTITION, *AFTER)):
        command = option(command)
    return command


def problems_options(command: Command) -> Command:
    """The same for several problems, which differ in their partition."""
    for option in reversed((*BEFORE, PARTITIONS, *AFTER)):
        command = option(command)
    return command


page_option = click.option(
    "--report/--no-report", "page", default=True, help="Whether to write report.html, a page for the browser."
)
