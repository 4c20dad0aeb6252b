"""One page of instructions per role, and units for systemd, written into the folders that people work in."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dualfl.files import write_atomically

PLAIN = """
   This project runs without masks: the coordinator will see what each silo sends. A silo refuses that, unless you agree
   by adding `--allow-plain`."""


def write_service(folder: Path, verb: str, kind: str, title: str) -> None:
    """A unit for systemd, and a script for machines without it; both name the folder, and Python as it is here."""
    command = [sys.executable, "-m", "dualfl", "deploy", verb, str(folder.absolute())]
    write_atomically(folder / f"dualfl-{kind}.service", unit(title, command, folder).encode())
    loop, script = f"while :; do {shlex.join(command)}; sleep 5; done", folder / "start.sh"
    write_atomically(script, f"#!/bin/sh\n# Starts again whenever it ends; stop it with Ctrl-C.\n{loop}\n".encode())
    script.chmod(0o755)


def unit(title: str, command: Sequence[str], folder: Path) -> str:
    """A service that starts with the machine and starts again when it fails; it writes to its folder alone."""
    return f"""[Unit]
Description={title}
After=network-online.target
Wants=network-online.target

[Service]
{user(folder)}
ExecStart={exec_line(command)}
Restart=always
RestartSec=5
# The service ends its parts itself; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=40
NoNewPrivileges=true
PrivateTmp=true
# All files can be read as far as the user may, such as the data file and Python; only this folder is written.
ProtectSystem=strict
ReadWritePaths={unit_path(folder)}

[Install]
WantedBy=multi-user.target
"""


def user(folder: Path) -> str:
    """Whom the service runs as; root has more rights than it needs."""
    if folder.stat().st_uid == 0:
        return (
            "# Without a user this runs as root. Make a user that can read what it needs and nothing else,\n"
            "# give it this folder (chown -R), and name it here:\n"
            "#User=dualfl"
        )
    try:
        owner = folder.owner()
    except KeyError:  # nobody is called so; systemd takes numbers too
        owner = str(folder.stat().st_uid)
    return f"User={owner}"


def exec_line(command: Sequence[str]) -> str:
    """A command as systemd splits it: in quotes, with % and $ doubled; only in the program $ means nothing to it."""
    program, *arguments = [exec_word(word) for word in command]
    return " ".join([program, *(word.replace("$", "$$") for word in arguments)])


def exec_word(word: str) -> str:
    if re.fullmatch(r"[\w./-]+", word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def unit_path(path: Path) -> str:
    """A path in a list of paths, where systemd knows quotes and % but no backslashes, and takes no `..`."""
    text = str(path.resolve()).replace("%", "%%")
    return f"'{text}'" if '"' in text else f'"{text}"'


def coordinator(folder: Path, settings: Any) -> str:
    where, here = f"{settings.host}:{settings.port}", shlex.quote(str(folder))
    secret = (
        "\nSums are masked (secure aggregation): this machine learns what silos send together, not what one sends.\n"
        if settings.secure
        else ""
    )
    return f"""# The coordinator's page

Silos of this project: {", ".join(settings.silos)}. They connect to {where}.
{secret}
1. Open port {settings.port} to the silos in the firewall, and no other. Port {settings.superlink_port} stays on this
   machine, and on Linux other users of it are turned away there.
2. Give every silo's operator the folder `for-silos/`: the certificate `ca.crt` and the page `SILO.md`.
3. Each operator sends back a `card.txt`, one line with a name and a public key. Compare its fingerprint by telephone:

       dualfl deploy admit {here} card-of-north.txt card-of-south.txt

4. When all are admitted, send `for-silos/roster.json` to all operators.
5. Start the service, now and after every boot (`dualfl-coordinator.service` is for systemd, `start.sh` for the rest):

       dualfl deploy start {here}

6. See who is there, and fit a model, whose folder is then `model/`. A fit that was interrupted goes on when the same
   command is given again:

       dualfl deploy status {here}
       dualfl fit --study {here} --target sick --model logistic

Private: all of this folder but `for-silos/`, `certificates/*.key` above all.
See how it is by `dualfl deploy status {here}`, back it up by `dualfl deploy backup {here} study.tar.gz`, shut a silo
out by `dualfl deploy revoke {here} NAME`, and renew the certificate, every two years, by `dualfl deploy renew {here}`.
"""


def silo(settings: Any) -> str:
    where = f"{settings.host}:{settings.port}"
    ca = " --ca ca.crt" if settings.tls else " --insecure"
    plain = PLAIN if settings.tls and not settings.secure else ""
    return f"""# A silo operator's page

Your data file stays on this machine. What leaves it: column names, class labels and levels of text columns; then sums
over your rows (of columns, for standardisation) and model vectors, one each round.

1. Install: `pip install "dualfl[flower]"`, on Linux or macOS, in the version that the coordinator names or a patch
   release of it.
2. Make this silo's folder. The key pair is made here, and the private key never leaves:

       dualfl deploy join my-silo --name NAME --coordinator {where}{ca} --data patients.csv --target sick

   NAME is one of: {", ".join(settings.silos)}.{plain}
3. Send `my-silo/card.txt` to the coordinator, and compare the fingerprint by telephone.
4. When you have got `roster.json` back, compare every fingerprint with the operator of that silo, then:

       dualfl deploy trust my-silo roster.json

5. Start the service, now and after every boot (`my-silo/dualfl-silo.service` for systemd, `my-silo/start.sh` else):

       dualfl deploy serve my-silo

   Every plan waits until you have read it and said yes, once or for always to such plans:

       dualfl deploy approve my-silo

   What the silo was asked, answered and refused is in a log, which `dualfl deploy audit my-silo` checks and shows.

The firewall needs outgoing TCP to {where}, and nothing incoming. After a crash just start it again: the silo goes on
where it was. `dualfl deploy status my-silo` says how it is, and what to do.

`my-silo/silo.json` is yours: `policy` says what no plan may ask, `minimum` is the smallest federation that you take
part in, `allow_plain` lets the coordinator run without masks and so see what this silo alone sends, `ignore` lists
columns that stay out. How the data file is written is said there too: `categorical` lists columns whose numbers are
names, `na` entries that mean a gap, `decimal` is "." or ",". If the coordinator hears that something failed here, the
reason is in `my-silo/logs/silo.log`.
"""
