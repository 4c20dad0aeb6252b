"""Values that nobody should give, and bytes that were damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WORDS = (
    *("", " ", "0", "-1", "1", "2", "0.5", "-0.0", "nan", "inf", "-inf", "1e308", "1e-308", "1e400", "1_000", "0x10"),
    *(
        "99999999999999999999",
        "²",
        "٣",
        "\uff11",
        "None",
        "null",
        "true",
        "[1]",
        '{"a": 1}',
        "[",
        "a,b",
        ",",
        "x=1",
        "--",
        "-",
    ),
    *(
        "../../x",
        "/",
        ".",
        "..",
        "/dev/null",
        "/dev/zero",
        "/proc/x",
        "~",
        "a\nb",
        "\t",
        "\ufeffx",
        "x" * 5000,
        "💥",
        "%s",
    ),
    *(
        "=1+1",
        "'; drop",
        "$HOME",
        "\\",
        "dualfl",
        "auto",
        "all",
        "logistic",
        "squared",
        "huber:0",
        "quantile:nan",
        "top:0",
    ),
)
DIGITS = ("0", "1", "2", "3", "5", "-1", "0.1", "1e-3", "1e-12", "nan", "inf", "1e308", "1e-308", "5e-324", "9" * 20)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 10**9, 10**18, 10**30, 10**400, -(10**400), 2**31, 2**53 + 1, 2**64),
    *(0.0, -0.0, 0.5, 1.5, -1.5, 1e-308, 5e-324, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *(True, False, np.float32(0.5), np.int8(3), np.nan, np.float64(1e-300), complex(1, 1)),
)


def anything(rng: random.Random, like: Any = None) -> Any:
    """A value of any type; in the place of a number, more often than not a number at the end of its range."""
    if isinstance(like, int | float) and rng.random() < 0.6:
        return rng.choice(NUMBERS)
    others: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: rng.choice(WORDS),
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice(NUMBERS),
        lambda: [],
        lambda: [rng.choice(NUMBERS)],
        lambda: (rng.choice(NUMBERS), rng.choice(WORDS)),
        lambda: {"a": rng.choice(NUMBERS)},
        lambda: {1, 2},
        lambda: b"bytes",
        lambda: object(),
        lambda: int,
        lambda: Path("nowhere"),
        lambda: lambda *given: None,
        lambda: np.array(rng.choice([[], [1.0], [np.nan], [[1.0, 2.0]], ["a"], [None], [1e308, 1e308]]), dtype=object),
        lambda: np.full(rng.choice([(0,), (1,), (3,), (2, 2), (1, 1, 1)]), rng.choice([0.0, np.nan, np.inf, 1e300])),
        lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    )
    return rng.choice(others)()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes of a file after an accident."""
    if not data:
        return b"\x00"
    at = rng.randrange(len(data))
    kind = rng.randrange(9)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[at:]
    if kind == 2:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 3:
        return data[:at] + rng.randbytes(rng.choice([1, 4, 100])) + data[at:]
    if kind == 4:
        return data[:at] + bytes(rng.choice([1, 8, 64])) + data[at + 8 :]
    if kind == 5:
        return data[:at] + rng.choice(WORDS).encode() + data[at + rng.choice([0, 1, 5]) :]
    if kind == 6:
        return data + data[: rng.randrange(len(data)) + 1]
    if kind == 7:
        return rng.choice(
            [b"", b"\n", b"\xff\xfe" + data, b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r"), data[::-1]]
        )
    lines = data.split(b"\n")
    line = rng.randrange(len(lines))
    return b"\n".join(
        [*lines[:line], *rng.choice([[], [lines[line]] * 3, [b""], [b",".join([b"x"] * 50)]]), *lines[line + 1 :]]
    )


def edited(content: Any, rng: random.Random) -> Any:
    """JSON with one thing in it changed, wherever that is."""
    content = json.loads(json.dumps(content))
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    walk(content)
    node, key = rng.choice(places)
    kind = rng.randrange(7)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node[key], list):
        node[key].reverse()
    elif kind == 2 and isinstance(node[key], list) and node[key]:
        node[key].append(node[key][0])
    elif kind == 3 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
        node[key] = rng.choice([-node[key], node[key] + 1, node[key] * 1e300, 0, str(node[key])])
    elif kind == 4 and isinstance(node[key], dict):
        node[key]["unknown"] = 1
    else:
        node[key] = rng.choice([None, 3, -1, 1e308, "text", "", [], {}, [1], {"a": 1}, True, "../../x"])
    return content
