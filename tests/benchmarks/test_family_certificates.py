"""A few problems of `python -m benchmarks.family_certificates`: what is certified holds."""

from __future__ import annotations

import pytest
from benchmarks.family_certificates import MODELS, checked


@pytest.mark.parametrize("model", MODELS)
def test_certificates_hold(model):
    assert checked(model, 5) == "valid"
