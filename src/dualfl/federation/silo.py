"""The silo's side: one message in, one message out, everything that must survive on disk before the answer leaves.

A silo has a home folder:

    silo.json               its name, its data file, what its operator insists on
    key, key.pub, roster.json   its registered key, and the keys of all silos
    cache/                  its rows, harmonised, so that the data file is parsed once
    experiments/ID/         plan (what was agreed), scaling, secret (for masks), state (after the last answer)

Every message may be handled by a new process, may come twice, and may come after a crash: `handle` gives the same
answer to the same message, and refuses, in a sentence, what does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
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
from dualfl.federation.rows import Schema, describe, digest_of, harmonised, pack_rows, read_rows, standardised
from dualfl.federation.wire import decode, encode, tag
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty
from dualfl.solvers.base import Solver

PROTOCOL = 2
SURVEYS = ("survey", "inquiry")  # asked before the first round; nothing of them is remembered
WORK_BITS = 20  # counts of work are larger than coefficients, and need fewer digits
Content = dict[str, Any]


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
        stat = self.data.stat()
        seen = [str(self.data), stat.st_size, stat.st_mtime_ns]
        note = self.path / "cache" / "digest.json"
        with contextlib.suppress(OSError, ValueError, KeyError):
            noted = json.loads(note.read_text())
            if noted["seen"] == seen:
                return str(noted["digest"])
        digest = digest_of(self.data)
        files.write_atomically(note, json.dumps({"seen": seen, "digest": digest}).encode())
        return digest

    def registered(self) -> dict[str, str]:
        """The public keys of all silos, as the operators exchanged them."""
        try:
            return dict(json.loads((self.path / "roster.json").read_text()))
        except (OSError, ValueError) as error:
            raise InputError(
                f"secure aggregation needs the roster of all silos' keys ({error}); get it from the coordinator, "
                "compare fingerprints, and run `dualfl deploy trust`"
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
        reply: Content = {
            "silo": self.home.name,
            "identity": self.home.settings.get("identity", ""),
            "tag": tag(message),
        }
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
                return encode(reply | {"absent": True})  # a node that the server did not know by name yet
            content = kinds[request["kind"]](request, message)
        except DualflError as error:
            content = {"refusal": str(error)}
        except Exception as error:  # whatever it is, the coordinator must hear of it
            content = {"refusal": f"{type(error).__name__}: {error}"}
        return content if isinstance(content, bytes) else encode(reply | content)

    # -- before the first round --------------------------------------------------------------------

    def hello(self, request: Content, message: bytes) -> Content:
        """Who this is, what its file looks like, and its key for this experiment."""
        experiment = self.experiment(request)
        content: Content = {"d": None}
        if "pickle" not in self.home.settings:
            rows = read_rows(self.home.data, self.home.settings.get("target"), self.home.settings.get("ignore", ()))
            content |= describe(rows, request.get("task"))
        key = self.home.path / "key"
        if key.exists():
            content["offer"] = experiment.offer(key)
        return content

    def agree(self, request: Content, message: bytes) -> Content:
        """Take note of the plan, and answer with how much this silo counts and the sums of its columns."""
        experiment = self.experiment(request)
        self._check_plan(request, experiment)
        experiment.fix("plan", message, "another plan was agreed for this experiment; start a new one")
        if "pickle" in self.home.settings:
            return experiment.setup_upload({"size": experiment.source[2]}, tag(message)) | {"data": ""}
        experiment.fix(
            "data",
            self.home.data_digest.encode(),
            f"the data file {self.home.data} has changed since the experiment began; restore it, or start a new one",
        )
        X, _ = experiment.harmonised
        wire: Content = {"size": float(X.shape[0])}
        if request["standardise"] and experiment.schema.sparse:
            wire["sums"] = np.asarray(X.sum(axis=0), dtype=np.float64).ravel()
        elif request["standardise"] or experiment.schema.gaps:
            wire["sums"] = np.nansum(X, axis=0)
        if experiment.schema.gaps:
            wire["counts"] = np.count_nonzero(~np.isnan(X), axis=0).astype(np.float64)
        salted = hashlib.sha256((self.home.settings["identity"] + self.home.data_digest).encode()).hexdigest()[:16]
        return experiment.setup_upload(wire, tag(message)) | {"data": salted}

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
            if settings.get("secure_only"):
                raise InputError(
                    'this silo sends nothing without secure aggregation; switch it on in project.json ("secure": true)'
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

    def moments(self, request: Content, message: bytes) -> Content:
        """Sums of squares around the common centre."""
        experiment = self.experiment(request)
        X, _ = experiment.harmonised
        squares = np.nansum(np.square(X - request["center"]), axis=0)  # a gap becomes the centre
        return experiment.setup_upload({"squares": squares}, tag(message))

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
            sent = encode(
                {"silo": self.home.name, "identity": self.home.settings.get("identity", ""), "tag": name} | content
            )
            if not surveys:
                experiment.remember(moved, name, sent)
        return sent

    def value(self, request: Content, message: bytes) -> Content:
        """f at a point, weighted as an upload is."""
        experiment = self.experiment(request)
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

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time: a request that is repeated while it is worked on waits for the answer."""
        import fcntl

        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def fix(self, name: str, content: bytes, otherwise: str) -> None:
        """Write a file once; refuse, in these words, to write anything else there."""
        path = self.path / name
        if path.exists():
            if path.read_bytes() != content:
                raise InputError(otherwise)
        else:
            files.write_atomically(path, content)

    def secret(self) -> bytes:
        path = self.path / "secret"
        if not path.exists():
            with self.locked():
                if not path.exists():
                    files.write_atomically(path, new_secret())
                    os.chmod(path, 0o600)
        return path.read_bytes()

    def offer(self, key: Path) -> tuple[str, ...]:
        """The signed key of this experiment; a signature is never the same twice, so it is kept."""
        path, secret = self.path / "offer.json", self.secret()
        with self.locked():
            if not path.exists():
                offered = sign(key.read_bytes(), self.id, self.home.name, secret)
                files.write_atomically(path, json.dumps(offered).encode())
        return tuple(json.loads(path.read_text()))

    @cached_property
    def plan(self) -> Content:
        try:
            return decode((self.path / "plan").read_bytes())
        except OSError:
            raise InputError(
                "this silo knows no plan of this experiment: its folder was lost or moved; start a new experiment"
            ) from None

    def note_scaling(self, request: Content) -> None:
        """What was found out after the plan was agreed comes with the first step, and stays."""
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

    @cached_property
    def harmonised(self) -> tuple[Any, Any]:
        settings = self.home.settings
        return harmonised(read_rows(self.home.data, settings.get("target"), settings.get("ignore", ())), self.schema)

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

        if (self.path / "data").read_bytes().decode() != self.home.data_digest:
            raise InputError(
                f"the data file {self.home.data} has changed since the experiment began; restore it, or start a new one"
            )
        key = hashlib.sha256((self.path / "scaling").read_bytes() + (self.path / "plan").read_bytes()).hexdigest()[:24]
        cache = self.home.path / "cache" / f"{key}.npz"
        if not cache.exists():
            X, y = self.harmonised
            X = standardised(X, self.scaling["center"], self.scaling["spread"], self.scaling["fill"])
            for old in cache.parent.glob("*.npz"):
                old.unlink()
            files.write_atomically(cache, pack_rows(X, y))
        X, y = unpack_rows(cache)
        objective, solver, penalty = build(X, y, self.schema, self.plan["problem"])
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
        parts: dict[str, tuple[Any, float, int]] = {}
        for field, x in wire.items():
            parts |= {field: (x, weight, self.plan["secure"])} if np.shape(x) else fixed.halves(field, weight * x)
        work: Work = reply.work
        parts |= {f"work:{k}": (float(v), 1.0, WORK_BITS) for k, v in work._asdict().items()}
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
        parts: dict[str, tuple[Any, float, int]] = {}
        for field, x in wire.items():
            parts |= fixed.halves(field, x)
        return self._masked(parts, name, list(self.plan["names"]))

    def value_upload(self, value: float, name: str, weight: float) -> Content:
        if self.plan["secure"] is None:
            return {"value": value}
        return self._masked(fixed.halves("probe:E", weight * value), name, list(self.plan["names"]))

    def _masked(self, parts: dict[str, tuple[Any, float, int]], name: str, among: list[str]) -> Content:
        words = [fixed.to_words(field, x, weight, bits) for field, (x, weight, bits) in parts.items()]
        fields = tuple((field, tuple(np.shape(x)), bits) for field, (x, _, bits) in parts.items())
        return {"words": self.masks.cover(np.concatenate(words), name, among), "fields": fields}

    def _masked_maxima(self, wire: Content, name: str, among: list[str]) -> Content:
        size = len(fixed.ladder())
        noise = self.masks.noise(name, size * len(wire)).reshape(len(wire), size)
        words = [fixed.to_rungs(float(x), row) for x, row in zip(wire.values(), noise)]
        return {"words": self.masks.cover(np.concatenate(words), name, among), "maxima": tuple(wire)}

    @cached_property
    def masks(self) -> Masks:
        keys = {silo: offer[0] for silo, offer in self.plan["offers"].items()}
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
        files.save(self.path / "state.npz", content)


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
