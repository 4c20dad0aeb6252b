"""Readers on small files made here: what they read, and what they say about files that are not whole."""

import gzip
import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest

from dualfl.data import DATASETS, load
from dualfl.data.catalogue import CIFAR10, CIFAR10_PYTHON, FASHION, MNIST
from dualfl.data.cifar import PIXELS, read_batch, read_pickled
from dualfl.data.file_signatures import LOOKS, fault
from dualfl.data.folders import find
from dualfl.data.idx import read_idx, read_images
from dualfl.errors import InputError
from dualfl.files import cache_folder
from dualfl.tables.libsvm import read_libsvm

IMAGES = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3)
LABELS = np.array([3, 1, 4, 1], dtype=np.uint8)


def idx(array, kind=8):
    return bytes((0, 0, kind, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    """Says of a known set that it is as small as the files here."""

    def say(name, rows, features):
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], rows=rows, features=features))

    return say


def put(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_idx_is_read_plain_and_gzipped(tmp_path, packed):
    data = idx(IMAGES)
    path = put(tmp_path, "images.gz" if packed else "images", gzip.compress(data, mtime=0) if packed else data)
    np.testing.assert_array_equal(read_idx(path), IMAGES)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "begins with nothing"),
        (b"PK\x03\x04 a zip file", "not an IDX file of unsigned bytes: it begins with 50 4b 03 04"),
        (idx(IMAGES.astype(np.float32), kind=13), "not an IDX file of unsigned bytes"),
        (idx(IMAGES)[:9], "ends within its header, after 9 bytes"),
        (idx(IMAGES)[:-1], "must have 40 bytes for its shape"),
        (idx(IMAGES) + b"x", "and it has 41"),
        (b"\0\0\x08\xff" + b"\0\0\0\x01" * 255 + b"x", "begins with 00 00 08 ff"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, data, says):
    path = put(tmp_path, "images", data)
    with pytest.raises(InputError, match=says) as error:
        read_idx(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("shape", [(0, 28, 28), (4, 0, 0)])
def test_images_without_pixels_are_named(tmp_path, shape):
    path = put(tmp_path, "images", idx(np.empty(shape, dtype=np.uint8)))
    labels = put(tmp_path, "labels", idx(LABELS[: shape[0]]))
    with pytest.raises(InputError, match=r"images has shape \(.*\), which is no pixel at all; get the file again"):
        read_images(path, labels)


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = put(tmp_path, "images.gz", gzip.compress(idx(IMAGES), mtime=0)[:-12])
    with pytest.raises(InputError, match=r"images\.gz cannot be read"):
        read_idx(path)


def test_mnist_keeps_its_bytes(folder, small):
    small("mnist", 4, 6)
    put(folder, MNIST[0], idx(IMAGES))
    put(folder, MNIST[1] + ".gz", gzip.compress(idx(LABELS), mtime=0))
    data = load("mnist", layout="dense")
    np.testing.assert_array_equal(data.X, IMAGES.reshape(4, 6))
    assert data.X.dtype == np.uint8
    assert (data.scale, data.task, data.source) == (1 / 255, "classification", str(folder / MNIST[0]))
    np.testing.assert_array_equal(data.y, LABELS)
    assert load("mnist", scale="raw").scale == 1.0
    np.testing.assert_array_equal(load("mnist").X.toarray(), data.X)
    assert load("mnist").X.dtype == np.uint8


def test_mnist_says_what_is_missing_and_where_to_put_it(folder):
    put(folder, MNIST[0], idx(IMAGES))
    with pytest.raises(InputError, match=r"needs the file mnist/train-labels.*DUALFL_DATA") as error:
        load("mnist")
    assert str(folder) in str(error.value) and "https://" in str(error.value)


def test_mnist_notices_files_that_do_not_match(folder):
    put(folder, MNIST[0], idx(IMAGES))
    put(folder, MNIST[1], idx(LABELS[:3]))
    with pytest.raises(InputError, match="do not match"):
        load("mnist")
    put(folder, MNIST[0], idx(LABELS))
    with pytest.raises(InputError, match="is it the images file"):
        load("mnist")


def test_fashion_mnist_is_read_like_mnist(folder, small):
    small("fashion-mnist", 4, 6)
    put(folder, FASHION[0] + ".gz", gzip.compress(idx(IMAGES), mtime=0))
    put(folder, FASHION[1], idx(LABELS))
    data = load("fashion-mnist")
    np.testing.assert_array_equal(data.X, IMAGES.reshape(4, 6))
    assert data.classes[9] == "ankle boot"


def test_cifar_rows_are_a_label_and_pixels(folder, small):
    small("cifar10", 10, PIXELS)
    rows = (np.arange(2 * (1 + PIXELS)) % 251).astype(np.uint8).reshape(2, -1)
    rows[:, 0] = (7, 2)
    for file in CIFAR10:
        put(folder, file, rows.tobytes())
    data = load("cifar10")
    assert data.X.shape == (10, PIXELS)
    np.testing.assert_array_equal(data.y, [7, 2] * 5)
    np.testing.assert_array_equal(data.X[3], rows[1, 1:])
    assert data.classes[7] == "horse"


@pytest.mark.parametrize(("data", "says"), [(b"123", "not a multiple of 3073"), (b"\xff" * (1 + PIXELS), "label 255")])
def test_a_foreign_cifar_batch_is_named(tmp_path, data, says):
    path = put(tmp_path, "data_batch_1.bin", data)
    with pytest.raises(InputError, match=says) as error:
        read_batch(path)
    assert str(path) in str(error.value)


PYTHON_2 = (  # protocol 2 with the names that NumPy had when CIFAR-10 was published
    b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01K\x02M\x00\x0c\x86"
    b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x18\x00\x00"
    + b"\x07" * 2 * PIXELS
    + b"tbU\x06labels](K\x03K\x05eu."
)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("protocol", [2, 4, "python 2"])
def test_cifar_batches_of_python_hold_the_same(folder, small, protocol, packed):
    small("cifar10", 10, PIXELS)
    pixels = np.full((2, PIXELS), 7, dtype=np.uint8)
    batch = {b"data": pixels, b"labels": [3, 5], b"filenames": [b"a.png", b"b.png"]}
    data = PYTHON_2 if protocol == "python 2" else pickle.dumps(batch, protocol=protocol)
    for file in CIFAR10_PYTHON:
        put(folder, file + ".gz" if packed else file, gzip.compress(data, mtime=0) if packed else data)
    data = load("cifar10")
    assert data.X.dtype == np.uint8 and data.X.shape == (10, PIXELS)
    assert (data.X == 7).all() and data.y.tolist() == [3, 5] * 5
    assert not DATASETS["cifar10"].missing
    small("cifar10", 5, PIXELS)
    for file in CIFAR10:  # the binary ones come first
        put(folder, file, bytes(1 + PIXELS))
    assert load("cifar10").n == 5


def test_a_binary_batch_whose_first_label_looks_like_a_pickle_is_binary(tmp_path):
    rows = b"\x80" + bytes(PIXELS)
    for name, data in (("data_batch_1.bin", rows), ("data_batch_1.bin.gz", gzip.compress(rows, mtime=0))):
        with pytest.raises(InputError, match="it has the label 128"):
            load(put(tmp_path, name, data))


class Evil:
    def __reduce__(self):
        return (print, ("code has run",))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pickle.dumps(Evil()), "asks for builtins.print.*not read"),
        (pickle.dumps({b"data": np.zeros((2, 5), np.uint8), b"labels": [1, 2]}), "not bytes with 3072 columns"),
        (pickle.dumps({b"data": np.zeros((1, PIXELS), np.uint8), b"labels": [11]}), "label 11"),
        (pickle.dumps({"other": 1}), "no CIFAR-10 batch of Python"),
        (pickle.dumps(3), "no CIFAR-10 batch of Python"),
        (PYTHON_2[:-100], "no CIFAR-10 batch of Python"),
    ],
)
def test_a_foreign_pickle_is_named_and_never_run(tmp_path, capsys, data, says):
    path = put(tmp_path, "data_batch_1", data)
    with pytest.raises(InputError, match=says):
        read_pickled(path)
    assert "code has run" not in capsys.readouterr().out


def test_libsvm_rows_stay_sparse(folder, small):
    small("a8a", 3, 123)
    put(folder, "a8a", b"-1 3:1 5:1\n+1 1:1\n-1 123:1\n")
    data = load("a8a")
    assert data.X.shape == (3, 123) and data.X.nnz == 4
    np.testing.assert_array_equal(data.y, [0, 1, 0])
    assert data.classes == ("-1", "+1")
    assert load("a8a", layout="dense").X[2, 122] == 1


@pytest.mark.parametrize("data", [b"<html>not here</html>", b"", b"-1 3:x\n", b"1 999999999999:1\n"])
def test_a_foreign_libsvm_file_is_named(tmp_path, data):
    path = put(tmp_path, "a8a", data)
    with pytest.raises(InputError) as error:
        read_libsvm(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("1 3:1\n-1 3:1 11", "line 2 .*: '11' has no colon, .*index:value, and the file ends there.*cut; get the file"),
        ("1 3:1\n-1 3:1 11:", "line 2 .*: '11:' has nothing as its value, .* a number, and the file ends there"),
        ("1 3:1\n-", "line 2 .*: it begins with '-', and should with a label, which is a number, and the file ends"),
        ("1 3:1\n-1 3:1 11\n1 2:1\n", "line 2 .*: '11' has no colon, and should be index:value; correct it, or get"),
        ("1 3:1\n\n# a remark\n1 a:1\n", "line 4 .*: 'a:1' has 'a' as its index, and that should be a whole number;"),
        ("-1 3:x\n", "line 1 .*: '3:x' has 'x' as its value, and that should be a number;"),
        ("<html>not here</html>", "line 1 .*: it begins with '<html>not', and should with a label, .*number; correct"),
        ("1 0:1\n", "line 1 .*: '0:1' has an index that is not from 1 to 123;"),
        ("1 124:1\n", "line 1 .*: '124:1' has an index that is not from 1 to 123;"),
        ("1 999999999999:1\n", "line 1 .*: '999999999999:1' has an index that is not from 1 to 123;"),
        ("1 qid:1 5:1 3:1 # why\n", "line 1 .*: '3:1' comes after the index 5, and indices should rise;"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_line_that_is_not_libsvm_is_named(tmp_path, data, says, packed):
    content = gzip.compress(data.encode(), mtime=0) if packed else data.encode()
    path = put(tmp_path, "a8a.gz" if packed else "a8a", content)
    with pytest.raises(InputError, match=says) as error:
        read_libsvm(path, 123)
    assert str(error.value).startswith(f"{path}, line ") and "is not LIBSVM text" in str(error.value)


def test_a_damaged_libsvm_gzip_is_named(tmp_path):
    data = bytearray(gzip.compress(b"-1 3:1 5:1\n" * 30, mtime=0))
    data[10] = 0xFF  # not how compressed data begin
    with pytest.raises(InputError, match=r"a8a\.gz is not a LIBSVM file"):
        read_libsvm(put(tmp_path, "a8a.gz", bytes(data)))


def test_a8a_has_two_labels(folder):
    put(folder, "a8a", b"2 3:1\n-1 1:1\n")
    with pytest.raises(InputError, match="has the label 2"):
        load("a8a")


# -- files under the name of a known set that are not this set ---------------------------------------------


def test_a_file_that_was_cut_is_not_the_set(folder):
    path = put(folder, "a8a", b"-1 3:1 5:1\n+1 1:1\n-1 12:1\n")
    with pytest.raises(
        InputError, match=r"a8a has 22,696 rows x 123 features, and there are 3 x 123 in .*the file"
    ) as e:
        load("a8a")
    assert str(path) in str(e.value)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("names", [CIFAR10, CIFAR10_PYTHON])
def test_of_five_batches_the_one_that_was_cut_is_named(folder, small, names, packed):
    small("cifar10", 20, PIXELS)
    paths = []
    for file, rows in zip(names, (4, 4, 3, 4, 4)):
        batch = {b"data": np.zeros((rows, PIXELS), np.uint8), b"labels": [0] * rows}
        data = bytes(rows * (1 + PIXELS)) if names is CIFAR10 else pickle.dumps(batch, protocol=2)
        paths.append(put(folder, file + ".gz" * packed, gzip.compress(data, mtime=0) if packed else data))
    with pytest.raises(InputError, match=r"batch of CIFAR-10 has 4 rows, and .* has 3; get the file again\.") as error:
        load("cifar10")
    assert [str(path) in str(error.value) for path in paths] == [False, False, True, False, False]


def test_batches_that_were_all_cut_are_all_named(folder):
    paths = [put(folder, file, bytes(2 * (1 + PIXELS))) for file in CIFAR10]
    with pytest.raises(InputError, match=r"has 10,000 rows, and .* has 2; get the files again\.") as error:
        load("cifar10")
    assert all(f"{path} has 2" in str(error.value) for path in paths)


def test_images_of_another_size_are_not_the_set(folder, small):
    put(folder, MNIST[0], idx(IMAGES))
    labels = put(folder, MNIST[1], idx(LABELS))
    small("mnist", 4, 784)
    with pytest.raises(InputError, match="mnist has 4 rows x 784 features, and there are 4 x 6 in") as error:
        load("mnist")
    assert str(labels) in str(error.value)


def test_labels_of_another_set_are_not_the_set(folder, small):
    small("mnist", 4, 6)
    put(folder, MNIST[0], idx(IMAGES))
    labels = put(folder, MNIST[1], idx(np.array([1, 26, 3, 4], dtype=np.uint8)))
    with pytest.raises(InputError, match="mnist has the labels 0 to 9, and there is the label 26 in") as error:
        load("mnist")
    assert str(labels) in str(error.value)


def test_a_number_that_is_none_in_a_known_set_is_named(folder, small):
    small("a8a", 2, 123)
    path = put(folder, "a8a", b"-1 3:1 5:1\n+1 1:1 7:nan\n")
    with pytest.raises(InputError, match="a8a, row 2 has nan as feature 7; features must be finite") as error:
        load("a8a")
    assert str(path) in str(error.value)


# -- at a glance ------------------------------------------------------------------------------------------


def sized(folder, name, size, head=b""):
    """A file of that size that takes no room."""
    path = put(folder, name, head)
    with path.open("r+b") as file:
        file.truncate(size)
    return path


HEAD = bytes.fromhex("00000803 0000ea60 0000001c 0000001c")
PACKED = gzip.compress(HEAD, mtime=0)


def test_every_file_of_a_known_set_has_its_looks():
    files = [file for entry in DATASETS.values() for file in (*entry.files, *entry.instead)]
    assert files and {file.rsplit("/", 1)[-1] for file in files} == set(LOOKS)


@pytest.mark.parametrize(
    ("name", "size", "head", "says"),
    [
        (MNIST[0], 47_040_016, HEAD, None),
        (MNIST[0], 1_000_000, HEAD, "has 1,000,000 bytes, and should have 47,040,016"),
        (MNIST[0], 47_040_017, HEAD, "has 47,040,017 bytes, and should have 47,040,016"),
        (MNIST[0], 47_040_016, b"PK", "begins with 50 4b 00 00 00 00 00 00, and should with 00 00 08 03 00 00 ea 60"),
        (MNIST[1], 4_096, b"random", "has 4,096 bytes, and should have 60,008"),
        (MNIST[0] + ".gz", len(PACKED), PACKED, None),
        (MNIST[0] + ".gz", 4_096, b"random", "is not packed by gzip, or cannot be read"),
        (MNIST[0] + ".gz", 0, b"", "begins with nothing, and should with 00 00 08 03 00 00 ea 60"),
        (MNIST[1] + ".gz", len(PACKED), PACKED, "begins with 00 00 08 03 00 00 ea 60, and should with 00 00 08 01 00"),
        (CIFAR10[2], 30_730_000, b"", None),
        (CIFAR10[2], 307_300, b"", "has 307,300 bytes, and should have 30,730,000"),
        (CIFAR10_PYTHON[2], 31_035_999, b"\x80", None),
        (CIFAR10_PYTHON[2], 4_096, b"\x80", "has 4,096 bytes, and should have at least 30,720,000"),
        ("a8a", 1_624_166 + 22_696, b"-1 3:1", None),  # with the line ends of Windows
        ("a8a", 500, b"-1 3:1", "has 500 bytes, and should have at least 1,595,964"),
    ],
)
def test_a_glance_at_a_file(folder, name, size, head, says):
    found = fault(sized(folder, name, size, head))
    assert (found is None) if says is None else (found or "").startswith(says)


def test_a_set_knows_which_of_its_files_are_damaged(folder):
    images = sized(folder, MNIST[0], 1_000_000)
    assert list(DATASETS["mnist"].damaged) == [images]  # also where another file is missing
    labels = sized(folder, MNIST[1], 60_008, bytes.fromhex("00000801 0000ea60"))
    assert list(DATASETS["mnist"].damaged) == [images]
    labels.unlink()
    sized(folder, MNIST[0], 47_040_016, HEAD)
    assert not DATASETS["mnist"].damaged and not DATASETS["digits"].damaged


def test_the_named_folder_comes_before_the_cache(folder):
    put(cache_folder() / "data", "here", b"cache")
    assert find("here") == cache_folder() / "data" / "here"
    put(folder, "here", b"named")
    assert find("here") == folder / "here"


@pytest.mark.parametrize(
    ("platform", "variable", "tail"),
    [
        ("linux", "XDG_CACHE_HOME", "base/dualfl"),
        ("win32", "LOCALAPPDATA", "base/dualfl"),
        ("darwin", None, "Library/Caches/dualfl"),
    ],
)
def test_the_cache_is_where_the_platform_wants_it(platform, variable, tail, monkeypatch):
    monkeypatch.delenv("DUALFL_CACHE")
    monkeypatch.setattr("sys.platform", platform)
    if variable:
        monkeypatch.setenv(variable, "base")
    assert cache_folder().as_posix().endswith(tail)


# -- the real files, where they are -----------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "cifar10", "a8a"])
def test_real_files_have_the_shape_they_should_have(name):
    entry = DATASETS[name]
    if entry.missing:
        pytest.skip(f"{entry.missing[0]} is not there: name the folder that has it in DUALFL_DATA")
    assert not entry.damaged
    data = load(name)
    assert data.X.shape == (entry.rows, entry.features)
    assert len(data.classes) == entry.classes == len(np.unique(data.y))
