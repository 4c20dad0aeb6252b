"""What a file is: its first bytes say so, because names lie. A name that says something else is an error."""

from __future__ import annotations

from pathlib import Path

from dualfl.errors import InputError, WrongEncoding
from dualfl.files import beginning

PICKLE = b"\x80"  # the first byte of every pickle since protocol 2
BYTES = {  # how a file of each format begins
    "Parquet": b"PAR1",
    "npz": b"PK\x03\x04",
    "npy": b"\x93NUMPY",
    "IDX": b"\x00\x00\x08",
    "pickle": PICKLE,
}
SUFFIXES = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".npz": "npz",
    ".npy": "npy",
    ".libsvm": "LIBSVM",
    ".svm": "LIBSVM",
    ".svmlight": "LIBSVM",
    ".bin": "CIFAR-10",
}
TEXT = ("CSV", "LIBSVM")
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # how text in UTF-16 begins


def named_format(path: Path) -> str | None:
    """What a file is by its name, if that says anything."""
    return SUFFIXES.get(Path(path.name.removesuffix(".gz")).suffix.lower())


def format_of(path: Path, wide: bool = False) -> str:
    """What a file is by its first bytes, which must not contradict its name; `wide` text has more bytes a letter."""
    head = beginning(path)
    named = named_format(path)
    begins = next((kind for kind, start in BYTES.items() if head.startswith(start)), None)
    if named == "CIFAR-10":  # its first byte is a label and says nothing
        return named
    if named in TEXT and begins is None and b"\x00" not in head:
        return named
    if wide and begins is None and named in (None, "CSV"):
        return "CSV"
    if named is None:
        return begins or "LIBSVM"
    if named in TEXT and head.startswith(UTF16):
        raise WrongEncoding(
            f'{path} is text in UTF-16, as Excel writes "Unicode text"; save it as CSV in UTF-8 '
            "(dualfl fit reads it with --encoding utf-16).",
            "line 1",
        )
    if begins != named:
        seems = f"it begins like {begins}" if begins else f"it begins with {head[:4].hex(' ') or 'nothing'}"
        raise InputError(f"{path} is not what its name says: it should be {named}, and {seems}.")
    return named
