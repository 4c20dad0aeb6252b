"""`dualfl run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dualfl.cli.command_line import command_line, parse_set, say
from dualfl.cli.commands import INTERRUPTED
from dualfl.cli.options import HERE, page_option, problem_options
from dualfl.cli.plugins import plugin_option
from dualfl.errors import Diverged, InputError
from dualfl.experiments.settings import RunSettings


@click.command("run", context_settings={"show_default": True})
@problem_options
@click.option("--algorithm", default=HERE.algorithm, help="A name from `dualfl algorithms`.")
@click.option("--rho", type=float, help="The algorithm's rho.  [default: from theory]")
@click.option("--nu", type=float, help="The algorithm's nu.  [default: from theory]")
@click.option("--set", "others", multiple=True, metavar="KEY=VALUE", help="Any other hyperparameter; repeatable.")
@click.option("--solver", help="Local solver: lbfgs, fista, newtoncg, ...  [default: depends on the loss]")
@click.option("--codec", help="Compress uploads: top:K or rand:K entries, or bits:B per number.")
@click.option("--rounds", default=HERE.rounds, help="Largest number of communication rounds.")
@click.option("--tol", type=float, help="Stop when E - E* <= TOL |E| is proven.")
@click.option("--seconds", type=float, help="Stop after this many seconds of rounds.")
@click.option("--epsilon", type=float, help="Without a ridge, regularise until |E'| <= EPSILON.")
@click.option("--alpha", type=float, help="Without a ridge, regularise by (ALPHA/2)|theta|^2.")
@click.option("--reference/--no-reference", default=True, help="Whether to compute E*, for relative errors.")
@click.option("--engine", default="inprocess", help="Where clients run: inprocess, ray or flower-simulation.")
@click.option("--threads", type=int, help="Largest number of threads.  [default: one per processor]")
@click.option("--checkpoint-every", type=int, metavar="K", help="Save the state every K exchanges.")
@click.option("--resume", is_flag=True, help="Continue from the checkpoint in --out.")
@click.option("--force", is_flag=True, help="Replace the results of another run in --out.")
@page_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: runs/DATASET-ALGORITHM]"
)
@plugin_option
@click.pass_context
def run_command(ctx: click.Context, /, **given: Any) -> None:
    """Run an algorithm on a data set split among clients.

    Writes history.csv (one row per round), run.json (all that is needed to
    repeat the run), model.npz, convergence.png and report.html, a page for the
    browser, into the folder --out. Ctrl-C ends a run early and keeps its
    results.

    \b
    Example:
      dualfl run --dataset digits --rounds 50 --out runs/digits
    """
    hyperparameters = parse_set(given.pop("others"))
    for name in ("rho", "nu"):
        value = given.pop(name)
        if value is not None and name in hyperparameters:
            raise InputError(f"{name} is given twice, by --{name} and by --set; give it once.")
        if value is not None:
            hyperparameters[name] = value
    out, force, resume = given.pop("out"), given.pop("force"), given.pop("resume")
    threads, every, page = given.pop("threads"), given.pop("checkpoint_every"), given.pop("page")
    engine = given.pop("engine")
    out = Path("runs", f"{Path(given['dataset']).name}-{given['algorithm']}") if out is None else out
    settings = RunSettings(hyperparameters=hyperparameters, **given)
    perform(
        settings,
        out,
        command_line(ctx),
        threads=threads,
        every=every,
        force=force,
        resume=resume,
        page=page,
        engine=engine,
    )


def perform(
    settings: RunSettings,
    out: Path,
    command: str,
    *,
    threads: int | None = None,
    engine: str = "inprocess",
    every: int | None = None,
    force: bool = False,
    resume: bool = False,
    page: bool = True,
) -> None:
    """Run, print the account, write the files; leave with 130 if somebody interrupted it."""
    from dualfl.outputs import alone, check_folder

    check_folder(out)
    with alone(out):
        perform_alone(settings, out, command, threads, engine, every, force, resume, page)


def perform_alone(
    settings: RunSettings,
    out: Path,
    command: str,
    threads: int | None,
    engine: str,
    every: int | None,
    force: bool,
    resume: bool,
    page: bool,
) -> None:
    from dualfl.experiments.single_run import execute
    from dualfl.lines import entry
    from dualfl.report.folder import CHECKPOINT, FILES, Folder
    from dualfl.report.results import REPORT
    from dualfl.report.run_summary import summary

    folder = Folder(out)
    folder.open(settings, force=force, resume=resume)
    checkpoint = out / CHECKPOINT if every is not None or resume else None
    run = execute(
        settings,
        threads=threads,
        engine=engine,
        checkpoint=checkpoint,
        checkpoint_every=1 if every is None else every,
        resume=resume,
        progress=True,
        say=say,
    )
    if not len(run.result.history):  # interrupted before anything was known
        raise KeyboardInterrupt
    folder.write(run, command, keep_checkpoint=checkpoint is not None, page=page)
    click.echo(summary(run))
    if settings.partition not in ("even", "shuffled"):  # somebody wants unlike clients, and may want to see them
        click.echo(f"\n{run.mix.picture()}\n")
    written = [name for name in FILES if (out / name).exists()]
    click.echo(entry("files", f"in {out}: {', '.join(written)}"))
    if page:
        click.echo(entry("page", f"{out / REPORT}, for the browser"))
    if run.result.stopped == "interrupted":
        sys.exit(INTERRUPTED)
    if run.result.stopped == "contradiction":
        raise Diverged(f"The run was stopped: {run.result.certificate_reason}; look at the clients' data.")
    if run.result.stopped == "diverged":
        raise Diverged(
            f"{run.result.algorithm.name} diverged at round {run.result.history[-1].round}; "
            "take smaller steps, or the default hyperparameters."
        )
