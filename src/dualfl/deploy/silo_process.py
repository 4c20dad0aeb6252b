"""A silo's process: a keeper that has the data in memory, the SuperNode beside it, and nothing of the coordinator's.

The SuperNode carries messages; it is told to run no app. Its tasks are taken here, over its runtime port on loopback,
which only the secret of this start opens, and each is answered by the keeper. Whatever must survive is on disk before
an answer leaves, so this process may be killed at any time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from dualfl.deploy.keys import write_secret
from dualfl.federation.keeper import Keeper

POLL = 0.2  # seconds between two looks for a message
SECRET = "runtime.secret"


def main(home: Path, address: str, command: list[str]) -> int:
    """Beside the SuperNode, and as long as it runs. `address` is that of its runtime port."""
    from dualfl.federation.flower.executor import Executor

    secret = secrets.token_bytes(32)
    path = home / "flower" / SECRET
    write_secret(path, secret)
    isolated = ["--isolation", "process", "--superexec-auth-secret-file", str(path)]
    keeper = Keeper(home)
    node = subprocess.Popen([*command, *isolated])
    try:
        with contextlib.closing(Executor(address, secret, keeper.handle)) as executor:
            while node.poll() is None:
                if not executor.once():
                    time.sleep(POLL)
        return node.returncode
    finally:
        with contextlib.suppress(ProcessLookupError):
            node.terminate()
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
