"""One page of instructions per role, and units for systemd, written into the folders that people work in."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def unit(title: str, command: str) -> str:
    """A service that starts with the machine and starts again when it fails."""
    return f"""[Unit]
Description={title}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command}
Restart=always
RestartSec=5
NoNewPrivileges=true
PrivateTmp=true

[Install]
WantedBy=multi-user.target
"""


def coordinator(folder: Path, settings: Any) -> str:
    where = f"{settings.host}:{settings.port}"
    secret = (
        "\nSums are masked (secure aggregation): this machine learns what silos send together, not what one sends.\n"
        if settings.secure
        else ""
    )
    return f"""# The coordinator's page

Silos of this project: {", ".join(settings.silos)}. They connect to {where}.
{secret}
1. Open port {settings.port} to the silos in the firewall, and no other. Port {settings.superlink_port} stays on this
   machine: whoever reaches it can run code on every silo.
2. Give every silo's operator the folder `for-silos/`: the certificate `ca.crt` and the page `SILO.md`.
3. Each operator sends back a `card.txt`, one line with a name and a public key. Compare its fingerprint by telephone:

       dualfl deploy admit {folder} card-of-north.txt card-of-south.txt

4. When all are admitted, send `for-silos/roster.json` to all operators.
5. Start the service, now and after every boot (`dualfl-coordinator.service` is for systemd, `start.sh` for the rest):

       dualfl deploy start {folder}

6. See who is there, and run:

       dualfl deploy status {folder}
       dualfl deploy run {folder} --algorithm dualfl --rounds 50 --tol 1e-6

   Results are in `{folder}/runs/`. A run that was interrupted goes on when the same command is given again.

Private: `certificates/*.key`. Back up: `certificates/`, `roster.json`, `state.db`, `runs/`.
To shut a silo out for good: take it out of `roster.json` and `project.json`, then `flwr supernode unregister`.
"""


def silo(settings: Any) -> str:
    where = f"{settings.host}:{settings.port}"
    ca = " --ca ca.crt" if settings.tls else " --insecure"
    return f"""# A silo operator's page

Your data file stays on this machine. What leaves it: column names, class labels and levels of text columns; then sums
over your rows (of columns, for standardisation) and model vectors, one each round.

1. Install: `pip install "dualfl[flower]"`, the version that the coordinator names.
2. Make this silo's folder. The key pair is made here, and the private key never leaves:

       dualfl deploy join my-silo --name NAME --coordinator {where}{ca} --data patients.csv --target sick

   NAME is one of: {", ".join(settings.silos)}.
3. Send `my-silo/card.txt` to the coordinator, and compare the fingerprint by telephone.
4. When you have got `roster.json` back, compare every fingerprint with the operator of that silo, then:

       dualfl deploy trust my-silo roster.json

5. Start the service, now and after every boot (`my-silo/dualfl-silo.service` for systemd, `my-silo/start.sh` else):

       dualfl deploy serve my-silo

The firewall needs outgoing TCP to {where}, and nothing incoming. After a crash just start it again: the silo goes on
where it was (Flower lets it in again after about a minute).

`my-silo/silo.json` is yours: `minimum` is the smallest federation that you take part in, `secure_only` refuses to send
anything unmasked, `ignore` lists columns that stay out.
"""
