"""300 problems of the campaign on certificates, others every day; the seed is printed, so a failure can be repeated.

python -m benchmarks.certificates --seed SEED --count 300
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.certificates.__main__ import FLOOR, TOL, apart, campaign, counts, judged, report, violated
from benchmarks.certificates.problems import case
from benchmarks.certificates.reference import Smooth, reference

pytestmark = pytest.mark.long

COUNT = 300
EXTENDED = float(np.finfo(np.longdouble).eps) < 1e-18


@pytest.mark.skipif(not EXTENDED, reason="there is no extended precision on this machine")
def test_no_certificate_is_false_and_nothing_is_wrong_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(datetime.datetime.now(tz=datetime.UTC).strftime("%Y%m%d"))
    lines = campaign(seed, COUNT)
    found = counts(lines)
    with capsys.disabled():
        print(f"\n{report(found, seed)}")
    bad = [line for line in lines if line["violations"]]
    bad += [line for line in lines if "E" in line and not line["told"] and line["gap"] > TOL * abs(line["E"])]
    named = "\n".join(json.dumps(line) for line in bad if line["violations"] or not apart(line))
    assert (found["violations"], found["wrong"], found["untold"]) == (0, 0, 0), f"seed {seed}:\n{named}"


@pytest.mark.skipif(not EXTENDED, reason="there is no extended precision on this machine")
@pytest.mark.parametrize("number", [0, 5, 8, 23])
def test_the_campaign_sees_a_false_certificate(number: int) -> None:
    """The negative control: a certificate below the gap of a model beside the minimiser is a violation."""
    it = case(0, number)
    smooth, least = Smooth(it), reference(it)
    theta = np.asarray(least.theta, dtype=float).ravel()
    beside = theta * 1.01 + 0.01 / np.asarray(smooth.scale, dtype=float).repeat(smooth.k)
    gap = float(smooth.energy(smooth.at(beside)) - least.E)
    assert least.settled and gap > 0
    assert violated(smooth, least, SimpleNamespace(theta=beside, certificate=0.9 * gap))
    assert not violated(smooth, least, SimpleNamespace(theta=beside, certificate=1.1 * gap))
    assert not violated(smooth, least, SimpleNamespace(theta=beside, certificate=None, stopped="tol"))
    assert violated(smooth, least, SimpleNamespace(theta=beside, certificate=None, stopped="contradiction"))
    line = {"number": 0, "far": False, "refused": "", "violations": ["auto"], "told": False, "certificate": 0.0}
    line |= {"E": 1.0, "gap": 1e-3, "floor": 1e-15, "rounding": 1e-15}
    found = counts([line])
    assert (found["violations"], found["wrong"], found["untold"], found["told"]) == (1, 1, 1, 0)


# What was once false, or told, with the campaign's seed and number.
MENDED = [
    pytest.param(1, 1389, id="one column of zeros and nothing else: an IndexError"),
    pytest.param(7, 471, id="a bound above E*: the conjugate of a logistic loss lost what it had of 1 - 1e-13"),
    pytest.param(7, 16, id="a softmax with bounds on one side, driven to infinity"),
    pytest.param(7, 311, id="least squares, no ridge, coefficients >= 0, equal columns"),
    pytest.param(7, 540, id="least squares, groups without a ridge, a free intercept, equal columns"),
    pytest.param(7, 684, id="least squares, l1 without a ridge, a free intercept, more columns than rows tell apart"),
    pytest.param(7, 1185, id="Huber: a secant pair of a straight piece led a thousand times too far"),
    pytest.param(8, 164, id="a squared hinge whose steps ended before its kink, nearer each time"),
    pytest.param(8, 778, id="Huber with an elastic net: reweighted least squares, for ever"),
    pytest.param(8, 1001, id="logistic, all but separable, with a free intercept"),
]


@pytest.mark.skipif(not EXTENDED, reason="there is no extended precision on this machine")
@pytest.mark.parametrize(("seed", "number"), MENDED)
def test_what_was_mended_is_proven(seed: int, number: int) -> None:
    line = judged(seed, number)
    assert not line["violations"] and not line["told"] and line["rounds"] <= 50
    assert line["gap"] <= line["certificate"] <= max(TOL * abs(line["E"]), FLOOR * line["rounding"])
