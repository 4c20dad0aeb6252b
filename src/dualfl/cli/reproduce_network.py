"""`dualfl reproduce network`: costs that are not convex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dualfl.cli.command_line import command_line, note

LINES, TABLE, PICTURE = "network.csv", "network.md", "network.png"


@click.command("network", context_settings={"show_default": True})
@click.option("--dataset", default="mnist", help="A set of classes, from `dualfl datasets`.")
@click.option("--rows", default=1000, help="Rows of all clients together; as many again are for the accuracy.")
@click.option("--hidden", default=16, help="Hidden units.")
@click.option("--clients", multiple=True, type=int, default=(10, 100), help="Number of clients; repeatable.")
@click.option("--partition", default="dirichlet:0.1", help="How rows are split, as in `dualfl run`.")
@click.option("--ridge", default=1e-3, help="Strength mu of the penalty (mu/2)|theta|^2.")
@click.option("--rounds", default=30, help="Communication rounds.")
@click.option("--seeds", default=3, help="Runs of each algorithm, with rows, partition and weights of their own.")
@click.option("--only", help="Names separated by commas.  [default: all that run on such costs]")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs", "network"), help="Folder of the results.")
@click.pass_context
def network_command(ctx: click.Context, /, clients: tuple[int, ...], only: str | None, out: Path, **given: Any) -> None:
    """A small neural network, which is not convex.

    Every method that is used on such costs trains a network with one hidden
    layer; steps are searched for. Writes network.csv (energy, length of the
    gradient and accuracy, round by round), network.md and network.png.

    \b
    Example:
      dualfl reproduce network --clients 10 --rounds 25
    """
    from dualfl.experiments.small_network import Nonconvex, measured, summary, to_csv
    from dualfl.files import write_atomically
    from dualfl.outputs import alone, check_folder
    from dualfl.report.figure import png
    from dualfl.report.network import network_figure

    names = tuple(name.strip() for name in only.split(",") if name.strip()) if only else ()
    plans = [Nonconvex(clients=count, only=names, **given) for count in clients]
    check_folder(out)
    with alone(out):
        lines = [line for plan in plans for line in measured(plan, note)]
        command = command_line(ctx, kept=True)
        for name, content in {
            LINES: to_csv(lines).encode(),
            TABLE: (f"`{command}`\n\n" + summary(lines)).encode(),
            PICTURE: png(network_figure(lines)),
        }.items():
            write_atomically(out / name, content)
    click.echo(summary(lines))
    click.echo(f"files in {out}: {LINES}, {TABLE}, {PICTURE}")
