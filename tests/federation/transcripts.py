"""Recorded conversations between a coordinator and its silos, and what has changed since they were recorded.

A federation goes on while its members take patch releases at different times: what must agree is the protocol. So a
silo must give to the stored requests the stored answers, and a coordinator must ask the stored requests. Where they do
not, PROTOCOL in dualfl/federation/protocol.py is raised, and the conversations are recorded anew, at the root of the
repository:

    OPENBLAS_CORETYPE=Haswell python tests/federation/transcripts.py

A conversation is a zip file: NN-KIND/request and NN-KIND/answers/SILO are messages as they travel, silos/SILO/ is the
silo's folder before the first of them, with the secrets that make masks the same every time.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from far import far_silos
from loopback import Loopback, csv_homes, run_over, sign_up
from threadpoolctl import threadpool_info

from dualfl import kernels
from dualfl.algorithms.registry import make
from dualfl.analysis.one_algorithm import LinearProblem, OneAlgorithm
from dualfl.federation.fixed_point import BITS
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.remote import Terms
from dualfl.federation.wire import decode, tag
from dualfl.silos.questions import drive

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "fixtures" / "transcripts"
COMMAND = "python tests/federation/transcripts.py"
EXPERIMENT, ROUNDS, NAMES = "recorded", 3, ("a", "b", "c")
KEPT = ("silo.json", "data.csv", "salt", "key", "roster.json")
KEPT_OF_EXPERIMENT = ("secret", "offer.json", "answers/*", "told/describe")  # a signature is never the same twice
LARGE = 1 << 13  # bytes: of a longer answer only the digest is stored; secret maxima weigh 131 kB each
NUMBERS = 1e-12  # of the largest in an array: another processor may round otherwise
ITERATES = 1e-9  # the same for what a coordinator makes of several rounds
WORDS = 1 << 8  # units of fixed point
PROBLEM = {"loss": "auto", "ridge": 0.1, "l1": 0.0, "solver": None, "intercept": "penalised"}

# One with memory and local solves, one that asks some of the silos, and what a deployment does by default: masked sums.
CONVERSATIONS = {
    "dualfl": Terms(EXPERIMENT, NAMES, make("dualfl"), PROBLEM),
    "cohorts": Terms(EXPERIMENT, NAMES, make("feddyn", C=2), PROBLEM, seed=1),
    "masked": OneAlgorithm(make("dualfl", nu=0.1, rho=0.15), LinearProblem(**PROBLEM), rounds=ROUNDS),
}


@dataclass(frozen=True)
class Exchange:
    """One request, and the answer of each silo that got it; an answer that is large is its digest."""

    name: str
    request: bytes
    answers: dict[str, bytes | str]


@dataclass(frozen=True)
class Transcript:
    name: str
    exchanges: list[Exchange]
    silos: dict[str, bytes]  # by path

    def homes(self, folder: Path) -> list[Path]:
        """The silos' folders as they were before the first message."""
        for name, content in self.silos.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return [folder / name for name in NAMES]


def place(name: str, protocol: int = PROTOCOL) -> Path:
    return FOLDER / f"protocol-{protocol}" / f"{name}.zip"


# -- recording ---------------------------------------------------------------------------------------------


class Recorder(Loopback):
    """A transport that keeps what it carries, in the order in which it was asked."""

    def __init__(self, homes: list[Path]) -> None:
        super().__init__(homes, self._keep)
        self.exchanges: list[Exchange] = []

    def _keep(self, _: Loopback, node: int, request: bytes, answer: bytes) -> None:
        if not self.exchanges or self.exchanges[-1].request != request:
            name = f"{len(self.exchanges):02d}-{decode(request)['kind']}"
            self.exchanges.append(Exchange(name, request, {}))
        self.exchanges[-1].answers[self.homes[node].name] = answer


def converse(name: str, homes: list[Path]) -> list[Exchange]:
    recorder, wanted = Recorder(homes), CONVERSATIONS[name]
    if isinstance(wanted, Terms):
        run_over(recorder, wanted, None, rounds=ROUNDS)
    else:
        silos = far_silos(homes, BITS, experiment=EXPERIMENT, transport=recorder, analysis=wanted.as_json())
        drive(wanted.conversation(silos), silos)
    return recorder.exchanges


def masked(name: str) -> bool:
    return not isinstance(CONVERSATIONS[name], Terms)


def new_homes(folder: Path, masked: bool) -> list[Path]:
    """Three small tables with a category and a gap, and keys where they are needed."""
    homes = csv_homes(folder, (14, 9, 11), seed=7)
    table = (homes[1] / "data.csv").read_text().splitlines()
    age, _, rest = table[3].split(",", 2)
    table[3] = f"{age},,{rest}"  # a missing income
    (homes[1] / "data.csv").write_text("\n".join(table) + "\n")
    if masked:
        sign_up(homes)
    return homes


ISA, BLAS = "baseline", "Haswell"  # what is recorded, as most processors can: masked words show every bit


def blas() -> set[str]:
    """For which processors the libraries of this process add up."""
    return {one.get("architecture", "") for one in threadpool_info() if one["internal_api"] == "openblas"}


def record(name: str) -> Transcript:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        homes = new_homes(folder, masked(name))
        exchanges = converse(name, homes)
        kept = [home / file for home in homes for file in KEPT]
        if masked(name):
            first = tag(exchanges[0].request)
            places = [home / "experiments" / EXPERIMENT for home in homes]
            kept += [path for place in places for file in KEPT_OF_EXPERIMENT for path in place.glob(file)]
            kept = [path for path in kept if path.parent.name != "answers" or path.name == first]
        silos = {str(path.relative_to(folder).as_posix()): path.read_bytes() for path in kept if path.exists()}
    return Transcript(name, exchanges, silos)


def save(transcript: Transcript, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in transcript.silos.items():
            file.writestr(zipfile.ZipInfo(f"silos/{name}"), content, zipfile.ZIP_DEFLATED)
        for exchange in transcript.exchanges:
            file.writestr(zipfile.ZipInfo(f"{exchange.name}/request"), exchange.request, zipfile.ZIP_DEFLATED)
            for silo, answer in exchange.answers.items():
                entry = f"{exchange.name}/answers/{silo}"
                if len(answer) > LARGE:
                    file.writestr(zipfile.ZipInfo(f"{entry}.sha256"), digest(answer))
                else:
                    file.writestr(zipfile.ZipInfo(entry), answer, zipfile.ZIP_DEFLATED)


def load(name: str) -> Transcript:
    exchanges: dict[str, Exchange] = {}
    silos = {}
    with zipfile.ZipFile(place(name)) as file:
        for entry in file.namelist():
            content = file.read(entry)
            head, _, rest = entry.partition("/")
            if head == "silos":
                silos[rest] = content
            elif rest == "request":
                exchanges[head] = Exchange(head, content, {})
            else:
                silo = rest.removeprefix("answers/")
                large = silo.endswith(".sha256")
                exchanges[head].answers[silo.removesuffix(".sha256")] = content.decode() if large else content
    return Transcript(name, list(exchanges.values()), silos)


def digest(message: bytes) -> str:
    return hashlib.sha256(message).hexdigest()


# -- replaying ---------------------------------------------------------------------------------------------


def changes_of_silos(transcript: Transcript, folder: Path) -> Iterator[str]:
    """Where silos answer otherwise than they did."""
    transcript.homes(folder)
    for exchange in transcript.exchanges:
        for silo, stored in exchange.answers.items():
            found = Keeper(folder / silo).handle(exchange.request)
            where = f"{transcript.name}, {exchange.name}, the answer of silo {silo!r}"
            if isinstance(stored, str):
                if digest(found) != stored:
                    yield f"{where}: other bytes"
            elif found != stored:
                for change in differences(decode(stored), decode(found), NUMBERS):
                    yield f"{where}{change}"


def changes_of_the_coordinator(transcript: Transcript, folder: Path) -> Iterator[str]:
    """Where a coordinator asks otherwise than it did. Its version is in the first request, and may be another."""
    found = converse(transcript.name, transcript.homes(folder))
    if [exchange.name for exchange in found] != [exchange.name for exchange in transcript.exchanges]:
        yield f"{transcript.name}: other requests, or in another order"
        return
    for old, new in zip(transcript.exchanges, found):
        asked, asks = decode(old.request), decode(new.request)
        for change in differences(asked | {"version": ""}, asks | {"version": ""}, ITERATES):
            yield f"{transcript.name}, {old.name}, the request{change}"


def differences(stored: Any, found: Any, tolerance: float, path: str = "") -> Iterator[str]:
    """What is not the same, with its place: numbers may differ as much as processors do, nothing else at all."""
    stored, found = opened(stored), opened(found)
    if isinstance(stored, np.ndarray) and isinstance(found, np.ndarray):
        if not same_numbers(stored, found, tolerance):
            yield f"{path}: other numbers"
    elif type(stored) is not type(found):
        yield f"{path}: {stored!r} became {found!r}"
    elif isinstance(stored, dict):
        for key in stored.keys() | found.keys():
            if key in stored and key in found:
                yield from differences(stored[key], found[key], tolerance, f"{path}.{key}")
            else:
                yield f"{path}.{key}: {'is missing' if key in stored else 'is new'}"
    elif isinstance(stored, tuple):
        if len(stored) != len(found):
            yield f"{path}: {len(stored)} entries became {len(found)}"
        for i, (a, b) in enumerate(zip(stored, found)):
            yield from differences(a, b, tolerance, f"{path}[{i}]")
    elif isinstance(stored, float):
        if not (math.isclose(stored, found, rel_tol=tolerance) or (math.isnan(stored) and math.isnan(found))):
            yield f"{path}: {stored!r} became {found!r}"
    elif stored != found:
        yield f"{path}: {stored!r} became {found!r}"


def opened(value: Any) -> Any:
    """Records as dictionaries, an algorithm in JSON as well, and lists as tuples."""
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return tuple(value) if isinstance(value, list | tuple) else value


def same_numbers(stored: np.ndarray, found: np.ndarray, tolerance: float) -> bool:
    if stored.dtype != found.dtype or stored.shape != found.shape:
        return False
    if stored.dtype == np.uint64:  # masked; the last one is the tag, which has all others in it
        return bool((np.minimum(found - stored, stored - found)[:-1] <= WORDS).all())
    if stored.dtype.kind != "f":
        return np.array_equal(stored, found)
    scale = np.max(np.abs(stored), initial=0.0)
    return bool(np.allclose(stored, found, rtol=0, atol=tolerance * scale, equal_nan=True))


# -- the command -------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the conversations of this protocol.")
    parser.add_argument("--replace", action="store_true", help="also those of a protocol that no release has spoken")
    folder = place("").parent
    if folder.exists() and not parser.parse_args().replace:
        parser.error(
            f"protocol {PROTOCOL} is recorded already. If a release speaks it, raise PROTOCOL in "
            "src/dualfl/federation/protocol.py; if none does, give --replace."
        )
    if blas() != {BLAS}:
        parser.error(f"it is recorded with OpenBLAS for {BLAS}: set OPENBLAS_CORETYPE={BLAS}")
    kernels.use_isa(ISA)
    recorded = [record(name) for name in CONVERSATIONS]  # all of them, before anything is removed
    shutil.rmtree(FOLDER, ignore_errors=True)  # a silo refuses other protocols, so theirs cannot be replayed
    for transcript in recorded:
        path = place(transcript.name)
        save(transcript, path)
        print(f"{path.relative_to(ROOT.parent)}: {len(transcript.exchanges)} exchanges, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
