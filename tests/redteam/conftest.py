"""Whatever a silo refuses in this folder must be in its audit log, with its reason, and the log must be whole.

A test of an attack on a silo fails if no silo refused anything. Where nothing is to be refused at a silo (an honest
coordinator, the proxy, a lie that no silo can see) the test says so: `@pytest.mark.unrefused("why")`.
"""

from pathlib import Path

import pytest

try:
    from dualfl.federation.audit import AuditLog
    from dualfl.federation.keeper import Keeper
    from dualfl.federation.wire import decode, tag
except ImportError:  # without Flower's libraries the tests themselves are skipped
    Keeper = None


def pytest_configure(config):
    config.addinivalue_line("markers", "unrefused(why): a test of the red team in which no silo has to refuse")


@pytest.fixture(autouse=True)
def refused_and_logged(request, monkeypatch):
    """Every refusal of this test, as (folder of the silo, what it was asked, what it said)."""
    seen: list[tuple[Path, bytes, str]] = []
    if Keeper is None:
        yield seen
        return
    honest = Keeper.handle

    def handle(self, message):
        answer = honest(self, message)
        said = decode(answer).get("refusal")
        if said is not None:
            seen.append((self.home.path, message, said))
        return answer

    monkeypatch.setattr(Keeper, "handle", handle)
    yield seen
    logs = {home: list(AuditLog(home).verified()) for home, _, _ in seen}
    for home, message, said in seen:
        noted = [one for one in logs[home] if one["what"] == "request" and one["tag"] == tag(message)]
        reasons = [one["refused"] for one in noted if "refused" in one]
        assert reasons, f"{home.name} refused ({said}), and its audit log does not say so"
        assert any(len(reason) > 10 for reason in reasons)
    marker = request.node.get_closest_marker("unrefused")
    assert seen or marker is not None, "no silo refused anything in this test of an attack"
