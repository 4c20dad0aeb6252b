"""Formulas against R: likelihoods, deviances, errors, tests of splines (`tests/fixtures/models/formulas.R`)."""

import json

import numpy as np
import pytest

pytest.importorskip("formulaic")


from dualfl.fits.term_tests import term_tests
from formula_cases import CASES, FOLDER, fitted, knots

ORACLES = json.loads((FOLDER / "formulas.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_formulas_are_those_of_r(name):
    fit, expected = fitted(name), ORACLES[name]
    assert fit.statistics.log_likelihood == pytest.approx(expected["loglik"][0], rel=1e-6)
    if "deviance" in expected:
        assert fit.statistics.deviance == pytest.approx(expected["deviance"][0], rel=1e-6)
    if "wald" in expected:
        (term,) = knots(fit)
        assert term_tests(fit)[term].statistic == pytest.approx(expected["wald"][0], rel=1e-5)
    else:
        order = np.argsort(np.abs(fit.theta.ravel()))
        other = np.argsort(np.abs(expected["coef"]))
        np.testing.assert_allclose(fit.theta.ravel()[order], np.array(expected["coef"])[other], rtol=1e-6)
        np.testing.assert_allclose(fit.standard_errors.ravel()[order], np.array(expected["se"])[other], rtol=1e-6)
