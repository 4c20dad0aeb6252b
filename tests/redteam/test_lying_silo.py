"""A silo that lies: what is found out, what is not, and what certificates say because of it.

Under masks nobody sees one silo's numbers, so nobody can tell a lie that looks like data. What can be found: answers
that contradict each other, and a silo that changes its data in the middle.
"""

import numpy as np
import pytest
from hostile import far_run, make_homes

from dualfl.algorithms.registry import make
from dualfl.deploy.results import in_silos
from dualfl.engines.in_words import certificate_line
from dualfl.errors import InputError
from dualfl.federation import chambers
from dualfl.federation.audit import AuditLog
from dualfl.federation.commitments import Commitment
from dualfl.federation.tags import FALSE
from dualfl.silos import verbs


@pytest.fixture
def homes(tmp_path):
    return make_homes(tmp_path, experiments_per_day=100, rows_per_coefficient=0)


def lying(monkeypatch, change):
    """Silo b changes what its client steps send."""
    honest = chambers.FarChamber.step

    def step(self, asked, bits):
        reply, value, weight = honest(self, asked, bits)
        if self.home.name == "b" and asked["round"] >= 0:
            reply = reply._replace(wire={name: change(name, x) for name, x in reply.wire.items()})
        return reply, value, weight

    monkeypatch.setattr(chambers.FarChamber, "step", step)


@pytest.mark.unrefused("the lie is a silo's; the run stops")
def test_10_added_to_one_coordinate_contradicts_or_proves_nothing_false(homes, monkeypatch):
    least = far_run(homes, make("auto"), rounds=6, experiment="true").result.energy

    def added(name, x):
        if np.shape(x) and name == "g":
            return np.array(x) + 10.0 * (np.arange(np.size(x)) == 0).reshape(np.shape(x))
        return x

    lying(monkeypatch, added)
    result = far_run(homes, make("gd"), rounds=10).result
    assert result.stopped == "contradiction" and result.certificate is None
    assert "answers contradict each other" in result.certificate_reason
    result = far_run(homes, make("lbfgs"), rounds=6, experiment="f").result  # whose bound never passed the energy
    assert result.certificate is None or result.energy - least <= result.certificate


@pytest.mark.unrefused("nobody can see this lie")
def test_a_lie_that_looks_like_data_is_not_found_out_and_the_certificate_says_on_what_it_rests(homes, monkeypatch):
    """All answers of a silo that are those of other rows are consistent: the model is that of these rows."""
    honest = chambers.Chamber.encode

    def encode(self, *agreed):
        honest(self, *agreed)
        if self.name == "b":
            self.settle(self.rows.with_targets(1 - self.rows.y), self.dealing.by_class)

    true = far_run(homes, make("auto"), rounds=8, experiment="f").result
    monkeypatch.setattr(chambers.Chamber, "encode", encode)
    result = far_run(homes, make("auto"), rounds=8).result
    assert result.stopped == "rounds" and result.certificate < 1e-8
    assert np.abs(result.theta - true.theta).max() > 0.1
    line = in_silos(certificate_line(result.certificate, result.energy, ""))
    assert "proven, if every silo answered truly" in line


def other_rows(monkeypatch, verb, more):
    """Silo b says another number of rows to this question."""
    honest = verbs.VERBS[verb]

    def answer(chamber, **given):
        found = honest(chamber, **given)
        return more(found) if chamber.name == "b" else found

    monkeypatch.setitem(verbs.VERBS, verb, answer)


@pytest.mark.unrefused("the coordinator finds it out first")
def test_a_silo_that_counts_other_rows_than_it_committed_to_is_found_out(homes, monkeypatch):
    other_rows(monkeypatch, "count", lambda found: found | {"size": found["size"] + 50.0})
    with pytest.raises(InputError, match="not those that they had committed themselves to"):
        far_run(homes, make("gd"), rounds=1)


@pytest.mark.unrefused("the coordinator finds it out first")
def test_a_silo_that_opens_another_commitment_is_found_out(homes, monkeypatch):
    honest = chambers.FarChamber.commitment

    def other(self):
        found = honest(self)
        opening = (self.experiment.path / "plan").exists() and self.home.name == "b"
        return Commitment(found.rows + 1, found.blind) if opening else found

    monkeypatch.setattr(chambers.FarChamber, "commitment", other)
    with pytest.raises(InputError, match="not those that they had committed themselves to"):
        far_run(homes, make("gd"), rounds=1)


@pytest.mark.unrefused("an honest run")
def test_what_a_silo_committed_itself_to_is_in_its_audit_log(homes):
    far_run(homes, make("gd"), rounds=1)
    (noted,) = [one for one in AuditLog(homes[1]).verified() if one["what"] == "rows"]
    assert noted["rows"] == 30 and Commitment(30, int(noted["blind"], 16)).public == noted["size"]


@pytest.mark.unrefused("the coordinator finds it out first")
def test_a_false_number_of_rows_is_found_out_when_the_rows_are_measured(homes, monkeypatch):
    """Committed to, and counted; but what the rows weigh is another sum."""
    honest = chambers.FarChamber.commitment
    other_rows(monkeypatch, "count", lambda found: found | {"size": found["size"] + 50.0})
    monkeypatch.setattr(
        chambers.FarChamber,
        "commitment",
        lambda self: Commitment((found := honest(self)).rows + 50 * (self.home.name == "b"), found.blind),
    )
    with pytest.raises(InputError, match="155 rows were counted and 105 are used"):
        far_run(homes, make("gd"), rounds=1)


def test_data_that_change_in_the_middle_are_refused_by_the_silo_itself(homes):
    """The digest of its rows, which it signed in its hello, is what a silo goes on with."""
    changed = []

    def fault(transport, node, request, answer):
        if transport.count == 16 and not changed:
            path = homes[1] / "data.csv"
            changed.append(path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n"))
            transport.resident.clear()

    with pytest.raises(InputError, match=r"its data file, or what its silo\.json says of it"):
        far_run(homes, make("gd"), rounds=6, fault=fault)
    assert changed


@pytest.mark.unrefused("about words")
def test_no_sentence_on_sums_names_a_silo_or_advises_to_do_without_masks():
    from dualfl.federation import handing_on, sealing

    for sentence in (FALSE, sealing.OTHERS, handing_on.NOT_SIGNED):
        assert "--no-secure" not in sentence and "without secure" not in sentence and "switch" not in sentence
    assert "nothing tells which" in FALSE and "which of them is at fault this does not tell" in sealing.OTHERS
