"""What a silo's operator decides: the policy, approvals, and the audit log."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from far import far_run
from loopback import csv_homes, sign_up
from needs import need

need("cryptography", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.algorithms.registry import make
from dualfl.cli import main
from dualfl.errors import InputError
from dualfl.federation import row_sets
from dualfl.federation.audit import AuditLog
from dualfl.federation.guarded import joined, rarest_cell
from dualfl.federation.policy import Policy
from dualfl.tables.reading import Table


def change(home, **policy):
    path = home / "silo.json"
    content = json.loads(path.read_text())
    policy = {"approval": "none", "least_per_cell": 0, "rows_per_coefficient": 0} | content.get("policy", {}) | policy
    path.write_text(json.dumps(content | {"policy": policy}))


@pytest.fixture
def homes(tmp_path):
    made = csv_homes(tmp_path, rows=(40, 30, 35, 45))[:4]
    sign_up(made)
    for home in made:
        change(home)
    return made


ALGORITHM = make("dualfl", nu=0.1, rho=0.15)


def go(homes, experiment="e", algorithm=ALGORITHM, **named):
    return far_run(homes, algorithm, rounds=1, experiment=experiment, **named)


# -- the policy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], '"policy" must be an object'),
        ({"least_row": 3}, "There is no word of a policy 'least_row'"),
        ({"least_rows": -1}, "least_rows must be a whole number >= 0, but it is -1"),
        ({"least_rows": True}, "least_rows must be a whole number"),
        ({"models": "squared"}, 'models must be a list of names or null, but it is "squared"'),
        ({"approval": "never"}, "There is no approval 'never'"),
        ({"task": "clustering"}, "There is no task 'clustering'"),
        ({"whole_roster": 1}, "whole_roster must be true or false"),
    ],
)
def test_a_policy_with_a_mistake_is_one_sentence(content, sentence):
    with pytest.raises(InputError) as caught:
        Policy.from_json(content, "silo.json")
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_policy_comes_back_as_it_was_written():
    policy = Policy(models=("squared",), forbidden_columns=("town",), task="regression")
    assert Policy.from_json(json.loads(json.dumps(policy.as_json())), "") == policy
    assert Policy.from_json({}, "") == Policy()


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ({"least_rows": 31}, "fewer rows than its policy wants"),
        ({"rows_per_coefficient": 10}, "the plan has 5 coefficients, and this silo's policy wants 10"),
        (
            {"algorithms": ["lbfgs"]},
            "the algorithm 'dualfl' is not among those that this silo's operator allows: lbfgs",
        ),
        ({"models": ["squared"]}, "the model 'auto' is not among those"),
        ({"experiments_per_day": 0}, "allows no more experiments today"),
        ({"least_per_cell": 30}, "occur together in too few rows"),
        ({"task": "regression"}, "the target of this silo is for regression, and the analysis is for another kind"),
        ({"classes": ["no"]}, "its target has labels that were not there when it joined"),
    ],
)
def test_what_a_policy_forbids_is_refused(policy, sentence, homes):
    change(homes[1], **policy)
    with pytest.raises(InputError, match=sentence):
        go(homes, task="classification")
    refused = [record["refused"] for record in AuditLog(homes[1]).verified() if "refused" in record]
    assert len(refused) == 1


def test_columns_that_are_forbidden_and_levels_that_are_rare_are_told_to_nobody(homes):
    change(homes[0], forbidden_columns=["income"])
    with pytest.raises(InputError, match="income"):  # the others have it
        go(homes)
    for home in homes:
        change(home, columns=["age", "town"], least_per_level=12)
    found = go(homes, "f")
    assert "income" not in found.schema.names and found.result.rounds == 1


def test_rare_levels_are_joined():
    texts = np.array(["a"] * 6 + ["b", "c", "c", ""])
    assert joined(texts, 3).tolist() == ["a"] * 6 + ["(rare)"] * 3 + [""]
    assert joined(texts, 5).tolist() == ["(rare)"] * 9 + [""]  # three are too few, so the next larger level joins them
    assert joined(texts, 1) is texts
    table = Table("t", {"x": np.array(["a", "a", "b", "b", "b"]), "y": np.array(["c", "c", "c", "d", "d"])})
    assert rarest_cell(table) == 1
    assert rarest_cell(Table("t", {"x": np.arange(3.0)})) == 0


# -- the rows of earlier experiments ---------------------------------------------------------------------


def test_rows_that_differ_by_few_from_earlier_ones_are_refused(homes):
    go(homes)
    path = homes[0] / "data.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")  # one patient less
    with pytest.raises(InputError, match="differ by fewer than 10 from those of an earlier experiment"):
        go(homes, "f")
    path.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")  # the same rows
    go(homes, "g")
    path.write_text("\n".join(lines[:-12]) + "\n")
    go(homes, "h")


def test_digests_of_rows_know_rows_and_not_their_order():
    rng = np.random.default_rng(0)
    X, town = rng.normal(size=(50, 2)), rng.choice(["a", "b"], 50)
    table = Table("t", {"x": X[:, 0], "z": X[:, 1], "town": town})
    order = rng.permutation(50)
    other = Table("t", {"town": town[order], "z": X[order, 1], "x": X[order, 0]})
    salt = bytes(32)
    mine = row_sets.digests(table, salt)
    assert np.array_equal(mine, row_sets.digests(other, salt)) and len(np.unique(mine)) == 50
    assert row_sets.difference(mine, row_sets.digests(table.kept(np.arange(47)), salt)) == 3
    assert row_sets.difference(mine, row_sets.digests(table, bytes([1] * 32))) == 100
    twice = np.sort(np.concatenate([mine, mine[:1]]))
    assert row_sets.difference(mine, twice) == 1


# -- approval --------------------------------------------------------------------------------------------


def command(*words, **options):
    return CliRunner().invoke(main, ["deploy", *map(str, words)], **options)


def test_a_plan_waits_until_its_operator_says_yes_once_or_always_or_no(homes):
    change(homes[2], approval="ask")
    with pytest.raises(InputError, match="Silo 'c': the plan waits for this silo's operator"):
        go(homes)
    shown = " ".join(command("approve", homes[2], input="later\n").output.split())
    for part in ("silos a, b, c, d", "age, income, town", "the algorithm dualfl", "which are masked"):
        assert part in shown
    assert "Noted: once." in command("approve", homes[2], input="once\n").output
    assert command("approve", homes[2]).output == "No plan is waiting.\n"
    go(homes)
    with pytest.raises(InputError, match="waits"):  # the same plan, another experiment
        go(homes, "f")
    command("approve", homes[2], "--all", "always")
    go(homes, "g")
    with pytest.raises(InputError, match="waits"):  # a plan that changed
        go(homes, "h", make("lbfgs"))
    command("approve", homes[2], "--all", "no")
    with pytest.raises(InputError, match="has said no to this plan"):
        go(homes, "h", make("lbfgs"))
    roster = json.loads((homes[2] / "roster.json").read_text())
    (homes[2] / "roster.json").write_text(json.dumps(roster | {"e": roster["d"]}))
    change(homes[2], whole_roster=False)
    with pytest.raises(InputError, match="waits"):  # always is over when the roster changes
        go(homes, "i")
    answers = [record["answer"] for record in AuditLog(homes[2]).verified() if record["what"] == "approval"]
    assert answers == ["once", "always", "no"]


# -- the audit log ---------------------------------------------------------------------------------------


def test_everything_goes_to_the_audit_log_and_no_number_of_a_row(homes):
    go(homes)
    records = list(AuditLog(homes[0]).verified())
    kinds = [record["kind"] for record in records if record["what"] == "request"]
    assert kinds[:3] == ["open", "join", "ask"] and set(kinds[3:]) == {"ask"}
    assert all(record.get("answered", 1) > 0 and record["experiment"] == "e" for record in records)
    shown = command("audit", homes[0])
    assert f"{len(records)} lines; each follows from the one before." in shown.output
    assert (homes[0] / "audit.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["edit", "drop", "swap", "insert"])
def test_a_log_that_was_changed_is_found_out_and_nothing_is_lost(change, tmp_path):
    (tmp_path / "silo.json").write_text('{"name": "a"}')
    log = AuditLog(tmp_path)
    for i in range(5):
        log.note("request", size=i)
    lines = log.path.read_text().splitlines(keepends=True)
    changed = {
        "edit": [*lines[:2], lines[2].replace('"size":2', '"size":9'), *lines[3:]],
        "drop": lines[:2] + lines[3:],
        "swap": [lines[0], lines[2], lines[1], *lines[3:]],
        "insert": [*lines[:3], lines[2], *lines[3:]],
    }[change]
    log.path.write_text("".join(changed))
    done = command("audit", tmp_path)
    assert done.exit_code != 0
    before = log.path.read_text()
    log.note("request", size=6)
    assert log.path.read_text().startswith(before)


def test_a_log_whose_end_is_damaged_is_put_aside_whole(tmp_path):
    log = AuditLog(tmp_path)
    log.note("request", size=1)
    log.path.write_bytes(log.path.read_bytes() + b'{"number": 2, "ti')
    damaged = log.path.read_bytes()
    log.note("request", size=2)
    (kept,) = tmp_path.glob("audit-damaged-*.log")
    assert kept.read_bytes() == damaged
    assert [record["size"] for record in log.verified()] == [2]
