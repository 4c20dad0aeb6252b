"""`dualfl demo`."""

from __future__ import annotations

from pathlib import Path

import click

from dualfl.cli.run import command_line, perform


@click.command("demo", context_settings={"show_default": True})
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo"), help="Folder of the results.")
@click.option("--force", is_flag=True, help="Replace the results of another run in --out.")
@click.pass_context
def demo_command(ctx: click.Context, out: Path, force: bool) -> None:
    """DualFL on handwritten digits, split among 8 clients.

    No client shows its images; after each round the server knows, with
    proof, how far its model is from the best one.
    """
    from dualfl.experiments.demo import DEMO
    from dualfl.report.folder import PICTURE

    click.echo("DualFL on the digits of scikit-learn: 8 clients keep their images, and only")
    click.echo("models travel. All hyperparameters come from theory.\n")
    perform(DEMO, out, command_line(ctx), force=force)
    click.echo(f"\nResults are in {out}, and the picture of the run is {out / PICTURE}.")
