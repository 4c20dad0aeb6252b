"""The silo's side: one message in, one message out, everything that must survive on disk before the answer leaves.

A silo has a home folder:

    silo.json               its name, its data file, what its operator insists on
    key, key.pub, roster.json   its registered key, and the keys of all silos
    salt                    a random number for the digest of its data, which never leaves
    cache/                  its rows, harmonised, so that the data file is parsed once
    experiments/ID/         plan (what was agreed), scaling, secret (for masks), answers (to set-up requests), state
                            (after the last answer)
    logs/silo.log           what went wrong, with the words that the coordinator must not read

What is written here only its owner may read.

Every message may be handled by a new process, may come twice, and may come after a crash: `handle` gives the same
answer to the same message, and refuses, in a sentence, what does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import dualfl
from dualfl.algorithms.contract import Algorithm, Place
from dualfl.engines import checkpoint as files
from dualfl.engines.client import Envelope, LocalCost, Reply, Silo, Work, answer
from dualfl.errors import DualflError, InputError
from dualfl.federation import fixed
from dualfl.federation.masks import Masks, Offer, check, new_secret, public_part, sign
from dualfl.federation.rows import (
    Rows,
    Schema,
    Unfit,
    describe,
    digest_of,
    harmonised,
    no_file,
    pack_rows,
    read_rows,
    standardised,
)
from dualfl.federation.wire import decode, encode, tag
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty
from dualfl.solvers.base import Solver
from dualfl.typing import Array

PROTOCOL = 3
SURVEYS = ("survey", "inquiry")  # asked before the first round; nothing of them is remembered
WORK_BITS = 20  # counts of work are larger than coefficients, and need fewer digits
PRIVATE = 0o600  # rows, uploads without masks and secrets: nobody else on this machine reads them
LOG = "logs/silo.log"
CHANGED = (
    "its data file, or 'target' or 'ignore' in its silo.json, has changed since the experiment began; restore it, or "
    "start a new one"
)
NO_PLAN = "this silo knows no plan of this experiment: its folder was lost or moved; start a new experiment"
Content = dict[str, Any]


def write(path: Path, data: bytes) -> None:
    files.write_atomically(path, data, PRIVATE)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Home:
    """A silo's folder and what its operator wrote there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.settings: Content = json.loads((path / "silo.json").read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is no silo's folder ({error}); make one with `dualfl deploy join`.") from error

    @property
    def name(self) -> str:
        return str(self.settings["name"])

    @property
    def data(self) -> Path:
        return self.path / str(self.settings["data"])  # an absolute path stays what it is

    @property
    def data_digest(self) -> str:
        """Of the data file; read again only if its size or time has changed."""
        if not self.data.is_file():
            raise no_file(self.data)
        stat = self.data.stat()
        seen = [str(self.data), stat.st_size, stat.st_mtime_ns]
        note = self.path / "cache" / "digest.json"
        with contextlib.suppress(OSError, ValueError, KeyError):
            noted = json.loads(note.read_text())
            if noted["seen"] == seen:
                return str(noted["digest"])
        digest = digest_of(self.data)
        write(note, json.dumps({"seen": seen, "digest": digest}).encode())
        return digest

    @property
    def fingerprint(self) -> str:
        """Of all that decides what is read: the file, and which columns of it."""
        target, ignore = self.settings.get("target"), sorted(self.settings.get("ignore", ()))
        return hashlib.sha256(json.dumps([self.data_digest, target, ignore]).encode()).hexdigest()

    @property
    def salted(self) -> str:
        """A fingerprint that may travel: nobody who guesses the file can check the guess without the salt."""
        path = self.path / "salt"
        if not path.exists():
            with locked(self.path):
                if not path.exists():
                    write(path, secrets.token_bytes(32))
        return hashlib.sha256(path.read_bytes() + self.fingerprint.encode()).hexdigest()[:16]

    def rows(self) -> Rows:
        return read_rows(self.data, self.settings.get("target"), self.settings.get("ignore", ()))

    @property
    def masked_only(self) -> bool:
        """A silo that joined with a certificate sends nothing without masks, unless its operator allowed it."""
        allowed = self.settings.get("allow_plain", not (self.path / "ca.crt").exists())
        return bool(self.settings.get("secure_only")) or not allowed

    def note(self, words: str) -> None:
        """For the operator alone."""
        path = self.path / LOG
        with contextlib.suppress(OSError):  # a full disk must not hide what is wrong
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "a", opener=lambda name, flags: os.open(name, flags, PRIVATE)) as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {words.rstrip()}\n")

    def without_paths(self, words: str) -> str:
        """A sentence that may travel."""
        if "data" in self.settings:
            words = words.replace(str(self.data.absolute()), "its data file")
        return words.replace(str(self.path.absolute()), "its folder")

    def registered(self) -> dict[str, str]:
        """The public keys of all silos, as the operators exchanged them."""
        try:
            return dict(json.loads((self.path / "roster.json").read_text()))
        except (OSError, ValueError) as error:
            raise InputError(
                "secure aggregation needs the roster of all silos' keys, and this silo has none; get it from the "
                "coordinator, compare fingerprints, and run `dualfl deploy trust`"
            ) from error


class Keeper:
    """Answers messages for one silo."""

    def __init__(self, home: Path | str) -> None:
        self.home = Home(Path(home))
        self._experiments: dict[str, Experiment] = {}

    def experiment(self, request: Content) -> Experiment:
        """The same object for all messages of an experiment: a keeper that lives on has the data in memory."""
        id = str(request["experiment"])
        if id not in self._experiments:
            self._experiments = {id: Experiment(self.home, id)}
        return self._experiments[id]

    def handle(self, message: bytes) -> bytes:
        """The answer; a refusal is an answer too."""
        try:
            request = decode(message)
            if request.get("version") != dualfl.__version__ or request.get("protocol") != PROTOCOL:
                raise InputError(
                    f"the coordinator runs dualfl {request.get('version')}, and this silo {dualfl.__version__}; "
                    "install the same version on both sides"
                )
            kinds: dict[str, Callable[[Content, bytes], Content | bytes]] = {
                "hello": self.hello,
                "agree": self.agree,
                "moments": self.moments,
                "step": self.step,
                "value": self.value,
            }
            if request.get("kind") not in kinds:
                raise InputError(f"nobody here knows how to answer {request.get('kind')!r}")
            told = request.get("to")
            if told is not None and self.home.name not in told:
                return self._encoded(message, {"absent": True})  # a node that the server did not know by name yet
            content = kinds[request["kind"]](request, message)
        except Exception as error:  # whatever it is, the coordinator must hear of it
            content = {"refusal": self._refusal(error).rstrip(".")}
        return content if isinstance(content, bytes) else self._encoded(message, content)

    def _encoded(self, message: bytes, content: Content) -> bytes:
        """An answer with the name of who gives it."""
        head = {"silo": self.home.name, "identity": self.home.settings.get("identity", ""), "tag": tag(message)}
        return encode(head | content)

    def _refusal(self, error: Exception) -> str:
        """What the coordinator hears: no path and no entry of the data. The rest stays here, in the log."""
        if isinstance(error, Unfit):
            what = error.told
            self.home.note(str(error))
        elif isinstance(error, DualflError):
            return self.home.without_paths(str(error))
        elif "pickle" in self.home.settings:  # a simulation: one user, who has no secrets, and a folder that will go
            return f"{type(error).__name__}: {error}"
        else:
            what = f"it failed with {type(error).__name__}"
            self.home.note("".join(traceback.format_exception(error)))
        return f"{what}; the reason is in {LOG} of that silo's folder"

    # -- before the first round --------------------------------------------------------------------

    def hello(self, request: Content, message: bytes) -> Content:
        """Who this is, what its file looks like, and its key for this experiment."""
        experiment = self.experiment(request)
        content: Content = {"d": None}
        if "pickle" not in self.home.settings:
            content |= describe(self.home.rows(), request.get("task"))
        key = self.home.path / "key"
        if key.exists():
            content["offer"] = experiment.offer(key)
        return content

    def agree(self, request: Content, message: bytes) -> Content | bytes:
        """Take note of the plan, and answer with how much this silo counts and the sums of its columns."""
        experiment = self.experiment(request)
        self._check_plan(request, experiment)
        experiment.fix("plan", message, "another plan was agreed for this experiment; start a new one")
        if "pickle" in self.home.settings:
            return experiment.setup_upload({"size": experiment.source[2]}, tag(message)) | {"data": ""}
        experiment.fix("data", self.home.fingerprint.encode(), CHANGED)
        return self._once(
            experiment,
            message,
            lambda: experiment.setup_upload(experiment.sums(request), tag(message)) | {"data": self.home.salted},
        )

    def _once(self, experiment: Experiment, message: bytes, answer: Callable[[], Content]) -> bytes:
        return experiment.kept(tag(message), lambda: self._encoded(message, answer()))

    def _check_plan(self, plan: Content, experiment: Experiment) -> None:
        names, settings = list(plan["names"]), self.home.settings
        if self.home.name not in names:
            raise InputError(f"this silo, {self.home.name!r}, is not among those of the plan: {', '.join(names)}")
        if names != sorted(set(names)):
            raise InputError("the plan names a silo twice, or not in order")
        if len(names) < int(settings.get("minimum", 1)):
            raise InputError(
                f"this silo takes part in federations of at least {settings['minimum']} silos, and the plan has "
                f"{len(names)}; its operator can lower 'minimum' in silo.json"
            )
        if plan["secure"] is None:
            if self.home.masked_only:
                raise InputError(
                    'this silo sends nothing without secure aggregation; switch it on in project.json ("secure": '
                    'true), or its operator allows plain sums in silo.json ("allow_plain": true)'
                )
            return
        roster = self.home.registered()
        if len(names) < 2:
            raise InputError("a sum over one silo is no secret; secure aggregation needs two at least")
        for name in names:
            if name not in roster:
                raise InputError(
                    f"silo {name!r} is not in this silo's roster; exchange keys first (`dualfl deploy trust`)"
                )
            check(roster[name], experiment.id, name, Offer(*plan["offers"][name]))
        if plan["offers"][self.home.name][0] != public_part(experiment.secret()):
            raise InputError("the plan holds another key than this silo offered; start a new experiment")

    def moments(self, request: Content, message: bytes) -> Content | bytes:
        """Sums of squares around the common centre."""
        experiment = self.experiment(request)
        experiment.check_data()
        return self._once(
            experiment,
            message,
            lambda: experiment.setup_upload({"squares": experiment.squares(request["center"])}, tag(message)),
        )

    # -- rounds ------------------------------------------------------------------------------------

    def step(self, request: Content, message: bytes) -> Content | bytes:
        """A client step: compute, save, answer."""
        experiment, name = self.experiment(request), tag(message)
        with experiment.locked():
            experiment.note_scaling(request)
            surveys = request["round"] < 0 and json.loads(request["algorithm"])["algorithm"] in SURVEYS
            algorithm = algorithm_of(request["algorithm"])
            silo, last, sent = (Silo(), "", b"") if surveys else experiment.remembered(algorithm)
            if last == name:
                return sent
            cost, place, j, weight = experiment.client(algorithm_of(request["under"]))
            if request["reduce"] == "max":  # maxima are compared, not added: the grid of sums is not theirs
                place = replace(place, codec=None)
            value = None if request["probe"] is None else cost.objective.value(request["probe"])
            envelope = Envelope(request["round"], request["exchange"], request["step"], request["message"])
            after = None if surveys else request["after"][list(request["to"]).index(self.home.name)]
            reply, moved = answer(algorithm, cost, silo, envelope, place, j, weight, after)
            content = experiment.answered(reply, value, request, name, weight)
            sent = self._encoded(message, content)
            if not surveys:
                experiment.remember(moved, name, sent)
        return sent

    def value(self, request: Content, message: bytes) -> Content:
        """f at a point, weighted as an upload is."""
        experiment = self.experiment(request)
        with experiment.locked():
            experiment.note_scaling(request)
        cost, _, _, weight = experiment.client(algorithm_of(request["under"]))
        value = cost.objective.value(request["probe"])
        return experiment.value_upload(value, tag(message), weight)


class Experiment:
    """What a silo keeps of one experiment."""

    def __init__(self, home: Home, id: str) -> None:
        if not id or not all(c.isalnum() or c in "-_" for c in id):
            raise InputError(f"{id!r} is no name of an experiment")
        self.home, self.id = home, id
        self.path = home.path / "experiments" / id

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """One process at a time: a request that is repeated while it is worked on waits for the answer."""
        return locked(self.path)

    def fix(self, name: str, content: bytes, otherwise: str) -> None:
        """Write a file once; refuse, in these words, to write anything else there."""
        path = self.path / name
        if path.exists():
            if path.read_bytes() != content:
                raise InputError(otherwise)
        else:
            write(path, content)

    def kept(self, name: str, answer: Callable[[], bytes]) -> bytes:
        """The answer to a set-up request, found once: other numbers under the same masks would tell both."""
        path = self.path / "answers" / name
        if not path.exists():
            write(path, answer())
        return path.read_bytes()

    def secret(self) -> bytes:
        path = self.path / "secret"
        if not path.exists():
            with self.locked():
                if not path.exists():
                    write(path, new_secret())
        return path.read_bytes()

    def offer(self, key: Path) -> tuple[str, ...]:
        """The signed key of this experiment; a signature is never the same twice, so it is kept."""
        path, secret = self.path / "offer.json", self.secret()
        with self.locked():
            if not path.exists():
                offered = sign(key.read_bytes(), self.id, self.home.name, secret)
                write(path, json.dumps(offered).encode())
        return tuple(json.loads(path.read_text()))

    @cached_property
    def plan(self) -> Content:
        try:
            return decode((self.path / "plan").read_bytes())
        except OSError:
            raise InputError(NO_PLAN) from None

    def note_scaling(self, request: Content) -> None:
        """What was found out after the plan was agreed comes with the first step or value, and stays."""
        if request.get("scaling") is not None:
            self.fix(
                "scaling", encode(request["scaling"]), "the scaling of this experiment has changed; start a new one"
            )

    @cached_property
    def scaling(self) -> Content:
        return decode((self.path / "scaling").read_bytes())

    # -- the cost ----------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        return Schema(**self.plan["schema"])

    def check_data(self) -> None:
        """Refuse to go on with other data than were agreed on."""
        try:
            agreed = (self.path / "data").read_text()
        except OSError:
            raise InputError(NO_PLAN) from None
        if agreed != self.home.fingerprint:
            raise InputError(CHANGED)

    @cached_property
    def harmonised(self) -> tuple[Any, Any]:
        rows = self.home.rows()
        self.check_data()  # after reading, so that a file which is changed meanwhile is noticed
        return harmonised(rows, self.schema)

    def sums(self, plan: Content) -> Content:
        """How much this silo counts, and what standardisation and gaps need of its columns."""
        X, _ = self.harmonised
        wire: Content = {"size": float(X.shape[0])}
        if plan["standardise"] and self.schema.sparse:
            wire["sums"] = np.asarray(X.sum(axis=0), dtype=np.float64).ravel()
        elif plan["standardise"] or self.schema.gaps:
            wire["sums"] = np.nansum(X, axis=0)
        if self.schema.gaps:
            wire["counts"] = np.count_nonzero(~np.isnan(X), axis=0).astype(np.float64)
        return wire

    def squares(self, center: Array) -> Array:
        X, _ = self.harmonised
        found: Array = np.nansum(np.square(X - center), axis=0)  # a gap becomes the centre
        return found

    @cached_property
    def source(self) -> tuple[Objective, Solver | None, float, Penalty | None]:
        """(f_j, its solver, its size, the common penalty), before an algorithm asks for more."""
        if "pickle" in self.home.settings:  # a simulation on one machine: its own file, written by its own user
            import pickle

            with open(self.home.path / self.home.settings["pickle"], "rb") as file:
                return pickle.load(file)  # type: ignore[no-any-return]
        return self._from_rows()

    def _from_rows(self) -> tuple[Objective, Solver | None, float, Penalty | None]:
        from dualfl.federation.model import build
        from dualfl.federation.rows import unpack_rows

        self.check_data()
        key = hashlib.sha256((self.path / "scaling").read_bytes() + (self.path / "plan").read_bytes()).hexdigest()[:24]
        cache = self.home.path / "cache" / f"{key}.npz"
        if not cache.exists():
            X, y = self.harmonised
            X = standardised(X, self.scaling["center"], self.scaling["spread"], self.scaling["fill"])
            for old in cache.parent.glob("*.npz"):
                old.unlink()
            write(cache, pack_rows(X, y))
        X, y = unpack_rows(cache)
        problem = self.plan["problem"]
        try:
            objective, solver, penalty = build(X, y, self.schema, problem)
        except InputError as error:  # the plan suits the coordinator's template, so it is some entry, which is quoted
            raise Unfit(str(error), f"its rows do not suit the loss {problem['loss']!r} of the plan") from error
        return objective, solver, objective.mass, penalty

    def client(self, algorithm: Algorithm) -> tuple[LocalCost, Place, int, float]:
        """(cost, place, number, weight) of this silo under the algorithm that runs, whose surveys see the same."""
        from dualfl.engines.engine import bound, check_fit, server_penalty

        plan, scaling = self.plan, self.scaling
        objective, solver, size, penalty = self.source
        check_fit([objective], penalty, algorithm, None)
        N, j = len(plan["names"]), list(plan["names"]).index(self.home.name)
        share = (1.0 if scaling["equal"] else size) / scaling["mass"]
        weight = 1.0 / N if algorithm.uniform else share
        mine = bound(objective, share, N, algorithm, penalty)
        start = plan["start"]
        cost = LocalCost(mine, solver, None if algorithm.warm else start)
        if algorithm.strongly_convex:
            mine.require_strong_convexity(algorithm.name)
        place = Place(
            plan["seed"],
            N,
            objective.d,
            start=start if algorithm.warm else None,
            penalty=server_penalty(objective, penalty, cost.origin) if algorithm.penalty == "server" else None,
            codec=codec_of(plan["codec"]) if plan["secure"] is None else fixed.FixedPoint(weight, plan["secure"]),
        )
        return cost, place, j, weight

    # -- the answer --------------------------------------------------------------------------------

    def answered(self, reply: Reply, value: float | None, request: Content, name: str, weight: float) -> Content:
        """What leaves: the upload, the value at the probe, and the account of the work."""
        if self.plan["secure"] is None:
            return {"wire": reply.wire, "work": reply.work, "value": value}
        among = list(request["to"])
        self._check_among(among)
        if request["reduce"] == "max":
            return self._masked_maxima(reply.wire, name, among)
        wire = fixed.flatten(reply.wire)
        if value is not None:
            wire["probe:E"] = value
        if len(among) < len(self.plan["names"]):
            wire["probe:mass"] = 1.0
        parts: dict[str, fixed.Part] = {}
        for field, x in wire.items():
            if np.shape(x):
                parts[field] = fixed.Part(x, weight, self.plan["secure"])
            else:
                parts |= fixed.limbs(field, weight * x, len(among))
        work: Work = reply.work
        parts |= {f"work:{k}": fixed.Part(float(v), 1.0, WORK_BITS, len(among)) for k, v in work._asdict().items()}
        return self._masked(parts, name, among)

    def _check_among(self, among: list[str]) -> None:
        """Two sums that differ by one silo tell what that silo sent, so a secret sum is over all."""
        if among != list(self.plan["names"]) and not self.home.settings.get("allow_sampling"):
            raise InputError(
                f"this request is to {len(among)} of {len(self.plan['names'])} silos, and two sums that differ by one "
                "silo are no secret; take an algorithm that asks all, or let every operator set 'allow_sampling' in "
                "silo.json"
            )
        if len(among) < 2:
            raise InputError("a sum over one silo is no secret; take an algorithm that asks all")

    def setup_upload(self, wire: Content, name: str) -> Content:
        """Sums before the first round; nothing is weighted yet."""
        if self.plan["secure"] is None:
            return {"wire": wire}
        among = list(self.plan["names"])
        parts: dict[str, fixed.Part] = {}
        for field, x in wire.items():
            self._check_reach(x, fixed.reach(len(among)))
            parts |= fixed.limbs(field, x, len(among))
        return self._masked(parts, name, among)

    def _check_reach(self, x: Any, reach: float) -> None:
        """Refuse sums of columns that are too large for words, and name the column."""
        beyond = np.flatnonzero(~(np.abs(x) < reach))
        if np.shape(x) and len(beyond):
            raise InputError(
                f"column {self.schema.features[int(beyond[0])]!r} adds up to {reach:.0e} or more, which secure sums do "
                "not carry; divide it by a power of ten in every silo, or put it under 'ignore' in silo.json"
            )

    def value_upload(self, value: float, name: str, weight: float) -> Content:
        if self.plan["secure"] is None:
            return {"value": value}
        among = list(self.plan["names"])
        return self._masked(fixed.limbs("probe:E", weight * value, len(among)), name, among)

    def _masked(self, parts: dict[str, fixed.Part], name: str, among: list[str]) -> Content:
        words = [fixed.to_words(field, *part) for field, part in parts.items()]
        fields = tuple((field, tuple(np.shape(part.x)), part.bits) for field, part in parts.items())
        return {"words": self.masks.cover(np.concatenate(words), name, among), "fields": fields}

    def _masked_maxima(self, wire: Content, name: str, among: list[str]) -> Content:
        size = len(fixed.ladder())
        noise = self.masks.noise(name, size * len(wire)).reshape(len(wire), size)
        words = [fixed.to_rungs(float(x), row) for x, row in zip(wire.values(), noise)]
        return {"words": self.masks.cover(np.concatenate(words), name, among), "maxima": tuple(wire)}

    @cached_property
    def masks(self) -> Masks:
        keys = {silo: offer[0] for silo, offer in self.plan["offers"].items()}
        if not (self.path / "secret").exists():  # a new one would not fit the keys of the plan
            raise InputError(NO_PLAN)
        return Masks(self.home.name, self.secret(), keys, self.id)

    # -- what survives -----------------------------------------------------------------------------

    def remembered(self, algorithm: Algorithm) -> tuple[Silo, str, bytes]:
        """(memory, tag of the last request, the answer to it)."""
        path = self.path / "state.npz"
        if not path.exists():
            return Silo(), "", b""
        tree, arrays = files.read(path)
        content = files.Unpacker(arrays, algorithm, {}).unpack(tree)
        return content["silo"], content["tag"], content["sent"].tobytes()

    def remember(self, silo: Silo, name: str, sent: bytes) -> None:
        """All of it is on disk before the answer leaves."""
        content = {"silo": silo, "tag": name, "sent": np.frombuffer(sent, dtype=np.uint8)}
        files.save(self.path / "state.npz", content, PRIVATE)


def algorithm_of(text: str) -> Algorithm:
    """The algorithm that travels as JSON; the surveys before the first round among them."""
    content = json.loads(text)
    if content["algorithm"] in SURVEYS:
        from dualfl.engines.survey import Inquiry, Survey

        kind = {"survey": Survey, "inquiry": Inquiry}[content.pop("algorithm")]
        return kind(**content)
    from dualfl.algorithms.registry import from_json

    return from_json(text)


def codec_of(described: Any) -> Any:
    """A codec that travels as its name and its numbers."""
    if described is None:
        return None
    from dualfl.algorithms import codecs

    return {c.__name__: c for c in (codecs.TopK, codecs.RandK, codecs.Quantise)}[described[0]](**described[1])
