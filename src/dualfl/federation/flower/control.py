"""Runs of a SuperLink, started, asked for and stopped by this process.

The command `flwr` does the same, and is a Python of its own for every word: a second and more each time.
"""

from __future__ import annotations

import hashlib
import importlib
import ssl
import tomllib
import warnings
from pathlib import Path
from typing import Any

from dualfl.errors import DualflError
from dualfl.files import write_atomically

PATIENCE = 30.0  # seconds for an answer


class RunFailed(DualflError):
    """A run on Flower that ended without a result."""


class Silent(RunFailed):
    """Nobody is there who could start it."""


class Control:
    """The SuperLink that `runtime.connect` noted in this folder."""

    def __init__(self, flower_home: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Flower uses what others have deprecated
            importlib.import_module("flwr.proto.control_pb2")
        self.home = flower_home
        found = tomllib.loads((flower_home / "config.toml").read_text())["superlink"]["dualfl"]
        ca = found.get("root-certificates")
        self.address = f"{'http' if ca is None else 'https'}://{found['address']}/v1/control/"
        self.verify: Any = True if ca is None else ssl.create_default_context(cafile=ca)

    def start(self, app: Path, config: dict[str, Any], silos: int | None = None) -> str:
        """The id of a run of this app; `silos` is how many a simulation has."""
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest, StartRunResponse
        from flwr.proto.federation_config_pb2 import SimulationConfig
        from flwr.supercore.fab import Fab

        content = self.built(app)
        simulated = None if silos is None else SimulationConfig(num_supernodes=silos, client_resources_num_cpus=1)
        request = StartRunRequest(
            fab=fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {})),
            override_config=user_config_to_proto(config),
            override_federation_config=simulated,
        )
        found = self._say("start-run", request, StartRunResponse)
        if not found.HasField("run_id"):
            raise RunFailed("The SuperLink did not start the run, and gave no reason.")
        return str(found.run_id)

    def status(self, run: str) -> str:
        """finished:completed, finished:failed, running, ..."""
        from flwr.proto.control_pb2 import ListRunsRequest, ListRunsResponse

        found = self._say("list-runs", ListRunsRequest(run_id=int(run)), ListRunsResponse).run_dict
        if int(run) not in found:
            raise RunFailed(f"The SuperLink does not know the run {run}.")
        status = found[int(run)].status
        return f"{status.status}:{status.sub_status}" if status.sub_status else str(status.status)

    def stop(self, run: str) -> None:
        from flwr.proto.control_pb2 import StopRunRequest, StopRunResponse

        self._say("stop-run", StopRunRequest(run_id=int(run)), StopRunResponse)

    def built(self, app: Path) -> bytes:
        """The app as one file, which is kept: to build it takes longer than to start it."""
        texts = [path.read_bytes() for path in sorted(app.rglob("*")) if path.suffix in (".py", ".toml")]
        path = self.home / f"app-{hashlib.sha256(b'|'.join(texts)).hexdigest()[:16]}.fab"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from flwr.cli.build import build_fab_from_disk

                content = build_fab_from_disk(app)
            write_atomically(path, content)
        return path.read_bytes()

    def _say(self, word: str, request: Any, answer: Any) -> Any:
        import httpx
        from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE

        kind = {"content-type": PROTOBUF_MEDIA_TYPE, "accept": PROTOBUF_MEDIA_TYPE}
        try:
            with httpx.Client(verify=self.verify, timeout=PATIENCE, trust_env=False) as client:
                said = client.post(self.address + word, content=request.SerializeToString(), headers=kind)
                said.raise_for_status()
            found = answer()
            found.ParseFromString(said.content)
        except httpx.HTTPStatusError as error:
            raise RunFailed(f"the SuperLink refused {word}: {error.response.text[:200]}") from error
        except httpx.HTTPError as error:
            if isinstance(error, httpx.ConnectError) and "refused" in str(error):
                raise Silent(f"nobody answers at {self.address}") from error
            raise RunFailed(f"the SuperLink did not answer {word}: {type(error).__name__} {error}") from error
        return found
