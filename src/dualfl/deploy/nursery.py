"""Processes of runs, born with everything imported: `python -m dualfl.deploy.nursery ARGUMENTS OF flower-superexec`.

Flower starts a new Python for every run, which takes two or three processor seconds to import what it needs. Here one
process imports it once, has no threads, and forks for every run; what is born dies with it, and it dies with the
SuperExec, Flower's own, which asks it for processes. Only Linux forks safely after so much was imported; elsewhere
runs are started as Flower does it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any, cast

from dualfl.federation.flower import lifeline

IMPORTED = (
    "flwr.superlink.cli.flwr_serverapp",
    "dualfl.federation.flower.grid",
    "dualfl.federation.flower.job",
    "dualfl.federation.flower.server",
)  # what a run needs
PATIENCE = 60.0  # seconds for a birth; the first one waits until all is imported


def in_place_of(command: Sequence[str]) -> list[str]:
    """This module instead of `flower-superexec`, with the same arguments."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-m", "dualfl.deploy.nursery", *command[1:]]


def main() -> None:
    lifeline.hold()
    nursery = Nursery()  # before anything is imported that it does not need

    from flwr.supercore.cli.flower_superexec import flower_superexec
    from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor
    from flwr.supercore.superexec.executor.types import LaunchResult

    launch = SubprocessExecutor.launch

    def order(executor: Any, spec: Any) -> Any:
        """What Flower's executor would start is ordered from the nursery."""
        if spec.task_type != "flwr-serverapp":
            return launch(executor, spec)
        nursery.order(
            runtime_api_address=spec.runtime_api_address,
            token=spec.token,
            insecure=spec.insecure,
            root_certificates=spec.root_certificates_path,
        )
        return LaunchResult.accepted()

    SubprocessExecutor.launch = order
    flower_superexec()


class Nursery:
    """The process that forks for every order. If it ends or hangs, so does whoever orders: he is of no use alone."""

    def __init__(self) -> None:
        (read, self.orders), (self.births, write), parent = os.pipe(), os.pipe(), os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(self.orders)
            os.environ[lifeline.PARENT] = str(parent)
            lifeline.hold()
            sys.modules.setdefault("pandas", cast(Any, None))  # scikit-learn would import it for nothing
            for name in IMPORTED:
                importlib.import_module(name)
            breed(read, write)
            os._exit(0)
        os.close(read)
        os.close(write)
        lifeline.end_with(lambda: os.waitpid(pid, 0))

    def order(self, **words: Any) -> None:
        os.write(self.orders, json.dumps(words).encode() + b"\n")
        if not select.select([self.births], [], [], PATIENCE)[0] or not os.read(self.births, 1):
            os._exit(1)  # and is started again, with a nursery that lives


def breed(read: int, write: int) -> None:
    """A process for every order, until nobody orders any more."""
    signal.signal(signal.SIGCHLD, bury)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nursery = os.getpid()
    with os.fdopen(read) as orders:
        for line in orders:
            if os.fork() == 0:
                orders.close()
                os.close(write)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                live(json.loads(line), nursery)
            os.write(write, b".")


def bury(*ignored: Any) -> None:
    """Children that have ended; what they cost is counted with what this process cost."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def live(order: dict[str, Any], nursery: int) -> None:
    """What `flwr-serverapp` does with these arguments, in this process; the token is on nobody's command line."""
    os.environ[lifeline.PARENT] = str(nursery)
    lifeline.hold()
    code = 1
    try:
        from queue import Queue

        from flwr.supercore.logger import mirror_output_to_queue
        from flwr.supercore.tls import validate_and_resolve_root_certificates
        from flwr.superlink.runtime import run_serverapp

        queue: Any = Queue()
        mirror_output_to_queue(queue)
        run_serverapp(
            runtime_api_address=order["runtime_api_address"],
            log_queue=queue,
            token=order["token"],
            insecure=order["insecure"],
            certificates=validate_and_resolve_root_certificates(order["root_certificates"], order["insecure"]),
            parent_pid=None,
            runtime_dependency_install=False,
        )
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    os.umask(0o077)
    main()
