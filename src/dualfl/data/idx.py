"""IDX, the format of MNIST: a big-endian header (0, 0, type, number of dimensions), the dimensions, the numbers."""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path

import numpy as np

from dualfl.errors import InputError
from dualfl.files import contents
from dualfl.typing import AnyArray

UNSIGNED_BYTE = 8
MOST = 64  # dimensions that NumPy's arrays can have


def read_idx(path: Path) -> AnyArray:
    """An IDX file of unsigned bytes, plain or gzipped."""
    data = contents(path)
    if len(data) < 4 or data[:3] != bytes((0, 0, UNSIGNED_BYTE)) or not 0 < data[3] <= MOST:
        raise InputError(
            f"{path} is not an IDX file of unsigned bytes: it begins with {data[:4].hex(' ') or 'nothing'}."
        )
    head = 4 + 4 * data[3]
    if len(data) < head:
        raise InputError(f"{path} ends within its header, after {len(data)} bytes; get the file again.")
    shape = struct.unpack(f">{data[3]}I", data[4:head])
    if len(data) != head + prod(shape):
        raise InputError(
            f"{path} must have {head + prod(shape):,} bytes for its shape {shape}, and it has {len(data):,}; "
            "get the file again."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=head).reshape(shape)


def read_images(images: Path, labels: Path) -> tuple[AnyArray, AnyArray]:
    """(pixels, one row an image; labels)."""
    X, y = read_idx(images), read_idx(labels)
    if X.ndim != 3:
        raise InputError(f"{images} holds {X.ndim} dimension(s), and images have 3; is it the images file?")
    if X.size == 0:
        raise InputError(f"{images} has shape {X.shape}, which is no pixel at all; get the file again.")
    if y.shape != X.shape[:1]:
        raise InputError(f"{labels} has shape {y.shape}, and {images} has {len(X)} images; they do not match.")
    return X.reshape(len(X), -1), y.astype(np.intp)


def labels_beside(images: Path) -> Path:
    """The labels file that belongs to a file of images: its name has `labels-idx1` for `images-idx3`."""
    for name in (images.name, images.name.removesuffix(".gz"), f"{images.name}.gz"):
        labels = images.with_name(name.replace("images", "labels").replace("idx3", "idx1"))
        if labels.name != images.name and "labels" in labels.name and labels.is_file():
            return labels
    raise InputError(
        f"{images} holds images without labels; put the labels beside it, under the same name with labels-idx1 "
        "instead of images-idx3."
    )
