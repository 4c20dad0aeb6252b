"""Whether a silo takes part in a plan: its policy, and its operator's word.

    approvals/waiting/DIGEST.json    a plan that waits for `dualfl deploy approve`, in plain words
    approvals/given.json             what was said: yes to this plan, always to such plans, no

A plan is known by the digest of all of it, so one that changes after it was approved waits again. Plans are alike if
they name the same silos with the same keys, the same columns, the same model and the same method; a roster that changes
ends all standing approvals.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dualfl.errors import InputError
from dualfl.federation.audit import AuditLog, stamp
from dualfl.federation.policy import Policy
from dualfl.federation.protocol import UNDECIDED
from dualfl.files import locked, write_atomically

PRIVATE = 0o600
WAITING = 50  # plans at most: who sends more would fill the disk, and tire the operator until one is not read
LONGEST = 8 << 20  # bytes of a plan that waits: of a model that is evaluated, some 300,000 coefficients
Content = dict[str, Any]


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=every_number).encode()).hexdigest()


class Consent:
    """The approvals of one silo."""

    def __init__(self, folder: Path, policy: Policy, log: AuditLog) -> None:
        self.folder, self.policy, self.log = folder / "approvals", policy, log

    def check(
        self, plan: Mapping[str, Any], experiment: str, roster: Mapping[str, str], columns: Sequence[str] = ()
    ) -> None:
        """Refuse a plan that the policy forbids or nobody has approved."""
        described = description(plan, roster, columns)
        self.policy.check_names(plan["names"], list(roster))
        self.policy.check_method(described["method"], described["model"])
        if self.policy.approval == "none":
            return
        name, kind = digest({"plan": described, "experiment": experiment}), digest(described)
        given = self._given()
        if name in given["no"]:
            raise InputError("the operator of this silo has said no to this plan")
        if name in given["once"] or kind in given["always"]:
            return
        waiting = {"plan": described, "experiment": experiment, "kind": kind, "since": stamp()}
        path = self.folder / "waiting" / f"{name}.json"
        if not path.exists():
            if len(list(path.parent.glob("*.json"))) >= WAITING:
                raise InputError(
                    f"{WAITING} plans wait for this silo's operator already (`dualfl deploy approve` shows them); "
                    "this one is not kept"
                )
            text = json.dumps(waiting, indent=2).encode()
            if len(text) > LONGEST:
                raise InputError(
                    f"the plan takes {len(text):,} bytes to read, and {LONGEST:,} are the most that wait for an "
                    "operator"
                )
            write_atomically(path, text, PRIVATE)
            self.log.note("a plan waits for approval", plan=name, experiment=experiment)
        raise InputError(
            f"{UNDECIDED}, who can approve it with `dualfl deploy approve`; then run the same command again"
        )

    def waiting(self) -> dict[str, Content]:
        """Plans that nobody has decided on, by digest, oldest first; a file that was edited is none."""
        found = {}
        for path in (self.folder / "waiting").glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                one = json.loads(path.read_text())
                if is_whole(one, path.stem):
                    found[path.stem] = one
        return dict(sorted(found.items(), key=lambda one: str(one[1]["since"])))

    def decide(self, name: str, answer: str) -> None:
        """`answer` is "once", "always" or "no"."""
        plan = self.waiting()[name]
        with locked(self.folder, PRIVATE):
            given = self._given()
            given[answer][plan["kind"] if answer == "always" else name] = stamp()
            write_atomically(self.folder / "given.json", json.dumps(given, indent=2).encode(), PRIVATE)
        (self.folder / "waiting" / f"{name}.json").unlink()
        self.log.note("approval", answer=answer, plan=name, kind=plan["kind"], experiment=plan["experiment"])

    def _given(self) -> dict[str, dict[str, str]]:
        empty: dict[str, dict[str, str]] = {"once": {}, "always": {}, "no": {}}
        path = self.folder / "given.json"
        if not path.exists():
            return empty
        try:
            given = empty | dict(json.loads(path.read_text()))
            if not all(isinstance(said, dict) for said in given.values()):
                raise TypeError("answers are kept by digest")
            return given
        except (ValueError, TypeError) as error:
            raise InputError(
                "approvals/given.json of this silo's folder cannot be read; mend it or delete it"
            ) from error


def is_whole(waiting: Content, name: str) -> bool:
    """Whether this is the plan that was put there: the operator decides on what is read, and approves by digests."""
    plan = waiting["plan"]
    told = {"plan": plan, "experiment": waiting["experiment"]}
    return bool(digest(told) == name and digest(plan) == waiting["kind"] and "since" in waiting)


def description(plan: Mapping[str, Any], roster: Mapping[str, str], columns: Sequence[str] = ()) -> Content:
    """What a plan comes to, without what differs between two runs of the same. `columns`: those that this silo has."""
    problem = dict((plan.get("analysis") or {}).get("problem") or plan.get("problem") or {})
    described = {
        "silos": list(plan["names"]),
        "keys": digest(dict(roster)),
        "masks": plan.get("secure") is not None,
        "model": model_of(plan),
        "problem": problem,
        "method": method_of(plan),
        "columns": columns_of(plan.get("draft")) or list(columns),
        "analysis": plan.get("analysis"),
    }
    return dict(json.loads(json.dumps(described, sort_keys=True, default=every_number)))


def every_number(x: Any) -> Any:
    """An array as all its numbers, with all their digits: what prints as dots can be changed after it was approved."""
    if isinstance(x, np.ndarray):
        return x.tolist()
    raise InputError(f"the plan holds {type(x).__name__}, which cannot be shown to anybody")


def model_of(plan: Mapping[str, Any]) -> str:
    """The loss of a run, the model of a fit, or what else is done."""
    analysis = plan.get("analysis") or {}
    loss = (analysis.get("problem") or plan.get("problem") or {}).get("loss")
    named = (analysis.get("recipe") or {}).get("model") or analysis.get("estimator") or loss
    return str(named or analysis.get("analysis") or "")


def method_of(plan: Mapping[str, Any]) -> str:
    """The algorithm: of a run, or that an estimator names; an analysis that names none is done by `auto`."""
    analysis = plan.get("analysis") or {}
    named = analysis.get("algorithm") or (analysis.get("parameters") or {}).get("algorithm")
    named = named or ("auto" if analysis else plan.get("algorithm"))
    with contextlib.suppress(ValueError, TypeError):
        named = json.loads(named) if isinstance(named, str) else named
    return str(named.get("algorithm") if isinstance(named, Mapping) else named or "")


def columns_of(draft: Any) -> list[str]:
    if not isinstance(draft, Mapping):
        return []
    levels = draft.get("levels") or {}
    found = [
        f"{name} ({', '.join(map(str, levels[name]))})" if name in levels else str(name) for name in draft["columns"]
    ]
    return found or ([f"{draft['width']} columns without names"] if draft.get("width") else [])
