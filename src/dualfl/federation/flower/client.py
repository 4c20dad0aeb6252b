"""The ClientApp of a simulation: hands a message to the silo's keeper and its answer back.

Silos of a deployment run no app (`fleet`). Flower starts a new process for every message of a simulation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flwr.app import Message
from flwr.clientapp import ClientApp

from dualfl.federation.flower.records import from_content, to_content

app = ClientApp()


@app.train()
def train(message: Any, context: Any) -> Any:
    from dualfl.federation.keeper import Keeper

    answer = Keeper(home(context)).handle(from_content(message.content))
    return Message(to_content(answer), reply_to=message)


def home(context: Any) -> Path:
    """The folder of this partition."""
    return Path(context.run_config["job"]) / "silos" / f"silo-{int(context.node_config['partition-id']):06d}"
