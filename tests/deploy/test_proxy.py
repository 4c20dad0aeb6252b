"""The proxy passes the fleet path and nothing else."""

import pytest

from dualfl.deploy.proxy import allowed


@pytest.mark.parametrize("name", [b"pull-messages", b"push-object", b"activate-node"])
def test_the_fleet_path_is_open(name):
    assert allowed("POST", b"/v1/fleet/" + name, b"")


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", b"/v1/fleet/pull-messages", b""),
        ("POST", b"/v1/control/start-run", b""),
        ("POST", b"/v1/runtime/acquire-task", b""),
        ("POST", b"/v1/fleet/../control/start-run", b""),
        ("POST", b"/v1/fleet/%2e%2e/control/start-run", b""),
        ("POST", b"/v1/fleet/..%2fcontrol%2fstart-run", b""),
        ("POST", b"//v1/fleet/pull-messages", b""),
        ("POST", b"/v1/fleet/pull-messages/", b""),
        ("POST", b"/v1/fleet/", b""),
        ("POST", b"/v1/fleet/pull-messages\n", b""),
        ("POST", b"/v1/fleet/Pull", b""),
        ("POST", b"/v1/fleet/pull-messages", b"next=/v1/control"),
        ("POST", b"/docs", b""),
        ("CONNECT", b"/v1/fleet/pull-messages", b""),
    ],
)
def test_everything_else_is_closed(method, path, query):
    assert not allowed(method, path, query)
