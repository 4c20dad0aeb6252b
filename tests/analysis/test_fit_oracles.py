"""Fits of files against the pooled table: pandas encodes it, SciPy minimises, NumPy inverts the information."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from scipy.stats import t

from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fit_tables
from dualfl.errors import InputError
from dualfl.tables.reading import Table, read_table
from dualfl.tables.schema import Request, Schema, Summary, agree, summarise

TIGHT = 1e-13


@pytest.fixture(scope="module")
def pooled():
    """Three silos that differ, with gaps, levels that only some have, and a target of every kind."""
    rng = np.random.default_rng(3)
    n = 240
    frame = pd.DataFrame({"silo": np.repeat([0, 1, 2], [150, 70, 20])})
    frame["age"] = rng.normal(60, 10, n) + 5 * frame.silo
    frame["dose"] = rng.gamma(2, 3, n)
    frame["smoker"] = rng.choice(["no", "ex", "yes"], n)
    frame.loc[frame.silo == 2, "smoker"] = "no"
    z = 0.05 * (frame.age - 60) - 0.1 * (frame.dose - 6) + 0.8 * (frame.smoker == "yes")
    frame["died"] = np.where(rng.random(n) < expit(z), "dead", "alive")
    frame["stage"] = np.array(["I", "II", "III"])[np.digitize(z + rng.normal(size=n), [-0.5, 0.8])]
    frame["cost"] = 3 + 2 * z + rng.normal(size=n)
    frame["visits"] = rng.poisson(np.exp(0.3 + 0.4 * z)).astype(float)
    frame.loc[rng.random(n) < 0.1, "dose"] = np.nan
    frame.loc[rng.random(n) < 0.1, "smoker"] = None
    frame.loc[[5, 200], ["died", "stage"]] = None
    frame.loc[[5, 200], ["cost", "visits"]] = np.nan
    return frame


def tables(frame, target):
    """The files of the silos; the second has its columns in another order."""
    made = []
    for silo, part in frame.groupby("silo"):
        names = ["age", "dose", "smoker", target]
        columns = {name: column(part[name]) for name in (names if silo != 1 else names[::-1])}
        made.append(Table(f"silo{silo}", columns))
    return made


def column(values):
    if values.dtype.kind == "f":
        return values.to_numpy()
    return np.array(["" if pd.isna(value) else str(value) for value in values])


def design(frame, target, full=False):
    """What the schema must come to, by pandas on the pooled table, with the intercept last."""
    kept = frame[frame[target].notna()]
    smoker = kept.smoker.fillna("(missing)")
    dummies = pd.get_dummies(smoker, prefix="smoker", prefix_sep="=").astype(float)
    if not full:
        dummies = dummies.drop(columns=f"smoker={smoker.value_counts().index[0]}")
    X = pd.concat([kept.age, kept.dose.fillna(kept.dose.mean()), dummies], axis=1)
    return X, kept[target]


def fit(frame, target, recipe, **wishes):
    request = Request(target, numeric_target=not recipe.kind.classes, missing=wishes.pop("missing", "fill"))
    return fit_tables(tables(frame, target), recipe, Wishes(request, **wishes))


def losses(name, y, quantities):
    """The mean loss of predictors Z (n x outputs), smooth ones only."""
    if name == "logistic":
        return lambda z: np.logaddexp(0, -np.where(y == quantities[1], 1, -1) * z[:, 0]).mean()
    if name == "multinomial":
        own = (np.asarray(y)[:, None] == np.array(quantities)).astype(float)
        return lambda z: (logsumexp(z, axis=1) - (own * z).sum(axis=1)).mean()
    if name == "poisson":
        return lambda z: (np.exp(z[:, 0]) - y * z[:, 0]).mean()
    return lambda z: ((z[:, 0] - y) ** 2).mean() / 2


def minimised(X, loss, ridge, outputs):
    """The minimiser for scaled columns, taken back to the columns as they are: features and intercept by outputs."""
    mean, spread = X.mean(axis=0), X.std(axis=0)
    S = np.column_stack([(X - mean) / spread, np.ones(len(X))])

    def energy(flat):
        theta = flat.reshape(-1, outputs)
        return loss(S @ theta) + ridge / 2 * (theta[:-1] ** 2).sum()

    best = np.zeros(S.shape[1] * outputs)
    for _ in range(3):  # BFGS on numerical gradients, restarted, reaches about 1e-7
        best = minimize(energy, best, method="BFGS", options={"gtol": 1e-9, "maxiter": 500}).x
    theta = best.reshape(-1, outputs)
    if outputs > 1:
        theta[-1] -= theta[-1].mean()
        if ridge == 0:
            theta -= theta.mean(axis=1, keepdims=True)
    w = theta[:-1] / spread[:, None]
    return np.vstack([w, theta[-1] - mean @ w])


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize(
    ("model", "target"), [("logistic", "died"), ("multinomial", "stage"), ("linear", "cost"), ("poisson", "visits")]
)
def test_the_coefficients_are_those_of_the_pooled_table(pooled, model, target, ridge):
    found = fit(pooled, target, Recipe(model, "l2" if ridge else "none", ridge or 1.0, tol=TIGHT), influence=False)
    X, y = design(pooled, target)
    order = list(X.columns)
    outputs = found.theta.shape[1]
    right = minimised(X.to_numpy(), losses(model, y.to_numpy(), found.schema.classes), ridge, outputs)
    assert sorted(found.schema.names) == sorted(order)
    places = [found.schema.names.index(name) for name in order] + [len(order)]
    np.testing.assert_allclose(found.theta[places], right, rtol=2e-5, atol=2e-6)


def information(model, S, theta):
    """The pooled Fisher information of (features, intercept) x outputs."""
    Z = S @ theta
    if model == "logistic":
        p = expit(Z[:, 0])
        return S.T @ (S * (p * (1 - p))[:, None])
    if model == "poisson":
        return S.T @ (S * np.exp(Z))
    if model == "linear":
        return S.T @ S
    P = softmax(Z, axis=1)
    return sum(np.kron(np.outer(s, s), np.diag(p) - np.outer(p, p)) for s, p in zip(S, P))


@pytest.mark.parametrize("ridge", [0.0, 0.05])
@pytest.mark.parametrize(
    ("model", "target"), [("logistic", "died"), ("multinomial", "stage"), ("linear", "cost"), ("poisson", "visits")]
)
def test_standard_errors_are_those_of_the_pooled_information(pooled, model, target, ridge):
    found = fit(pooled, target, Recipe(model, "l2" if ridge else "none", ridge or 1.0, tol=TIGHT), influence=False)
    X, y = design(pooled, target)
    X = X[list(found.schema.names)].to_numpy()
    n, k = len(X), found.theta.shape[1]
    S = np.column_stack([X, np.ones(n)])  # unscaled: the ridge becomes n ridge spread^2
    H = information(model, S, found.theta)
    A = H + n * ridge * np.kron(np.diag(np.append(X.std(axis=0) ** 2, 0)), np.eye(k))
    if k > 1:  # the covariance of what all classes share is zero: restrict to contrasts
        C = np.linalg.svd(np.ones((1, k)))[2][1:].T  # k x (k - 1), orthonormal, sums to zero
        B = np.kron(np.eye(S.shape[1]), C)
        H, A = B.T @ H @ B, B.T @ A @ B
        inverse = np.linalg.inv(A)
        covariance = B @ inverse @ H @ inverse @ B.T
    else:
        inverse = np.linalg.inv(A)
        covariance = inverse @ H @ inverse
    quantile = 1.959963984540054
    if model == "linear":
        free = n - np.trace(inverse @ H)
        covariance = covariance * ((y - (S @ found.theta)[:, 0]) ** 2).sum() / free
        quantile = t.ppf(0.975, free)
    np.testing.assert_allclose(found.standard_errors.ravel(), np.sqrt(np.diag(covariance)), rtol=1e-7)
    assert found.errors.quantile == pytest.approx(quantile, rel=1e-9)
    assert ("sandwich" in found.errors.form) == (ridge > 0)


def test_an_l1_penalty_takes_every_level_and_scikit_learn_agrees(pooled):
    from sklearn.linear_model import Lasso

    found = fit(pooled, "cost", Recipe("lasso", "l1", 0.05, tol=TIGHT), influence=False)
    X, y = design(pooled, "cost", full=True)
    X = X[list(found.schema.names)].to_numpy()
    right = Lasso(alpha=0.05, tol=1e-14, max_iter=100000).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    np.testing.assert_allclose(found.theta[:-1, 0], right.coef_ / X.std(axis=0), rtol=1e-6, atol=1e-9)
    assert found.errors is None and "l1" in found.no_errors
    assert 0 < (found.theta[:-1] == 0).sum() < len(found.theta) - 1


def test_without_standardisation_the_ridge_acts_on_the_columns_as_they_are(pooled):
    found = fit(pooled, "cost", Recipe("ridge", "l2", 0.5, tol=TIGHT), standardise=False, influence=False)
    X, y = design(pooled, "cost")
    X = X[list(found.schema.names)].to_numpy()
    S = np.column_stack([X, np.ones(len(X))])
    P = len(X) * 0.5 * np.diag([*np.ones(X.shape[1]), 0])
    np.testing.assert_allclose(found.theta[:, 0], np.linalg.solve(S.T @ S + P, S.T @ y), rtol=1e-8)


def test_gaps_can_be_marked_or_their_rows_dropped(pooled):
    recipe = Recipe("linear", "none", tol=TIGHT)
    marked = fit(pooled, "cost", recipe, missing="indicator", influence=False)
    X, y = design(pooled, "cost")
    X["dose is missing"] = pooled.dose[X.index].isna().astype(float)
    S = np.column_stack([X[list(marked.schema.names)], np.ones(len(X))])
    np.testing.assert_allclose(marked.theta[:, 0], np.linalg.lstsq(S, y, rcond=None)[0], rtol=1e-7, atol=1e-9)

    whole = pooled.dropna(subset=["age", "dose", "smoker", "cost"])
    dropped = fit(pooled, "cost", recipe, missing="drop", influence=False)
    assert dropped.rows == len(whole) and dropped.overview.without_target == 2
    X, y = design(whole, "cost")
    S = np.column_stack([X[list(dropped.schema.names)], np.ones(len(X))])
    np.testing.assert_allclose(dropped.theta[:, 0], np.linalg.lstsq(S, y, rcond=None)[0], rtol=1e-7, atol=1e-9)


def test_leaving_out_a_silo_is_a_fit_of_the_others(pooled):
    """With the scaling and the penalty of all rows, which least squares show in closed form."""
    found = fit(pooled, "cost", Recipe("ridge", "l2", 0.02, tol=TIGHT))
    X, y = design(pooled, "cost")
    X = X[list(found.schema.names)]
    for silo, without in enumerate(found.without):
        kept = (pooled.silo[X.index] != silo).to_numpy()
        S = np.column_stack([X[kept], np.ones(kept.sum())])
        P = kept.sum() * 0.02 * np.diag([*(X.std(axis=0, ddof=0) ** 2), 0])
        right = np.linalg.solve(S.T @ S + P, S.T @ y[kept])
        np.testing.assert_allclose(found.theta[:, 0] + found.moved(without)[:, 0], right, rtol=1e-7, atol=1e-9)


def test_a_class_that_one_silo_alone_has_is_no_obstacle_but_to_the_fit_without_it(pooled):
    frame = pooled.copy()
    frame.loc[(frame.silo != 0) & (frame.died == "dead"), "died"] = "alive"
    found = fit(frame, "died", Recipe("logistic"))
    assert [one.theta is None for one in found.without] == [True, False, False]
    assert "no other silo has one of the classes" in found.without[0].reason


def test_numbers_in_a_file_mean_what_they_mean_to_pandas(tmp_path):
    text = "a,b,c,d\n1,x,,2e3\nNA, y ,n/a,-1\n,null,NaN,\n"
    (tmp_path / "t.csv").write_text(text)
    columns = read_table(tmp_path / "t.csv").columns
    frame = pd.read_csv(tmp_path / "t.csv", skipinitialspace=True, na_values=["n/a"])
    for name in "acd":
        np.testing.assert_array_equal(columns[name], frame[name].to_numpy(dtype=float))
    assert columns["b"].tolist() == ["x", "y", ""]
    frame["e"] = [True, False, None]
    frame["f"] = pd.Categorical(["u", None, "v"])
    frame.to_parquet(tmp_path / "t.parquet")
    again = read_table(tmp_path / "t.parquet").columns
    np.testing.assert_array_equal(again["a"], columns["a"])
    assert again["e"].tolist() == ["true", "false", ""] and again["f"].tolist() == ["u", "", "v"]


def test_what_is_not_used_is_not_looked_at(tmp_path):
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=6), "x": [1.0, 2, 3, np.inf, 5, 6]})
    frame["z"], frame["y"] = [1.0, 3, 2, 5, 4, 4], [0.0, 1, 1, 2, 1, 2]
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet has entries of type timestamp.* in column 'when'.*--drop 'when'"):
        summarise(table, Request("y", True))
    with pytest.raises(InputError, match=r"t\.parquet has inf in column 'x', row 4.*--drop 'x'"):
        summarise(table, Request("y", True, drop=("when",)))
    assert summarise(table, Request("y", True, drop=("when", "x"))).rows == 6


def test_summaries_may_travel_and_hold_no_row(pooled):
    """A silo's answer as JSON, agreed upon far away, is the schema that one process finds."""
    request = Request("died")
    there = [summarise(table, request) for table in tables(pooled, "died")]
    here = [Summary.from_json(json.loads(json.dumps(one.as_json()))) for one in there]
    assert here == there
    schema = agree(here, request)
    assert Schema.from_json(json.loads(json.dumps(schema.as_json()))) == schema
    assert schema.classes == ("alive", "dead")
    dose = next(one for one in schema.features if one.name == "dose")
    assert dose.mean == pytest.approx(pooled.dose[pooled.died.notna()].mean(), rel=1e-12)
    assert all(len(one.columns["age"].levels) == 0 for one in here)  # numbers are said by their moments alone


def test_the_silos_may_be_of_one_row_and_of_a_thousand(pooled):
    """And the answer does not depend on who holds which row."""
    frame = pd.concat([pooled[pooled.silo == 0]] * 4, ignore_index=True)
    frame["silo"] = np.where(frame.index == 7, 1, 0)
    recipe = Recipe("logistic", "none", tol=TIGHT)
    apart = fit(frame, "died", recipe)
    together = fit(frame.assign(silo=0), "died", recipe)
    np.testing.assert_allclose(apart.theta, together.theta, rtol=1e-7)
    np.testing.assert_allclose(apart.standard_errors, together.standard_errors, rtol=1e-7)
    assert apart.rows == 4 * 149 and together.without == ()


def test_huber_turns_linear_where_the_account_says(pooled):
    """Its threshold is 1.35 root mean squares of the residuals of the linear fit, and its answer SciPy's."""
    found = fit(pooled, "cost", Recipe("huber", "l2", 0.01, tol=TIGHT), influence=False)
    X, y = design(pooled, "cost")
    X = X[list(found.schema.names)].to_numpy()
    scaled = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    P = len(X) * 0.01 * np.diag([*np.ones(X.shape[1]), 0])
    residuals = y - scaled @ np.linalg.solve(scaled.T @ scaled + P, scaled.T @ y)
    delta = 1.35 * np.sqrt((residuals**2).mean())
    assert found.recipe.delta == pytest.approx(delta, rel=1e-9)

    def energy(theta):
        r = np.abs(y - scaled @ theta)
        return np.where(r <= delta, r**2 / 2, delta * r - delta**2 / 2).mean() + 0.005 * (theta[:-1] ** 2).sum()

    best = minimize(energy, np.zeros(scaled.shape[1]), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(found.theta[:-1, 0], best[:-1] / X.std(axis=0), rtol=1e-4, atol=1e-6)


# -- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a", "a.dat"])
def test_text_of_which_the_name_says_nothing_is_csv(tmp_path, name):
    (tmp_path / name).write_text("x,y\n1,a\n2,b\n")
    assert read_table(tmp_path / name).columns["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.xlsx", b"PK\x03\x04 a zip", "a.xlsx is neither CSV nor Parquet; save the table as CSV"),
        ("a.libsvm", b"1 1:2\n", "a.libsvm is a LIBSVM file, whose columns have no names; save the table as CSV"),
        ("a.csv", b"1 1:2\n", "not look like CSV but like LIBSVM text: .*; save the table as CSV"),
        ("a", b"\xff\xfe\x00", "is not text"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=why):
        read_table(tmp_path / name)


def test_an_index_of_pandas_is_no_feature(tmp_path, pooled):
    pytest.importorskip("pyarrow")
    pooled.iloc[[3, 1, 8]].to_parquet(tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet").columns) == list(pooled)


# -- the account of exchanges --------------------------------------------------------------------------------


def spent(found):
    return {one.what: (one.exchanges, one.numbers) for one in found.spent if one.exchanges}


def test_every_exchange_is_counted(pooled):
    """3 silos; 3 columns of numbers and 2 of text, 5 features and the intercept."""
    found = fit(pooled, "cost", Recipe("linear", "none"))
    counts = spent(found)
    numeric = sum(one.kind == "numeric" for one in found.schema.features)
    assert counts.pop("columns and levels")[0] == 2  # names, and counts
    # up: two sums a column, two of the target, 5 numbers that every silo shows; down: the centre, twice the target's
    assert counts.pop("the scaling") == (1, 3 * (2 * numeric + 2 + 5 + numeric + 2))
    assert counts.pop("products of columns") == (1, 3 * 21)
    # up: sums of the evaluation and of losses, the information and the residuals; down: the model three times, and what
    # is asked of it: quantile and centre, and twice the three numbers of a cost
    evaluated = 7 + 1 + 21 + 1 + 3 * 6 + 2 + 2 * 3
    # eight sums of the likelihood, for the model and for one with an intercept only
    likelihood = 8 + 6 + 3 + 8 + 1 + 3
    assert counts.pop("errors and the table of silos") == (1, 3 * (evaluated + likelihood))
    exchanges, numbers = counts.pop("the fit")
    runs = [*found.estimator.results_]
    assert exchanges >= max(one.history[-1].exchanges for one in runs)
    assert numbers > sum(one.history[-1].floats_up + one.history[-1].floats_down for one in runs)
    assert counts.pop("the fits without a silo")[1] == 3 * 3 * 21 and not counts


def test_histograms_are_counted(pooled):
    counts = spent(fit(pooled, "died", Recipe("logistic"), standardise=False, influence=False))
    assert counts.keys() == {"the fit", "columns and levels", "the scaling", "errors and the table of silos"}
    assert counts["errors and the table of silos"][1] >= 3 * (4 + 2 * 1000 + 3 * 10 + 1 + 21)


def test_the_choices_before_the_fit_are_counted(pooled):
    counts = spent(fit(pooled, "cost", Recipe("huber"), influence=False))
    assert counts["huber's delta"][0] >= 2 and counts["huber's delta"][1] > 3 * 6
    assert "huber's delta" not in spent(fit(pooled, "cost", Recipe("huber", delta=1.0), influence=False))
    recipe = Recipe("linear", "l1", tol=1e-3)
    found = fit(pooled, "cost", recipe, influence=False, cross_validate=True, cv=2)
    exchanges, numbers = spent(found)["cross-validation"]
    assert found.path.losses.shape == (2, 20)
    assert exchanges <= 3  # least squares: the moments of every fold, once
    assert numbers > 2 * 3 * 21


def test_columns_as_they_are_keep_their_digits_far_from_zero():
    """A column of 1e6 that spreads by 1, whose squares have no digits left for the spread; the oracle is exact."""
    rng = np.random.default_rng(5)
    n, alpha = 90, 0.05
    X = np.column_stack([rng.normal(1e6, 1.0, n), rng.normal(-30.0, 1e-2, n)])
    y = X[:, 0] - 1e6 + 20 * X[:, 1] + rng.normal(size=n)
    parts = [Table(f"silo{j}", {"a": X[j::3, 0], "b": X[j::3, 1], "y": y[j::3]}) for j in range(3)]
    fit = fit_tables(parts, Recipe("linear", alpha=alpha), Wishes(Request("y", True), standardise=False))

    exact = [[Fraction(value) for value in line] for line in np.column_stack([X, y]).tolist()]
    means = [sum(column) / n for column in zip(*exact)]
    rows = [[value - mean for value, mean in zip(line, means)] for line in exact]
    G = [[sum(line[i] * line[j] for line in rows) / n for j in range(3)] for i in range(2)]
    (p, q, r), (_, s, u) = G
    p, s = p + Fraction(alpha), s + Fraction(alpha)
    w = [(r * s - q * u) / (p * s - q * q), (p * u - q * r) / (p * s - q * q)]
    b = means[2] - w[0] * means[0] - w[1] * means[1]
    off = np.abs(fit.theta[:, 0] - [float(one) for one in (*w, b)])
    assert (off <= 1e-11 * fit.standard_errors[:, 0]).all()
