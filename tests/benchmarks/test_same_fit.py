"""A sample of `python -m benchmarks.same_fit`: fits of files, and of the same files at silos."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("cryptography", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from benchmarks.same_fit import LIMIT, TABLES, apart, cases, compared, same_bits

from dualfl.analysis.model_kinds import MODELS


@pytest.mark.parametrize("title", ["breast cancer: logistic", "diabetes: linear, raw columns"])
def test_fits_of_files_and_of_silos_are_the_same(title):
    (case,) = [case for case in cases(sample=True) if case.title == title]
    found = compared(case)
    assert found.bits and max(found.off, found.errors, found.rest) <= LIMIT


def test_every_model_is_compared_somewhere():
    models = {case.recipe.model for case in cases(sample=False)}
    assert models >= set(MODELS) - {"cox"}  # which tests/federation/test_families_far.py compares
    assert {case.table for case in cases(sample=False)} == set(TABLES)


def test_a_difference_is_seen(monkeypatch):
    from benchmarks import same_fit

    fits = []
    monkeypatch.setattr(same_fit, "apart", lambda found, expected: fits.extend([found, expected]) or (0.0, 0.0, 0.0))
    (case,) = [case for case in cases(sample=True) if case.title == "diabetes: ridge"]
    compared(case)
    found, expected = fits
    other = replace(expected, theta=expected.theta + 1e-8 * expected.standard_errors)
    assert same_bits(expected, expected) and not same_bits(other, expected)
    assert apart(other, expected)[0] == pytest.approx(1e-8, rel=1e-3) and apart(found, expected)[0] <= LIMIT
    assert np.isfinite(apart(found, expected)).all()
