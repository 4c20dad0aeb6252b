"""What somebody tries who holds nothing but the project's certificate."""

from __future__ import annotations

import http.client
import ssl
import subprocess

from dualfl.deploy.project import Project
from dualfl.federation.flower import runtime

CONTROL = ["start-run", "list-runs", "register-node", "unregister-node", "list-nodes", "stream-logs", "stop-run"]
RUNTIME = ["acquire-task", "pull-app-inputs", "push-messages", "get-nodes"]
TRICKS = [
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol%2flist-runs",
    "//v1/control/list-runs",
    "/v1/fleet//../control/list-runs",
    "/v1/fleet/pull-messages/../../control/list-runs",
    "/v1/fleet/pull-messages?x=/v1/control/list-runs",
    "/V1/CONTROL/list-runs",
    "/v1/fleet;/../control/list-runs",
    "/v1/fleet/",
    "/docs",
    "/openapi.json",
    "/health",
    "/",
]


def answer(project: Project, method: str, path: str) -> int:
    context = ssl.create_default_context(cafile=project.certificates / "ca.crt")
    connection = http.client.HTTPSConnection("127.0.0.1", project.settings.port, context=context, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=False, skip_accept_encoding=True)
        connection.putheader("content-length", "0")
        connection.putheader("content-type", "application/x-protobuf")
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def probes(project: Project) -> dict[str, int]:
    """Everything that was not refused; empty if all is well."""
    paths = [f"/v1/control/{name}" for name in CONTROL] + [f"/v1/runtime/{name}" for name in RUNTIME] + TRICKS
    got = {f"{method} {path}": answer(project, method, path) for path in paths for method in ("POST", "GET")}
    bad = {what: status for what, status in got.items() if status != 403}
    # On the fleet path a caller without a key is turned away by Flower itself.
    for name in ("pull-messages", "push-messages", "register-node", "activate-node"):
        status = answer(project, "POST", f"/v1/fleet/{name}")
        bad |= {f"POST /v1/fleet/{name}": status} if not 400 <= status < 500 else {}
    return bad


def flwr_refused(project: Project, folder, *words: str) -> bool:
    """Whether Flower's own command, pointed at the open port with the right certificate, gets nowhere."""
    home = folder / "stranger"
    runtime.connect(home, f"127.0.0.1:{project.settings.port}", project.certificates / "ca.crt")
    command = [runtime.executable("flwr"), *words, "--format", "json"]
    done = subprocess.run(
        command, env=runtime.environment(home), capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return '"success": true' not in done.stdout
