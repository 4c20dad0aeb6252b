"""`dualfl demo`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo", context_settings={"show_default": True})
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("demo"), help="Folder of the results."
)
@click.option("--rounds", default=50, help="Communication rounds.")
@click.option("--processes", type=int, help="Cells that run at once.  [default: one per processor]")
def demo_command(out: Path, rounds: int, processes: int | None) -> None:
    """The paper's Figure 1 on handwritten digits, and its claims.

    DualFL against seven benchmarks, for many clients, and for several
    momentum parameters; then what the paper says of it, measured. About a
    minute on two processors, offline.

    \b
    Example:
      dualfl demo --out demo
    """
    from dualfl.cli.reproduce import run_figure1

    click.echo("Figure 1 of the DualFL paper on the digits of scikit-learn: clients keep their")
    click.echo("images, only models travel. About a minute.\n")
    command = f"dualfl demo --rounds {rounds}" if rounds != 50 else "dualfl demo"
    run_figure1(command, datasets=("digits",), out=out, rounds=rounds, quick=True, processes=processes)
    click.echo(f"\nResults are in {out}, and the picture is {out / 'figure1.png'}.")
