"""Rows that stay in a file: the same sums, block by block, and sentences where the file is not what it was."""

import os
import pickle

import numpy as np
import pytest

import dualfl
from dualfl.algorithms import Auto
from dualfl.algorithms.server import ServerLBFGS
from dualfl.errors import InputError
from dualfl.kernels import RowsOnDisk, disk_rows
from dualfl.objectives import LinearModel, Logistic, Softmax
from dualfl.solvers import SAGA
from dualfl.solvers.stopping import GradientNorm

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(disk_rows, "BLOCK", 1000)


def stored(folder, n=203, D=7, kind=np.float32):
    X = rng.integers(0, 255, size=(n, D)).astype(kind) if kind == np.uint8 else rng.normal(size=(n, D)).astype(kind)
    np.save(folder / "rows.npy", X)
    return X, RowsOnDisk(folder / "rows.npy")


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)])
def test_the_sums_are_those_of_rows_in_memory(tmp_path, kind, loss):
    X, disk = stored(tmp_path, kind=kind)
    y = rng.integers(0, 3, size=len(X)) if loss.outputs > 1 else rng.choice([-1.0, 1.0], size=len(X))
    how = {"intercept": True, "scale": 1 / 64 if kind == np.uint8 else 1.0, "weights": rng.random(len(X))}
    near, far = LinearModel(X, y, loss, 0.1, **how), LinearModel(disk, y, loss, 0.1, **how)
    x, v = rng.normal(size=near.d), rng.normal(size=near.d)
    for name, arguments in (
        ("value", (x,)), ("gradient", (x,)), ("hessian", (x,)), ("hessian_times", (x, v)), ("feature_moment", (x,)),
        ("sample_gradient", (np.array([5, 1, 200]), x)),
    ):  # fmt: skip
        np.testing.assert_allclose(getattr(far, name)(*arguments), getattr(near, name)(*arguments), rtol=1e-10)
    for a, b in zip(far.moment(x), near.moment(x)):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    np.testing.assert_allclose(far.design.extents, near.design.extents)
    np.testing.assert_allclose([far.L, far.L_row], [near.L, near.L_row], rtol=1e-10)
    again = pickle.loads(pickle.dumps(far))
    assert again.value(x) == far.fresh().value(x)


def test_a_fit_of_them_is_proven(tmp_path):
    X, disk = stored(tmp_path)
    y = np.where(X @ rng.normal(size=7) > 0, 1.0, -1.0)
    problem = dualfl.Problem([LinearModel(disk, y, Logistic(), 1e-2), LinearModel(X, -y, Logistic(), 1e-2)])
    for method in (Auto(), ServerLBFGS(metric="diagonal"), dualfl.DualFL()):
        result = dualfl.run(problem, method, rounds=200, tol=1e-6, threads=1)
        assert result.stopped == "tol"
        np.testing.assert_allclose(result.energy, dualfl.reference(problem), rtol=1e-6)


def test_rows_are_taken_as_of_an_array(tmp_path):
    X, disk = stored(tmp_path)
    for rows in (slice(3, 50), slice(0, 0), slice(1, 90, 7), np.array([4, 4, 100])):
        assert np.array_equal(disk[rows], X[rows])


def test_a_file_that_shrinks_is_told(tmp_path):
    X, disk = stored(tmp_path)
    f = LinearModel(disk, np.ones(len(X)), Logistic(), 0.1)
    os.truncate(tmp_path / "rows.npy", 3000)
    with pytest.raises(InputError, match=r"rows.npy has become shorter while it was read: row \d+ of 203"):
        f.value(np.zeros(7))
    os.remove(tmp_path / "rows.npy")
    with pytest.raises(InputError, match="can no longer be read: No such file"):
        f.fresh().value(np.ones(7))


def test_bad_files_and_numbers_are_told(tmp_path):
    (tmp_path / "text.npy").write_text("rows")
    with pytest.raises(InputError, match=r"text.npy is not a .npy file"):
        RowsOnDisk(tmp_path / "text.npy")
    np.save(tmp_path / "line.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"must hold one table.*float64 of shape \(3,\)"):
        RowsOnDisk(tmp_path / "line.npy")
    X = np.zeros((300, 4))
    X[271, 2] = np.nan
    np.save(tmp_path / "gap.npy", X)
    with pytest.raises(InputError, match=r"Row 271, column 2 of .*gap.npy is nan"):
        LinearModel(RowsOnDisk(tmp_path / "gap.npy"), np.ones(300), Logistic())


def test_solvers_that_jump_from_row_to_row_refuse(tmp_path):
    X, disk = stored(tmp_path)
    f = LinearModel(disk, np.where(X[:, 0] > 0, 1.0, -1.0), Logistic(), 0.1)
    with pytest.raises(InputError, match=r"stays on disk, and this solver walks"):
        SAGA().solve(f, None, GradientNorm(1e-6))


def test_parquet_becomes_rows_on_disk(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from dualfl.data import rows_from_parquet

    X = rng.normal(size=(500, 3))
    pq.write_table(
        pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "name": ["x"] * 500}), tmp_path / "t.parquet",
        row_group_size=100,
    )  # fmt: skip
    rows = rows_from_parquet(tmp_path / "t.parquet", tmp_path / "t.npy", ["c", "a"], kind="float64")
    assert np.array_equal(rows[:], X[:, [2, 0]])
    for columns, kind, sentence in (
        (["d"], "float32", r"has no column 'd'; it has a, b, c, name"),
        (["name"], "float32", r"Column 'name' of .* holds string"),
        (["a"], "uint8", r"Column 'a' of .* holds numbers that are no bytes"),
        (["a"], "int", r"kind must be float32"),
    ):
        with pytest.raises(InputError, match=sentence):
            rows_from_parquet(tmp_path / "t.parquet", tmp_path / "u.npy", columns, kind)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        rows_from_parquet(tmp_path / "broken.parquet", tmp_path / "u.npy")
    assert not list(tmp_path.glob("u.npy*"))


def test_to_open_a_file_takes_none_of_its_memory(tmp_path):
    with open(tmp_path / "huge.npy", "wb") as file:  # a hole, as large as a disk
        head = {"descr": "<f4", "fortran_order": False, "shape": (1 << 38, 64)}
        np.lib.format.write_array_header_2_0(file, head)
        np.arange(128, dtype=np.float32).tofile(file)
    assert RowsOnDisk(tmp_path / "huge.npy")[1:2][0, 0] == 64.0


def test_finite_numbers_and_extents_take_one_pass(tmp_path, monkeypatch):
    X, disk = stored(tmp_path)
    passes = []
    blocks = RowsOnDisk.blocks
    monkeypatch.setattr(RowsOnDisk, "blocks", lambda self: passes.append(1) or blocks(self))
    f = LinearModel(disk, rng.choice([-1.0, 1.0], size=len(X)), Logistic())
    np.testing.assert_allclose(f.design.extents, np.abs(X).max(axis=0))
    assert len(passes) == 1
