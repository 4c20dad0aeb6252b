"""The silo's side: one message in, one message out, everything that must survive on disk before the answer leaves.

Every message may be handled by a new process, may come twice, and may come after a crash: `handle` gives the same
answer to the same message, and refuses, in a sentence, what does not fit. Where things lie is in `home` and
`experiment`, what an answer looks like in `upload`.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualfl.algorithms.contract import Algorithm
from dualfl.engines.client import ClientMemory, Envelope, answer, measured
from dualfl.errors import DualflError, InputError
from dualfl.federation.experiment import CHANGED, Experiment
from dualfl.federation.masks import Offer, check, public_part
from dualfl.federation.rows import describe
from dualfl.federation.silo_folder import LOG, SiloFolder
from dualfl.federation.wire import decode, encode, tag
from dualfl.tables.refusals import Unfit
from dualfl.version import __version__

PROTOCOL = 8
SURVEYS = ("survey", "inquiry")  # asked before the first round; nothing of them is remembered
Content = dict[str, Any]


class Keeper:
    """Answers messages for one silo."""

    def __init__(self, home: Path | str) -> None:
        self.home = SiloFolder(Path(home))
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
            if request.get("protocol") != PROTOCOL:
                raise InputError(
                    f"the coordinator speaks protocol {request.get('protocol')} "
                    f"(dualfl {request.get('version', 'of another version')}), and "
                    f"this silo protocol {PROTOCOL} (dualfl {__version__}); install versions with one protocol"
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
            allow_empty = bool(self.home.settings.get("allow_empty"))
            content |= describe(self.home.rows(), request.get("task"), allow_empty)
        key = self.home.path / "key"
        if key.exists():
            content["offer"] = experiment.offer(key)
        return content

    def agree(self, request: Content, message: bytes) -> Content | bytes:
        """Take note of the plan, and answer with how much this silo counts and the sums of its columns and levels."""
        experiment = self.experiment(request)
        self._check_plan(request, experiment)
        experiment.fix("plan", message, "another plan was agreed for this experiment; start a new one")
        if "pickle" in self.home.settings:
            return experiment.uploads.setup({"size": experiment.source[2]}, tag(message)) | {"data": ""}
        experiment.fix("data", self.home.fingerprint.encode(), CHANGED)
        return self._once(
            experiment,
            message,
            lambda: experiment.uploads.setup(experiment.counts(), tag(message)) | {"data": self.home.salted},
        )

    def _once(self, experiment: Experiment, message: bytes, answer: Callable[[], Content]) -> bytes:
        return experiment.answered_once(tag(message), lambda: self._encoded(message, answer()))

    def _check_plan(self, plan: Content, experiment: Experiment) -> None:
        names, settings = list(plan["names"]), self.home.settings
        check_installed(json.loads(plan["algorithm"])["algorithm"])
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
        """Sums of deviations from the common centre, and of their squares."""
        experiment = self.experiment(request)
        experiment.check_data()
        return self._once(
            experiment,
            message,
            lambda: experiment.uploads.setup(experiment.deviations(request["center"]), tag(message)),
        )

    # -- rounds ------------------------------------------------------------------------------------

    def step(self, request: Content, message: bytes) -> Content | bytes:
        """A client step: compute, save, answer."""
        experiment, name = self.experiment(request), tag(message)
        with experiment.locked():
            experiment.note_scaling(request)
            surveys = request["round"] < 0 and json.loads(request["algorithm"])["algorithm"] in SURVEYS
            algorithm = algorithm_of(request["algorithm"])
            silo, last, sent = (ClientMemory(), "", b"") if surveys else experiment.remembered(algorithm)
            if last == name:
                return sent
            cost, place, j, weight = experiment.client(algorithm_of(request["under"]))
            if request["reduce"] == "max":  # maxima are compared, not added: the grid of sums is not theirs
                place = replace(place, codec=None)
            value = None if request["probe"] is None else measured(cost.objective, request["probe"])
            envelope = Envelope(request["round"], request["exchange"], request["step"], request["message"])
            after = None if surveys else request["after"][list(request["to"]).index(self.home.name)]
            reply, moved = answer(algorithm, cost, silo, envelope, place, j, weight, after)
            content = experiment.uploads.answer(reply, value, request, name, weight)
            sent = self._encoded(message, content)
            if not surveys:
                experiment.remember(moved, name, sent)
        return sent

    def value(self, request: Content, message: bytes) -> Content:
        """f at a point and how far off it may be, weighted as an upload is."""
        experiment = self.experiment(request)
        with experiment.locked():
            experiment.note_scaling(request)
        cost, _, _, weight = experiment.client(algorithm_of(request["under"]))
        value = measured(cost.objective, request["probe"])
        return experiment.uploads.value(value, tag(message), weight)


def check_installed(name: str) -> None:
    """An algorithm travels as its name and its hyperparameters, never as code."""
    from dualfl.algorithms.registry import ALGORITHMS

    if name not in ALGORITHMS:
        raise InputError(
            f"the algorithm {name!r} is not installed at this silo; its operator can install the package that has it, "
            "or the coordinator takes another algorithm"
        )


def algorithm_of(text: str) -> Algorithm:
    """The algorithm that travels as JSON; the surveys before the first round among them."""
    content = json.loads(text)
    if content["algorithm"] in SURVEYS:
        from dualfl.engines.survey import Inquiry, Survey

        kind = {"survey": Survey, "inquiry": Inquiry}[content.pop("algorithm")]
        return kind(**content)
    from dualfl.algorithms.registry import from_json

    return from_json(text)
