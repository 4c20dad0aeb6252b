"""Flower's SuperLink, closed to everybody else on this machine.

Flower asks nobody who reaches its port for a name: whoever has a shell on the coordinator's machine could submit runs.
On Linux the kernel says whose a connection over loopback is, so every connection is looked at here before Flower sees a
request of it, and those of other users get 403. Other systems do not say; there the machine must have no other users.

Two things of Flower's are replaced by faster ones: how messages travel (`deploy.post`), and how the process of a run is
started (`deploy.nursery`).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dualfl.deploy.service import allow_many_files
from dualfl.federation.flower import lifeline

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED = "01"
KEPT = 60  # seconds for which a connection without a request is kept
GRACE = 2  # seconds that silos who wait for a letter have when this ends


def owner(lines: Iterable[str], near: tuple[str, int], far: tuple[str, int]) -> int | None:
    """The user whose socket is at `near` and talks to `far`, by a table of the kernel; None if it has none.

    A socket that its process has closed is listed as root's, with 0 for its inode: it is nobody's.
    """
    wanted = hexadecimal(*near), hexadecimal(*far)
    for line in lines:
        words = line.split()
        if len(words) > 9 and (short(words[1]), short(words[2])) == wanted and words[3] == ESTABLISHED:
            return int(words[7]) if words[9] != "0" else None
    return None


def hexadecimal(host: str, port: int) -> str:
    """127.0.0.1:80 as the kernel writes it: 0100007F:0050."""
    numbers = [int(part) for part in host.removeprefix("::ffff:").split(".")]
    return "".join(f"{number:02X}" for number in reversed(numbers)) + f":{port:04X}"


def short(address: str) -> str:
    """An address of version 4 that stands in the table of version 6."""
    return address.removeprefix("0000000000000000FFFF0000")


def is_mine(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the process at the other end of a connection is this user's."""
    for table in TABLES:
        if table.exists() and owner(table.read_text().splitlines(), client, server) == os.getuid():
            return True
    return False


class Mine:
    """An app of which only this user's processes see anything."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.known: dict[tuple[str, int], bool] = {}  # connections that are open, and whether they are this user's

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not self._lets_in(tuple(scope["client"]), tuple(scope["server"])):
            from starlette.responses import PlainTextResponse

            await PlainTextResponse("Forbidden: this port is its owner's alone.\n", 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _lets_in(self, client: tuple[str, int], server: tuple[str, int]) -> bool:
        found = self.known.get(client)
        return is_mine(client, server) if found is None else found

    def protocol(self) -> type:
        """A server's protocol that asks the kernel once for every connection: the whole table is read for that."""
        from uvicorn.protocols.http.auto import AutoHTTPProtocol

        known = self.known

        class Owned(AutoHTTPProtocol):  # type: ignore[misc]  # uvicorn has no type for it
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                if self.client and self.server:
                    known[self.client] = is_mine(self.client, self.server)

            def connection_lost(self, error: Exception | None) -> None:
                known.pop(self.client, None)
                super().connection_lost(error)

        return Owned


def main() -> None:
    """`flower-superlink` with the same arguments."""
    import uvicorn

    from dualfl.deploy.nursery import in_place_of
    from dualfl.deploy.post import Post

    # by its full name: the package has a function of the same name
    flower_superlink: Any = importlib.import_module("flwr.superlink.cli.flower_superlink")
    serve, command = uvicorn.run, flower_superlink._get_superexec_command

    def serve_ours(app: Any, **options: Any) -> None:
        options |= {"access_log": False, "timeout_keep_alive": KEPT, "timeout_graceful_shutdown": GRACE}
        app = Post(app)
        lifeline.end_with(app.until_nobody_looks)
        if TABLES[0].exists():
            app = Mine(app)
            options["http"] = app.protocol()
        else:
            print("This system does not say whose a connection is: other users of this machine reach the SuperLink.")
        serve(app, **options)

    uvicorn.run = serve_ours
    startup = flower_superlink.SuperLinkLifespan.startup

    def start_together(lifespan: Any) -> None:
        """Flower does not notice when its SuperExec ends, and runs would wait for ever. Nor may a SuperExec that hangs
        outlive the SuperLink."""
        os.environ[lifeline.PARENT] = str(os.getpid())
        startup(lifespan)
        del os.environ[lifeline.PARENT]
        lifeline.end_with(lifespan.superexec_process.wait)

    flower_superlink.SuperLinkLifespan.startup = start_together
    flower_superlink._get_superexec_command = lambda **options: in_place_of(command(**options))
    sys.argv[0] = "flower-superlink"
    flower_superlink.flower_superlink()


if __name__ == "__main__":
    os.umask(0o077)
    lifeline.hold()
    allow_many_files()
    main()
