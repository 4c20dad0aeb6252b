"""The ServerApp: runs the job that its configuration names, over Flower's Grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid: Any, context: Any) -> None:
    from dualfl.federation.flower.grid import transport_of
    from dualfl.federation.flower.job import perform

    perform(Path(context.run_config["job"]), transport_of(grid))
