"""`dualfl compare`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dualfl.cli.command_line import command_line, parse_set, say
from dualfl.cli.commands import INTERRUPTED
from dualfl.cli.options import page_option, problems_options
from dualfl.cli.plugins import plugin_option
from dualfl.errors import InputError, NotSupported

if TYPE_CHECKING:
    from dualfl.algorithms.contract import Algorithm
    from dualfl.data import Dataset
    from dualfl.experiments.compare import Comparison
    from dualfl.problem import Problem

PACKAGED, NOW = "packaged", "now"
SETTING = ("dataset", "clients", "partition", "scale", "loss", "ridge", "l1")  # what tuned values are for


@click.command("compare", context_settings={"show_default": True})
@problems_options
@click.option(
    "--algorithms", "chosen", default="dualfl,fedpd,scaffnew,lbfgs", help="Names separated by commas, or all."
)
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME.KEY=VALUE",
    help="A hyperparameter of one algorithm; repeatable. One that is named twice is dualfl-1 and dualfl-2.",
)
@click.option(
    "--tuned",
    metavar="WHICH",
    help="Hyperparameters by a search: packaged (ours, for this problem), now (searched first), or a file of "
    "`dualfl tune`.  [default: from theory]",
)
@click.option("--tune-minutes", default=5.0, help="Time of the search of --tuned now, all algorithms together.")
@click.option("--solver", help="Local solver: lbfgs, fista, newtoncg, ...  [default: depends on the loss]")
@click.option("--codec", help="Compress uploads: top:K or rand:K entries, or bits:B per number.")
@click.option("--rounds", default=50, help="Communication rounds of each algorithm.")
@click.option("--tol", type=float, help="End an algorithm at this relative error.")
@click.option("--seeds", default=1, help="Runs of each algorithm that draws random numbers.")
@click.option("--seconds", type=float, help="Largest number of seconds for the rounds of each.")
@click.option("--threads", type=int, help="Largest number of threads.  [default: one per processor]")
@click.option("--force", is_flag=True, help="Replace the results in --out.")
@page_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: runs/DATASET-comparison]"
)
@plugin_option
@click.pass_context
def compare_command(
    ctx: click.Context, /, chosen: str, values: tuple[str, ...], out: Path | None, force: bool, page: bool, **given: Any
) -> None:
    """Compare algorithms on one problem.

    All algorithms start at zero, with their defaults from theory unless --set
    or --tuned says otherwise. Writes summary.csv (one row per algorithm),
    history.csv, seeds.csv, convergence.png and report.html, a page for the
    browser. With several partitions each has a folder of its own in --out.

    \b
    Examples:
      dualfl compare --algorithms dualfl,fedpd,lbfgs --out runs/three
      dualfl compare --algorithms all --tol 1e-6 --seeds 3 --rounds 500
      dualfl compare --algorithms fedavg,dualfl --set fedavg.K=5 --tuned now
      dualfl compare --algorithms dualfl,dualfl --set dualfl-2.rho=0.1
    """
    from dualfl.data import load, rows_of_clients
    from dualfl.data.problem import how_many
    from dualfl.outputs import alone, check_folder
    from dualfl.report.comparison import FILES
    from dualfl.report.folder import check_names

    algorithms = algorithms_with(chosen, values)
    out = Path("runs", f"{Path(given['dataset']).name}-comparison") if out is None else out
    partitions = list(dict.fromkeys(given.pop("partition")))
    folders = [out] if len(partitions) == 1 else [out / text.replace(":", "-").replace("/", "-") for text in partitions]
    check_folder(out)
    dataset = load(given["dataset"], scale=given["scale"], target=given["target"], task=given["task"])
    wanted = given.pop("clients")
    clients = {partition: how_many(dataset, wanted, partition) for partition in partitions}
    for partition in partitions:  # a wrong one is known before the first comparison has run
        rows_of_clients(dataset, clients[partition], partition, given["seed"])
        if values:  # and so is a wrong value
            check_values(
                algorithms, problem_of(dataset, {"clients": clients[partition], "partition": partition, **given})
            )
    interrupted = False
    for partition, folder in zip(partitions, folders):
        check_folder(folder)
        with alone(folder):
            there = check_names(folder, FILES)
            if there and not force:
                raise InputError(f"{folder} has results already ({', '.join(there)}); give another --out, or --force.")
            settings = {"clients": clients[partition], "partition": partition, **given}
            interrupted = perform(algorithms, dataset, folder, command_line(ctx), page, settings)
        if interrupted:
            sys.exit(INTERRUPTED)


def algorithms_with(chosen: str, values: Sequence[str]) -> list[Algorithm]:
    """The algorithms by name, each with what --set says of it. One that is named twice is dualfl-1 and dualfl-2, as in
    the results, so that its settings can be compared; dualfl means both."""
    from dualfl.algorithms.registry import ALGORITHMS, make
    from dualfl.experiments.compare import numbered

    plain = list(ALGORITHMS) if chosen == "all" else [name.strip() for name in chosen.split(",") if name.strip()]
    names = numbered(plain)
    own: dict[str, list[str]] = {}
    for text in values:
        name, dot, rest = text.partition(".")
        if not dot or "=" not in rest:
            raise InputError(f"--set needs NAME.KEY=VALUE, such as fedavg.K=5, but it is {text!r}.")
        if name not in plain and name not in names:
            raise InputError(f"--set {text}: {name} is not compared; there are {', '.join(names)}.")
        own.setdefault(name, []).append(rest)
    given = [[*own.get(name, ()), *(own.get(one, ()) if one != name else ())] for name, one in zip(plain, names)]
    return [make(name, **parse_set(tuple(texts))) for name, texts in zip(plain, given)]


def check_values(algorithms: Sequence[Algorithm], problem: Problem) -> None:
    """Refuse values of --set that a method does not allow on this problem; a method that has no other business there,
    whatever its values are, is told of in the results."""
    from dualfl.algorithms.registry import make
    from dualfl.experiments.compare import given

    for each in algorithms:
        if not given(each):
            continue
        wrong = obstacle(problem, each)
        if wrong and not obstacle(problem, make(each.name)):
            raise InputError(f"--set: {wrong}")


def obstacle(problem: Problem, algorithm: Algorithm) -> str:
    """Why it cannot even begin; empty if it can."""
    from dualfl.engines import run

    try:
        run(problem, algorithm, rounds=0)
    except (InputError, NotSupported) as error:
        return str(error)
    return ""


def problem_of(dataset: Dataset, given: dict[str, Any]) -> Problem:
    from dualfl.data import make_problem
    from dualfl.solvers.naming import choose_solver

    words = {name: given[name] for name in ("partition", "ridge", "loss", "seed", "l1")}
    return make_problem(dataset, given["clients"], solver=choose_solver(given["solver"]), **words)


def perform(
    algorithms: list[Algorithm], dataset: Dataset, out: Path, command: str, page: bool, given: dict[str, Any]
) -> bool:
    """Compare, write the files, print the table; whether somebody interrupted it."""
    from dualfl.data import Mix, rows_of_clients
    from dualfl.experiments.compare import UNFIT, Entry, compare
    from dualfl.experiments.single_run import choose_codec
    from dualfl.optimum import reference
    from dualfl.outputs import adding
    from dualfl.report.comparison import FILES, RECORD, line, table, write, write_record
    from dualfl.report.page import write_page
    from dualfl.report.results import REPORT

    problem = problem_of(dataset, given)

    def tell(entry: Entry) -> None:
        say(line(entry))

    options = {
        **{name: given[name] for name in ("rounds", "seed", "threads")},
        "codec": choose_codec(given["codec"]),
        "reference": reference(problem),
    }
    algorithms, told = tuned_algorithms(algorithms, problem, dataset, given, options)
    result = compare(
        problem,
        algorithms,
        **options,
        tol=given["tol"],
        seeds=given["seeds"],
        seconds=given["seconds"],
        progress=True,
        tell=tell,
    )
    reasons = [entry.status.removeprefix(UNFIT) for entry in result if entry.status.startswith(UNFIT)]
    if len(reasons) == len(result.entries):
        raise InputError(reasons[0] if len(reasons) == 1 else f"None of these {len(reasons)} applies: {reasons[0]}")
    title = f"{dataset.name}, {given['clients']} clients ({given['partition']}), ridge {given['ridge']:g}"
    mix = Mix.of(dataset, rows_of_clients(dataset, given["clients"], given["partition"], given["seed"]))
    with adding(out, RECORD, FILES) as folder:
        written = [*write(result, folder, title), *write_record(folder, command, given, mix)]
        if page:
            written.append(write_page([folder]).name)
    click.echo(f"{title}; {told}\n")
    click.echo(table(result))
    click.echo(f"\nfiles in {out}: {', '.join(written)}")
    if page:
        click.echo(f"page for the browser: {out / REPORT}")
    return was_interrupted(result)


def was_interrupted(result: Comparison) -> bool:
    return any(run.stopped == "interrupted" for entry in result for run in entry.runs)


def tuned_algorithms(
    algorithms: list[Algorithm], problem: Any, dataset: Dataset, given: dict[str, Any], options: dict[str, Any]
) -> tuple[list[Algorithm], str]:
    """The algorithms with tuned hyperparameters where --tuned asks for them, and what to say of it."""
    from dualfl.experiments.compare import given as fixed
    from dualfl.experiments.grid_search import tuned, with_values

    which = given["tuned"]
    if which is None:
        own = "except what --set says" if any(fixed(each) for each in algorithms) else ""
        return algorithms, " ".join(["defaults from theory", own]).strip()
    if which == NOW:
        found = tuned(
            problem, algorithms, minutes=given["tune_minutes"], tell=lambda each: say(f"found {each.line}"), **options
        )
        return [each.algorithm for each in found], f"tuned here, {given['tune_minutes']:g} minutes for all"
    best = tuned_values(which, dataset.name, given)
    with_them = [
        with_values(each, {k: v for k, v in best.get(each.name, {}).items() if k not in fixed(each)})
        for each in algorithms
    ]
    without = [each.name for each in algorithms if each.name not in best]
    told = f"tuned values ({which})" + (f", theory's for {', '.join(without)}" if without else "")
    return with_them, told


def tuned_values(which: str, dataset: str, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By algorithm, from a file; refused if they were found for another problem."""
    from dualfl.experiments.tune import TUNED, read_best

    path = TUNED / f"{dataset}.json" if which == PACKAGED else Path(which)
    if not path.is_file():
        if which == PACKAGED:
            there = ", ".join(sorted(file.stem for file in TUNED.glob("*.json")))
            raise InputError(f"There are no packaged values for {dataset}, only for {there}; take --tuned now.")
        raise InputError(f"--tuned is packaged, now, or a file of `dualfl tune`, and {path} is none of these.")
    setting, best = read_best(path)
    here = given | {"dataset": Path(given["dataset"]).name}
    for name in SETTING:
        if setting.get(name, here[name]) != here[name]:
            raise InputError(
                f"{path.name} has values tuned for {name} = {setting[name]}, and this comparison has {here[name]}; "
                "take --tuned now."
            )
    return {name: found["hyperparameters"] for name, found in best.items()}
