"""The silo's side: one message in, one message out, everything that must survive on disk before the answer leaves.

Every message may be handled by a new process, may come twice, and may come after a crash: `handle` gives the same
answer to the same message, and refuses, in a sentence, what does not fit. Where things lie is in `home` and
`experiment`; the questions of an analysis, which alone are masked, in `chambers`, `answers` and `line`.
"""

from __future__ import annotations

import errno
import json
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualfl.engines.client import ClientMemory, Envelope, LocalCost, answer, measured
from dualfl.errors import DualflError, InputError
from dualfl.federation import declared, line_speed, row_sets
from dualfl.federation.answers import answer_all
from dualfl.federation.chambers import TABLE_NAMES
from dualfl.federation.commitments import OPENING
from dualfl.federation.consent import Consent
from dualfl.federation.experiment import CHANGED, Experiment, begun_since, purge
from dualfl.federation.few_rows import check_counted
from dualfl.federation.fixed_point import BITS
from dualfl.federation.handing_on import sign_hello, sign_own
from dualfl.federation.masks import Offer, check, public_part
from dualfl.federation.named_algorithms import SURVEYS, algorithm_of, check_installed
from dualfl.federation.protocol import PROTOCOL as PROTOCOL
from dualfl.federation.rows import describe
from dualfl.federation.silo_folder import LOG, SiloFolder
from dualfl.federation.tags import FalseSum
from dualfl.federation.wire import decode, encode, tag
from dualfl.lines import plain_text
from dualfl.silos.verbs import LEAST
from dualfl.tables.refusals import Unfit
from dualfl.tables.schema import Draft
from dualfl.typing import Array
from dualfl.version import __version__

DAY = 86_400.0  # seconds
OTHER_FIRST = "this experiment began with another question; start a new one"
PLAN = {"names", "offers", "secure", "algorithm", "withheld", "analysis"}  # the words of an analysis's plan
Content = dict[str, Any]


class Keeper:
    """Answers messages for one silo."""

    def __init__(self, home: Path | str) -> None:
        self.home = SiloFolder(Path(home))
        self._experiments: dict[str, Experiment] = {}
        self._echoes: list[float] = []

    def experiment(self, request: Content) -> Experiment:
        """The same object for all messages of an experiment: a keeper that lives on has the data in memory."""
        id = str(request["experiment"])
        if id not in self._experiments:
            if "pickle" not in self.home.settings:
                purge(self.home.path / "experiments", self.home.policy.keep_days, id)
            self._experiments = {id: Experiment(self.home, id)}
        return self._experiments[id]

    def handle(self, message: bytes) -> bytes:
        """The answer; a refusal is an answer too. All of it goes to the audit log."""
        heard: Content = {"bytes": len(message), "tag": tag(message)}
        try:
            request = decode(message)
            heard |= {"kind": plain_text(str(request.get("kind")), 40)}
            heard |= {"experiment": plain_text(str(request.get("experiment")), 80)}
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
                "open": self.open,
                "join": self.join,
                "ask": self.ask,
                "end": self.end,
                line_speed.KIND: self.echo,
            }
            if request.get("kind") not in kinds:
                raise InputError(f"nobody here knows how to answer {request.get('kind')!r}")
            told = request.get("to")
            if told is not None and self.home.name not in told:
                return self._encoded(message, {"absent": True})  # a node that the server did not know by name yet
            content = kinds[request["kind"]](request, message)
        except Exception as error:  # whatever it is, the coordinator must hear of it
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise  # no reason to end an analysis: it is asked again, and its operator is told meanwhile
            if isinstance(error, FalseSum):
                self.end(request, message)
            content = {"refusal": self._refusal(error).rstrip(".")}
            heard["refused"] = plain_text(str(error) or type(error).__name__, 400)
        answer = content if isinstance(content, bytes) else self._encoded(message, content)
        if "pickle" not in self.home.settings:
            self.home.log.note("request", **heard, answered=len(answer))
        return answer

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

    def echo(self, request: Content, message: bytes) -> Content:
        """What was sent, as often as measurements of the network need it: a line may be metered."""
        now = time.monotonic()
        self._echoes = [moment for moment in self._echoes if moment > now - DAY]
        if len(self._echoes) >= line_speed.A_DAY:
            raise InputError(f"{line_speed.A_DAY} messages that measure the network are the most in a day")
        self._echoes.append(now)
        return line_speed.echoed(request)

    def hello(self, request: Content, message: bytes) -> Content:
        """Who this is, what its file looks like, and its key for this experiment."""
        experiment = self.experiment(request)
        content: Content = {"d": None}
        if "pickle" not in self.home.settings:
            allow_empty = bool(self.home.settings.get("allow_empty"))
            content |= describe(self.home.rows(), self._task(request.get("task")), allow_empty)
            self._check_told(content)
        key = self.home.path / "key"
        if key.exists():
            content["offer"] = experiment.offer(key)
        return content

    def _task(self, asked: Any) -> str | None:
        """What the target is: as the operator fixed it when the silo joined, whatever is asked."""
        fixed = self.home.policy.task
        if fixed is not None and asked not in (None, fixed):
            raise InputError(
                f"the target of this silo is for {fixed}, and the coordinator asks for {asked!r:.40}; its operator can "
                "change 'task' of the policy in silo.json"
            )
        return fixed or asked

    def _check_told(self, told: Content) -> None:
        """Class labels leave only as they were shown to the operator."""
        known = self.home.policy.classes
        strange = [] if known is None else [label for label in told["classes"] if label not in known]
        if strange:
            raise Unfit(
                f"The target has the label {strange[0]!r}, which was not there when the silo joined; add it to "
                "'classes' of the policy in silo.json, or correct the data file.",
                "its target has labels that were not there when it joined",
            )

    def agree(self, request: Content, message: bytes) -> Content | bytes:
        """Take note of the plan, and answer with how much this silo counts and the sums of its columns and levels."""
        experiment = self.experiment(request)
        self._check_unfollowed(request)
        self._check_plan(request, experiment)
        experiment.fix("plan", message, "another plan was agreed for this experiment; start a new one")
        if "pickle" in self.home.settings:
            return {"wire": {"size": experiment.source[2]}, "data": ""}
        experiment.fix("data", self.home.fingerprint.encode(), CHANGED)
        return self._once(experiment, message, lambda: {"wire": experiment.counts(), "data": self.home.salted})

    def _check_unfollowed(self, plan: Content) -> None:
        """Under masks every question follows from a plan, so one that needs none is answered without masks alone."""
        if "analysis" in plan or plan["secure"] is not None:
            raise InputError(
                "under masks this silo answers only what it can foresee from the plan of an analysis; see that the "
                "coordinator has this version"
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
        self._check_masks(plan, experiment)
        self._check_consent(plan, experiment)

    def _check_masks(self, plan: Content, experiment: Experiment) -> None:
        names = list(plan["names"])
        if plan["secure"] is None:
            if self.home.masked_only:
                raise InputError(
                    'this silo sends nothing without secure aggregation; switch it on in project.json ("secure": '
                    'true), or its operator allows plain sums in silo.json ("allow_plain": true)'
                )
            return
        if plan["secure"] != BITS:
            raise InputError(f"secure sums have {BITS} bits after the point, and the plan has {plan['secure']!r:.20}")
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

    def _check_consent(self, plan: Content, experiment: Experiment) -> None:
        """What the operator insists on, and whether this plan was approved; an experiment that has begun was."""
        if "pickle" in self.home.settings or (experiment.path / "plan").exists():
            return
        home, policy = self.home, self.home.policy
        roster = home.registered() if plan["secure"] is not None or home.has_roster else {}
        if begun_since(home.path, time.time() - DAY) >= policy.experiments_per_day:
            raise InputError("this silo's policy allows no more experiments today ('experiments_per_day')")
        consent = Consent(home.path, policy, home.log)
        if (plan.get("analysis") or {}).get("analysis") == "check":  # no sum leaves, and rows may not be readable yet
            consent.check(plan, experiment.id, roster)
            return
        rows = home.rows()
        used = rows.used()
        if plan.get("draft") is not None:
            policy.check_size(used.rows, coefficients(Draft.from_json(plan["draft"])))
        counted = experiment.far.counted() if "analysis" in plan and policy.least_rows else used
        check_counted(counted, rows.target, policy, home.clusters, plan.get("analysis") or {})
        columns = sorted(name for name in used.columns if name != rows.target)
        consent.check(plan, experiment.id, roster, columns)
        if policy.least_rows:
            row_sets.check(home.path, row_sets.digests(counted, home.salt), policy.least_rows)

    def moments(self, request: Content, message: bytes) -> Content | bytes:
        """Sums of deviations from the common centre, and of their squares."""
        experiment = self.experiment(request)
        self._check_unfollowed(experiment.plan)
        experiment.check_data()
        columns = len(experiment.draft.numeric)
        center = declared.vector("center", request["center"], columns)
        return self._once(experiment, message, lambda: {"wire": experiment.deviations(center)})

    # -- rounds ------------------------------------------------------------------------------------

    def step(self, request: Content, message: bytes) -> Content | bytes:
        """A client step: compute, save, answer."""
        experiment, name = self.experiment(request), tag(message)
        self._check_unfollowed(experiment.plan)
        declared.check_step(request)
        with experiment.locked():
            experiment.note_scaling(request)
            surveys = request["round"] < 0 and json.loads(request["algorithm"])["algorithm"] in SURVEYS
            algorithm = algorithm_of(request["algorithm"])
            silo, last, sent = (ClientMemory(), "", b"") if surveys else experiment.remembered(algorithm)
            if last == name:
                return sent
            cost, place, j, weight = experiment.client(algorithm_of(request["under"]))
            if request["reduce"] == "max":  # maxima are compared, not added: no codec is for them
                place = replace(place, codec=None)
            value = None if request["probe"] is None else measured(cost.objective, probe_of(request, cost))
            envelope = Envelope(request["round"], request["exchange"], request["step"], request["message"])
            after = None if surveys else request["after"][list(request["to"]).index(self.home.name)]
            reply, moved = answer(algorithm, cost, silo, envelope, place, j, weight, after)
            sent = self._encoded(message, {"wire": reply.wire, "work": reply.work, "value": value})
            if not surveys:
                experiment.remember(moved, name, sent)
        return sent

    def value(self, request: Content, message: bytes) -> Content:
        """f at a point and how far off it may be, weighted as an upload is."""
        experiment = self.experiment(request)
        self._check_unfollowed(experiment.plan)
        with experiment.locked():
            experiment.note_scaling(request)
        cost, _, _, _ = experiment.client(algorithm_of(request["under"]))
        return {"value": measured(cost.objective, probe_of(request, cost))}

    # -- an analysis: see `asks`, `chambers` and `answers` ---------------------------------------------

    def open(self, request: Content, message: bytes) -> bytes:
        """Who this is, its key for this experiment, and the names of its columns, signed."""
        experiment = self.experiment(request)
        experiment.fix("data", self.home.fingerprint.encode(), CHANGED)
        experiment.fix("analysis", encode(request["analysis"]), "this experiment is another analysis; start a new one")
        check_first(request["asks"], self.home.policy.task)
        experiment.fix("first", encode({"asks": request["asks"]}), OTHER_FIRST)
        return self._once(experiment, message, lambda: self._hello(experiment, request["asks"]))

    def _hello(self, experiment: Experiment, asks: Any) -> Content:
        content: Content = {"data": self.home.salted, "withholds": self.home.withholds}
        content |= answer_all(experiment.far, asks, None)
        key = self.home.path / "key"
        if key.exists():
            content["offer"] = experiment.offer(key)
            content["size"] = self._committed(experiment)
            content["boxes"] = experiment.line.share().boxes() if self.home.has_roster else {}
            content["signed"] = sign_hello(key.read_bytes(), experiment.id, self.home.name, content)
        return content

    def _committed(self, experiment: Experiment) -> str | None:
        """What this silo commits its number of rows with; what it is stays in the audit log."""
        size = experiment.far.commitment()
        if size is None:
            return None
        self.home.log.note("rows", experiment=experiment.id, rows=size.rows, blind=f"{size.blind:x}", size=size.public)
        return size.public

    def join(self, request: Content, message: bytes) -> Content | bytes:
        """Take note of the plan of an analysis, and answer its first questions."""
        experiment = self.experiment(request)
        plan = request["plan"]
        if set(plan) != PLAN:
            raise InputError("the plan of an analysis has other words than this version knows")
        experiment.fix("analysis", encode(plan["analysis"]), "the plan is of another analysis than it began with")
        self._check_plan(plan, experiment)
        experiment.fix("plan", encode(plan), "another plan was agreed for this experiment; start a new one")
        if plan["secure"] is not None:
            experiment.line.meet(request["met"])
        return self.ask(request, message)

    def ask(self, request: Content, message: bytes) -> Content | bytes:
        """Questions of an analysis: check, compute, save, answer."""
        experiment, name = self.experiment(request), tag(message)
        with experiment.locked():
            far = experiment.far
            last, sent = far.recall()
            if last == name:
                return sent
            try:
                sent, line = self._answered(experiment, request, message)
            except BaseException:
                far.begin_anew()
                raise
            far.keep(name, sent, line)
        return sent

    def _answered(self, experiment: Experiment, request: Content, message: bytes) -> tuple[bytes, Content | None]:
        if experiment.plan["secure"] is not None:
            return self._sealed(experiment, request, message)
        experiment.far.forget(request["ended"])
        return self._encoded(message, answer_all(experiment.far, request["asks"], None)), None

    def end(self, request: Content, message: bytes) -> Content:
        """Whoever asks has all that he wanted: secrets, states and sums of this experiment are deleted."""
        self._experiments = {}
        Experiment(self.home, str(request["experiment"]), ended=True).close()
        return {"ended": True}

    def _sealed(self, experiment: Experiment, request: Content, message: bytes) -> tuple[bytes, Content]:
        """Under masks a silo answers what the plan and the sums so far imply, and nothing else.

        Returns the answer, and where the conversation stands after it.
        """
        line, home = experiment.line, self.home
        now, group = line.standing(), line.group()
        if now.exchanges >= home.policy.exchanges:
            raise InputError("this silo's policy allows no more exchanges in this experiment ('exchanges')")
        asks, ended = line.follow(request, now, group)
        for ask in asks:
            if ask.get("verb") in ("encode", "tally"):
                classes = len(ask["given"].get("schema", {}).get("classes", ()))
                outputs = classes if classes > 2 else 1
                home.policy.check_size(home.rows().used().rows, outputs * (len(ask["given"].get("mean", ())) + 1))
        if line.scales is None:
            experiment.far.undo()
        experiment.far.forget(ended)
        seal, chain = line.seal(message, now, group)
        size = experiment.far.commitment() if now.exchanges == 0 else None
        also = {} if size is None else {OPENING: size.opening()}
        content = answer_all(experiment.far, asks, seal, line.scales, also)
        if any(one is not None for one in content["own"]):
            content["signed"] = sign_own((home.path / "key").read_bytes(), seal.label, home.name, content["own"])
        return self._encoded(message, content), line.after(now, chain, content)


def probe_of(request: Content, cost: LocalCost) -> Array:
    return declared.vector("probe", request["probe"], cost.objective.d)


def check_first(asks: Any, task: str | None) -> None:
    """Before there is a plan a silo tells names, or greets, and nothing else."""
    if len(asks) != 1 or asks[0].get("verb") not in (*TABLE_NAMES, "greet") or asks[0].get("reduce") != "each":
        raise InputError("before there is a plan this silo tells the names of its columns, and nothing else")
    if task is not None and asks[0]["given"].get("classes") not in (None, task == "classification"):
        raise InputError(f"the target of this silo is for {task}, and another kind of target is asked about")
    if asks[0]["given"].get("least") not in (None, *LEAST):  # who could choose it would find the least target of all
        raise InputError("whether targets are 0, or below 0, may be asked, and not how they compare with other numbers")


def coefficients(draft: Draft) -> int:
    """How many numbers a model of these columns has, the intercepts among them, at most."""
    columns = draft.width or len(draft.numeric) + sum(len(levels) - 1 for levels in draft.levels.values())
    outputs = len(draft.classes) if len(draft.classes) > 2 else 1
    return (columns + 1) * outputs
