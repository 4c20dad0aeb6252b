"""A few hundred cases of `python -m benchmarks.fuzz`, other ones every day, and what the campaign itself must be."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from benchmarks.fuzz import api, commands
from benchmarks.fuzz.campaign import FAMILIES, campaign, family_of, one, read
from benchmarks.fuzz.evil import damaged, edited
from benchmarks.fuzz.ground import command, prepare
from benchmarks.fuzz.judging import Keepsakes, half_written, of_call
from benchmarks.fuzz.patience import Patience
from benchmarks.fuzz.traps import TRAPS, Trap

from dualfl.cli import main

pytestmark = pytest.mark.long

CASES = 300
SEED = int(os.environ.get("DUALFL_FUZZ_SEED", datetime.now(UTC).strftime("%Y%m%d")))
# whose right words still end in a sentence
ENDED = {"theory", "trust", "revoke", "renew", "restore", *commands.ENDED}


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("ground") / "ground")


def quick_cases():
    """The first cases of today that need no processes of their own, which take seconds each."""
    numbers = (n for n in range(10 * CASES) if family_of(SEED, n) != "processes")
    return [next(numbers) for _ in range(CASES)]


def test_todays_cases(ground, capsys):
    found = list(campaign(SEED, quick_cases(), ground.folder, traps=False))
    faults = [outcome for outcome in found if outcome.fault]
    with capsys.disabled():
        print(f"\nfuzz: seed {SEED}, {len(found)} cases, {len(faults)} faults", flush=True)
    assert len(found) == CASES
    again = f"python -m benchmarks.fuzz --seed {SEED} --case N shows one"
    assert not faults, again + "\n" + "\n".join(map(str, faults))
    assert {outcome.family for outcome in found} == set(FAMILIES) - {"processes"}
    assert sum(outcome.kind == "accepted" for outcome in found) > CASES / 50  # else nothing is attacked


@pytest.mark.parametrize("trap", TRAPS, ids=[trap.name for trap in TRAPS])
def test_known_traps(trap, ground, tmp_path):
    (tmp_path / "case").mkdir()
    fault = trap.act(ground, tmp_path / "case")
    assert not fault, f"expected: {trap.expected}"


def test_a_case_is_made_from_its_seed_and_number_alone(ground):
    for number in range(0, 60, 5):
        if family_of(1, number) != "processes":
            first, again = one(ground, 1, number), one(ground, 1, number)
            assert (first.family, first.kind) == (again.family, again.kind)


def test_what_is_attacked_works_when_nobody_attacks_it(ground, tmp_path, monkeypatch):
    """A campaign on calls that are refused anyway would find nothing."""
    for name, function, valid in api.targets():
        assert of_call(lambda function=function, valid=valid: function(**valid))[0].kind == "accepted", name
    for name, words in commands.templates(ground).items():
        commands.sandbox(tmp_path / name)
        for folder in ("project", "silo"):
            shutil.copytree(ground[folder], tmp_path / name / folder)
        monkeypatch.chdir(tmp_path / name)
        done = command(*words)
        assert (done.exit_code == 0) == (name not in ENDED), (name, done.output)
        assert done.exit_code == 0 or done.stderr.splitlines()[-1].startswith("Error: ")


def test_every_command_is_attacked(ground):
    def leaves(group, words=()):
        for name in group.list_commands(None):
            one = group.get_command(click.Context(group), name)
            yield from leaves(one, (*words, name)) if isinstance(one, click.Group) else [(*words, name)]

    attacked = [tuple(map(str, words)) for words in commands.templates(ground).values()]
    assert [one for one in leaves(main) if not any(words[: len(one)] == one for words in attacked)] == []


@pytest.mark.parametrize("name", sorted(api.ESTIMATORS))
def test_the_estimators_that_are_attacked_fit(name):
    from dualfl import estimators

    y = api.Y if name in api.CLASSIFIERS else abs(api.X[:, 0]) + 1
    getattr(estimators, name)(**api.ESTIMATORS[name]).fit(api.X, y, groups=api.GROUPS).predict(api.X)


def test_faults_would_be_seen(tmp_path):
    """The rules themselves, on folders and calls that break them."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes").write_text("mine")
    kept = Keepsakes(mine)
    assert kept.lost() == "" and half_written(mine) == ""
    (mine / ".run.json.0123456789ab").touch()
    assert "left behind" in half_written(mine)
    (mine / ".run.json.0123456789ab").unlink()
    (mine / "history.csv").touch()
    assert "no record" in half_written(mine)
    (mine / "notes").write_text("other")
    assert "notes was lost" in kept.lost()
    assert of_call(lambda: 1 / 0)[0].kind == "traceback"
    assert of_call(lambda: Path("x"))[0].kind == "accepted"


def test_a_hang_is_ended_and_told(ground, monkeypatch):
    from benchmarks.fuzz import campaign as module

    monkeypatch.setitem(module.LIMITS, "commands", -1.0)
    (outcome,) = campaign(1, [next(n for n in range(99) if family_of(1, n) == "commands")], ground.folder, traps=False)
    assert outcome.kind == "hang" and outcome.fault


@pytest.mark.parametrize(
    ("does", "why"), [("time.sleep(99)", "without asking"), ("any(iter(int, 1))", "s of a processor")]
)
def test_waiting_and_working_for_ever_are_both_hangs_in_children_too(does, why):
    inner = f"import time; print(1, flush=True); {does}"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, process_group=0) as process:
        process.stdout.readline()
        patience = Patience(process.pid, limit=0.5, idle=0.5)
        while not (said := patience.over()):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    assert why in said


def test_an_interrupted_campaign_goes_on(ground, tmp_path):
    kept = tmp_path / "kept.jsonl"
    numbers = [n for n in range(99) if family_of(1, n) == "api"][:6]
    first = list(campaign(1, numbers[:3], ground.folder, traps=False, kept=kept))
    kept.write_text(kept.read_text() + '["api", 9')  # as a process that was killed leaves it
    both = list(campaign(1, numbers, ground.folder, traps=False, kept=kept))
    assert both[:3] == first and [outcome.number for outcome in both] == numbers
    assert [outcome.number for outcome in read(kept)] == numbers


def test_damage_changes_something():
    rng = random.Random(0)
    assert sum(damaged(b"1,2\n3,4\n", rng) != b"1,2\n3,4\n" for _ in range(50)) > 40
    assert sum(edited({"a": [1, {"b": 2}]}, rng) != {"a": [1, {"b": 2}]} for _ in range(50)) > 40
    assert isinstance(TRAPS[0], Trap) and len({trap.name for trap in TRAPS}) == len(TRAPS)
