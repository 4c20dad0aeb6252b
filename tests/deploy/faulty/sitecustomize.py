"""Makes silos fail on command: put on PYTHONPATH of a SuperNode, it wraps the keeper in every process it starts.

A file fault.json in the silo's home says {"do": ..., "kind": "step", "round": 1}; the fault happens once, at the first
message of that kind and round, in the process that handles it, so kills hit exactly the moment that is meant.
"""

import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import time


def die():
    """The whole silo at once: SuperNode, its SuperExec and this process are one group."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def install(module):
    import numpy as np

    from dualfl.federation.wire import decode, encode

    handle, answer = module.Keeper.handle, module.answer

    def wrapped(self, message):
        path = self.home.path / "fault.json"
        request = decode(message)
        fault = json.loads(path.read_text()) if path.exists() else {}
        if fault.get("kind", "step") != request["kind"] or fault.get("round", 1) != request.get("round", 1):
            fault = {}
        if not fault:
            return handle(self, message)
        if fault["do"] != "always-nan":
            path.unlink()
        if fault["do"] == "die-before":
            die()
        if fault["do"] == "die-while":

            def half(*args):
                answer(*args)
                die()

            module.answer = half
        if fault["do"] == "app-dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault["do"] == "slow":
            time.sleep(fault["seconds"])
        sent = handle(self, message)
        if fault["do"] == "die-after":
            die()
        content = decode(sent)
        if fault["do"] == "always-nan":
            content["wire"] = {k: np.nan * v for k, v in content["wire"].items()}
        if fault["do"] == "shape":
            content["wire"] = {k: np.zeros(3) for k in content["wire"]}
        if fault["do"] == "too-much":
            content["wire"] = {k: np.zeros(10**6) for k in content["wire"]}
        if fault["do"] == "other-round":
            content["tag"] = "0" * 32
        if fault["do"] == "version":
            content = {k: content[k] for k in ("silo", "identity", "tag")}
            content["refusal"] = "the coordinator speaks protocol 1 and this silo 9; install versions with one protocol"
        return encode(content) if fault["do"] in ("always-nan", "shape", "too-much", "other-round", "version") else sent

    module.Keeper.handle = wrapped


class Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "dualfl.federation.keeper":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            install(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Hook())
