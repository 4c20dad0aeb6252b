"""A coordinator that follows the wire protocol and chooses what it sends; three silos that know only their plan."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))

from far import TABLE as TABLE
from far import far_fit, far_silos
from far import far_run as far_run
from loopback import Loopback, csv_homes, sign_up

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes
from dualfl.federation.audit import AuditLog
from dualfl.federation.fixed_point import BITS
from dualfl.federation.wire import decode, encode
from dualfl.tables.schema import Request

POLICY = {"approval": "none", "least_per_cell": 0, "task": "classification", "classes": ["no", "yes"]}
RECIPE, WISHES = Recipe("logistic", tol=1e-4), Wishes(Request("sick"), influence=False)


def make_homes(folder, rows=(40, 30, 35), **policy):
    homes = csv_homes(folder, rows)
    sign_up(homes)
    for home in homes:
        change(home, policy=POLICY | policy)
    return homes


def change(home, **settings):
    path = home / "silo.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


class Hostile(Loopback):
    """`lie` gets (number of the message, its content) and returns what is sent instead, or None; all is kept."""

    def __init__(self, homes, lie=None):
        super().__init__(homes, resident=True)
        self.lie, self.heard, self.number, self.last = lie, [], 0, b""

    def push(self, messages):
        (message,) = set(messages.values())
        if message != self.last:
            self.last, self.number = message, self.number + 1
        if self.lie is not None:
            changed = self.lie(self.number, decode(message))
            message = message if changed is None else encode(changed)
        answers = {node: self.keeper(node).handle(message) for node in messages}
        self.heard.append((message, answers))
        return super_push(self, answers)


def super_push(transport, answers):
    from dualfl.federation.courier import Came

    ids = {}
    for node, answer in answers.items():
        transport.count += 1
        ids[node] = str(transport.count)
        transport.box.append(Came(ids[node], retagged(answer, transport.last)))
    return ids


def retagged(answer, asked):
    """The answer as if it were to what the honest half of the coordinator had asked."""
    from dualfl.federation.wire import tag

    content = decode(answer)
    return encode(content | {"tag": tag(asked)})


def fit(homes, lie=None, experiment="e", transport=None, recipe=RECIPE, wishes=WISHES):
    """The fit by such a coordinator; returns its transport."""
    transport = transport or Hostile(homes, lie)
    silos = far_silos(homes, BITS, experiment=experiment, transport=transport)
    far_fit(silos, recipe, wishes)
    return transport


def refusals(home):
    return [record["refused"] for record in AuditLog(home).verified() if "refused" in record]


def asks(content, **wanted):
    """The questions of a message that have these words."""
    return [one for one in content.get("asks", ()) if all(one.get(name) == value for name, value in wanted.items())]
