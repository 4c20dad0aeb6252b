"""Costs of Flower and Ray: python -m benchmarks.deploy [masks] [ray] [bytes] [upload] [round] [--save]

masks : processor time of what secure aggregation and the wire format add.
round : a round over loopback with TLS, keys and masks, 3 silos.
ray   : milliseconds a round of 100 clients with next to no work of their own, against one process.
upload: bytes of every message of a small fit under masks, and how many of them are the ladders of maxima.
bytes : what really goes over the network between silos and proxy, counted by a relay, against floats times 8.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dualfl.algorithms.registry import make
from dualfl.deploy.trial import Deployment
from dualfl.engines import Problem, run
from dualfl.engines.request import Limits
from dualfl.objectives import LinearModel, Squared


def write_wide(folder: Path, silos: int, features: int, rows: int = 12) -> list[Path]:
    rng, paths = np.random.default_rng(0), []
    folder.mkdir(parents=True)
    for j in range(silos):
        path = folder / f"{j}.npz"
        X = rng.standard_normal((rows, features))
        np.savez(path, X=X, y=(X[:, 0] > 0).astype(int))
        paths.append(path)
    return paths


def rounds(silos: int = 3, features: int = 7849, count: int = 10) -> float:
    """Median seconds of a round."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [f"silo-{j}" for j in range(silos)]
        files = write_wide(folder / "data", silos, features)
        deployment = Deployment(folder, files, "y", names, secure=True, standardise=False, intercept="penalised")
        with deployment.running():
            done = deployment.run(make("dualfl"), Limits(count), name="round", progress=False).result
    return statistics.median(np.diff(done.history.column("seconds"))[1:].tolist())


def on_ray(N: int = 100, d: int = 7850, count: int = 200) -> dict[str, float]:
    rng = np.random.default_rng(0)
    problem = Problem([LinearModel(rng.standard_normal((1, d)), np.ones(1), Squared(), 1.0) for _ in range(N)])
    found = {}
    for engine in ("inprocess", "ray"):
        seconds = run(problem, make("gd"), rounds=count, engine=engine, evaluate=False).history.column("seconds")
        each = 1e3 * np.diff(seconds)[5:]
        found[engine], found[f"{engine}, undisturbed"] = float(np.median(each)), float(np.min(each))
    return found


class Relay:
    """A port that passes everything on to another and counts the bytes, as a cable would."""

    def __init__(self, target: int) -> None:
        self.target, self.up, self.down = target, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.target))
            for source, sink, up in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=(source, sink, up), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        try:
            while piece := source.recv(1 << 16):
                sink.sendall(piece)
                if up:
                    self.up += len(piece)
                else:
                    self.down += len(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def on_the_wire(silos: int = 2, features: int = 99_999, count: int = 3) -> dict[str, float]:
    """Bytes of `count` rounds, set-up included, between silos and proxy."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [f"silo-{j}" for j in range(silos)]
        files, plainly = write_wide(folder / "data", silos, features, 4), {"secure": False, "standardise": False}
        deployment = Deployment(folder, files, "y", names, intercept="penalised", **plainly)
        relay = Relay(deployment.project.settings.port)
        for name in names:
            path = folder / name / "silo.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"coordinator": f"127.0.0.1:{relay.port}"}))
        with deployment.running():
            time.sleep(20)
            before, idle = time.monotonic(), relay.up + relay.down
            time.sleep(10)
            idle = (relay.up + relay.down - idle) / (time.monotonic() - before) / silos
            up, down, began = relay.up, relay.down, time.monotonic()
            finished = deployment.run(make("dualfl"), Limits(count), name="bytes", progress=False)
            up, down, seconds = relay.up - up, relay.down - down, time.monotonic() - began
    last, d = finished.result.history[-1], features + 1
    return {
        "up": up / (8 * last.floats_up),
        "down": down / (8 * (last.floats_down + silos * d)),  # the last model goes down once more, to be measured
        "idle bytes a second and silo": idle,
        "messages up": finished.traffic["up"] / (8 * last.floats_up),
        "messages down": finished.traffic["down"] / (8 * (last.floats_down + silos * d)),
        "seconds": seconds,
    }


def verdict(ok: bool) -> str:
    return "reached" if ok else "MISSED"


def about_ray() -> list[str]:
    r = on_ray()
    return [
        f"Ray, 100 clients, d = 7,850: {r['ray']:.1f} ms a round, one process {r['inprocess']:.1f} ms; "
        f"at most 20 ms: {verdict(r['ray'] <= 20)}",
        f"The fastest round of each, which nobody else disturbed: {r['ray, undisturbed']:.1f} ms, one process "
        f"{r['inprocess, undisturbed']:.1f} ms",
    ]


def about_bytes() -> list[str]:
    b = on_the_wire()
    return [
        f"Bytes over floats x 8, d = 100,000, set-up included: {b['up']:.3f} up, {b['down']:.3f} down through TLS; "
        f"at most 1.1: {verdict(max(b['up'], b['down']) <= 1.1)}",
        f"The same, counted in messages: {b['messages up']:.3f} up, {b['messages down']:.3f} down",
        f"An idle silo: {b['idle bytes a second and silo']:.0f} bytes a second",
    ]


def about_rounds() -> list[str]:
    seconds = rounds()
    return [f"Flower, 3 silos, TLS, masks, d = 7,850: {seconds:.2f} s a round; at most 5: {verdict(seconds <= 5)}"]


def about_masks(d: int = 10**6) -> list[str]:
    from dualfl.federation import field, fixed_point, tags
    from dualfl.federation.masks import Keystream
    from dualfl.federation.wire import decode, encode
    from dualfl.kernels import add_words

    x = np.random.default_rng(0).standard_normal(d)
    words = fixed_point.to_words("x", x, 50)
    total, message = words.copy(), encode({"x": x})
    tagged = tags.tagged(words, bytes(32), "tag", True)

    def mask() -> None:
        stream = Keystream(bytes(32), "tag")
        for piece in field.pieces(d):
            add_words(total[piece], stream.next(piece.stop - piece.start), True)

    parts = {
        "rounding": lambda: fixed_point.to_words("x", x, 50),
        "the mask of one pair": mask,
        "the tag": lambda: tags.tagged(words, bytes(32), "tag", True),
        "checking the tag of a sum": lambda: tags.check(tagged, bytes(32), "tag", d),
        "adding at the server": lambda: field.add(total, words),
        "writing a message": lambda: encode({"x": x}),
        "reading it": lambda: decode(message),
    }
    costs = ", ".join(f"{name} {1e3 * cpu_seconds(work):.1f} ms" for name, work in parts.items())
    return [f"Processor time for a million numbers: {costs}"]


def cpu_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    found = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def about_uploads() -> list[str]:
    """A logistic fit of 5 columns over 3 silos: what one of them receives and sends, exchange by exchange."""
    from benchmarks.breakable import write_data
    from benchmarks.near_silos import make_homes, near_silos
    from benchmarks.soak import WISHES
    from dualfl.analysis.descriptions import WholeFit
    from dualfl.analysis.models import Recipe
    from dualfl.federation.wire import decode
    from dualfl.silos.questions import drive

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = make_homes(folder / "homes", write_data(folder / "data", 3), "sick", show_own_numbers=False)
        fit = WholeFit(Recipe("logistic"), replace(WISHES, first=homes[0].name))
        silos = near_silos(homes, fit, True, "upload")
        post = silos.federation.post
        push, sizes = post.transport.push, []

        def counted(messages: Mapping[int, bytes]) -> dict[int, str]:
            ids = push(messages)
            answer = post.transport.came[next(iter(ids.values()))]
            ladders = decode(answer).get("largest", {"words": np.zeros(0)})["words"].nbytes
            sizes.append((len(next(iter(messages.values()))), len(answer), ladders))
            return ids

        post.transport.push = counted
        drive(fit.conversation(silos), silos)
    down, up, ladders = (sum(column) for column in zip(*sizes))
    each = ", ".join(f"{received / 1e3:.1f}/{sent / 1e3:.1f}" for received, sent, _ in sizes)
    return [
        f"A small fit under masks, kB down/up of a silo, exchange by exchange: {each}",
        f"In all {down / 1e3:.0f} kB down and {up / 1e3:.0f} kB up, {ladders / 1e3:.1f} kB of it ladders of maxima",
    ]


PARTS = {"masks": about_masks, "ray": about_ray, "bytes": about_bytes, "upload": about_uploads, "round": about_rounds}


def main() -> None:
    wanted = [word for word in sys.argv[1:] if word in PARTS] or list(PARTS)
    lines = [f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the start"]
    print(lines[0], flush=True)
    for name in wanted:
        for line in PARTS[name]():
            print(line, flush=True)
            lines.append(line)
    if "--save" in sys.argv:
        text = "# Costs of Flower and Ray\n\nBy `python -m benchmarks.deploy --save`.\n\n"
        Path("results/deploy.md").write_text(text + "\n".join(f"- {line}" for line in lines) + "\n")


if __name__ == "__main__":
    main()
