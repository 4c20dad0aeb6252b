"""Data sets from files: what each format gives, and what is said of files that are not what their names say."""

import csv
import gzip
import struct
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from dualfl.cli import main
from dualfl.data import load, make_problem
from dualfl.errors import InputError

CSV = "age,ward,dose,target\n30,north,1.5,no\n40,south,2.5,yes\n50,north,3.5,yes\n35,east,1.0,no\n"


def put(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_csv_has_features_classes_and_other_columns(tmp_path):
    data = load(str(put(tmp_path, "patients.csv", CSV)), scale="raw")
    np.testing.assert_array_equal(data.X, [[30, 1.5], [40, 2.5], [50, 3.5], [35, 1.0]])
    assert data.names == ("age", "dose") and data.classes == ("no", "yes")
    assert data.y.tolist() == [0, 1, 1, 0]
    assert data.columns["ward"].tolist() == ["north", "south", "north", "east"]
    assert data.title == "patients.csv, 4 rows x 2 features, 2 classes"
    assert data.source == str(tmp_path / "patients.csv")


def test_columns_of_a_table_are_standardised_and_clients_are_wards(tmp_path):
    data = load(put(tmp_path, "patients.csv", CSV))
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-15)
    problem = make_problem(data, clients=3, partition="column:ward")
    assert sorted(f.n for f in problem.clients) == [1, 1, 2]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_csv_may_have_other_separators_and_be_gzipped(tmp_path, separator):
    text = gzip.compress(("\ufeff" + CSV.replace(",", separator)).encode())
    assert load(put(tmp_path, "patients.csv.gz", text)).n == 4


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_csv_may_have_other_line_ends(tmp_path, end):
    found = load(put(tmp_path, "patients.csv", CSV.replace("\n", end)), scale="raw")
    assert found.n == 4 and found.names == ("age", "dose")


@pytest.mark.parametrize("name", ["dose; mg; per day", 'dose "a;b"; mg', "dose;\nmg;"])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_separators_in_quotes_separate_nothing(tmp_path, name, separator):
    quoted = '"' + name.replace('"', '""') + '"'
    for order in (1, -1):
        head = separator.join([quoted, "y"][::order])
        found = load(put(tmp_path, "t.csv", f"{head}\n1{separator}2\n3{separator}4.5\n"), target="y")
        assert found.names == (name,) and found.n == 2


def test_long_cells_are_read_and_take_little_room(tmp_path):
    texts = ["a" * 200_000, "a" * 200_001, "short", "a" * 200_000]
    path = put(tmp_path, "t.csv", "x,note,y\n" + "".join(f"{i},{text},{i}.5\n" for i, text in enumerate(texts)))
    before = csv.field_size_limit()
    notes = load(path, target="y").columns["note"]
    assert notes[0] == notes[3] != notes[1] and notes[2] == "short" and notes.nbytes < 10_000
    assert csv.field_size_limit() == before


def test_what_is_not_csv_is_a_sentence_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("dualfl.tables.delimited.LONGEST", 10)
    with pytest.raises(InputError, match=r"t.csv, line 3 is not CSV \(.*limit.*\); correct it"):
        load(put(tmp_path, "t.csv", "x,y\n1,2\n3," + "4" * 20 + "\n"))


@pytest.mark.parametrize(
    ("values", "task", "kind"),
    [
        ([0, 1, 2, 1], None, "classification"),
        ([0.5, 1, 2, 1], None, "regression"),
        ([0, 1, 2, 1], "regression", "regression"),
        ([0.5, 1, 2, 1], "classification", "classification"),
        (["a", "b", "a", "b"], None, "classification"),
    ],
)
def test_classes_are_told_from_numbers(tmp_path, values, task, kind):
    path = put(tmp_path, "t.csv", "x,y\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    assert load(path, task=task).task == kind


def test_many_whole_numbers_are_not_classes(tmp_path):
    path = put(tmp_path, "t.csv", "x,y\n" + "".join(f"{i},{i}\n" for i in range(30)))
    data = load(path)
    assert data.task == "regression" and data.y.dtype == np.float64


def test_parquet_is_the_same_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_csv(put(tmp_path, "patients.csv", CSV))
    frame.to_parquet(tmp_path / "patients.parquet")
    one, other = load(tmp_path / "patients.csv"), load(tmp_path / "patients.parquet")
    np.testing.assert_array_equal(one.X, other.X)
    assert one.classes == other.classes and one.names == other.names
    assert one.columns["ward"].tolist() == other.columns["ward"].tolist()
    frame.loc[2, "dose"] = np.nan
    frame.to_parquet(tmp_path / "gap.parquet")
    with pytest.raises(InputError, match="1 empty entries in column 'dose', the first in row 3"):
        load(tmp_path / "gap.parquet")


def test_parquet_has_numbers_and_text_and_nothing_else(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def read(column):
        columns = {"x": [1.0, 2.0, 3.0], "odd": column, "y": ["no", "yes", "no"]}
        parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
        return load(tmp_path / "t.parquet", scale="raw")

    lists = pyarrow.array([[1, 2], [3], [4, 5]])
    pairs = pyarrow.array([[1, 2], [3, 4], [4, 5]])
    records = pyarrow.array([{"a": 1}] * 3)
    noise = pyarrow.array([b"\xff\xfe", b"a", b"b"], pyarrow.binary())
    for column in (lists, pairs, records, noise):
        with pytest.raises(
            InputError, match=r"t.parquet has the column 'odd' of type .*neither numbers nor text; drop"
        ):
            read(column)
    with pytest.raises(InputError, match="1 empty entries in column 'odd', the first in row 2"):
        read(["a", "", "b"])
    text = pyarrow.array(["süd".encode(), b"a", b"b"], pyarrow.binary())  # how old writers write text
    assert read(text).columns["odd"].tolist() == ["süd", "a", "b"]
    assert read(pyarrow.array(["a", "b", "a"]).dictionary_encode()).columns["odd"].tolist() == ["a", "b", "a"]
    decimals = pyarrow.array([1, 2, 3]).cast(pyarrow.decimal128(21, 2))
    assert read(decimals).X[:, 1].tolist() == [1, 2, 3]


def test_an_index_of_pandas_is_no_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_csv(put(tmp_path, "patients.csv", CSV)).iloc[[2, 0, 3]]
    frame.to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").names == ("age", "dose")
    frame.set_index("dose").to_parquet(tmp_path / "named.parquet")  # somebody gave it a name: it is a column
    assert set(load(tmp_path / "named.parquet").names) == {"age", "dose"}


def test_parquet_with_a_name_twice(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = [pyarrow.array([1.0, 2.0])] * 3
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["x", "x", "y"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t.parquet has more than one column 'x'; give each a name"):
        load(tmp_path / "t.parquet")


def test_parquet_without_its_library_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install 'dualfl\[data\]'"):
        load(put(tmp_path, "t.parquet", b"PAR1...."))


def test_numpy_files(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(6, 3)), np.array([0, 1, 0, 1, 1, 0])
    np.savez(tmp_path / "t.npz", X=X, y=y, outcome=y * 2.5)
    np.testing.assert_array_equal(load(tmp_path / "t.npz", scale="raw").X, X)
    assert load(tmp_path / "t.npz").classes == ("0", "1")
    assert load(tmp_path / "t.npz", target="outcome").task == "regression"
    np.save(tmp_path / "t.npy", np.c_[X, y])
    np.testing.assert_array_equal(load(tmp_path / "t.npy", scale="raw").X, X)
    np.testing.assert_array_equal(load(tmp_path / "t.npy", target="0").y, X[:, 0])
    S = sp.csr_array(np.where(X > 0, X, 0))
    np.savez(tmp_path / "s.npz", data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=y)
    sparse = load(tmp_path / "s.npz")
    assert sp.issparse(sparse.X) and sparse.scale == 1.0
    np.testing.assert_array_equal(sparse.X.toarray(), S.toarray())
    np.savez(tmp_path / "pixels.npz", X=np.full((6, 2, 2), 255, np.uint8), y=y)
    pixels = load(tmp_path / "pixels.npz")
    assert pixels.X.shape == (6, 4) and pixels.X.dtype == np.uint8 and pixels.scale == 1 / 255


def test_bytes_in_a_table_are_numbers_and_no_pixels(tmp_path):
    """Small counts and ages are saved as uint8; divided by 255, a ridge would shrink their coefficients to nothing."""
    X, y = np.random.default_rng(0).integers(0, 90, (40, 3)), np.arange(40) % 2
    for kind in (np.uint8, np.int64):
        np.savez(tmp_path / f"{np.dtype(kind)}.npz", X=X.astype(kind), y=y)
    small, wide = load(tmp_path / "uint8.npz"), load(tmp_path / "int64.npz")
    assert small.scale == wide.scale == 1.0
    np.testing.assert_array_equal(small.X, wide.X)
    np.testing.assert_allclose(small.X.std(axis=0), 1.0)


@pytest.mark.parametrize("content", [b"1 1:0.25 2:0.375\n-1 1:0.5 2:0.37", b"1 1:0.25\n-1 2:0.5\n1", b"1 1:2\n-1 1:35"])
def test_libsvm_text_that_was_cut_inside_a_number_is_refused(tmp_path, content):
    path = put(tmp_path, "cut.libsvm", content)
    with pytest.raises(InputError, match=r"cut\.libsvm ends in the middle of a line, as if it had been cut"):
        load(path)
    path.write_bytes(content + b"\n")
    load(path)
    load(put(tmp_path, "whole.libsvm.gz", gzip.compress(content)))


def test_a_libsvm_index_that_no_model_could_hold(tmp_path):
    for index in (2**31 - 1, 10**8 + 1):
        with pytest.raises(InputError, match="has an index that is not from 1 to 100,000,000"):
            load(put(tmp_path, "t.libsvm", f"1 1:1 {index}:1\n-1 2:1\n".encode()))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("shape", [(4, 4), (4, 6)])
def test_a_sparse_matrix_is_read_in_the_layout_that_it_names(tmp_path, kind, shape):
    dense = np.where(np.arange(np.prod(shape)) % 3 == 1, np.arange(np.prod(shape)) + 1.0, 0).reshape(shape)
    sp.save_npz(tmp_path / "m.npz", sp.csr_array(dense).asformat(kind))
    with np.load(tmp_path / "m.npz") as file:
        np.savez(tmp_path / "t.npz", **file, y=[0, 1, 0, 1])
    X = load(tmp_path / "t.npz").X
    assert X.format == "csr"
    np.testing.assert_array_equal(X.toarray(), dense)


def test_parts_of_a_sparse_matrix_that_do_not_match(tmp_path):
    X = np.eye(3, 2)
    S, C = sp.csr_array(X), sp.csc_array(X)
    good = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": S.shape, "y": [0, 1, 0]}
    column = {"data": C.data, "indices": C.indices, "indptr": C.indptr}
    for change in (
        column,  # and no word that it is CSC
        {"indices": S.indices + 2},  # out of range, which the kernels would read
        {"indices": S.indices - 1},
        {"indptr": S.indptr[::-1]},
        {"shape": 3},
        {"format": b"lil"},
        {**column, "format": b"csc", "indices": C.indices + 5},
    ):
        np.savez(tmp_path / "t.npz", **(good | change))
        with pytest.raises(
            InputError, match=r"t.npz holds the parts of a sparse matrix that do not fit together \(."
        ) as e:
            load(tmp_path / "t.npz")
        assert str(tmp_path) in str(e.value) and "\n" not in str(e.value)


def test_a_damaged_archive_of_arrays_is_named(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", X=np.ones((20, 3)), y=np.arange(20) % 2)
    data = bytearray((tmp_path / "t.npz").read_bytes())
    begins = 30 + sum(struct.unpack("<HH", data[26:30]))  # of the first array, after its header, name and extra field
    data[begins] = 0xFF  # not how compressed data begin
    with pytest.raises(InputError, match=r"t.npz is not an .npz file of plain arrays \(Error -3 while decompressing"):
        load(put(tmp_path, "t.npz", bytes(data)))


def test_libsvm_and_idx_files(tmp_path):
    assert load(put(tmp_path, "some.libsvm", "1 1:0.5 3:1\n-1 2:1\n")).X.shape == (2, 3)
    assert load(put(tmp_path, "no_suffix", "1 1:0.5 3:1\n-1 2:1\n")).classes == ("-1", "1")
    images = put(tmp_path, "my-images-idx3-ubyte", b"\0\0\x08\x03" + b"\0\0\0\x02" * 3 + bytes(range(8)))
    with pytest.raises(InputError, match="put the labels beside it"):
        load(images)
    put(tmp_path, "my-labels-idx1-ubyte", b"\0\0\x08\x01\0\0\0\x02\x01\x04")
    data = load(images)
    assert data.X.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and data.classes == ("1", "4")


def test_a_folder_of_cifar_batches(tmp_path):
    put(tmp_path, "data_batch_1.bin", bytes(3073))
    assert load(tmp_path).X.shape == (1, 3072)
    assert load(tmp_path / "data_batch_1.bin").classes[0] == "airplane"
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="without CIFAR-10 batches"):
        load(empty)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.csv", b"PK\x03\x04....", "not what its name says: it should be CSV, and it begins like npz"),
        ("t.csv", b"\x93NUMPY..", "it should be CSV, and it begins like npy"),
        ("t.parquet", "a,b\n1,2\n", "it should be Parquet, and it begins with 61 2c 62 0a"),
        ("t.npz", "", "it should be npz, and it begins with nothing"),
        ("t.npy", b"PK\x03\x04....", "it should be npy, and it begins like npz"),
        ("t.npz", b"PK\x03\x04....", "is not an .npz file of plain arrays"),
        ("t.npy", b"\x93NUMPY\x01\x00", "is not an .npy file of numbers"),
        ("t.parquet", b"PAR1....", "is not a Parquet file"),
        ("t.csv.gz", b"a,y\n1,2\n", "cannot be read"),
        ("t.csv", b"a,y\n\xff\xfe,1\n", "not text"),
        ("t.csv", "", "needs a first line"),
        ("t.csv", "a,a\n1,2\n", "a different name for each column"),
        ("t.csv", "a,y\n", "holds no rows"),
        ("t.csv", "a,y\n1,2\n1\n", "line 3 has 1 entries, and the first line 2"),
        ("t.csv", "a,y\n1,2\n,1\n", "no number in column 'a', row 2"),
        ("t.csv", "a,b\n1,2\n", "has the columns a, b; say which is the target"),
        ("t.csv", "a,y\n1,1\n2,1\n", "one class"),
        ("t.csv", "a,y\nx,1\nz,2\n", "there are no features"),
        ("t.csv", "a,y\n1,2\n3,nan\n", "row 2 has the target nan; targets must be finite"),
        ("t.csv", "a,y\n1,2\nnan,3\n", "t.csv, row 2 has nan as feature 'a'; features must be finite"),
        ("t.csv", "a,y\n1,no\n2,yes\n3,\n", "has 1 empty entries in column 'y', the first in row 3; fill or drop"),
        ("t.csv", "a,y\n1,1\n2,2\n3, \n", "no number in column 'y', row 3"),
        ("t.csv", "a,ward,y\n1,,1\n2,b,2\n3,,1\n", "has 2 empty entries in column 'ward', the first in row 1"),
        ("t.csv", "a,note,y\n1,,1\n2,,2\n", "has 2 empty entries in column 'note', the first in row 1"),
        ("t.csv", "age,a,y\n1,1,1\nNA,2,2\n3,3,1\n", "has 'NA' in column 'age', row 2, and most entries there are num"),
        ("t.csv", "age,a,y\n1,1,1\nNA,2,2\nNA,3,1\n", "has 'NA' in column 'age', row 2"),
        ("t.csv", "a,y\n1,1\n2,2\n3,unknown\n", "has 'unknown' in column 'y', row 3"),
        ("t.libsvm", "1 1:1\n-1 2:1 3:nan\n", "t.libsvm, row 2 has nan as feature 3; features must be finite"),
        (
            "t.libsvm",
            "1 999999999999:1\n-1 2:1\n",
            "line 1 is not LIBSVM text: .* not from 1 to 100,000,000",
        ),
        ("t.libsvm", "<html>", "t.libsvm, line 1 is not LIBSVM text: it begins with '<html>'"),
        ("t.bin", b"123", "not a multiple of 3073"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, says):
    path = put(tmp_path, name, content)
    if "Parquet file" in says:
        pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=says) as error:
        load(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("line", ["-1" + " 3:1 11:1 14:1" * 9, "0.5\t1:-2.5e-3", "2 qid:1 1:1 # a"])
@pytest.mark.parametrize(("name", "better"), [("x.csv", "x.libsvm"), ("x.y.tsv.gz", "x.y.libsvm.gz")])
def test_libsvm_text_under_the_name_of_csv_is_told(tmp_path, line, name, better):
    text = f"{line}\n{line.replace('1:', '2:')}\n".encode()
    path = put(tmp_path, name, gzip.compress(text) if name.endswith(".gz") else text)
    says = f"does not look like CSV but like LIBSVM text: its first line is '.*'; rename it to {better}.$"
    with pytest.raises(InputError, match=says) as error:
        load(path)
    assert str(error.value).startswith(str(path)) and len(str(error.value)) < len(str(path)) + 150


@pytest.mark.parametrize("name", ["3:1", "1", "at 10:30", "e 1:2"])
def test_columns_with_odd_names_are_csv(tmp_path, name):
    assert load(put(tmp_path, "t.csv", f"{name},y\n1,2\n3,4.5\n")).names == (name,)


def test_some_numbers_among_words_are_text(tmp_path):
    path = put(tmp_path, "t.csv", "x,room,y\n1,12a,no\n2,14,yes\n3,NA,no\n4,9c,yes\n")
    assert load(path).columns["room"].tolist() == ["12a", "14", "NA", "9c"]


@pytest.mark.parametrize("scale", ["default", "raw"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_none_is_named_with_its_file_and_row(tmp_path, scale, bad):
    X = np.ones((40, 3))
    X[30, 1] = bad
    y = np.arange(40) % 2
    np.savez(tmp_path / "t.npz", X=X, y=y)
    np.save(tmp_path / "t.npy", np.c_[X, y])
    S = sp.csr_array(X)
    np.savez(tmp_path / "s.npz", data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=y)
    rows = "".join(f"{a},{b},{c},{t}\n" for (a, b, c), t in zip(X, y))
    put(tmp_path, "t.csv", "a,b,c,y\n" + rows)
    for name, feature in (("t.npz", "2"), ("t.npy", "2"), ("s.npz", "2"), ("t.csv", "'b'")):
        with pytest.raises(InputError, match=f"row 31 has {bad} as feature {feature}; features must be fin") as error:
            load(tmp_path / name, scale=scale)
        assert str(tmp_path / name) in str(error.value)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda t: load(t / "none.csv"), "There is no file"),
        (lambda t: load(put(t, "t.csv", CSV), target="tarjet"), "did you mean target"),
        (lambda t: load(put(t, "t.csv", CSV), task="regression"), "regression needs numbers"),
        (lambda t: load(put(t, "t.csv", CSV), task="guess"), "There is no task 'guess'"),
        (lambda t: load("iris", target="x"), "has a target of its own"),
        (lambda t: load(put(t, "a8a.libsvm", "1 1:1\n-1 2:1\n"), target="x"), "targets have no name"),
    ],
)
def test_bad_wishes_are_sentences(tmp_path, call, says):
    with pytest.raises(InputError, match=says):
        call(tmp_path)


def test_arrays_that_do_not_match(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 2)), y=np.zeros(2))
    np.savez(tmp_path / "b.npz", Z=np.zeros((3, 2)))
    np.save(tmp_path / "c.npy", np.zeros(3))
    np.save(tmp_path / "d.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "e.npy", np.zeros((3, 2)))
    np.savez(tmp_path / "f.npz", X=np.array([["a"], ["b"]]), y=np.arange(2))
    for name, target, says in [
        ("a.npz", None, "do not match"),
        ("b.npz", None, "holds Z, and the features must be called"),
        ("a.npz", "z", "the targets must be called z"),
        ("c.npy", None, "must hold a matrix"),
        ("d.npy", None, "not an .npy file of numbers"),
        ("e.npy", "5", "has the columns 0 to 1"),
        ("e.npy", "x", "is the number of a column"),
        ("f.npz", None, "f.npz has features of type <U1, and they must be real numbers"),
    ]:
        with pytest.raises(InputError, match=says):
            load(tmp_path / name, target=target)


def test_the_command_runs_on_a_file(tmp_path, monkeypatch):
    rows = "".join(f"{i % 7},{i % 5},w{i % 3},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(60))
    path = put(tmp_path, "mine.csv", "a,b,ward,outcome\n" + rows)
    words = ["run", "--dataset", str(path), "--target", "outcome", "--partition", "column:ward", "--clients", "3"]
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [*words, "--rounds", "3"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "mine.csv, 60 rows x 2 features, 2 classes" in done.output
    assert "files        in runs/mine.csv-dualfl" in done.output
