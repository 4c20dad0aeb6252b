"""A fit by a formula: the pooled rows' likelihood, the same at silos far away, and new files from the folder alone."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from far import far_fit, far_silos, make_homes
from test_same_as_fit import hospitals

from dualfl.analysis.descriptions import WholeFit, from_json
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fitting
from dualfl.cli import main
from dualfl.errors import InputError
from dualfl.federation.fixed_point import BITS
from dualfl.fits.model_folder import read
from dualfl.silos import Chamber, SilosHere, drive
from dualfl.tables.encoding import features, targets
from dualfl.tables.formulas import parse_formula
from dualfl.tables.reading import missing, read_table
from dualfl.tables.schema import Request

pytest.importorskip("formulaic")

FORMULA = "readmitted ~ age + bs(blood_pressure, 5) + smoker:ward + poly(days, 2) + log1p(earlier_admissions)"
RECIPE = Recipe("logistic", "l2", 1e-4, tol=1e-10)


def wishes_of(text, **more):
    formula = parse_formula(text)
    request = Request(formula.target, columns=formula.columns)
    return Wishes(request, influence=False, terms=formula.terms, **more)


def here(paths, wishes, recipe=RECIPE):
    silos = SilosHere([Chamber(read_table(path), name=path.stem) for path in sorted(paths)])
    return drive(fitting(silos, recipe, wishes), silos)


def test_a_formula_gives_the_fit_of_the_pooled_columns(tmp_path):
    paths = hospitals(tmp_path)
    fit = here(
        paths, wishes_of("readmitted ~ age*smoker + ns(blood_pressure, 3)"), Recipe("logistic", "none", tol=1e-10)
    )
    tables = [read_table(path) for path in paths]
    kept = [table.kept(~missing(table.columns["readmitted"])) for table in tables]
    X = np.vstack([features(table, fit.schema) for table in kept])
    y = np.concatenate([targets(table, fit.schema) for table in kept])
    Z = np.column_stack([X, np.ones(len(X))])
    w = np.zeros(Z.shape[1])
    scale = Z.std(axis=0) + (Z.std(axis=0) == 0)
    for _ in range(30):
        p = 1 / (1 + np.exp(-(Z / scale) @ w))
        w = w + np.linalg.solve((Z / scale).T @ ((Z / scale) * (p * (1 - p))[:, None]), (Z / scale).T @ (y - p))
    assert np.allclose(fit.theta[:, 0], w / scale, rtol=1e-5, atol=1e-7)
    by_hand = np.column_stack([kept[0].columns["age"]])
    assert np.allclose(features(kept[0], fit.schema)[:, fit.schema.names.index("age")], by_hand[:, 0])
    knots = next(one.factors[0].state for one in fit.schema.terms if one.name.startswith("ns"))
    pressure = np.concatenate([table.columns["blood_pressure"] for table in kept])
    expected = np.nanquantile(pressure, [0.05, 1 / 3, 2 / 3, 0.95])
    assert np.abs(np.array(knots) - expected).max() < 0.2 * np.nanstd(pressure)


@pytest.mark.parametrize("secure", [None, BITS])
def test_files_and_silos_give_the_same_fit(tmp_path, secure):
    paths = hospitals(tmp_path)
    homes = make_homes(tmp_path / "silos", paths, "readmitted", secure, show_own_numbers=True)
    wishes = wishes_of(FORMULA)
    expected, found = here(paths, wishes), far_fit(far_silos(homes, secure), RECIPE, wishes)
    assert found.schema.names == expected.schema.names
    assert (np.abs(found.theta - expected.theta) <= 1e-6 * expected.standard_errors).all()
    if secure is None:
        assert found.theta.tobytes() == expected.theta.tobytes()


def test_the_description_travels_with_its_terms():
    wishes = wishes_of(FORMULA)
    content = json.loads(json.dumps(WholeFit(RECIPE, wishes).as_json()))
    assert from_json(content).wishes.terms == wishes.terms


def test_a_product_of_levels_that_few_rows_have_is_refused_by_the_silo(tmp_path):
    lines = ["a,b,c,x,y"]
    lines += [f"{'uv'[i % 2]},{'pq'[i // 2 % 2]},{'kl'[i // 4 % 2]},{i % 7},{i % 3 % 2}" for i in range(64)]
    lines += (
        ["u,p,m,1,0"] * 5
        + ["u,q,m,2,1"] * 4
        + ["v,p,m,3,0"] * 4
        + ["v,q,m,4,1"] * 4
        + ["v,r,m,4,1"] * 5
        + ["v,r,k,1,0"] * 5
    )
    paths = []
    for name in ("one", "two"):
        lone = ["u,r,k,1,1"] if name == "two" else ["u,r,k,1,1"] * 6
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join([*lines, *lone]) + "\n")
    homes = make_homes(tmp_path / "silos", paths, "y", BITS)
    for home in homes:
        content = json.loads((home / "silo.json").read_text())
        policy = {
            "approval": "none",
            "least_per_level": 5,
            "least_per_cell": 0,
            "least_rows": 0,
            "rows_per_coefficient": 0,
        }
        (home / "silo.json").write_text(json.dumps(content | {"policy": policy}))
    wishes = wishes_of("y ~ a:b:c")
    assert far_fit(far_silos(homes, BITS), RECIPE, wishes).rows
    for home in homes:
        content = json.loads((home / "silo.json").read_text())
        content["policy"]["least_per_cell"] = 3
        (home / "silo.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="too few rows of this silo"):
        far_fit(far_silos(homes, BITS, experiment="f"), RECIPE, wishes)


# -- as it is typed ------------------------------------------------------------------------------------------


def run(*given):
    return CliRunner().invoke(main, [*map(str, given)])


def fit(paths, out, *given):
    return run("fit", *paths, "--model", "logistic", "--no-report", "--no-influence", "--out", out, *given)


def test_new_files_are_predicted_from_the_folder_alone(tmp_path):
    paths = hospitals(tmp_path)
    done = fit(paths, tmp_path / "m", "--formula", FORMULA)
    assert done.exit_code == 0, done.output
    printed = run("predict", tmp_path / "m", paths[0]).output
    model = read(tmp_path / "m")
    table = read_table(paths[0])
    expected = model.estimator().predict_proba(features(table, model.schema))[:, 1]
    rows = [line.split(",") for line in printed.strip().splitlines() if line[:1].isdigit()]
    assert np.allclose([float(row[-1]) for row in rows], expected)
    tests = run("test", tmp_path / "m").output
    assert "bs(blood_pressure, 5)" in tests and "smoker:ward" in tests
    assert run("evaluate", tmp_path / "m", paths[0]).exit_code == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--formula", "readmitted ~ agee"], "There is no column 'agee'"),
        (["--formula", "readmitted ~ exp(age)"], "'exp' is not among the functions"),
        (["--formula", "readmitted ~ log(smoker)"], "log(smoker) is for numbers, and column 'smoker' has levels"),
        (["--formula", "readmitted ~ age", "--columns", "age"], "--columns has no use beside it"),
        (["--formula", "readmitted ~ age", "--drop", "ward"], "--drop has no use beside it"),
        (["--formula", "readmitted ~ age", "--target", "ward"], "about 'readmitted' and --target about 'ward'"),
        (["--formula", "~ age"], "--target is missing"),
        (["--formula", "readmitted ~ readmitted + age"], "'readmitted' is the target"),
        (["--formula", "readmitted ~ age", "--missing", "indicator"], "--missing indicator makes columns of its own"),
        (["--formula", "readmitted ~ log(earlier_admissions)"], "log(earlier_admissions) is for numbers > 0"),
        (["--formula", "readmitted ~ bs(earlier_admissions, 10)"], "knots that coincide"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, given, sentence):
    done = fit(hospitals(tmp_path), tmp_path / "m", *given)
    assert done.exit_code == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "m").exists()
