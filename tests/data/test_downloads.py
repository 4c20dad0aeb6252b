"""Downloads from a server of our own: whole files are kept, anything else leaves nothing behind."""

import gzip
import hashlib
import io
import struct
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from dualfl.data import DATASETS, load
from dualfl.data.catalogue import CIFAR10, MNIST
from dualfl.data.download import Download, fetch
from dualfl.errors import InputError
from dualfl.files import cache_folder


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def tarred(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


IMAGES = gzip.compress(idx(np.arange(24, dtype=np.uint8).reshape(4, 2, 3)))
LABELS = gzip.compress(idx(np.array([3, 1, 4, 1], dtype=np.uint8)))
BATCHES = tarred({file: bytes([i] * 3073) for i, file in enumerate(CIFAR10)} | {"cifar-10-batches-bin/readme": b"?"})


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        data = {"images.gz": IMAGES, "labels.gz": LABELS, "batches.tar.gz": BATCHES, "short.gz": IMAGES}.get(name)
        if data is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if name == "short.gz" else data)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DUALFL_DATA", raising=False)
    monkeypatch.delenv("DUALFL_OFFLINE")


def sha256(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def file(name, urls, data):
    return Download(name, urls, len(data), sha256(data))


def kept():
    return sorted(p.relative_to(cache_folder() / "data").as_posix() for p in cache_folder().rglob("*") if p.is_file())


def test_what_is_missing_is_downloaded_once(server, monkeypatch, capfd):
    downloads = (
        file(f"{MNIST[0]}.gz", (f"{server}/images.gz",), IMAGES),
        file(f"{MNIST[1]}.gz", (f"{server}/labels.gz",), LABELS),
    )
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], rows=4, features=6, downloads=downloads))
    assert load("mnist").y.tolist() == [3, 1, 4, 1]
    assert kept() == [f"{MNIST[0]}.gz", f"{MNIST[1]}.gz"]
    said = capfd.readouterr().err
    assert f"Downloading {server}/images.gz (0.1 kB, {sha256(IMAGES)})" in said
    assert "to file" not in said  # only what we say
    monkeypatch.setenv("DUALFL_OFFLINE", "1")
    assert load("mnist").source == str(cache_folder() / "data" / f"{MNIST[0]}.gz")
    (cache_folder() / "data" / f"{MNIST[1]}.gz").unlink()  # and only what is missing
    monkeypatch.delenv("DUALFL_OFFLINE")
    load("mnist")
    assert "images" not in capfd.readouterr().err


def test_of_an_archive_the_files_are_kept(server, monkeypatch):
    download = Download(CIFAR10, (f"{server}/batches.tar.gz",), len(BATCHES), sha256(BATCHES), archive=True)
    monkeypatch.setitem(DATASETS, "cifar10", replace(DATASETS["cifar10"], rows=5, downloads=(download,)))
    assert load("cifar10").y.tolist() == [0, 1, 2, 3, 4]
    assert kept() == sorted(CIFAR10)


def test_an_archive_without_the_files_says_so(server):
    download = Download(("a/b.bin",), (f"{server}/batches.tar.gz",), 1, sha256(BATCHES), archive=True)
    with pytest.raises(InputError, match="the archive has no a/b"):
        fetch(download, "some")
    assert kept() == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("short.gz", "127.0.0.1"),
        ("labels.gz", "does not have the checksum sha256:"),
        ("nothing.gz", "the server says 404"),
    ],
)
def test_what_is_not_right_leaves_nothing(server, path, says):
    with pytest.raises(InputError, match=says) as error:
        fetch(file("images.gz", (f"{server}/{path}",), IMAGES), "some")
    text = str(error.value)
    assert text.startswith("some needs the file images (or images.gz), not found in ")
    assert f"get it from {server}/{path}" in text and "DUALFL_DATA" in text and "\n" not in text
    assert kept() == []


def test_a_server_that_is_gone_and_one_that_is_there(server):
    gone = "http://127.0.0.1:9/images.gz"
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9: no connection"):
        fetch(file("images.gz", (gone,), IMAGES), "some")
    assert kept() == []
    fetch(file("images.gz", (gone, f"{server}/images.gz"), IMAGES), "some")
    assert kept() == ["images.gz"]


def test_offline_nothing_is_tried(monkeypatch):
    monkeypatch.setenv("DUALFL_OFFLINE", "1")
    with pytest.raises(InputError, match="DUALFL_OFFLINE forbids downloads; unpack https://www"):
        load("cifar10")
    assert not cache_folder().exists()


def test_every_set_that_needs_files_says_where_to_get_them():
    for entry in DATASETS.values():
        offered = {name.removesuffix(".gz") for download in entry.downloads for name in download.files}
        assert offered == set(entry.files)
        for download in entry.downloads:
            kind, _, digest = download.checksum.partition(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[kind] and download.size > 0
