"""The ClientApp: hands a message to the silo's keeper and its answer back.

Flower starts a new process for every message. This file is copied into the app as it is, and imports nothing of dualfl:
a keeper that runs beside the SuperNode has the data in memory and answers over a socket. Where there is none, as in a
simulation, the message is answered here.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

NAME = "dualfl"
SOCKET = "keeper.sock"
app = ClientApp()


@app.train()
def train(message: Any, context: Any) -> Any:
    request = bytes(message.content[NAME][NAME].data)
    silo = home(context)
    answer = from_keeper(silo, request)
    if answer is None:
        from dualfl.federation.keeper import Keeper

        answer = Keeper(silo).handle(request)
    body = Array("uint8", (len(answer),), "bytes", answer)
    return Message(RecordDict({NAME: ArrayRecord({NAME: body})}), reply_to=message)


def home(context: Any) -> Path:
    """The silo's folder: what the operator said, or in a simulation the folder of this partition."""
    if "home" in context.node_config:
        return Path(context.node_config["home"])
    return Path(context.run_config["job"]) / "silos" / f"silo-{int(context.node_config['partition-id']):06d}"


def from_keeper(silo: Path, request: bytes) -> bytes | None:
    """The keeper's answer; None if no keeper is there, as on all systems but Linux, or if it dies over it."""
    if sys.platform != "linux":
        return None
    try:
        folder = os.open(silo, os.O_RDONLY)
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(f"/proc/self/fd/{folder}/{SOCKET}")  # a socket's own path may not be long
            line.sendall(len(request).to_bytes(8, "little") + request)
            size = int.from_bytes(received(line, 8), "little")
            return received(line, size)
    except OSError:
        return None
    finally:
        os.close(folder)


def received(line: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    parts = []
    while size > 0:
        part = line.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the keeper hung up")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
