"""Options that several commands have: which problem is to be solved, and whether to make a page of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dualfl.experiments.single_run import RunSettings

HERE = RunSettings()
Command = TypeVar("Command", bound=Callable[..., Any])

PROBLEM = (
    click.option("--dataset", default=HERE.dataset, help="See `dualfl datasets`; or a file (CSV, npz, LIBSVM, ...)."),
    click.option("--target", help="Of a file: the column to predict."),
    click.option("--task", type=click.Choice(["classification", "regression"]), help="Of a file; else it is guessed."),
    click.option("--clients", default=HERE.clients, help="Number of clients."),
    click.option(
        "--partition",
        default=HERE.partition,
        help="Who gets which rows: even (file order), shuffled, label, dirichlet:0.5, labels:2, quantity:1000, "
        "column:NAME.",
    ),
    click.option("--scale", default=HERE.scale, help="Of the features: default (what suits the set), raw, a number."),
    click.option("--loss", default=HERE.loss, help="auto, softmax, logistic, hinge, squared, quantile:0.9, ..."),
    click.option("--ridge", default=HERE.ridge, help="mu of the term (mu/2)|theta|^2."),
    click.option("--l1", default=HERE.l1, help="alpha of the term alpha |theta|_1."),
    click.option("--seed", default=HERE.seed, help="Of everything that is drawn."),
)


def problem_options(command: Command) -> Command:
    """Data set, partition, loss and penalties."""
    for option in reversed(PROBLEM):
        command = option(command)
    return command


page_option = click.option(
    "--report/--no-report", "page", default=True, help="Whether to write report.html, a page for the browser."
)


SPELLING = (
    click.option("--na", multiple=True, metavar="VALUE", help="An entry that means that there is none; repeatable."),
    click.option("--decimal", type=click.Choice([".", ","]), default=".", help="How the files write decimals."),
)


def spelling_options(command: Command) -> Command:
    """How files write gaps and numbers."""
    for option in reversed(SPELLING):
        command = option(command)
    return command
