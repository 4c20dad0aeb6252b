"""`dualfl deploy`, the commands of every day, from status to purge."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from dualfl.cli.command_line import tell
from dualfl.cli.paths import FILE, FOLDER
from dualfl.errors import InputError
from dualfl.lines import WIDTH, said_to

CLEAR = "\x1b[2J\x1b[H"
SHORTEST, LONGEST = 0.1, 86_400.0  # seconds between two looks


@click.command("status")
@click.argument("folder", type=FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status_command(folder: Path, as_json: bool) -> None:
    """Coordinator or silo: show the state, and what needs attention.

    It only reads the folder, so it works while the service is down, too.

    \b
    Example:
      dualfl deploy status study
    """
    import json

    from dualfl.deploy import telling
    from dualfl.deploy.condition import condition

    found = condition(folder)
    click.echo(json.dumps(found) if as_json else "\n".join(telling.lines(found)))


@click.command("watch")
@click.argument("folder", type=FOLDER)
@click.option("--every", default=2.0, show_default=True, help="Seconds between two updates.")
@click.option("--times", default=0, help="How many looks; 0: until Ctrl-C.", hidden=True)
def watch_command(folder: Path, every: float, times: int) -> None:
    """Coordinator or silo: the status, refreshed until Ctrl-C.

    \b
    Example:
      dualfl deploy watch study
    """
    from dualfl.deploy import telling
    from dualfl.deploy.condition import condition

    if not SHORTEST <= every <= LONGEST:
        raise InputError(f"--every must be from {SHORTEST:g} to {LONGEST:g} seconds, but it is {every:g}.")
    if times < 0:
        raise InputError(f"--times must be a number of looks, or 0, but it is {times}.")
    looks = 0
    while not times or looks < times:
        if looks:
            time.sleep(every)
        looks += 1
        click.echo(CLEAR + "\n".join(telling.lines(condition(folder))))


@click.command("stop")
@click.argument("folder", type=FOLDER)
@click.option("--run", "name", help="End this run or analysis instead of the service; `all` ends every one.")
def stop_command(folder: Path, name: str | None) -> None:
    """Coordinator or silo: stop the service of a folder, or a run.

    To continue a stopped run, give the command that started it again.

    \b
    Examples:
      dualfl deploy stop my-silo
      dualfl deploy stop study --run all
    """
    from dualfl.deploy import service

    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; give that of a coordinator or of a silo.")
    if name is not None:
        from dualfl.deploy.running import stop_runs

        ended = stop_runs(folder, name)
        click.echo(f"Ended: {', '.join(ended)}." if ended else "No such run is under way.")
        return
    pid = service.stop(folder)
    click.echo(f"No service runs in {folder}." if pid is None else f"The service has ended (process {pid}).")


@click.command("renew")
@click.argument("folder", type=FOLDER)
@click.option("--ca", type=FILE, help="Silo: the new ca.crt of the coordinator.")
@click.option("--authority", is_flag=True, help="Coordinator: also renew ca.crt; send it to the silos.")
def renew_command(folder: Path, ca: Path | None, authority: bool) -> None:
    """Coordinator or silo: renew certificates.

    The coordinator's service picks the new certificate up by itself. Silos
    need nothing, unless ca.crt is renewed: then send it to their operators.

    \b
    Examples:
      dualfl deploy renew study
      dualfl deploy renew my-silo --ca ca.crt
    """
    from dualfl.deploy import certificates
    from dualfl.deploy.project import Project
    from dualfl.deploy.upkeep import kind_of
    from dualfl.files import write_atomically

    if kind_of(folder) == "silo":
        if ca is None:
            raise InputError("A silo's certificate is the coordinator's; give the new one by --ca ca.crt.")
        if not certificates.same_authority(ca, folder / "ca.crt"):
            raise InputError(
                f"{ca} is of another authority than this silo's ca.crt, so it is no renewal; if the coordinator has "
                "really begun anew, join again."
            )
        write_atomically(folder / "ca.crt", ca.read_bytes())
        tell(f"{folder / 'ca.crt'} is renewed; restart the service.")
        return
    project = Project(folder)
    if not project.settings.tls:
        raise InputError("This project does without TLS, so it has no certificates.")
    _, ends = certificates.span(project.certificates / "ca.crt")
    renewed = certificates.renew(project.certificates, project.settings.host, authority)
    for one in certificates.lifetimes(project.certificates, tuple(renewed)):
        click.echo(f"{one['name']:<12} valid for {one['days']:.0f} days")
    if "ca.crt" in renewed:
        write_atomically(folder / "for-silos" / "ca.crt", (project.certificates / "ca.crt").read_bytes())
        state = "works until" if ends > time.time() else "expired on"
        new = folder / "for-silos" / "ca.crt"
        tell(f"Send {new} to the operators; the one that they have {state} {certificates.on(ends)}.")


@click.command("rotate")
@click.argument("folder", type=FOLDER)
def rotate_command(folder: Path) -> None:
    """Silo: make new keys and a new card.

    \b
    Example:
      dualfl deploy rotate my-silo
    """
    from dualfl.deploy import keys
    from dualfl.deploy.membership import rotate

    card, before = rotate(folder)
    tell(f"The key {before} is replaced by {keys.fingerprint(keys.read_card(card).public)}.")
    card_file = folder / "card.txt"
    tell(f"Send {card_file} to the coordinator, for `dualfl deploy revoke` and then `dualfl deploy admit`.")


@click.command("revoke")
@click.argument("folder", type=FOLDER)
@click.argument("silo")
def revoke_command(folder: Path, silo: str) -> None:
    """Coordinator: stop accepting a silo's keys, at once.

    \b
    Example:
      dualfl deploy revoke study south
    """
    from dualfl.deploy.membership import revoke
    from dualfl.deploy.project import Project

    gone = revoke(Project(folder), silo)
    tell(f"The key {gone} of {silo} is revoked; a running service no longer lets it in.")
    tell(f"Admit a new card of {silo}, or take it out by `dualfl deploy remove`; then send the new roster to all.")


@click.command("add")
@click.argument("folder", type=FOLDER)
@click.argument("silos", nargs=-1, required=True)
def add_command(folder: Path, silos: tuple[str, ...]) -> None:
    """Coordinator: add new silos to an existing federation.

    \b
    Example:
      dualfl deploy add study east
    """
    from dualfl.deploy.membership import add
    from dualfl.deploy.project import Project

    add(Project(folder), silos)
    tell(f"Give {folder / 'for-silos'} to the operators of {', '.join(silos)}, and admit their cards.")


@click.command("remove")
@click.argument("folder", type=FOLDER)
@click.argument("silo")
def remove_command(folder: Path, silo: str) -> None:
    """Coordinator: remove a silo from the federation.

    \b
    Example:
      dualfl deploy remove study west
    """
    from dualfl.deploy.membership import remove
    from dualfl.deploy.project import Project

    remove(Project(folder), silo)
    tell(f"{silo} is out. Send {folder / 'for-silos' / 'roster.json'} to the operators of the others.")


@click.command("trust")
@click.argument("folder", type=FOLDER)
@click.argument("roster", type=FILE)
def trust_command(folder: Path, roster: Path) -> None:
    """Silo: accept the roster, the list of all silos' keys.

    ROSTER is the file roster.json that the coordinator sent. Compare every
    fingerprint that is printed with the operator of that silo.

    \b
    Example:
      dualfl deploy trust my-silo roster.json
    """
    from dualfl.deploy.member import trust

    for name, fingerprint, change in trust(folder, roster):
        line = f"{name:<20} {fingerprint}{f'  {change}' if change else ''}"
        click.echo(line if len(line) <= WIDTH else f"{name:<20} {fingerprint}\n    {change}")
    tell("Compare each line with the operator of that silo, so that nobody can impersonate it.")


@click.command("measure")
@click.argument("folder", type=FOLDER)
def measure_command(folder: Path) -> None:
    """Coordinator: measure the network, for `cost = time`.

    Sends messages that hold nothing to all silos and back, and writes what
    the slowest took to network.json: the seconds of an exchange, and the
    Mbit/s of a silo's line. `deploy run` with `--set cost=time` takes them;
    a run that has begun goes on with those that it began with.

    \b
    Example:
      dualfl deploy measure study
    """
    from dualfl.deploy.network import measure
    from dualfl.deploy.project import Project
    from dualfl.deploy.service import end_politely

    signal.signal(signal.SIGTERM, end_politely)
    found = measure(Project(folder), None, lambda sentence: click.echo(said_to(sys.stderr, sentence), err=True))
    click.echo(f"{found} (network.json)")


@click.command("backup")
@click.argument("folder", type=FOLDER)
@click.argument("archive", type=click.Path(path_type=Path, dir_okay=False))
def backup_command(folder: Path, archive: Path) -> None:
    """Coordinator or silo: write a backup, keys included.

    The data file is not in it. Nor is what unfinished experiments need: they
    cannot be continued in a restored folder.

    \b
    Example:
      dualfl deploy backup my-silo my-silo.tar.gz
    """
    from dualfl.deploy.upkeep import backup

    tell(f"{archive}: {backup(folder, archive)} files. It holds private keys, so keep it as safe as those.")


@click.command("restore")
@click.argument("archive", type=FILE)
@click.argument("folder", type=FOLDER)
def restore_command(archive: Path, folder: Path) -> None:
    """Coordinator or silo: unpack a backup into a new folder.

    \b
    Example:
      dualfl deploy restore my-silo.tar.gz my-silo-again
    """
    from dualfl.deploy.upkeep import restore

    kind = restore(archive, folder)
    verb = "start" if kind == "coordinator" else "serve"
    tell(f"{folder} is restored. Start it by `dualfl deploy {verb} {folder}`, and never start the old folder again.")


@click.command("purge")
@click.argument("folder", type=FOLDER)
@click.option("--days", default=30.0, show_default=True, help="Delete what has not been used for so many days.")
@click.confirmation_option(prompt="Deleted experiments cannot be continued. Delete them?")
def purge_command(folder: Path, days: float) -> None:
    """Coordinator or silo: delete what is left of old experiments.

    Results, models and the audit log are kept.

    \b
    Example:
      dualfl deploy purge my-silo --days 30
    """
    from dualfl.deploy.upkeep import purge

    if not days >= 0:
        raise InputError(f"--days must be a number >= 0, but it is {days:g}.")
    count, size = purge(folder, days)
    tell(f"{count} experiment{' was' if count == 1 else 's were'} deleted, {size / 1e6:.1f} MB.")


def add_to(group: Any) -> None:
    for command in (
        *(status_command, watch_command, stop_command, renew_command, rotate_command, revoke_command),
        *(add_command, remove_command, trust_command, measure_command, backup_command, restore_command, purge_command),
    ):
        group.add_command(command)
