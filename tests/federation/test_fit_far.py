"""A fit on silos far away is the fit of their files: to the last bit without masks, to 1e-9 of an error under them."""

import json

import numpy as np
import pytest
from far import PINNED, far_fit, far_silos, make_homes
from test_same_as_fit import hospitals, regression, with_gaps

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fitting
from dualfl.federation.chambers import fold_secret
from dualfl.silos import Chamber, SilosHere, drive
from dualfl.silos.chamber import Dealing
from dualfl.tables.reading import read_table
from dualfl.tables.schema import Request

SECURE = [None, pytest.param(40, id="masks")]
TIGHT = 1e-12

CASES = {
    "logistic": (hospitals, Request("readmitted"), Recipe("logistic", tol=TIGHT), {}),
    "unpenalised": (hospitals, Request("readmitted"), Recipe("logistic", "none", tol=TIGHT), {}),
    "l1 by folds": (hospitals, Request("readmitted"), Recipe("logistic", "l1", tol=1e-9), {"cross_validate": True}),
    "svm": (hospitals, Request("readmitted"), Recipe("squared-hinge", tol=1e-9), {}),
    "classes": (
        with_gaps,
        Request("class", categorical=("code",)),
        Recipe("multinomial", tol=TIGHT),
        {"cross_validate": True},
    ),
    "machines": (with_gaps, Request("class", categorical=("code",)), Recipe("svm", tol=1e-6), {"influence": False}),
    "indicator": (
        with_gaps,
        Request("class", categorical=("code",), missing="indicator"),
        Recipe("multinomial", tol=TIGHT),
        {},
    ),
    "linear": (regression, Request("y", True), Recipe("linear", "none", tol=TIGHT), {}),
    "lasso": (regression, Request("y", True), Recipe("lasso", "l1", tol=TIGHT), {"cross_validate": True, "cv": "silo"}),
    "huber": (regression, Request("y", True), Recipe("huber", tol=TIGHT), {}),
    "quantile": (regression, Request("y", True), Recipe("quantile", tol=1e-6), {"influence": False}),
}


def here(paths, homes, recipe, wishes):
    """The same files on this machine, dealt into folds by the same secrets, in the order of the silos' names."""
    secret = fold_secret(homes_of(homes)[0])
    tables = {path.stem: read_table(path) for path in paths}
    chambers = [Chamber(tables[name], Dealing(secret, j), name) for j, name in enumerate(sorted(tables))]
    silos = SilosHere(chambers)
    return drive(fitting(silos, recipe, wishes), silos), silos


def homes_of(homes):
    from dualfl.federation.silo_folder import SiloFolder

    return [SiloFolder(home) for home in homes]


@pytest.mark.parametrize("secure", SECURE)
@pytest.mark.parametrize("case", CASES)
def test_a_fit_is_a_fit_wherever_the_silos_are(case, secure, tmp_path):
    files, request, recipe, more = CASES[case]
    wishes = Wishes(request, **more)
    paths = files(tmp_path)
    homes = make_homes(
        tmp_path / "silos",
        paths,
        request.target,
        secure,
        categorical=list(request.categorical),
        show_own_numbers=True,
    )
    expected, mine = here(paths, homes, recipe, wishes)
    silos = far_silos(homes, secure)
    found = far_fit(silos, recipe, wishes)
    assert found.schema == expected.schema or secure
    assert found.schema.names == expected.schema.names
    assert [one.reference for one in found.schema.features] == [one.reference for one in expected.schema.features]
    assert found.estimator.algorithm_ == expected.estimator.algorithm_
    assert silos.ledger.exchanges == mine.ledger.exchanges
    if secure is None:
        same_bits(found, expected)
    else:
        same_but_for_rounding(found, expected)


def same_bits(found, expected):
    assert found.theta.tobytes() == expected.theta.tobytes()
    assert found.recipe == expected.recipe
    assert (found.errors is None) == (expected.errors is None)
    if expected.errors is not None:
        assert found.errors.covariance.tobytes() == expected.errors.covariance.tobytes()
    assert found.losses == expected.losses and found.loss == expected.loss
    assert str(found.evaluation) == str(expected.evaluation)
    for one, other in zip(found.without, expected.without, strict=True):
        assert one.reason == other.reason
        assert (one.theta is None) == (other.theta is None) or one.theta.tobytes() == other.theta.tobytes()
    if expected.path is not None:
        assert found.path.losses.tobytes() == expected.path.losses.tobytes()


def same_but_for_rounding(found, expected):
    assert np.isclose(found.recipe.alpha, expected.recipe.alpha, rtol=1e-9)
    unit = np.abs(expected.theta).max() if expected.standard_errors is None else expected.standard_errors
    loose = 1e-4 if expected.recipe.tol > 1e-8 else 1e-9
    assert (np.abs(found.theta - expected.theta) <= loose * unit).all()
    if expected.standard_errors is not None:
        np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-9)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-6)


def test_the_secret_of_folds_is_the_silos_own(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("a", "b"):
        home = tmp_path / name
        home.mkdir(exist_ok=True)
        (home / "silo.json").write_text(json.dumps({"name": name}))
    one, other = (fold_secret(home) for home in homes_of([tmp_path / "a", tmp_path / "b"]))
    assert one != other and one == fold_secret(homes_of([tmp_path / "a"])[0])
    assert (tmp_path / "a" / "folds").stat().st_mode & 0o077 == 0
    assert PINNED not in (tmp_path / "a" / "folds").read_text()
