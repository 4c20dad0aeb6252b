"""A run that was stopped anywhere, and by anything, goes on bit for bit, and a file that is not its own is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import toys
from test_engine import assert_equal_states, same

from dualfl.algorithms import DualFL, Quantise, RandK, TopK
from dualfl.engines import Problem, checkpoint, run
from dualfl.engines import run as run_function
from dualfl.engines.driver import Driver
from dualfl.engines.exchanges import drive
from dualfl.engines.inprocess import InProcess
from dualfl.engines.request import Recording
from dualfl.engines.session import Session
from dualfl.errors import InputError
from dualfl.objectives import L1, Hinge, LinearModel, Softmax, Squared

START = np.linspace(-1, 1, 6)


def hinges():
    return [LinearModel(f.design.X, f.y, Hinge(), ridge=0.3) for f in toys.logistics()]


def lasso():
    return [LinearModel(f.design.X, f.y, Squared(), ridge=0.3) for f in toys.logistics()]


# name: (how to build the problem afresh, algorithm, options)
RUNS = {
    "dualfl": (lambda: Problem(toys.logistics()), DualFL(), {}),
    "vector": (lambda: Problem(toys.logistics()), DualFL(certificate="vector", upload="corrected"), {"start": START}),
    "top": (lambda: Problem(toys.logistics()), DualFL(certificate="vector"), {"codec": TopK(3), "start": START}),
    "rand": (lambda: Problem(toys.logistics()), DualFL(), {"codec": RandK(4), "seed": 7}),
    "quantised": (lambda: Problem(toys.logistics()), DualFL(), {"codec": Quantise(4)}),
    "hinge": (lambda: Problem(hinges()), DualFL(), {}),
    "hinge from a start": (lambda: Problem(hinges()), DualFL(), {"start": START}),
    "penalised": (lambda: Problem(lasso(), penalty=L1(0.1)), DualFL(), {}),
    "regularised": (lambda: Problem(toys.logistics(ridge=0.0)).regularised(0.2), DualFL(), {}),
    "gradient descent": (lambda: Problem(toys.logistics()), toys.Toy(), {"start": START}),
    "three exchanges": (lambda: Problem(toys.logistics()), toys.Newtonish(), {}),
    "cohort, coin, tell": (lambda: Problem(toys.logistics()), toys.Sampled(), {"seed": 2}),
    "tuples and strides": (lambda: Problem(toys.logistics()), toys.Remembering(), {}),
}


def session(name, path):
    build, algorithm, options = RUNS[name]
    return Session(InProcess(build(), algorithm, threads=1, **options), Recording(checkpoint=path))


@pytest.mark.parametrize("name", RUNS)
def test_stopped_after_every_exchange(name, tmp_path):
    """Everything is rebuilt from the file after each exchange: problem, engine, driver."""
    build, algorithm, options = RUNS[name]
    whole = run(build(), algorithm, rounds=4, threads=1, **options)
    path = tmp_path / "run.npz"
    now, exchanges = session(name, path), 0
    while True:
        if now.driver.started and now.driver.between_rounds and len(now.history) <= now.driver.round:
            drive(now.record())
            now.mark()
            if now.driver.round == 4:
                break
            continue
        drive(now.step())
        now._steps = now._saved[0] + 1
        now.save()
        exchanges += 1
        now = session(name, path)
        now.restore()
    same(whole, now.result("rounds"))
    assert exchanges >= 4 and now.best.certificate == whole.certificate
    for state in (whole.state, *(silo.state for silo in whole.silos)):
        arrays = [value for value in vars(state or object).values() if isinstance(value, np.ndarray)]
        assert all(array.flags.c_contiguous and not array.flags.writeable for array in arrays)


@pytest.mark.parametrize("name", ["dualfl", "top", "hinge", "cohort, coin, tell", "tuples and strides"])
def test_continued_after_it_had_ended(name, tmp_path):
    build, algorithm, options = RUNS[name]
    path = tmp_path / "run.npz"
    whole = run(build(), algorithm, rounds=7, **options)
    first = run(build(), algorithm, rounds=3, checkpoint=path, checkpoint_every=100, **options)
    assert first.rounds == 3
    untouched = path.read_bytes()
    again = run(build(), algorithm, rounds=3, checkpoint=path, resume=True, **options)
    same(first, again)
    assert path.read_bytes() == untouched  # nothing happened, so nothing was written
    same(whole, run(build(), algorithm, rounds=7, checkpoint=path, resume=True, **options))


def test_without_canonical_arrays_the_bits_would_differ(tmp_path, monkeypatch):
    """The negative control: a state kept with strange strides, and a product that sees them."""

    @dataclass(frozen=True)
    class Strided(toys.Toy):
        name = "strided"

        def round(self, s, at):
            m = yield from super().round(s, at)
            return toys.Server(x=np.stack([m.x, m.x], axis=1)[:, 0])

    state = run(Problem(toys.quadratics()), Strided(), rounds=2).state
    assert state.x.flags.c_contiguous
    monkeypatch.setattr("dualfl.engines.driver.as_remembered", lambda state: state)
    state = run(Problem(toys.quadratics()), Strided(), rounds=2).state
    assert not state.x.flags.c_contiguous


def test_a_round_that_cannot_be_replayed_is_found_out(tmp_path):
    path = tmp_path / "run.npz"
    problem = Problem(toys.logistics())
    now = Session(InProcess(problem, toys.Unseeded(), threads=1), Recording(checkpoint=path))
    for _ in range(2):  # the start, and the first exchange of round 0
        drive(now.step())
    assert now.driver.exchange == 1
    with pytest.raises(InputError, match="unseeded asks for something else when round 0 is replayed"):
        run(problem, toys.Unseeded(), rounds=3, checkpoint=path, resume=True)


# -- interruptions ------------------------------------------------------------------------------------


def test_interrupted_in_the_middle_of_an_exchange(tmp_path):
    problem, path = Problem(toys.quadratics()), tmp_path / "run.npz"
    armed = [True]

    def interrupted(f, at, x):
        if at.round == 3 and at.j == 2 and armed:
            armed.clear()
            raise KeyboardInterrupt
        return f.gradient(x)

    algorithm = toys.Calls(action=interrupted)
    stopped = run(problem, algorithm, rounds=6, checkpoint=path, checkpoint_every=50)
    assert stopped.stopped == "interrupted"
    assert stopped.rounds == 3 and stopped.history[-1].exchanges == 3
    assert {silo.answered for silo in stopped.silos} == {(2, 0)}
    resumed = run(problem, algorithm, rounds=6, checkpoint=path, resume=True)
    same(run(problem, algorithm, rounds=6), resumed)
    assert resumed.stopped == "rounds"


@pytest.mark.parametrize(("owner", "name"), [(Driver, "tell"), (Session, "mark"), (Session, "record")])
def test_interrupted_when_clients_have_moved_on_and_the_server_has_not(owner, name, tmp_path, monkeypatch):
    problem, path, calls = Problem(toys.quadratics()), tmp_path / "run.npz", []
    original = getattr(owner, name)

    def interrupted(*arguments):
        calls.append(0)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(owner, name, interrupted)
    stopped = run(problem, DualFL(), rounds=9, checkpoint=path)
    monkeypatch.undo()
    assert stopped.stopped == "interrupted"
    whole = run(problem, DualFL(), rounds=stopped.rounds + (name == "record"))  # record: the round is done, its row not
    assert_equal_states(whole.state, stopped.state)
    for silo, other in zip(whole.silos, stopped.silos):
        assert_equal_states(silo.state, other.state)
    same(run(problem, DualFL(), rounds=9), run(problem, DualFL(), rounds=9, checkpoint=path, resume=True))


def test_interrupted_in_a_pool_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("dualfl.engines.inprocess.WORTH_A_THREAD", 0.0)
    test_interrupted_in_the_middle_of_an_exchange(tmp_path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file left open at the very line
@pytest.mark.parametrize("name", ["three exchanges", "cohort, coin, tell"])
def test_interrupted_at_any_line_of_the_engine(name, tmp_path):
    """An interruption before each line of the loop in turn: what was done stays, and the rest is the same."""
    build, algorithm, options = RUNS[name]
    whole = run(build(), algorithm, rounds=2, threads=1, **options)
    files = {
        os.path.join("engines", f"{part}.py") for part in ("session", "exchanges", "inprocess", "driver", "checkpoint")
    }
    problem = build()

    def interrupt_at(line, path, resume):
        seen = [0]

        def trace(frame, event, argument):
            if os.sep.join(frame.f_code.co_filename.split(os.sep)[-2:]) not in files:
                return None
            if event == "line":
                seen[0] += 1
                if seen[0] == line:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return run_function(problem, algorithm, rounds=2, threads=1, checkpoint=path, resume=resume, **options)
        except KeyboardInterrupt:  # before the loop, or in its last save
            return None
        finally:
            sys.settrace(before)

    for line in range(150, 10**6, 211):
        path = tmp_path / f"{line}.npz"
        first = interrupt_at(line, path, False)
        if first is not None and first.stopped == "rounds":
            break
        if first is not None:
            done = len(first.history)
            assert len(first.history.iterations) == done
            assert [row[:4] for row in first.history] == [row[:4] for row in whole.history.rows[:done]]
        resumed = run(problem, algorithm, rounds=2, threads=1, checkpoint=path, resume=path.exists(), **options)
        same(whole, resumed)
    assert line > 1500


CHILD = """
import sys
from pathlib import Path
import numpy as np
from dualfl.algorithms import DualFL
from dualfl.engines import Problem, run
from dualfl.objectives import LinearModel, Softmax

with np.load(sys.argv[1]) as data:
    X, y = data["X"], data["y"]
problem = Problem([LinearModel(X[j::4], y[j::4], Softmax(10), ridge=0.05, intercept=True) for j in range(4)])
path = Path(sys.argv[2])
run(problem, DualFL(), rounds=40, checkpoint=path, resume=path.exists(), threads=int(sys.argv[3]))
"""


def test_killed_at_random_until_it_is_done(tmp_path):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X[:240, ::4] / 16, y[:240]
    data, path = tmp_path / "data.npz", tmp_path / "run.npz"
    np.savez(data, X=X, y=y)
    rng = np.random.default_rng()
    for kills in (1, 2, 3, None):
        child = subprocess.Popen([sys.executable, "-c", CHILD, data, path, str(kills or 2)], stderr=subprocess.PIPE)
        for _ in range(0 if kills is None else int(rng.integers(1, 6))):
            stamp = path.stat().st_mtime_ns if path.exists() else 0
            while child.poll() is None and (path.stat().st_mtime_ns if path.exists() else 0) == stamp:
                time.sleep(1e-3 * rng.random())
        if kills is not None:
            child.kill()
        errors = child.communicate()[1].decode()
        assert child.returncode in (0, -9), errors
    assert child.returncode == 0
    problem = Problem([LinearModel(X[j::4], y[j::4], Softmax(10), ridge=0.05, intercept=True) for j in range(4)])
    resumed = run(problem, DualFL(), rounds=40, checkpoint=path, resume=True)
    assert resumed.rounds == 40
    same(run(problem, DualFL(), rounds=40), resumed)
    assert len(list(tmp_path.iterdir())) <= 2 + 3  # a killed process may leave its half-written file, and only that


# -- files that are not what they should be -----------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.npz"
    run(Problem(toys.logistics()), DualFL(), rounds=3, checkpoint=path)
    return path


def refused(path, sentence, *, problem=None, algorithm=None, **options):
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(InputError, match=sentence):
        run(
            problem or Problem(toys.logistics()),
            algorithm or DualFL(),
            rounds=9,
            checkpoint=path,
            resume=True,
            **options,
        )
    assert path.read_bytes() == before and path.stat().st_mtime_ns == stamp
    assert sorted(path.parent.iterdir()) == [path, rows_of(path)]


def rows_of(path):
    return path.with_name(f"{path.name}.rows")


def edited(path, change):
    """Let `change` alter the tree of a checkpoint, and seal it again."""
    tree, arrays = checkpoint.read(path)
    change(tree["dict"])
    path.write_bytes(checkpoint.archive(tree, arrays))


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"There is no checkpoint at .*; start the run without resuming"):
        run(Problem(toys.logistics()), DualFL(), checkpoint=tmp_path / "none.npz", resume=True)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    refused(saved, "is not a whole checkpoint .*; delete it and start the run again")


@pytest.mark.parametrize("kind", ["text", "zeros", "npy", "zip", "tree"])
def test_a_file_of_another_kind(saved, kind):
    if kind == "text":
        saved.write_text("not a checkpoint\n" * 100)
    elif kind == "zeros":
        saved.write_bytes(bytes(1000))
    elif kind == "npy":
        with saved.open("wb") as file:
            np.save(file, np.ones(3))
    elif kind == "zip":
        with saved.open("wb") as file:
            np.savez(file, x=np.ones(3))
    else:
        with saved.open("wb") as file:
            np.savez(file, tree=np.frombuffer(b"[1, 2]", dtype=np.uint8))
    refused(saved, "is not a whole checkpoint")


def test_a_damaged_file(saved):
    """A flipped bit anywhere is either noticed or harmless."""
    whole = saved.read_bytes()
    rng = np.random.default_rng(0)
    expected = run(Problem(toys.logistics()), DualFL(), rounds=4)
    for place in rng.integers(0, len(whole), 40):
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(bytes(data))
        try:
            result = run(Problem(toys.logistics()), DualFL(), rounds=4, checkpoint=saved, resume=True)
        except InputError:
            continue
        same(expected, result)


def test_another_format(saved):
    edited(saved, lambda tree: tree.update(format=99))
    refused(saved, f"has checkpoint format 99, and this version reads 1 and {checkpoint.FORMAT}")


@pytest.mark.parametrize("part", ["tree", "a0", "digest", "rows"])
def test_an_edited_checkpoint(saved, part):
    """It would go on as a run that never was."""
    with np.load(saved) as file:
        arrays = dict(file)
    if part == "rows":
        rows_of(saved).write_bytes(rows_of(saved).read_bytes().replace(b"[[1,", b"[[7,"))
    elif part == "digest":
        del arrays["digest"]
    elif part == "tree":
        arrays["tree"] = np.frombuffer(arrays["tree"].tobytes().replace(b'"round": 3', b'"round": 2'), dtype=np.uint8)
    else:
        arrays[part] = arrays[part] + 1
    with saved.open("wb") as file:
        np.savez(file, **arrays)
    refused(saved, "not the history that belongs to it|somebody has edited it")


@pytest.mark.parametrize("name", ["saved", "journal", "best", "account", "silos", "key"])
@pytest.mark.parametrize("value", [None, 3, "text", [1]])
def test_a_checkpoint_with_something_else_in_it_is_one_sentence(saved, name, value):
    edited(saved, lambda tree: tree.update({name: value}))
    with pytest.raises(InputError, match=r"run again|belongs to another run"):
        run(Problem(toys.logistics()), DualFL(), rounds=9, checkpoint=saved, resume=True)


def test_rows_that_were_written_after_the_checkpoint_are_cut_off(saved):
    """A process that dies between the two leaves rows, or half of one, that no checkpoint counts."""
    whole = rows_of(saved).read_bytes()
    for torn in (b"[[4, 9", b'[[4, 9, 9, 9, 1.0, 1.0, 1.0, null, null, 1, 0], [1]]\n{"', bytes(50)):
        rows_of(saved).write_bytes(whole + torn)
        before = saved.read_bytes()
        resumed = run(Problem(toys.logistics()), DualFL(), rounds=5, checkpoint=saved, resume=True)
        same(run(Problem(toys.logistics()), DualFL(), rounds=5), resumed)
        assert rows_of(saved).read_bytes().startswith(whole) and rows_of(saved).read_bytes().count(b"\n") == 6
        saved.write_bytes(before)


def test_saving_costs_as_much_late_in_a_run_as_early(tmp_path):
    """The history is appended: no checkpoint holds it."""
    sizes = []
    for rounds in (5, 80):
        run(Problem(toys.logistics()), DualFL(), rounds=rounds, checkpoint=tmp_path / f"{rounds}.npz")
        sizes.append((tmp_path / f"{rounds}.npz").stat().st_size)
    assert sizes[1] < 1.02 * sizes[0]
    assert rows_of(tmp_path / "80.npz").read_bytes().count(b"\n") == 81


def test_a_checkpoint_of_version_0_1_0_goes_on(saved):
    """It had its rows in the tree, and no digest."""
    tree, arrays = checkpoint.read(saved)
    content = tree["dict"]
    content |= {"format": 1} | unpacked_rows(rows_of(saved))
    del content["journal"]
    text = np.frombuffer(json.dumps({"dict": content}).encode(), dtype=np.uint8)
    with saved.open("wb") as file:
        np.savez(file, tree=text, **arrays)
    rows_of(saved).unlink()
    resumed = run(Problem(toys.logistics()), DualFL(), rounds=5, checkpoint=saved, resume=True)
    same(run(Problem(toys.logistics()), DualFL(), rounds=5), resumed)
    assert checkpoint.read(saved)[0]["dict"]["format"] == 2 and rows_of(saved).read_bytes().count(b"\n") == 6


def unpacked_rows(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        "rows": checkpoint.Packer().pack([row for row, _ in rows]),
        "iterations": checkpoint.Packer().pack([iterations for _, iterations in rows]),
    }


def test_two_runs_on_one_checkpoint(tmp_path):
    """The second would write its state beside the rows of the first."""
    path, seen = tmp_path / "run.npz", []

    def second(row, theta):
        with pytest.raises(InputError, match=r"Another process is writing to .*run\.npz"):
            run(Problem(toys.logistics()), DualFL(), rounds=2, checkpoint=path)
        seen.append(row)
        return row.round == 1

    run(Problem(toys.logistics()), DualFL(), rounds=2, checkpoint=path, stop=second)
    assert seen and sorted(tmp_path.iterdir()) == [path, rows_of(path)]
    run(Problem(toys.logistics()), DualFL(), rounds=2, checkpoint=path)


def test_the_checkpoint_of_another_run(saved):
    other = toys.logistics()
    other[2] = LinearModel(other[2].design.X, -other[2].y, other[2].loss, ridge=0.1)
    refused(saved, "belongs to another run: its seed is 0, here it is 1", seed=1)
    refused(saved, r"its rho is 0\.\d+, here it is 0.0", algorithm=DualFL(rho=0.0))
    refused(saved, "its data differs from what it is here", problem=Problem(other))
    refused(saved, "its data differs", problem=Problem(toys.logistics(), sizes=[1, 2, 3, 4]))
    refused(saved, "its start differs", start=START)
    refused(saved, r"its codec is None, here it is TopK\(k=2\)", codec=TopK(2))
    refused(saved, "its number of clients is 4, here it is 5", problem=Problem(toys.logistics(5)))
    refused(
        saved,
        r"its solvers is \[.*LBFGS.*here it is \[.*Newton",
        problem=Problem(toys.logistics(), solvers=[None, None, None, newton()]),
    )
    refused(saved, "its algorithm is dualfl, here it is toy", algorithm=toys.Toy())
    refused(saved, "its (rho|penalty) is", problem=Problem(toys.logistics(), penalty=L1(0.1)))


def newton():
    from dualfl.solvers import DampedNewton

    return DampedNewton()


def test_penalties_tell_runs_apart(tmp_path):
    path = tmp_path / "run.npz"
    run(Problem(lasso(), penalty=L1(0.1)), DualFL(), rounds=2, checkpoint=path)
    refused(
        path, r"its penalty is L1\(alpha=0.1\), here it is L1\(alpha=0.2\)", problem=Problem(lasso(), penalty=L1(0.2))
    )


def test_a_state_that_this_version_does_not_know(saved):
    tree, arrays = checkpoint.read(saved)
    saved.write_bytes(checkpoint.archive(json.loads(json.dumps(tree).replace('"Local"', '"Later"')), arrays))
    refused(saved, "holds a state 'Later' that this version of the algorithm does not know")


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_disk_that_fails(saved, monkeypatch, where):
    """The old checkpoint stays, and no half-written file is left."""
    before = saved.read_bytes()

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"dualfl.files.os.{where}", fail)
    with pytest.raises(OSError, match="No space left"):
        run(Problem(toys.logistics()), DualFL(), rounds=9, checkpoint=saved, resume=True)
    monkeypatch.undo()
    assert saved.read_bytes() == before and sorted(saved.parent.iterdir()) == [saved, rows_of(saved)]
    resumed = run(Problem(toys.logistics()), DualFL(), rounds=5, checkpoint=saved, resume=True)
    same(run(Problem(toys.logistics()), DualFL(), rounds=5), resumed)


def test_how_often(tmp_path, monkeypatch):
    saves = []
    save = checkpoint.save
    monkeypatch.setattr(
        checkpoint, "save", lambda path, content: saves.append(content["account"]) or save(path, content)
    )
    run(Problem(toys.logistics()), toys.Newtonish(), rounds=3, checkpoint=tmp_path / "run.npz", checkpoint_every=4)
    assert [account.exchanges for account in saves] == [4, 8, 9]


def test_a_state_of_the_wrong_kind():
    with pytest.raises(TypeError, match="A state may hold numbers, arrays, tuples and small dataclasses, not set"):
        checkpoint.Packer().pack({"x": {1, 2}})


def test_inherited_states_keep_their_class(tmp_path):
    """Two `Server` classes, of a method and of the one it inherits from."""

    path = tmp_path / "run.npz"
    options = {"rounds": 3, "checkpoint": path}
    first = run(Problem(toys.logistics()), Heir(), **options)
    assert type(first.state) is toys.Server
    again = run(Problem(toys.logistics()), Heir(), resume=True, **options)
    same(first, again)


@dataclass(frozen=True)
class Server:
    other: float


@dataclass(frozen=True)
class Heir(toys.Toy):
    """Has a `Server` in its module that its states are not made of."""


def test_arrays_that_are_held_twice_are_stored_once():
    x = np.arange(3.0)
    packer = checkpoint.Packer()
    tree = packer.pack({"a": x, "b": (x, replace(toys.Server(x)))})
    assert len(packer.arrays) == 1
    back = checkpoint.Unpacker(packer.arrays, toys.Toy(), {}).unpack(tree)
    np.testing.assert_array_equal(back["b"][1].x, x)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 0.1, -0.0, 1e-310, 3, True, None, "text", (), [1, (2.5,)]])
def test_values_come_back_as_they_were(value):
    packer = checkpoint.Packer()
    text = json.dumps(packer.pack({"v": value}), allow_nan=False)
    back = checkpoint.Unpacker(packer.arrays, toys.Toy(), {}).unpack(json.loads(text))["v"]
    assert type(back) is type(value) and repr(back) == repr(value)
