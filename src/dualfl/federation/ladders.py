"""The largest of all silos' numbers, without learning who has it.

A silo sends a random word at every threshold below its number, and 0 at the others. The sum over all silos is 0 exactly
where nobody's number reaches, up to chance 1/p, and uniformly random below: it tells the largest number, rounded up to
the next threshold, and nothing else. Every threshold costs a word, so each field has thresholds of its own: yes or no
takes one, the smoothness of a cost a thousand. They lie close where numbers of standardised columns are, and far apart
elsewhere: a number out there is rounded by more, which costs some speed and no proof.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dualfl.federation.field import Words
from dualfl.typing import Array

FEW = 2  # thresholds for a factor of two, where numbers are hardly ever


def powers(lowest: int, highest: int, steps: int) -> Array:
    """Powers of two and `steps - 1` thresholds between any two, so that rounding up adds 2^(1/steps) - 1 at most."""
    found: Array = 2.0 ** (np.arange(lowest * steps, highest * steps + 1) / steps)
    return found


def uneven(lowest: int, near: int, far: int, highest: int, steps: int) -> Array:
    """Powers with many thresholds between 2^near and 2^far, and few, within 41 %, outside."""
    return np.concatenate([powers(lowest, near, FEW)[:-1], powers(near, far, steps), powers(far, highest, FEW)[1:]])


def negative(thresholds: Array) -> Array:
    """For the smallest, which is the largest of what has the other sign; 0 is as high as it gets."""
    return np.append(-thresholds[::-1], 0.0)


COUNTS = np.concatenate([np.arange(65.0), uneven(6, 6, 20, 40, 8)[1:]])  # exact up to 64, within 9 % up to a million
CODES = np.arange(-1.0, 64.0)  # of losses
ANYTHING = np.concatenate([negative(uneven(-64, -20, 20, 64, 16)), uneven(-64, -20, 20, 64, 16)])
SIZES = powers(-120, 100, 1)  # of long vectors (`scales`)
INVERSE = negative(uneven(-64, -20, 10, 40, 32))  # of a smoothness, within 2.2 % from 1e-3 to 1e6

# What surveys and inquiries ask (`engines.survey`), and how closely it must be known.
KNOWN = {
    "minus_mu": negative(uneven(-50, -20, 6, 40, 8)),
    "minus_inverse_L": INVERSE,
    "minus_inverse_L_row": INVERSE,
    "n": COUNTS,
    "minus_n": negative(COUNTS[1:]),
    "loss": CODES,
    "minus_loss": -CODES[::-1],
    "minus_smooth": np.array([-1.0, 0.0]),
    "minus_dual": np.array([-1.0, 0.0]),
    "minus_moments": np.array([-1.0, 0.0]),
    "free": np.array([0.0, 1.0]),
}


@cache
def ladder(name: str) -> Array:
    """The thresholds of a field, ascending. What stands before a slash says to which question it belongs."""
    field = name.rpartition("/")[2]
    found = SIZES if field.startswith("size:") else KNOWN.get(field, ANYTHING)
    found.flags.writeable = False
    return found


def to_rungs(name: str, x: float, noise: Words) -> Words:
    """What a silo sends for x; `noise` is as long as the ladder and known to nobody else."""
    return np.where(ladder(name) < x, noise, np.uint64(0))


def from_rungs(name: str, words: Words) -> float:
    """The least threshold that nobody exceeds."""
    steps = ladder(name)
    reached = np.flatnonzero(words)
    place = int(reached[-1]) + 1 if len(reached) else 0
    return float(steps[place]) if place < len(steps) else np.inf
