"""What a glance at a file tells: its size and its first bytes, so that a list of data sets need not read the files.

A file that passes may still be damaged within, which its reader finds; one that does not is not what its name says. Of
a packed file only the beginning is unpacked, and its size says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from dualfl.data.cifar import PIXELS
from dualfl.errors import InputError
from dualfl.files import beginning


@dataclass(frozen=True)
class Looks:
    """Of a file that is whole and not packed.

    size : in bytes.
    head : how it begins.
    least : whether it may also be larger, as text with other line ends is.
    """

    size: int
    head: bytes = b""
    least: bool = False


def _idx(*shape: int) -> Looks:
    head = bytes((0, 0, 8, len(shape))) + b"".join(n.to_bytes(4, "big") for n in shape)
    return Looks(len(head) + prod(shape), head)


LOOKS: dict[str, Looks] = {
    "train-images-idx3-ubyte": _idx(60_000, 28, 28),
    "train-labels-idx1-ubyte": _idx(60_000),
    **{f"data_batch_{i}.bin": Looks(10_000 * (1 + PIXELS)) for i in range(1, 6)},
    **{f"data_batch_{i}": Looks(10_000 * PIXELS, least=True) for i in range(1, 6)},  # pickles, with names of images
    "a8a": Looks(1_595_964, least=True),  # without plus signs and blanks at line ends
}

ANY = Looks(0, least=True)


def fault(path: Path) -> str | None:
    """What is wrong with a file of a known set, as far as a glance tells; None if nothing is.

    The words follow the name of the file: "has 4,096 bytes, and should have 60,008".
    """
    looks = LOOKS.get(path.name.removesuffix(".gz"), ANY)
    try:
        size, head = path.stat().st_size, beginning(path, max(1, len(looks.head)))
    except (InputError, OSError):
        return "is not packed by gzip, or cannot be read" if path.suffix == ".gz" else "cannot be read"
    if path.suffix != ".gz" and (size < looks.size or (size > looks.size and not looks.least)):
        return f"has {size:,} bytes, and should have {'at least ' if looks.least else ''}{looks.size:,}"
    if not head.startswith(looks.head):
        return f"begins with {_hex(head)}, and should with {_hex(looks.head)}"
    return None


def _hex(head: bytes) -> str:
    return head[:8].hex(" ") or "nothing"
