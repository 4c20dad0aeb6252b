"""The ClientApp: hands a message to the silo's keeper and its answer back.

Flower starts a new process for every message, so this file imports next to nothing until a message is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Any, context: Any) -> Any:
    from dualfl.engines.flower.records import from_content, to_content
    from dualfl.federation.silo import Keeper

    answer = Keeper(home(context)).handle(from_content(message.content))
    return Message(to_content(answer), reply_to=message)


def home(context: Any) -> Path:
    """The silo's folder: what the operator said, or in a simulation the folder of this partition."""
    if "home" in context.node_config:
        return Path(context.node_config["home"])
    return Path(context.run_config["job"]) / "silos" / f"silo-{int(context.node_config['partition-id']):06d}"
