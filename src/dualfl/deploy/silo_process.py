"""A silo's process: a keeper that has the data in memory and answers over a socket, and the SuperNode beside it.

Flower starts a new process for every message; that process only carries bytes between Flower and this one. Whatever
must survive is on disk before an answer leaves, so this process may be killed at any time.

The socket lies in the silo's folder, where only its owner reaches it. A socket's path may have some hundred characters,
and a silo's folder may have more; only Linux has a short name for an open folder. Elsewhere no keeper listens.
"""

from __future__ import annotations

import contextlib
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from dualfl.federation.keeper import Keeper

SOCKET = "keeper.sock"


class Line(socketserver.StreamRequestHandler):
    """One message and its answer, each with its length in front."""

    def handle(self) -> None:
        size = int.from_bytes(self.rfile.read(8), "little")
        request = self.rfile.read(size)
        if len(request) < size:
            return
        keeper: Keeper = self.server.keeper  # type: ignore[attr-defined]  # of `Server`, unknown here
        answer = keeper.handle(request)
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(len(answer).to_bytes(8, "little") + answer)


if sys.platform == "linux" and Path("/proc/self/fd").exists():

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

        def __init__(self, address: str, keeper: Keeper) -> None:
            super().__init__(address, Line)
            self.keeper = keeper

    @contextlib.contextmanager
    def listening(home: Path) -> Iterator[None]:
        """Answer messages for this silo, in a thread. Only this user can reach the socket."""
        (home / SOCKET).unlink(missing_ok=True)
        folder, before = os.open(home, os.O_RDONLY), os.umask(0o077)
        try:
            server = Server(f"/proc/self/fd/{folder}/{SOCKET}", Keeper(home))
        finally:
            os.umask(before)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            (home / SOCKET).unlink(missing_ok=True)
            os.close(folder)

else:

    @contextlib.contextmanager
    def listening(home: Path) -> Iterator[None]:
        """Nobody listens; say what that means."""
        print(
            f"A keeper that holds the data in memory needs Linux with /proc, and this is {sys.platform}: every message "
            "reads the prepared rows again, which is slower and gives the same answers.",
            file=sys.stderr,
        )
        yield


def main(home: Path, command: list[str]) -> int:
    """Beside the SuperNode, and as long as it runs."""
    with listening(home):
        return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
