"""`dualfl test` against a Newton iteration and matrices written out here."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import chi2

from dualfl.cli import main
from dualfl.fits.kept import kept
from dualfl.fits.testing_models import likelihood_ratio, wald
from dualfl.tables.encoding import features, targets
from dualfl.tables.reading import missing, read_table

HOSPITALS = [f"examples/hospitals/{name}.csv" for name in ("north", "river", "hill")]
FITS = {
    "small": ["--columns", "age,smoker"],
    "large": [],
    "ridge": ["--penalty", "l2"],
    "other rows": ["--missing", "drop"],
    "lasso": ["--penalty", "l1", "--alpha", "0.02"],
}


def run(*given):
    return CliRunner().invoke(main, [*map(str, given)])


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("fits"), {}
    for name, given in FITS.items():
        penalty = [] if "--penalty" in given else ["--penalty", "none"]
        words = ["fit", *HOSPITALS, "--target", "readmitted", "--model", "logistic", "--no-report", "--no-influence"]
        made[name] = folder / name
        assert run(*words, *penalty, *given, "--tol", "1e-10", "--out", made[name]).exit_code == 0
    words = ["fit", *HOSPITALS, "--target", "ward", "--model", "multinomial", "--penalty", "none", "--no-report"]
    made["classes"] = folder / "classes"
    columns = ["--columns", "age,days", "--no-influence", "--tol", "1e-10"]
    assert run(*words, *columns, "--out", made["classes"]).exit_code == 0
    return made


def newton(schema):
    """The likelihood and the covariance of the pooled rows, with nothing of the fit but its columns."""
    blocks = []
    for path in HOSPITALS:
        table = read_table(Path(path))
        there = table.kept(~missing(table.columns[schema.target]))
        blocks.append((features(there, schema), targets(there, schema)))
    X = np.vstack([np.column_stack([X, np.ones(len(X))]) for X, _ in blocks])
    y = np.concatenate([y for _, y in blocks])
    w = np.zeros(X.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ w))
        H = X.T @ (X * (p * (1 - p))[:, None])
        w = w + np.linalg.solve(H, X.T @ (y - p))
    p = 1 / (1 + np.exp(-X @ w))
    return float(np.log(np.where(y == 1, p, 1 - p)).sum()), w, np.linalg.inv(H)


def test_a_likelihood_ratio_is_that_of_the_pooled_rows(fits):
    small, large = kept(fits["small"]), kept(fits["large"])
    (l0, *_), (l1, *_) = newton(small.model.schema), newton(large.model.schema)
    result = likelihood_ratio(small, large)
    assert result.statistic == pytest.approx(2 * (l1 - l0), rel=1e-6)
    assert result.df == 5 and result.p == pytest.approx(chi2.sf(2 * (l1 - l0), 5), rel=1e-5)
    done = run("test", fits["small"], fits["large"])
    assert f"chi-square {result.statistic:.6g} on 5 df" in done.output and "ward=surgery" in done.output


def test_joint_wald_tests_are_those_of_the_pooled_rows(fits):
    large = kept(fits["large"])
    _, w, V = newton(large.model.schema)
    names = large.model.schema.names
    which = [i for i, name in enumerate(names) if name.startswith(("smoker=", "ward="))]
    expected = w[which] @ np.linalg.solve(V[np.ix_(which, which)], w[which])
    assert wald(large, [names[i] for i in which]).statistic == pytest.approx(expected, rel=1e-5)
    done = run("test", fits["large"], "--terms", "smoker,ward", "--together")
    assert re.search(rf"smoker, ward +{expected:.4g} +5", done.output), done.output
    one = run("test", fits["large"]).output
    assert re.search(r"smoker +[\d.]+ +3 ", one) and re.search(r"age +[\d.]+ +1 ", one)


def test_of_several_classes_a_term_is_tested_for_all_of_them(fits):
    found = kept(fits["classes"])
    result = wald(found, ["age"])
    assert result.df == 2
    # The same from the other classes: which class is the first must not matter.
    lines = {(one.feature, one.label): i for i, one in enumerate(found.lines)}
    a, b, c = (lines["age", label] for label in ("general", "heart", "surgery"))
    C = np.zeros((2, len(found.lines)))
    C[0, [a, c]], C[1, [b, c]] = (1, -1), (1, -1)
    d = C @ found.estimates
    assert result.statistic == pytest.approx(d @ np.linalg.solve(C @ found.covariance @ C.T, d), rel=1e-8)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["large", "small"], "name the smaller model first"),
        (["ridge", "large"], "has the penalty l2"),
        (["large", "large"], "have the same columns"),
        (["small", "other rows"], "the number of rows is 456"),
        (["small", "classes"], "the target is readmitted"),
        (["small", "large", "ridge"], "3 were given"),
        (["small", "large", "--terms", "age"], "--terms and --together are for one model"),
        (["large", "--terms", "smokr"], "There is no term 'smokr'"),
        (["lasso"], "keeps no covariance of its coefficients: an l1 penalty"),
        (["nowhere"], "does not exist"),
    ],
)
def test_what_cannot_be_tested_is_one_sentence(fits, given, sentence):
    done = run("test", *(fits.get(word, word) for word in given))
    assert done.exit_code == 2 and sentence in done.stderr and "Traceback" not in done.stderr
