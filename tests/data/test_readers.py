"""Readers on small files made here: what they read, and what they say about files that are not whole."""

import gzip
import struct

import numpy as np
import pytest

from dualfl.data import load
from dualfl.data.catalogue import CIFAR10, MNIST
from dualfl.data.cifar import PIXELS, read_batch
from dualfl.data.files import cache_folder, find
from dualfl.data.idx import read_idx
from dualfl.data.libsvm import read_libsvm
from dualfl.errors import InputError

IMAGES = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3)
LABELS = np.array([3, 1, 4, 1], dtype=np.uint8)


def idx(array, kind=8):
    return bytes((0, 0, kind, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_DATA", str(tmp_path))
    return tmp_path


def put(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_idx_is_read_plain_and_gzipped(tmp_path, packed):
    data = idx(IMAGES)
    path = put(tmp_path, "images.gz" if packed else "images", gzip.compress(data) if packed else data)
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
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, data, says):
    path = put(tmp_path, "images", data)
    with pytest.raises(InputError, match=says) as error:
        read_idx(path)
    assert str(path) in str(error.value)


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = put(tmp_path, "images.gz", gzip.compress(idx(IMAGES))[:-12])
    with pytest.raises(InputError, match=r"images\.gz cannot be read"):
        read_idx(path)


def test_mnist_keeps_its_bytes(folder):
    put(folder, MNIST[0], idx(IMAGES))
    put(folder, MNIST[1] + ".gz", gzip.compress(idx(LABELS)))
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
    assert str(folder) in str(error.value)


def test_mnist_notices_files_that_do_not_match(folder):
    put(folder, MNIST[0], idx(IMAGES))
    put(folder, MNIST[1], idx(LABELS[:3]))
    with pytest.raises(InputError, match="do not match"):
        load("mnist")
    put(folder, MNIST[0], idx(LABELS))
    with pytest.raises(InputError, match="is it the images file"):
        load("mnist")


def test_cifar_rows_are_a_label_and_pixels(folder):
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


def test_libsvm_rows_stay_sparse(folder):
    put(folder, "a8a", b"-1 3:1 5:1\n+1 1:1\n-1 123:1\n")
    data = load("a8a")
    assert data.X.shape == (3, 123) and data.X.nnz == 4
    np.testing.assert_array_equal(data.y, [0, 1, 0])
    assert data.classes == ("-1", "+1")
    assert load("a8a", layout="dense").X[2, 122] == 1


@pytest.mark.parametrize("data", [b"<html>not here</html>", b"", b"-1 3:x\n"])
def test_a_foreign_libsvm_file_is_named(tmp_path, data):
    path = put(tmp_path, "a8a", data)
    with pytest.raises(InputError) as error:
        read_libsvm(path)
    assert str(path) in str(error.value)


def test_a8a_has_two_labels(folder):
    put(folder, "a8a", b"2 3:1\n-1 1:1\n")
    with pytest.raises(InputError, match="has the label 2"):
        load("a8a")


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
    from dualfl.data import DATASETS

    entry = DATASETS[name]
    if entry.missing:
        pytest.skip(f"{entry.missing[0]} is not there: name the folder that has it in DUALFL_DATA")
    data = load(name)
    assert data.X.shape == (entry.rows, entry.features)
    assert len(data.classes) == entry.classes == len(np.unique(data.y))
