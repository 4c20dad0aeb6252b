"""Cells are kept, found again, and never half there."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from dualfl.errors import InputError
from dualfl.experiments import running
from dualfl.experiments.cells import COLUMNS, Cell, Outcome
from dualfl.experiments.running import run_cell
from dualfl.experiments.store import Store, run_all

CELL = Cell("iris", "dualfl", clients=3, partition="shuffled", rounds=3)


def quiet(cell, outcome):
    pass


def test_what_is_kept_is_what_came_of_it(tmp_path):
    store, outcome = Store(tmp_path), run_cell(CELL)
    store.put(outcome)
    found = store[CELL]
    assert found.cell == CELL and found.status == "ok" and found.minimum == outcome.minimum
    np.testing.assert_allclose(found.errors, outcome.errors, rtol=1e-7)
    assert len(found.errors) == 4 and found.errors[-1] < found.errors[0]


def test_only_what_is_missing_is_run(tmp_path, monkeypatch):
    store, other = Store(tmp_path), replace(CELL, seed=1)
    run_all(store, [CELL], tell=quiet)
    ran = []
    monkeypatch.setattr("dualfl.experiments.store.run_cell", lambda cell: ran.append(cell) or run_cell(cell))
    run_all(store, [CELL, other, other], tell=quiet)
    assert ran == [other] and store.missing([CELL, other]) == []


def test_an_interruption_keeps_what_is_finished(tmp_path, monkeypatch):
    store, other = Store(tmp_path), replace(CELL, seed=1)

    def interrupted(cell):
        if cell == other:
            raise KeyboardInterrupt
        return run_cell(cell)

    monkeypatch.setattr("dualfl.experiments.store.run_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all(store, [CELL, other], tell=quiet)
    assert store.missing([CELL, other]) == [other]


@pytest.mark.parametrize("damage", ["", "{", "{}", "[1]"])
def test_a_damaged_file_is_run_again(tmp_path, damage):
    store = Store(tmp_path)
    run_all(store, [CELL], tell=quiet)
    store.file(CELL).write_text(damage)
    assert store.missing([CELL]) == [CELL]


def test_a_file_of_another_cell_is_not_taken(tmp_path):
    store, other = Store(tmp_path), replace(CELL, seed=1)
    run_all(store, [CELL], tell=quiet)
    store.file(CELL).rename(store.file(other))
    assert store.get(other) is None


def test_every_setting_counts():
    changed = [replace(CELL, seed=1), replace(CELL, rounds=4), replace(CELL, hyperparameters={"rho": 0.1})]
    assert len({cell.digest for cell in [CELL, *changed]}) == 4


def test_what_does_not_apply_is_an_outcome():
    outcome = run_cell(replace(CELL, algorithm="scaffnew", loss="softmax", l1=0.0, hyperparameters={"gamma": 1e9}))
    assert not outcome.applies and "2/L" in outcome.status and not len(outcome.errors)
    assert json.loads(outcome.to_json())["status"] == outcome.status


def test_steps_beyond_theory_are_taken_where_that_is_asked_for():
    outcome = run_cell(replace(CELL, algorithm="feddualavg", hyperparameters={"eta_c": 100.0}, free=True))
    assert outcome.status == "ok" and len(outcome.errors) == 4


def test_data_that_are_missing_are_an_error_and_not_an_outcome(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_DATA", str(tmp_path))
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path))
    store = Store(tmp_path / "cells")
    with pytest.raises(InputError):
        run_all(store, [replace(CELL, dataset="nothing")], tell=quiet)
    assert not (tmp_path / "cells").exists()


def test_a_cell_ends_at_its_target_and_at_its_exchanges():
    reached = run_cell(replace(CELL, rounds=100, target=1e-2))
    assert reached.errors[-1] <= 1e-2 < reached.errors[-2]
    assert run_cell(replace(CELL, rounds=100, exchanges=2)).columns["exchanges"][-1] == 2


def test_a_round_that_takes_too_long_is_given_up(monkeypatch):
    import time

    from dualfl.algorithms.dual.dualfl import DualFL

    slow = DualFL.solve

    def solve(self, *words, **message):
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        return slow(self, *words, **message)

    solve.is_client_step = True
    monkeypatch.setattr(DualFL, "solve", solve)
    outcome = run_cell(replace(CELL, rounds=100, minutes=0.005))
    assert outcome.status == "ok" and len(outcome.errors) < 20


def cut_short(minutes):
    columns = {name: np.array([0.0, 1.0]) for name in COLUMNS} | {"relative_error": np.array([1.0, 0.1])}
    return Outcome(replace(CELL, minutes=minutes), "ok", columns)


def test_a_cell_that_its_time_cut_is_run_again_when_it_may_take_longer(tmp_path):
    store = Store(tmp_path)
    store.put(cut_short(minutes=2.0))
    for minutes, serves in [(1.0, True), (2.0, True), (3.0, False), (None, False)]:
        assert (store.get(replace(CELL, minutes=minutes)) is not None) is serves, minutes


def test_a_run_that_was_cut_does_not_replace_a_longer_one(tmp_path):
    store = Store(tmp_path)
    store.put(cut_short(minutes=2.0))
    store.put(cut_short(minutes=1.0))
    assert store[replace(CELL, minutes=1.0)].cell.minutes == 2.0
    store.put(cut_short(minutes=3.0))
    assert store[replace(CELL, minutes=1.0)].cell.minutes == 3.0


def test_a_cell_that_came_to_its_end_serves_whatever_the_time(tmp_path):
    store = Store(tmp_path)
    run_all(store, [replace(CELL, minutes=5.0)], tell=quiet)
    assert all(store.get(replace(CELL, minutes=minutes)) for minutes in (1.0, 10.0, None))
    ended_early = replace(cut_short(2.0), cell=replace(CELL, minutes=2.0, target=0.1))
    assert cut_short(2.0).cut and not ended_early.cut and not replace(cut_short(2.0), status="diverged").cut
    assert not replace(cut_short(2.0), cell=replace(CELL, minutes=2.0, exchanges=1)).cut


def table(path, rows):
    """Sorted by class, with a column that says who has which row."""
    lines = [f"{i % 7},{(i * i) % 5},{'ab'[i >= rows // 2]},h{i * 4 // rows}" for i in range(rows)]
    path.write_text("\n".join(["one,two,target,hospital", *lines]) + "\n")
    return str(path)


def test_a_cell_of_a_file_knows_what_the_file_holds(tmp_path):
    store, path = Store(tmp_path / "cells"), tmp_path / "t.csv"
    cell = Cell(table(path, 40), "dualfl", clients=2, rounds=1)
    run_all(store, [cell], tell=quiet)
    assert store.missing([cell]) == []
    table(path, 60)
    assert store.missing([cell]) == [cell]


def test_some_rows_are_of_the_whole_file_with_all_their_columns(tmp_path):
    name = table(tmp_path / "t.csv", 80)
    data = running.dataset_of(name, "default", 20)
    assert data.n == 20 and set(data.y) == {0, 1}  # the file is sorted by class
    assert set(data.columns["hospital"]) == {"h0", "h1", "h2", "h3"}
    by_column = Cell(name, "dualfl", rows=20, clients=4, partition="column:hospital", rounds=1)
    assert run_cell(by_column).status == "ok"


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["columns"].update(relative_error=[1.0]),
        lambda content: content.update(status="gibberish"),
        lambda content: content.update(cpu=None),
    ],
)
def test_a_file_that_is_no_cell_is_run_again(tmp_path, change):
    store = Store(tmp_path)
    run_all(store, [CELL], tell=quiet)
    content = json.loads(store.file(CELL).read_text())
    change(content)
    store.file(CELL).write_text(json.dumps(content))
    assert store.missing([CELL]) == [CELL]


def test_regression_is_dealt_out_by_bins_of_its_target():
    cell = Cell("diabetes", "lbfgs", clients=4, partition="dirichlet:0.1", loss="squared", l1=0.1, rounds=1)
    problem = running.problem_of(cell.problem)
    means = [float(f.y.mean()) for f in problem.clients]
    assert problem.penalty is not None and sum(f.n for f in problem.clients) == 442 and np.ptp(means) > 20


BUSY = """
from pathlib import Path
from dualfl.experiments.cells import Cell
from dualfl.experiments.store import Store, run_all

if __name__ == "__main__":
    cells = [Cell("digits", "gd", rounds=10**9, seed=seed) for seed in (0, 1)]
    run_all(Store(Path("cells")), cells, processes=2, tell=print)
"""


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs the command ps, which is not here")
def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    parent = subprocess.Popen([sys.executable, script], cwd=tmp_path, start_new_session=True)
    try:
        while len(processes_of(parent.pid)) < 3:
            assert parent.poll() is None
            time.sleep(0.1)
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 60
        while processes_of(parent.pid):
            assert time.monotonic() < deadline, "a worker has survived its parent"
            time.sleep(0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)


def processes_of(group):
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,pid=,stat="], capture_output=True, text=True, check=True).stdout
    found = [line.split() for line in listed.splitlines()]
    return [pid for pgid, pid, state in found if int(pgid) == group and not state.startswith("Z")]


def test_a_cell_of_before_has_equal_shares_and_contacts_that_nobody_counted() -> None:
    columns = {name: np.array([0.0, 6.0]) for name in COLUMNS} | {"relative_error": np.array([1.0, 0.1])}
    content = json.loads(Outcome(Cell("digits", "gd", clients=3), "ok", columns).to_json())
    for name in ("contacts", "payload"):
        del content["columns"][name]
    read = Outcome.from_json(json.dumps(content))
    assert list(read.columns["payload"]) == [0.0, 4.0] and np.isnan(read.columns["contacts"]).all()
