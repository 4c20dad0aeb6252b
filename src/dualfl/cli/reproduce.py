"""`dualfl reproduce`: the paper's figure and tables, and a matrix of experiments beyond them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dualfl.cli.command_line import command_line
from dualfl.cli.options import page_option
from dualfl.cli.reproduce_matrix import matrix_command, run_matrix
from dualfl.cli.reproduce_network import network_command
from dualfl.cli.watching import check_out, drawing, finish, wrapped
from dualfl.errors import InputError
from dualfl.names import nearest

if TYPE_CHECKING:
    from dualfl.experiments.figure1 import Plan


class Words(click.Group):
    """Says which commands there are when one is misspelt."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise InputError(nearest("experiment", args[0], self.commands))
        return super().resolve_command(ctx, args)


@click.group("reproduce", cls=Words)
def reproduce_command() -> None:
    """The paper's figure and tables, and experiments beyond them.

    A cell is one run of one algorithm. Finished cells are kept in --out.
    After an interruption the same command continues.
    """


# -- Figure 1 ---------------------------------------------------------------------------------------------


@reproduce_command.command("figure1", context_settings={"show_default": True})
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    help="mnist, cifar10 or digits; repeatable.  [default: mnist, with --quick digits]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the results.  [default: runs/figure1-DATASET]",
)
@click.option(
    "--panel",
    "panels",
    multiple=True,
    metavar="NAME",
    help="Only benchmarks, paper, clients or rho; repeatable.  [default: all]",
)
@click.option("--rounds", default=50, help="Communication rounds.")
@click.option("--seeds", default=5, help="Runs of random algorithms; the figure has their median and band.")
@click.option("--quick", is_flag=True, help="Fewer numbers of clients, and 4,000 rows of large data sets.")
@click.option(
    "--tuned",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Tuned values, from `dualfl tune`.  [default: those that come with dualfl]",
)
@click.option("--cell-minutes", type=float, help="Largest processor time of a cell, in minutes.  [default: no limit]")
@click.option(
    "--check/--no-check",
    default=True,
    help="On CIFAR-10: also run DualFL's first round with the paper's solver, about seven minutes of a processor.",
)
@click.option("--processes", type=int, help="Cells that run at once.  [default: one per processor]")
@page_option
@click.pass_context
def figure1_command(ctx: click.Context, /, **given: Any) -> None:
    """Figure 1: DualFL against benchmarks, clients and momentum.

    Writes figure1.png and .svg, figure1.csv with all curves, verdicts.csv
    with the paper's claims, report.html, a page for the browser, and
    about.txt.

    \b
    Example:
      dualfl reproduce figure1 --quick --out runs/figure1
    """
    with drawing():
        run_figure1(command_line(ctx, kept=True), **given)


def run_figure1(
    command: str,
    *,
    datasets: Sequence[str] = (),
    out: Path | None = None,
    panels: Sequence[str] = (),
    rounds: int = 50,
    seeds: int = 5,
    quick: bool = False,
    tuned: Path | None = None,
    cell_minutes: float | None = None,
    check: bool = True,
    processes: int | None = None,
    page: bool = True,
) -> Path:
    """Run, draw, judge; the folder in which everything is."""
    from dualfl.experiments import figure1 as experiment
    from dualfl.outputs import alone

    datasets = tuple(dict.fromkeys(datasets)) or (("digits",) if quick else ("mnist",))
    plans = [
        experiment.Plan(
            name,
            rounds,
            seeds,
            quick,
            cell_minutes,
            tuple(dict.fromkeys(panels)) or experiment.PANELS,
            tuned_values(name, tuned),
            check,
        )
        for name in datasets
    ]
    out = Path("runs", f"figure1-{'-'.join(datasets)}") if out is None else out
    check_out(out)
    with alone(out):
        return draw_figure1(command, out, datasets, plans, processes, page)


def draw_figure1(
    command: str, out: Path, datasets: Sequence[str], plans: Sequence[Plan], processes: int | None, page: bool
) -> Path:
    from dualfl.experiments import figure1 as experiment
    from dualfl.experiments.claims import table
    from dualfl.report.figure1 import figure1
    from dualfl.report.reproduction import verdict_lines, write_about, write_csv, write_figure
    from dualfl.report.reproduction_page import FIGURE1, panel_part, write_report

    cells = [cell for plan in plans for cell in plan.cells]
    store, cpu = finish(out, cells, processes)
    found = [panel for plan in plans for panel in experiment.panels(plan, store)]
    notes = [f"{plan.dataset}: {note}" for plan in plans for note in plan.notes]
    notes += [
        f"{panel.dataset} ({panel.letter}) {line.label}: {line.status}"
        for panel in found
        for line in (*panel.lines, *panel.faint)
        if line.status != "ok"
    ]
    verdicts = experiment.verdicts(found)
    drawn = figure1(found)  # first: if there is nothing to draw, nothing of before is lost
    write_csv(out / "figure1.csv", experiment.csv_rows(found))
    write_csv(out / "verdicts.csv", table(verdicts))
    pictures = write_figure(drawn, out / "figure1")
    write_about(out, command, cpu, notes)
    click.echo(f"\nThe paper's claims about Figure 1, measured here:\n\n{verdict_lines(verdicts)}\n")
    for note in notes:
        click.echo(wrapped("Note", note))
    click.echo(wrapped("Files", f"{', '.join(pictures)}, figure1.csv, verdicts.csv and about.txt in {out}"))
    if page:
        lines = {(plan.dataset, name): plan.lines(name) for plan in plans for name in plan.panels}
        parts = [panel_part(panel, lines[panel.dataset, panel.name], store) for panel in found]
        title = f"Figure 1 of the paper: {', '.join(datasets)}"
        click.echo(wrapped("Page", str(write_report(out, parts, command, title, FIGURE1, verdicts, notes))))
    return out


def tuned_values(dataset: str, given: Path | None) -> dict[str, dict[str, Any]]:
    """Tuned hyperparameters, if there is a file with them; refused if they are those of another problem."""
    from dualfl.experiments import figure1
    from dualfl.experiments.tune import TUNED, read_best

    path = TUNED / f"{dataset}.json" if given is None else given
    if given is not None and not path.is_file():
        raise InputError(f"There is no file {path} with tuned values; `dualfl tune` writes one.")
    there, best = read_best(path) if path.is_file() else ({}, {})
    for name, value in figure1.setting(dataset).items():
        if there.get(name, value) != value:
            raise InputError(
                f"{path} has values tuned for {name} = {there[name]}, and Figure 1 has {name} = {value}; "
                "leave --tuned out."
            )
    return {name: found["hyperparameters"] for name, found in best.items()}


# -- tables -----------------------------------------------------------------------------------------------


@reproduce_command.command("table1")
def table1_command() -> None:
    """Table 1: which methods accelerate communication, and where.

    \b
    Example:
      dualfl reproduce table1
    """
    from dualfl.experiments.table1 import REMARKS, table1

    click.echo(table1())
    for remark in REMARKS:
        click.echo(wrapped("Note", remark))


@reproduce_command.command("table2")
def table2_command() -> None:
    """Table 2: the paper's hyperparameters, and what was tuned here.

    \b
    Example:
      dualfl reproduce table2
    """
    show_table2()


def show_table2() -> None:
    from dualfl.experiments.table2 import LINES, PAPER

    here = {name: tuned_values(name, None) for name in ("mnist", "cifar10", "digits")}
    here = {name: values for name, values in here.items() if values}
    click.echo(f"{'':<22}{'the paper':<28}" + ("tuned here, pixels in [0, 1]" if here else ""))
    head = f"{'algorithm':<14}{'':<8}{'MNIST':<14}{'CIFAR-10':<14}"
    click.echo((head + "".join(f"{name:<9}" for name in here)).rstrip())
    for line in LINES:
        paper = [line.formula or f"{PAPER[line.algorithm][column][line.field]:g}" for column in ("mnist", "cifar10")]
        ours = [_short(values.get(line.algorithm, {}).get(line.field)) for values in here.values()]
        cells = "".join(f"{text:<14}" for text in paper) + "".join(f"{text:<9}" for text in ours)
        click.echo(f"{line.algorithm:<14}{line.symbol:<8}{cells}".rstrip())
    if here:
        click.echo(wrapped("Note", "a dash is the default of theory; `dualfl tune` finds the values"))
    else:
        click.echo(wrapped("Note", "nothing is tuned here yet; `dualfl tune` does it"))


def _short(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


# -- everything -------------------------------------------------------------------------------------------


@reproduce_command.command("all", context_settings={"show_default": True})
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/reproduction"),
    help="Folder of the results.",
)
@click.option("--quick", is_flag=True, help="Digits for the figure, 400 rows for the matrix.")
@click.option(
    "--cell-minutes",
    type=float,
    help="Largest processor time of a cell, in minutes.  [default: no limit]",
)
@click.option("--processes", type=int, help="Cells that run at once.  [default: one per processor]")
@click.pass_context
def all_command(ctx: click.Context, out: Path, quick: bool, cell_minutes: float | None, processes: int | None) -> None:
    """Both tables, Figure 1 and the matrix, one after the other.

    Without --quick this takes a day of two processors, nearly all of it for
    the matrix; --cell-minutes makes it shorter.

    \b
    Example:
      dualfl reproduce all --quick
    """
    command = command_line(ctx, kept=True)
    ctx.invoke(table1_command)
    click.echo()
    show_table2()
    click.echo()
    datasets = ("digits",) if quick else ("mnist", "cifar10")
    given: dict[str, Any] = {"quick": quick, "processes": processes}
    run_figure1(command, datasets=datasets, out=out / "figure1", cell_minutes=cell_minutes, **given)
    click.echo()
    run_matrix(command, out=out / "matrix", cell_minutes=cell_minutes, **given)


reproduce_command.add_command(matrix_command)
reproduce_command.add_command(network_command)
