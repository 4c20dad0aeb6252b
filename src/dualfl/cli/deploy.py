"""`dualfl deploy`: a federation of real silos, on Flower."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from dualfl.analysis.model_kinds import SMALL_RIDGE
from dualfl.cli import operate
from dualfl.cli.command_line import command_line, note, parse_set, tell
from dualfl.cli.paths import FILE, FOLDER
from dualfl.cli.reading import rules_for, spelling_options, tell_idle
from dualfl.deploy.service import end_politely
from dualfl.errors import Diverged, InputError

PAGE = click.IntRange(0, 65_535)


def need_flower() -> None:
    from dualfl.federation.flower.runtime import need_flower

    need_flower()


def become(module: str, folder: Path, *more: str) -> None:
    """Go on as a small program in this process: a service waits for months, and needs little of what was loaded."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, str(folder.absolute()), *more])


TRIAL_TOL = 1e-6  # relative, at which `deploy try` has shown enough


@click.group("deploy")
def deploy_command() -> None:
    """Run on silos in other places, with TLS, keys and masked sums.

    \b
    On one machine, to see it:    dualfl deploy try --silos 3
    The coordinator:              init, admit, start, run, measure; add,
                                  revoke, remove
    A silo's operator:            join, trust, serve, check, approve, audit;
                                  rotate
    Both:                         status, watch, stop, renew, backup, restore,
                                  purge
    """


@deploy_command.command("try", context_settings={"show_default": True})
@click.option("--silos", default=3, help="Number of silos, each a program of its own.")
@click.option("--algorithm", "name", default="auto", help="See `dualfl algorithms`.")
@click.option("--set", "others", multiple=True, metavar="KEY=VALUE", help="A hyperparameter; repeatable.")
@click.option("--rounds", default=12, help="Largest number of rounds; the run ends earlier when 1e-6 is proven.")
@click.option("--secure/--no-secure", default=None, help="Mask the sums.  [default: with 3 silos or more]")
@click.option("--keep", type=FOLDER, help="Keep everything in this new folder.  [default: a temporary one]")
def try_command(
    silos: int, name: str, others: tuple[str, ...], rounds: int, secure: bool | None, keep: Path | None
) -> None:
    """See a real deployment on this machine: TLS, keys, proxy and silos.

    The command cuts the breast cancer data into one file per silo, starts
    a coordinator and the silos as separate programs, makes one run, and
    stops all of them.

    \b
    Example:
      dualfl deploy try --silos 3
    """
    need_flower()
    from dualfl.deploy import results
    from dualfl.deploy.project import MINIMUM
    from dualfl.deploy.trial import attempt
    from dualfl.engines.request import Limits
    from dualfl.experiments.single_run import choose_algorithm

    algorithm = choose_algorithm(name, parse_set(others))
    secure = silos >= MINIMUM if secure is None else secure
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise InputError(f"{keep} is there already; give a new folder to --keep.")
    signal.signal(signal.SIGTERM, end_politely)
    with tempfile.TemporaryDirectory(prefix="dualfl-trial-") as temporary:
        folder = (Path(temporary) / "trial") if keep is None else keep
        limits = Limits(rounds, TRIAL_TOL if algorithm.certifies else None)
        finished = attempt(folder.absolute(), silos, algorithm, limits, secure, True, note)
        results.write(finished, "dualfl deploy try")
        text = results.summary(finished)
        click.echo(text if keep is not None else text[: text.rindex("files ")].rstrip())
    note("All processes of the trial have ended.")
    end(finished)


def end(finished: Any) -> None:
    """The exit code says what the run was."""
    if finished.result.stopped == "contradiction":
        raise Diverged(f"The run was stopped: {finished.result.certificate_reason}; look at the clients' data.")
    if finished.result.stopped == "diverged":
        raise Diverged(
            f"{finished.result.algorithm.name} diverged at round {finished.result.history[-1].round}; "
            "take smaller steps, or the default hyperparameters."
        )


@deploy_command.command("init", context_settings={"show_default": True})
@click.argument("folder", type=FOLDER)
@click.option("--silos", required=True, metavar="A,B,C", help="Names of the silos, agreed with their operators.")
@click.option("--host", required=True, help="Name or address under which silos reach this machine.")
@click.option("--port", default=9443, help="Port of this machine that silos connect to.")
@click.option("--superlink-port", default=9340, help="Another port, used inside this machine only.")
@click.option("--secure/--no-secure", default=True, help="Mask the sums, so that nobody sees a single silo's upload.")
@click.option("--insecure", is_flag=True, help="Use no TLS and no keys; only for a network that is safe without them.")
@click.option("--loss", default="auto", help="Loss: auto, softmax, logistic, hinge, squared, ...")
@click.option("--ridge", default=SMALL_RIDGE, help="Strength mu of the penalty (mu/2)|theta|^2.")
@click.option("--l1", default=0.0, help="Strength alpha of the penalty alpha |theta|_1.")
@click.option(
    "--intercept",
    type=click.Choice(["free", "penalised"]),
    default="free",
    help="Whether the penalty leaves the intercept free; some algorithms need it penalised.",
)
@click.option(
    "--task", type=click.Choice(["classification", "regression"]), help="Kind of target.  [default: from the targets]"
)
@click.option(
    "--standardise/--no-standardise",
    default=True,
    help="Whether columns are scaled to mean 0 and spread 1 over all silos.",
)
def init_command(folder: Path, silos: str, insecure: bool, **given: Any) -> None:
    """Coordinator: make the folder of a project, with its certificates.

    Then send the folder FOLDER/for-silos to the operators of all silos.

    \b
    Example:
      dualfl deploy init study --silos north,south,west --host fl.north.org
    """
    need_flower()
    from dualfl.deploy.project import ProjectSettings, init

    names = tuple(name.strip() for name in silos.split(",") if name.strip())
    secure = given.pop("secure")
    settings = ProjectSettings(silos=names, tls=not insecure, secure=secure and not insecure, **given)
    init(folder, settings)
    tell(f"{folder} is ready. Read {folder / 'COORDINATOR.md'}, and give {folder / 'for-silos'} to the operators.")


@deploy_command.command("admit")
@click.argument("folder", type=FOLDER)
@click.argument("cards", type=FILE, nargs=-1, required=True)
def admit_command(folder: Path, cards: tuple[Path, ...]) -> None:
    """Coordinator: add the cards of silos to the roster.

    CARDS are the files card.txt that `dualfl deploy join` wrote at the
    silos. The roster, FOLDER/for-silos/roster.json, goes to all operators.

    \b
    Example:
      dualfl deploy admit study north.txt south.txt west.txt
    """
    from dualfl.deploy.project import Project

    project = Project(folder)
    for name, fingerprint in project.admit([read_card(card) for card in cards]):
        click.echo(f"{name:<20} {fingerprint}")
    click.echo("Compare these with the operators, by telephone or in person.")
    if project.missing:
        tell(f"Still missing: {', '.join(project.missing)}.")
    else:
        tell(f"All silos are admitted; send {folder / 'for-silos' / 'roster.json'} to their operators.")


def read_card(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not a card, which is one line of text; ask for the silo's card.txt again."
        ) from None


@deploy_command.command("start")
@click.argument("folder", type=FOLDER)
@click.option(
    "--page", default=9341, type=PAGE, show_default=True, help="Port of the status page, on loopback; 0: none."
)
def start_command(folder: Path, page: int) -> None:
    """Coordinator: run the service, until Ctrl-C.

    \b
    Example:
      dualfl deploy start study
    """
    need_flower()
    from dualfl.deploy.project import Project

    Project(folder)  # for its sentences
    become("dualfl.deploy.coordinator", folder, str(page))


@deploy_command.command("run", context_settings={"show_default": True})
@click.argument("folder", type=FOLDER)
@click.option("--algorithm", "method", default="auto", help="See `dualfl algorithms`.")
@click.option("--set", "others", multiple=True, metavar="KEY=VALUE", help="A hyperparameter; repeatable.")
@click.option("--rounds", default=100, help="Largest number of communication rounds.")
@click.option("--tol", type=float, help="Stop when E - E* <= TOL |E| is proven.")
@click.option("--seconds", type=float, help="Stop after this many seconds of rounds.")
@click.option("--seed", default=0, help="Seed of all random numbers.")
@click.option("--name", help="Name of the run's folder under runs/.  [default: the algorithm]")
@click.option(
    "--patience", type=float, help="Seconds to wait for a silo that does not answer.  [default: see project.json]"
)
@click.option("--fresh", is_flag=True, help="Start again, and discard an earlier run of this name.")
@click.pass_context
def run_command(ctx: click.Context, /, **given: Any) -> None:
    """Coordinator: run an algorithm on all silos.

    Writes history.csv, run.json, model.npz, convergence.png and report.html,
    a page for the browser. After an interruption the same command
    continues the run.

    \b
    Examples:
      dualfl deploy run study --tol 1e-6
      dualfl deploy run study --algorithm lbfgs --rounds 50
    """
    need_flower()
    from dualfl.deploy import results
    from dualfl.deploy.project import Project
    from dualfl.deploy.runs import execute, folder_of
    from dualfl.engines.request import Limits
    from dualfl.experiments.single_run import choose_algorithm
    from dualfl.outputs import alone

    signal.signal(signal.SIGTERM, end_politely)
    project = Project(given["folder"])
    algorithm = choose_algorithm(given["method"], parse_set(given["others"]))
    with alone(folder_of(project, algorithm, given["name"])):
        finished = execute(
            project,
            algorithm,
            Limits(given["rounds"], given["tol"], given["seconds"]),
            name=given["name"],
            seed=given["seed"],
            fresh=given["fresh"],
            patience=given["patience"],
            say=note,
        )
        results.write(finished, command_line(ctx))
    click.echo(results.summary(finished))
    end(finished)


@deploy_command.command("join", context_settings={"show_default": True})
@click.argument("folder", type=FOLDER)
@click.option("--name", required=True, help="Name of this silo, as agreed with the coordinator.")
@click.option("--coordinator", required=True, metavar="HOST:PORT", help="Address of the coordinator.")
@click.option("--data", required=True, type=FILE, help="CSV, Parquet, NPZ or LIBSVM; it stays where it is.")
@click.option("--target", help="The column to predict.")
@click.option("--ignore", "--drop", "drop", multiple=True, metavar="COLUMN", help="Leave this column out; repeatable.")
@click.option("--id", "id", multiple=True, metavar="COLUMN", help="An identifier of rows, not a feature; repeatable.")
@click.option("--categorical", multiple=True, metavar="COLUMN", help="Treat its numbers as categories; repeatable.")
@spelling_options
@click.option("--ca", type=FILE, help="The coordinator's certificate, ca.crt.")
@click.option("--insecure", is_flag=True, help="Use no TLS and no keys; only if the coordinator does the same.")
@click.option("--minimum", default=3, help="Smallest number of silos with which this silo takes part.")
@click.option(
    "--secure-only/--allow-plain",
    default=None,
    help="Send only masked sums, or let the coordinator choose.  [default: secure-only with --ca]",
)
@click.option("--policy", multiple=True, metavar="WORD=VALUE", help="Set one rule of the silo's policy; repeatable.")
@click.option(
    "--show-own-numbers", is_flag=True, help="Let others see how many rows this silo has, its loss and its influence."
)
def join_command(
    folder: Path,
    name: str,
    coordinator: str,
    data: Path,
    target: str | None,
    ca: Path | None,
    insecure: bool,
    minimum: int,
    secure_only: bool | None,
    show_own_numbers: bool,
    policy: tuple[str, ...],
    **given: Any,
) -> None:
    """Silo: make the folder of this silo, with its keys.

    It prints the silo's card, one line with its public key; send it to the
    coordinator. The data file stays where it is, and so does the private key.
    A file that cannot be used is refused: `dualfl check FILE` lists all that is
    wrong with it, and options that mend it, which this command takes, too.

    \b
    Example:
      dualfl deploy join my-silo --name south --coordinator fl.north.org:9443
        --ca ca.crt --data patients.csv --target sick
    """
    need_flower()
    from dualfl.deploy import keys, member

    _, (rules,) = rules_for(given, [data])
    if (ca is None) != insecure:
        raise InputError("Give --ca with the coordinator's certificate, or --insecure to do without TLS and keys.")
    if insecure and secure_only:
        raise InputError("--secure-only needs the keys that --insecure does without; give one of them.")
    allow_plain = None if secure_only is None else not secure_only
    card, rows = member.join(
        folder,
        name,
        data,
        target,
        coordinator,
        ca,
        rules=rules,
        minimum=minimum,
        allow_plain=allow_plain,
        words=parse_set(policy, "policy"),
        show_own_numbers=show_own_numbers,
    )
    public = keys.read_card(card).public
    numbers, texts = rows.columns
    tell(f"{data}: {rows.table.rows:,} rows, {numbers} columns of numbers, {texts} of text.")
    tell_idle(given, [data], [rows.table])
    tell(f"The private key is {folder / 'key'}; it stays here. Send this line ({folder / 'card.txt'}):")
    click.echo(f"\n{card}\n")
    click.echo(f"Its fingerprint is {keys.fingerprint(public)}.")
    place = shlex.quote(str(folder))
    if insecure:
        tell(f"Then start the silo with `dualfl deploy serve {place}`.")
    else:
        tell(
            f"When the coordinator has sent you roster.json, run `dualfl deploy trust {place} roster.json`, then start "
            f"the silo with `dualfl deploy serve {place}`."
        )


@deploy_command.command("serve")
@click.argument("folder", type=FOLDER)
@click.option(
    "--page", default=9342, type=PAGE, show_default=True, help="Port of the status page, on loopback; 0: none."
)
def serve_command(folder: Path, page: int) -> None:
    """Silo: run the service, until Ctrl-C.

    \b
    Example:
      dualfl deploy serve my-silo
    """
    need_flower()
    from dualfl.deploy.silo_process import note_settings
    from dualfl.deploy.silo_service import SiloService
    from dualfl.federation.silo_folder import SiloFolder

    SiloService(folder)  # for its sentences
    note_settings(SiloFolder(folder))
    become("dualfl.deploy.silo_service", folder, str(page))


@deploy_command.command("check")
@click.argument("folder", type=FOLDER)
@click.pass_context
def check_command(ctx: click.Context, folder: Path) -> None:
    """Silo: list everything that is wrong with the silo's own table.

    This is for the operator alone. Others see only what `dualfl check
    --study` shows, without entries and rows, once its plan is approved.

    \b
    Example:
      dualfl deploy check my-silo
    """
    from dualfl.cli.check import lines
    from dualfl.federation.inspecting import found_here
    from dualfl.federation.silo_folder import SiloFolder

    found, _ = found_here(SiloFolder(folder))
    click.echo("\n".join(lines([found], (), far=True)))
    if any(one.stops for one in found.findings):
        ctx.exit(1)


@deploy_command.command("approve")
@click.argument("folder", type=FOLDER)
@click.option(
    "--all",
    "answer_all",
    type=click.Choice(["once", "always", "no"]),
    help="Give this answer to all plans, without a question.",
)
def approve_command(folder: Path, answer_all: str | None) -> None:
    """Silo: read the plans that are waiting, and approve or refuse them.

    "once" approves this plan only; "always" approves every plan with the
    same silos, keys, columns, model and method; "no" refuses it; "later"
    leaves it waiting.

    \b
    Examples:
      dualfl deploy approve my-silo
      dualfl deploy approve my-silo --all once
    """
    from dualfl.federation.consent import Consent
    from dualfl.federation.plan_in_words import in_words
    from dualfl.federation.silo_folder import SiloFolder

    home = SiloFolder(folder)
    consent = Consent(home.path, home.policy, home.log)
    waiting = consent.waiting()
    if not waiting:
        click.echo("No plan is waiting.")
    for name, plan in waiting.items():
        click.echo(in_words(plan, str(home.settings.get("coordinator", "?"))))
        answer = answer_all or click.prompt("Take part?", type=click.Choice(["once", "always", "no", "later"]))
        if answer != "later":
            consent.decide(name, answer)
            click.echo(f"Noted: {answer}.")


@deploy_command.command("audit")
@click.argument("folder", type=FOLDER)
@click.option(
    "--last", default=50, type=click.IntRange(min=0), show_default=True, help="Number of lines to show; 0 shows all."
)
def audit_command(folder: Path, last: int) -> None:
    """Silo: check that the audit log is whole, and show it.

    \b
    Example:
      dualfl deploy audit my-silo --last 20
    """
    from dualfl.federation.silo_folder import SiloFolder
    from dualfl.lines import plain_text

    records = list(SiloFolder(folder).log.verified())
    for record in records[-last:] if last else records:
        more = {key: value for key, value in record.items() if key not in ("number", "time", "what", "before")}
        about = ", ".join(f"{key} {value}" for key, value in more.items())
        click.echo(plain_text(f"{record['number']:>6} {record['time']} {record['what']}: {about}", 400))
    click.echo(f"{len(records)} lines; each follows from the one before.")


operate.add_to(deploy_command)
