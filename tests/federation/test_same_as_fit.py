"""A deployment gives the model of `dualfl fit` on the same files, with masks and without."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from far import far_run
from loopback import Loopback, run_over, sign_up
from needs import need

from dualfl.algorithms.registry import make
from dualfl.analysis.model_kinds import SMALL_RIDGE
from dualfl.analysis.models import Recipe
from dualfl.analysis.one_algorithm import AlgorithmOutcome
from dualfl.analysis.whole_fit import Wishes, fit_tables
from dualfl.deploy.project import ProjectSettings, plain
from dualfl.federation.fixed_point import BITS
from dualfl.federation.remote import Terms
from dualfl.tables.encoding import Scaling, features, scaling
from dualfl.tables.reading import read_table
from dualfl.tables.schema import Request, agree, summarise, used

HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"
SECURE = [None, pytest.param(BITS, id="masks")]


def hospitals(folder):
    paths = []
    for name in ("north", "river", "hill"):
        paths.append(folder / f"{name}.csv")
        paths[-1].write_bytes((HOSPITALS / f"{name}.csv").read_bytes())
    return paths


def with_gaps(folder):
    """Three classes of which one silo lacks one; numbers and texts with gaps; a column that is the same everywhere but
    for gaps, and one that is large against its spread."""
    rng, paths = np.random.default_rng(7), []
    for name, n, classes in (("one", 70, "ABC"), ("two", 41, "AB"), ("three", 55, "ABC")):
        rows = []
        for _ in range(n):
            label = rng.choice(list(classes))
            code = rng.choice(["", "7", "08", "10"], p=[0.1, 0.2, 0.3, 0.4])
            number = "" if rng.random() < 0.2 else repr(float(rng.normal(1e6 + "ABC".index(label), 1.0)))
            small = "NA" if rng.random() < 0.1 else repr(float(rng.normal("ABC".index(label), 2.0) * 1e-7))
            rows.append([number, rng.choice(["x", "y", "z", "n/a"]), code, small, rng.choice(["3", ""]), "same", label])
        rows[0][-1] = "null"  # a row without a target
        paths.append(folder / f"{name}.csv")
        with open(paths[-1], "w", newline="") as file:
            csv.writer(file).writerows([["large", "text", "code", "small", "three", "constant", "class"], *rows])
    return paths


def regression(folder):
    rng, paths = np.random.default_rng(8), []
    for name, n in (("p", 30), ("q", 45), ("r", 25)):
        X, g = rng.normal(size=(n, 2)) * [1, 1e3], rng.choice(["u", "v", "w"], n)
        y = X @ [2.0, -1e-3] + 3 * (g == "v") + rng.normal(size=n) + 100
        paths.append(folder / f"{name}.csv")
        lines = [f"{a!r},{b!r},{c},{t!r}" for (a, b), c, t in zip(X.tolist(), g, y.tolist())]
        paths[-1].write_text("a,b,g,y\n" + "\n".join(lines) + "\n")
    return paths


CASES = {
    "hospitals": (hospitals, "readmitted", "logistic", {}),
    "gaps": (with_gaps, "class", "multinomial", {"categorical": ("code",)}),
    "regression": (regression, "y", "linear", {}),
    "elastic net": (regression, "y", "elastic-net", {"l1": 0.05}),
}


def fitted(paths, target, model, categorical=(), l1=0.0):
    request = Request(target, model in ("linear", "elastic-net"), categorical=categorical)
    penalty = {"penalty": "elastic-net", "alpha": l1 + SMALL_RIDGE, "l1_ratio": l1 / (l1 + SMALL_RIDGE)} if l1 else {}
    recipe = Recipe(model, **penalty, tol=1e-12)
    return fit_tables([read_table(path) for path in paths], recipe, Wishes(request, influence=False))


def deployed(folder, paths, target, secure, categorical=(), **settings):
    homes = []
    for path in paths:
        home = folder / path.stem
        home.mkdir()
        silo = {"name": home.name, "data": str(path), "target": target, "identity": home.name, "minimum": 2}
        (home / "silo.json").write_text(json.dumps(silo | {"categorical": list(categorical)}))
        homes.append(home)
    if secure:
        need("cryptography", "flower")
        sign_up(homes)
    given = ProjectSettings(host="h", silos=tuple(sorted(home.name for home in homes)), **settings)
    if secure:
        return far_run(homes, make("auto", proof=True), rounds=60, tol=1e-10, problem=plain(given))
    terms = Terms("e", given.silos, make("auto", proof=True), plain(given))
    result, engine = run_over(Loopback(homes), terms, None, rounds=60, tol=1e-10)
    setup = engine.setup
    return AlgorithmOutcome(result, None, setup.schema, Scaling(setup.center, setup.spread), 0)


@pytest.mark.parametrize("secure", SECURE)
@pytest.mark.parametrize("case", CASES)
def test_a_deployment_has_the_coefficients_of_a_fit(case, secure, tmp_path):
    files, target, model, settings = CASES[case]
    paths = files(tmp_path)
    fit = fitted(paths, target, model, **settings)
    (tmp_path / "silos").mkdir()
    outcome = deployed(tmp_path / "silos", paths, target, secure, **settings)
    result, schema, scaling = outcome.result, outcome.schema, outcome.scaling
    assert sorted(schema.names) == sorted(fit.schema.names)  # a deployment has columns in the order of the alphabet
    assert schema.classes == fit.schema.classes
    assert sorted(schema.constant) == sorted(fit.schema.constant)
    references = {one.name: one.reference for one in schema.features}
    assert references == {one.name: one.reference for one in fit.schema.features}
    theta = scaling.back @ result.model.reshape(len(schema.names) + 1, -1)
    if theta.shape[1] > 1:  # the same number added to all intercepts changes nothing
        theta[-1] -= theta[-1].mean()
        fit.theta[-1] -= fit.theta[-1].mean()
    names = (*schema.names, "(intercept)")
    errors = 1.0 if fit.standard_errors is None else fit.standard_errors[-1]
    for i, name in enumerate((*fit.schema.names, "(intercept)")):
        here = np.abs(fit.theta[i]).max() if name != "(intercept)" else errors
        np.testing.assert_allclose(
            theta[names.index(name)], fit.theta[i], rtol=0, atol=1e-5 * np.max(here), err_msg=name
        )


@pytest.mark.parametrize("secure", SECURE)
@pytest.mark.parametrize("case", ["hospitals", "gaps", "regression"])
def test_means_and_spreads_agree_to_rounding(case, secure, tmp_path):
    files, target, _, settings = CASES[case]
    paths = files(tmp_path)
    request = Request(target, case == "regression", categorical=settings.get("categorical", ()))
    tables = [read_table(path) for path in paths]
    schema = agree([summarise(table, request) for table in tables], request)
    found = scaling([features(used(table, request)[0], schema) for table in tables], True)
    (tmp_path / "silos").mkdir()
    outcome = deployed(tmp_path / "silos", paths, target, secure, **settings)
    places = [outcome.schema.names.index(name) for name in schema.names]
    np.testing.assert_allclose(outcome.scaling.spread[places], found.spread, rtol=1e-12)
    off = np.abs(outcome.scaling.mean[places] - found.mean)
    assert (off <= 1e-12 * found.spread + 4e-16 * np.abs(found.mean)).all()


def test_the_default_penalty_is_that_of_a_fit():
    assert ProjectSettings(host="h", silos=()).ridge == SMALL_RIDGE == Recipe("logistic").alpha


@pytest.mark.parametrize("secure", SECURE)
def test_hello_tells_names_and_no_count(secure, tmp_path):
    paths = with_gaps(tmp_path)
    seen = []
    (tmp_path / "silos").mkdir()

    def spy(transport, node, request, answer):
        from dualfl.federation.wire import decode

        seen.append((decode(request)["kind"], decode(answer)))

    homes = [tmp_path / "silos" / path.stem for path in paths]
    deployed(tmp_path / "silos", paths, "class", secure)
    terms = Terms("f", tuple(sorted(home.name for home in homes)), make("auto"), plain(ProjectSettings("h", ())))
    run_over(Loopback(homes, spy), terms, None, rounds=0)
    hello = next(answer for kind, answer in seen if kind == "hello")
    assert set(hello) - {"silo", "identity", "tag", "offer", "d"} == {
        "columns",
        "empty",
        "width",
        "sparse",
        "task",
        "classes",
    }
    assert hello["columns"] == {
        "code": None,
        "constant": ("same",),
        "large": None,
        "small": None,
        "text": ("x", "y", "z"),
        "three": None,
    }
