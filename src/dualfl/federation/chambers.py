"""A silo of a federation as a chamber: the same answers that a file on the analyst's machine gives, by its own rules.

What the analyst asks for and only the operator may allow is refused here: another target than silo.json names, numbers
taken as categories, rows left out. Folds come from a secret of the silo.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualfl.algorithms.contract import Algorithm, Place
from dualfl.engines.client import ClientMemory, Envelope, Reply, answer, measured
from dualfl.engines.engine import server_penalty
from dualfl.engines.suiting import bound, check_fit
from dualfl.errors import InputError
from dualfl.federation import declared, fixed_point
from dualfl.federation.commitments import Commitment
from dualfl.federation.experiment import Experiment
from dualfl.federation.few_rows import check_rows
from dualfl.federation.inspecting import inspected
from dualfl.federation.named_algorithms import algorithm_of
from dualfl.federation.risk_sets import check_risk_sets
from dualfl.federation.rows import check_empty, not_quoted
from dualfl.federation.silo_folder import SiloFolder, write
from dualfl.federation.steep_points import GuardedCost, check_question
from dualfl.federation.two_columns import check_alternatives
from dualfl.federation.wire import decode, encode
from dualfl.objectives import L1
from dualfl.silos.chamber import Chamber, Dealing, Least
from dualfl.silos.classification_scores import BINS
from dualfl.silos.costs import Cost
from dualfl.silos.verbs import answered
from dualfl.solvers.naming import choose_solver
from dualfl.tables.delimited import is_class_target
from dualfl.tables.reading import Table
from dualfl.tables.refusals import IN_SILOS, Unfit
from dualfl.tables.roles import parts
from dualfl.tables.summaries import counting

Content = dict[str, Any]
SURVEYS = ("survey", "inquiry")
CHECKS = ("greet", "inspect")  # the questions of a check of tables
DESCRIBES = ("outline", "tally", "spreads", "cells", "own_cells")  # those of a description
CURVES = ("survival_counts", "log_rank")  # those of survival curves
TABLE_NAMES = ("describe", "outline")  # tell names of columns and levels
TOLD = (*TABLE_NAMES, "encode", "reweigh")  # what a chamber remembers
RANDOM = (
    "the sums of a random site effect tell every silo's number of rows and means, and this silo shows none of its own "
    "numbers; take --site-effect fixed, or its operator sets 'show_own_numbers' in silo.json"
)
QUOTING = "its rows do not suit what was asked"


class FarChamber:
    """The chamber of one experiment. What it was told is on disk, so it may be made anew for every message."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.home = experiment, experiment.home
        self._memories: dict[int, tuple[bytes, ClientMemory | None]] = {}
        self._costs: dict[tuple[int, str], Any] = {}
        self._last: Kept | None = None

    @cached_property
    def chamber(self) -> Chamber:
        rows = self.home.rows(held_out=self.evaluates)
        self.experiment.check_data()  # after reading, so that a file which is changed meanwhile is noticed
        made = Chamber(rows.table, fold_dealing(self.home), self.home.name, IN_SILOS)
        policy = self.home.policy
        made.least = Least(policy.least_per_level, policy.least_per_cell, policy.least_per_fold)
        made.by_hand = self.evaluates and policy.least_per_cell > 1
        self._recall(made)
        return made

    @property
    def has_plan(self) -> bool:
        return (self.experiment.path / "plan").exists()

    @cached_property
    def analysis(self) -> str:
        """What kind of analysis this is."""
        path = self.experiment.path / "analysis"
        return str(decode(path.read_bytes()).get("analysis", "")) if path.exists() else ""

    @property
    def evaluates(self) -> bool:
        """Whether this is an evaluation, for which rows may have been kept apart."""
        return self.analysis == "evaluate"

    def _recall(self, chamber: Chamber) -> None:
        """What it was told before: which columns, and how they become numbers."""
        for verb in TOLD:
            path = self.experiment.path / "told" / verb
            if path.exists():
                answered(chamber, verb, decode(path.read_bytes()))

    def counted(self) -> Table:
        """The rows that count in this analysis, with all their columns."""
        table, request = self.home.rows(held_out=self.evaluates).table, self.chamber.request
        return self.home.rows().used() if request is None else table.kept(counting(table, request)[2])

    def commitment(self) -> Commitment | None:
        """To its number of rows in this experiment; None where no rows are counted."""
        if self.analysis == "check" or self.chamber.request is None:
            return None
        return Commitment.of(self.chamber.used[0].rows, self.experiment.secret())

    # -- questions ----------------------------------------------------------------------------------

    def query(self, verb: str, given: Mapping[str, Any]) -> Content:
        """The answer to a question; what is said of cells stays with the operator."""
        self.check_suits(verb)
        if verb == "greet":
            return {}
        if verb == "inspect":
            return inspected(self.home, str(given["target"]), given["classes"]).as_json()
        if verb == "site_terms" and self.home.policy.least_rows and self.home.withholds:
            raise InputError(RANDOM)
        if verb == "evaluate" and int(given["bins"]) > BINS:  # fine ones would tell the scores themselves
            raise InputError(f"a histogram of scores has at most {BINS} bins, and {given['bins']} are asked for")
        if verb == "evaluate":
            declared.check_value("the model", (given["model"]["W"], given["model"]["b"]))
        for cost in (*given.get("costs", ()), *([given["cost"]] if "cost" in given else ())):
            self.home.policy.check_kinks(Cost.from_json(cost).loss)
        if verb in TABLE_NAMES:
            given = self.allowed(given)
        chamber = self.chamber  # what hinders its making quotes nothing
        with not_quoted(QUOTING):
            found = answered(chamber, verb, given)
            if verb in TABLE_NAMES:
                self.check_told(found)
        check_question(chamber, verb, given, self.home.policy.least_per_cell)
        if verb in ("encode", "reweigh"):
            check_rows(chamber.rows, self.home.policy, bool(self.home.settings.get("allow_drop_rows")))
        if verb in CURVES:
            self.home.policy.check_size(self.chamber.used[0].rows, len(given["arms"]) or 1)
        if verb in ("encode", *CURVES):
            self.check_columns_of_roles()
        if verb in TOLD:
            write(self.experiment.path / "told" / verb, encode(dict(given)))
        return found

    def check_suits(self, verb: str) -> None:
        """The plan of a check lets out faults of columns and nothing else, and no other plan does; the same goes for a
        description of tables."""
        for kind, verbs, words in (("check", CHECKS, "check"), ("describe", DESCRIBES, "description")):
            plan = self.analysis == kind
            if verb == "cells" and self.analysis == "fit":
                continue  # the knots of a spline
            if plan != (verb in verbs) or (verb == "inspect" and not self.has_plan):
                what = f"a {words}" if plan else f"no {words}"
                raise InputError(f"the plan is {what} of tables, and {verb!r} is not of it")

    def check_told(self, told: Content) -> None:
        """Class labels leave only as they were shown to the operator, and no column is empty unawares."""
        if self.analysis == "run":  # others say themselves whether columns may be empty
            for name in [name for name, levels in told.get("columns", {}).items() if levels == ()]:
                check_empty(self.home.name, name, bool(self.home.settings.get("allow_empty")))
        known = self.home.policy.classes
        labels = told.get("classes") or told["columns"].get(self.home.rows().target) or ()
        strange = [] if known is None else [label for label in labels if label not in known]
        if strange:
            raise Unfit(
                f"The target has the label {strange[0]!r}, which was not there when the silo joined; add it to "
                "'classes' of the policy in silo.json, or correct the data file.",
                "its target has labels that were not there when it joined",
            )

    def allowed(self, given: Mapping[str, Any]) -> Content:
        """The question as the operator's settings have it."""
        request, settings = dict(given["request"]), self.home.settings
        mine = self.home.rows(held_out=self.evaluates)
        request["target"] = request["target"] or mine.target  # "" is whatever the operator has said
        if request["target"] != mine.target:
            raise InputError(
                f"this silo's target is {mine.target!r}, and the analysis is about {request['target']!r}; its operator "
                "can change 'target' in silo.json"
            )
        fixed = self.home.policy.task
        if request["numeric_target"] is None:  # whatever it is
            classes = is_class_target(mine.table.columns[mine.target]) if fixed is None else fixed == "classification"
            request["numeric_target"] = not classes
        described = "small" in given  # whatever the target is
        if fixed is not None and not described and bool(request["numeric_target"]) != (fixed == "regression"):
            raise InputError(
                f"the target of this silo is for {fixed}, and the analysis is for another kind of target; its operator "
                "can change 'task' of the policy in silo.json"
            )
        strange = sorted(set(request["categorical"]) - set(mine.categorical))
        if strange:
            raise InputError(
                f"column {strange[0]!r} is not among the 'categorical' of this silo's silo.json, and numbers that are "
                "taken as categories are told to others; its operator can add it there"
            )
        self.check_roles(request.get("roles") or {})
        if request["missing"] == "drop" and not settings.get("allow_drop_rows"):
            raise InputError(
                "the analysis leaves out rows with gaps, and which rows count is the operator's to say; allow it by "
                '"allow_drop_rows": true in silo.json'
            )
        columns = set(mine.table.columns)
        request["categorical"] = tuple(name for name in mine.categorical if name in columns)
        if described and fixed == "classification" and mine.target not in request["categorical"]:
            request["categorical"] += (mine.target,)
        return {**given, "request": request}

    def check_roles(self, roles: Mapping[str, str]) -> None:
        """Columns that say when, how much and against whom a row counts are the operator's to name."""
        allowed = self.home.roles
        if allowed is None:
            return
        for role, column in roles.items():
            if column not in allowed.get(role, ()):
                raise InputError(
                    f"column {column!r} may not be the {role} of rows at this silo; its operator can allow it by "
                    f'"roles": {{"{role}": ["{column}"]}} in silo.json'
                )

    def check_columns_of_roles(self) -> None:
        """What columns in roles of their own, the times above all, would tell of a few rows."""
        table, request, policy = self.chamber.table, self.chamber.request, self.home.policy
        assert table is not None and request is not None
        if not request.roles:
            return
        table = table.kept(counting(table, request)[2])  # with all columns, also those of other plans
        check_alternatives(table, request.roles, self.home.roles or {}, policy.least_per_level)
        if "time" in request.roles:
            more = parts(table, request.roles)["more"]
            check_risk_sets(more["time"], table.levels(request.target) == "1", more, policy)

    # -- runs ---------------------------------------------------------------------------------------

    def takes_part(self, fit: Content) -> bool:
        """Whether this silo has rows in the fit, as far as the coordinator knows."""
        return self.home.name in fit["among"]

    def step(self, asked: Content, points: Mapping[str, fixed_point.Point]) -> tuple[Reply, Content | None, float]:
        """A client step of one fit, the value at the probe, and how much this silo counts in it.

        `points`: where the points of long vectors stand.
        """
        self.check_suits("step")
        algorithm = algorithm_of(asked["algorithm"])
        cost, place, weight = self.client(asked["fit"], algorithm_of(asked["fit"]["under"]))
        if asked["reduce"] == "max" or weight == 0:  # maxima are compared, and what counts nothing is not rounded
            place = replace(place, codec=None)
        elif points and place.codec is not None:
            place = replace(place, codec=fixed_point.FixedPoint(weight, points))
        value = None if asked["probe"] is None else measured(cost.objective, asked["probe"])
        surveys = asked["round"] < 0 and algorithm.name in SURVEYS
        number = int(asked["fit"]["number"])
        memory = ClientMemory() if surveys else self.remembered(number, algorithm)
        envelope = Envelope(asked["round"], asked["exchange"], asked["step"], asked["message"])
        after = None if surveys else asked["after"]
        j = list(asked["fit"]["among"]).index(self.home.name)
        # A silo without rows answers as if it had some, and its answer is multiplied by 0.
        reply, moved = answer(algorithm, cost, memory, envelope, place, j, weight or 1.0, after)
        cost.check()
        if not surveys:
            self._memories[number] = (packed(moved), moved)
        return reply, value, weight

    def value(self, asked: Content) -> tuple[Content, float]:
        self.check_suits("value")
        cost, _, weight = self.client(asked["fit"], algorithm_of(asked["fit"]["under"]))
        found = measured(cost.objective, asked["probe"])
        cost.check()
        return found, weight

    def client(self, fit: Content, algorithm: Algorithm) -> tuple[GuardedCost, Place, float]:
        key = int(fit["number"]), algorithm.to_json()
        if key not in self._costs:
            self._costs[key] = self._client(fit, algorithm)
        found: tuple[GuardedCost, Place, float] = self._costs[key]
        return found

    def _client(self, fit: Content, algorithm: Algorithm) -> tuple[GuardedCost, Place, float]:
        wanted, plan = Cost.from_json(fit["cost"]), self.experiment.plan
        self.home.policy.check_batch(algorithm)
        self.home.policy.check_kinks(wanted.loss)
        chamber = self.chamber
        with not_quoted(QUOTING):
            objective = chamber.objective(wanted)
            blank = objective is None
            objective = chamber.blank(wanted) if objective is None else objective
        penalty = L1(wanted.l1) if wanted.l1 else None
        check_fit([objective], penalty, algorithm, None)
        N = len(fit["among"])
        share = 0.0 if blank else (1.0 if fit["equal"] else objective.mass) / fit["mass"]
        if algorithm.uniform and blank:
            raise InputError(f"{algorithm.name} lets all silos count alike, and this one has no rows in this fit")
        weight = 1.0 / N if algorithm.uniform else share
        mine = bound(objective, share, N, algorithm, penalty)
        start = fit["start"]
        least = 0 if blank else self.home.policy.least_per_cell
        cost = GuardedCost(mine, choose_solver(wanted.solver), None if algorithm.warm else start, least)
        if algorithm.strongly_convex:
            mine.require_strong_convexity(algorithm.name)
        place = Place(
            fit["seed"],
            N,
            objective.d,
            start=start if algorithm.warm else None,
            penalty=server_penalty(objective, penalty, cost.origin) if algorithm.penalty == "server" else None,
            codec=None if plan["secure"] is None or not weight else fixed_point.FixedPoint(weight),
            secret=drawing_secret(self.home, algorithm) if self.home.policy.least_rows else None,
        )
        return cost, place, weight

    # -- what survives ------------------------------------------------------------------------------

    def remembered(self, number: int, algorithm: Algorithm) -> ClientMemory:
        data, memory = self._memories.get(number, (b"", None))
        if memory is None and data:
            memory = unpacked(data, algorithm)
            self._memories[number] = (data, memory)
        return memory or ClientMemory()

    def forget(self, numbers: Any) -> None:
        """Fits that have ended."""
        for number in numbers:
            self._memories.pop(int(number), None)
            self._costs = {key: cost for key, cost in self._costs.items() if key[0] != int(number)}

    def recall(self) -> tuple[str, bytes]:
        """(the tag of the last question, the answer to it), and the memory of all fits."""
        kept = self._kept("fits")
        if kept is None:
            return "", b""
        if kept is not self._last:  # another process has answered since, or none of this one's life
            self._last, self._memories = kept, memories_of(kept)
        return kept.tag, kept.sent

    def begin_anew(self) -> None:
        """Trust the disk alone: an answer that was begun and refused may have changed what is in memory."""
        self._last = None

    def standing(self) -> Content | None:
        """Where the conversation stands; None before its first answer."""
        kept = self._kept("fits")
        return None if kept is None else kept.line

    def keep(self, tag: str, sent: bytes, line: Content | None = None) -> None:
        """All of it is on disk, in one piece, before the answer leaves; `line`: where the conversation stands.

        What was there before stays beside it, under another name: an answer may be void (`scales`).
        """
        fits = {str(number): as_bytes(data) for number, (data, _) in self._memories.items()}
        path, before = (self.experiment.path / name for name in ("fits", "fits-before"))
        if path.exists():
            before.unlink(missing_ok=True)
            os.link(path, before)
        write(path, encode({"tag": tag, "sent": as_bytes(sent), "fits": fits, "line": line}))
        self._last = Kept(identity(path), tag, sent, line, {})

    def undo(self) -> None:
        """Remember what was known before the last answer, which is void: its numbers did not fit."""
        now, before = self._kept("fits"), self._kept("fits-before")
        assert now is not None and now.line is not None
        if now.line["exchanges"] == 1:
            self._memories = {}
        elif before is None or before.line is None or before.line["exchanges"] != now.line["exchanges"] - 1:
            raise InputError("this silo's folder has not what was before the last answer; start a new experiment")
        else:
            self._memories = memories_of(before)

    def _kept(self, name: str) -> Kept | None:
        path = self.experiment.path / name
        if not path.exists():
            return None
        if self._last is not None and self._last.file == identity(path):
            return self._last
        content = decode(path.read_bytes())
        return Kept(identity(path), content["tag"], content["sent"].tobytes(), content["line"], content["fits"])


class Kept(NamedTuple):
    """What a silo wrote down with an answer."""

    file: tuple[int, int]  # which file this was
    tag: str
    sent: bytes
    line: Content | None
    fits: Mapping[str, Any]


def identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def memories_of(kept: Kept) -> dict[int, tuple[bytes, ClientMemory | None]]:
    return {int(number): (data.tobytes(), None) for number, data in kept.fits.items()}


def as_bytes(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint8)


def packed(memory: ClientMemory) -> bytes:
    """Without the reply: the answer that left is kept as it left."""
    return encode({"memory": replace(memory, reply=None)})


def unpacked(data: bytes, algorithm: Algorithm) -> ClientMemory:
    memory: ClientMemory = decode(data, algorithm)["memory"]
    return memory


def drawing_secret(home: SiloFolder, algorithm: Algorithm) -> int:
    """By which rows are drawn. Batches of 20 and of 21 rows that began alike would differ by one row, so each size has
    draws of its own."""
    words = f"{fold_dealing(home).secret} {getattr(algorithm, 'batch', None)}"
    return int(hashlib.sha256(words.encode()).hexdigest()[:15], 16)


def fold_dealing(home: SiloFolder) -> Dealing:
    """How rows are dealt into folds: by a secret of the silo, which also says with which fold it begins."""
    path = home.path / "folds"
    if not path.exists():
        write(path, secrets.token_hex(16).encode())
    secret = int(hashlib.sha256(path.read_bytes()).hexdigest()[:15], 16)
    return Dealing(secret, secret % 1000)
