"""`dualfl fit --model cox` and its kin, `predict`, `evaluate` and `km` on files; what they refuse is one sentence."""

from __future__ import annotations

import csv
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from benchmarks.oracles import FOLDER, Case, cases, compared, made
from click.testing import CliRunner
from numpy.testing import assert_allclose

from dualfl.analysis.models import Recipe
from dualfl.analysis.survival_curves import CurveWishes, curves_of_tables
from dualfl.analysis.whole_fit import Wishes, fit_tables
from dualfl.cli.commands import main
from dualfl.errors import NotSupported
from dualfl.estimators import CoxPH, survival_target
from dualfl.fits.curve_text import curve_text
from dualfl.fits.model_folder import read
from dualfl.silos import survival_sums, survival_tests
from dualfl.tables.encoding import features
from dualfl.tables.reading import Table, read_table
from dualfl.tables.schema import Request

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [EXAMPLES / "survival" / f"{name}.csv" for name in ("north", "river", "hill")]
FEATURES = ("age", "stage", "treatment")
COX = ("--model", "cox", "--time", "days", "--event", "died", "--columns", ",".join(FEATURES))


def dualfl(*words, code=0):
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="dualfl", catch_exceptions=False)
    assert done.exit_code == code, done.output
    if words[0] != "predict":  # a table for programs is as wide as its digits
        assert all(len(line) <= 80 or "/" in line for line in done.stdout.splitlines()), done.stdout
    return done


def test_the_files_are_those_of_the_script(tmp_path):
    runpy.run_path(str(EXAMPLES / "make_survival.py"))["main"](tmp_path)
    for path in (*FILES, EXAMPLES / "survival" / "new.csv"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.fixture(scope="module")
def pooled():
    """The estimator on the same rows."""
    fit = fit_tables(
        [read_table(path) for path in FILES],
        Recipe("cox", "none"),
        Wishes(Request("died", columns=FEATURES, roles={"time": "days"}), influence=False),
    )
    tables = [read_table(path) for path in FILES]
    X = np.concatenate([features(table, fit.schema) for table in tables])
    y = survival_target(*(np.concatenate([t.columns[name] for t in tables]).astype(float) for name in ("died", "days")))
    groups = np.repeat([path.name for path in FILES], [table.rows for table in tables])
    return fit, CoxPH(tol=1e-12).fit(X, y, groups=groups), X, y, groups


def test_cox_is_one_command(pooled, tmp_path):
    fit, model, X, y, groups = pooled
    assert_allclose(fit.theta.ravel(), model.coef_, rtol=1e-7)
    assert_allclose(fit.standard_errors.ravel() ** -2, 1 / np.diag(np.linalg.inv(model.information())), rtol=1e-7)
    assert fit.statistics.log_likelihood == pytest.approx(model.log_likelihood_, rel=1e-10)
    known = {test.name: test for test in model.proportionality()}
    checks = {one.name: one for one in fit.checks}
    assert list(checks) == [*FEATURES, "GLOBAL"] and checks["stage"].df == 2  # the levels of a column together
    assert checks["age"].statistic == pytest.approx(known["x0"].statistic, rel=1e-6)
    assert checks["GLOBAL"].statistic == pytest.approx(known["GLOBAL"].statistic, rel=1e-6)
    assert fit.evaluation.overall.concordance == pytest.approx(model.score(X, y, groups=groups))
    out = tmp_path / "m"
    said = " ".join(dualfl("fit", *FILES, *COX, "--out", out).stdout.split())
    assert "against no column chi-square 123.1 on 4 df" in said  # as R's summary says
    assert "246 events, ties by Efron" in said and "hazard ratio" in said and "E - E* <=" in said and "proven" in said
    record = json.loads((out / "fit.json").read_text())
    assert record["statistics"]["ratio"] == "hazard ratio" and len(record["statistics"]["covariance"]) == 4
    assert "proportional hazards" in (out / "report.html").read_text()
    new = EXAMPLES / "survival" / "new.csv"
    words = ("predict", out, new, "--at", "365,730", "--silo", FILES[0])
    rows = list(csv.DictReader(dualfl(*words).stdout.splitlines()))
    rows_new = features(read_table(new), fit.schema)
    curves = model.predict_survival_function(rows_new, silo="north.csv")
    assert_allclose([float(row["survival 365"]) for row in rows], [curve(365.0) for curve in curves], rtol=1e-6)
    hill = dualfl("predict", out, new, "--at", "365", "--silo", "hil", code=2).stderr
    assert "--silo" in hill and "hill.csv" in hill
    table = dualfl("evaluate", out, *FILES).stdout
    assert "concordance" in table and "0.7136" in table


def test_hazards_of_terms_of_a_formula_are_those_of_r(tmp_path):
    """cox.zph(coxph(Surv(days, died) ~ age + stage*treatment + strata(silo)), "identity") of survival 3.5."""
    pytest.importorskip("formulaic")
    words = (*COX[:6], "--formula", "died ~ age + stage*treatment", "--out", tmp_path / "m")
    said = dualfl("fit", *FILES, *words).stdout
    found = json.loads((tmp_path / "m" / "fit.json").read_text())["statistics"]["proportional hazards"]
    expected = {
        "age": (4.805623134, 1, 0.02836700619),
        "stage": (3.024829528, 2, 0.22037717600),
        "treatment": (2.059562743, 1, 0.15125356748),
        "stage:treatment": (7.341148875, 2, 0.02546183951),
        "GLOBAL": (15.964982514, 6, 0.01394315984),
    }
    assert [name for name, *_ in found] == list(expected)
    for name, *numbers in found:
        assert numbers == pytest.approx(expected[name], rel=1e-6)
    assert "stage=III:treatment=new" in said and "stage=II:treatment=new" in said  # whole, however long


def test_curves_and_tests_of_arms(tmp_path):
    tables = [read_table(path) for path in FILES]
    request = Request("died", columns=("treatment",), roles={"time": "days"})
    found = curves_of_tables(tables, CurveWishes(request, "treatment", until=1400.0, intervals=500, small=0))
    parts = []
    for table in tables:
        arm = (table.columns["treatment"] == "usual").astype(int)
        parts.append(survival_sums.log_rank_sums(table.columns["days"], table.columns["died"].astype(int), arm, 2))
    exact = survival_tests.log_rank(survival_sums.LogRankSums.of(parts))
    assert found.stratified.statistic == pytest.approx(exact.statistic) and found.arms == ("new", "usual")
    days, died, arms = (np.concatenate([t.columns[n] for t in tables]) for n in ("days", "died", "treatment"))
    for name, curve in zip(found.arms, found.curves):
        mine = arms == name
        grid = np.unique(days[mine])
        true = survival_tests.kaplan_meier(survival_sums.grid_counts(days[mine], died[mine].astype(int), grid), grid)
        at = np.searchsorted(true.times, curve.times, side="right") - 1
        assert np.abs(curve.survival - np.append(true.survival, 1.0)[at])[curve.at_risk > 20].max() < 0.02
    out, picture = tmp_path / "curves.csv", tmp_path / "km.png"
    words = ("km", *FILES, "--time", "days", "--event", "died", "--by", "treatment", "--out", out, "--plot", picture)
    said = dualfl(*words).stdout
    assert "stratified by silo, exact: chi-square 11.932" in said and "approximate" in said
    assert picture.read_bytes()[:4] == b"\x89PNG" and len(out.read_text().splitlines()) > 50


def test_curves_of_rows_that_enter_later():
    """Many enter and go within one cell of the coarse grid, and few are at risk at first: curves end where rows do,
    and are not 0 from the beginning on."""
    rng, tables = np.random.default_rng(7), []
    for n in (180, 120, 60):
        time = np.ceil(rng.exponential(300, n) / 5) * 5
        began = np.floor(0.6 * time * rng.random(n))
        columns = {"days": time, "died": rng.integers(0, 2, n).astype(float), "began": began}
        tables.append(Table(f"{n}.csv", columns))
    found = curves_of_tables(tables, CurveWishes(Request("died", roles={"time": "days", "entry": "began"})))
    (curve,) = found.curves
    days, died, began = (np.concatenate([t.columns[name] for t in tables]) for name in ("days", "died", "began"))
    assert 0.3 * days.max() < curve.times[-1] <= 2 * days.max()
    off = np.abs(curve.survival - product_limit(days, died, began, curve.times, found.begin))
    assert off.max() < 0.05


def product_limit(days, died, began, at, begin=0.0):
    """Of those who live at `begin`, with the exact times."""
    times = np.unique(days[(died == 1) & (days > begin)])
    steps = [1 - ((days == t) & (died == 1)).sum() / ((began < t) & (days >= t)).sum() for t in times]
    return np.append(1.0, np.cumprod(steps))[np.searchsorted(times, at, side="right")]


def test_an_offset_of_hazards_is_in_the_fit_in_predictions_and_in_the_concordance(pooled, tmp_path):
    """Files had an offset that did nothing, in silence."""
    _, _, X, y, groups = pooled
    rng, start = np.random.default_rng(3), 0
    offset, paths = rng.normal(size=len(y)), []
    for path in FILES:
        head, *lines = path.read_text().splitlines()
        own = offset[start : start + len(lines)]
        start += len(lines)
        paths.append(tmp_path / path.name)
        paths[-1].write_text("\n".join([f"{head},known", *(f"{line},{value}" for line, value in zip(lines, own))]))
    model = CoxPH(tol=1e-12).fit(X, y, groups=groups, offset=offset)
    out = tmp_path / "m"
    dualfl("fit", *paths, *COX, "--offset", "known", "--no-report", "--no-influence", "--out", out)
    rows = csv.DictReader((out / "coefficients.csv").read_text().splitlines())
    assert_allclose([float(row["coefficient"]) for row in rows], model.coef_, rtol=1e-6)
    said = dualfl("predict", out, paths[0], "--at", "365", "--silo", paths[0]).stdout
    first = X[: len(said.splitlines()) - 1]
    curves = model.predict_survival_function(first, silo="north.csv", offset=offset[: len(first)])
    found = [float(row["survival 365"]) for row in csv.DictReader(said.splitlines())]
    assert_allclose(found, [curve(365.0) for curve in curves], rtol=1e-6)
    concordance = model.score(X, y, groups, offset=offset)
    assert f"{concordance:.4f}"[1:] in dualfl("evaluate", out, *paths).stdout
    assert "known" in dualfl("predict", out, FILES[0], code=2).stderr


@pytest.mark.parametrize(
    "given",
    [("huber", "--errors", "robust"), ("lasso", "--errors", "silo"), ("svm", "--offset", "age"),
     ("multinomial", "--exposure", "age")],
    ids=str,
)  # fmt: skip
def test_what_a_model_has_no_use_for_is_refused(given):
    said = dualfl("fit", *FILES, "--target", "died", "--model", *given, code=2).stderr
    assert said.startswith(f"Error: {given[1]} {given[2]} is for ") and said.count("\n") == 1


def test_where_nobody_is_there_at_first_curves_begin_later():
    """Few are at risk at first, and one death among three would lower all that comes after by a third."""
    request, worst = Request("died", roles={"time": "days", "entry": "began"}), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        began = rng.uniform(0.5, 8, 200)
        days, died = began + rng.exponential(6, 200), rng.integers(0, 2, 200).astype(float)
        columns = {"days": days, "died": died, "began": began}
        tables = [Table(f"{j}.csv", {name: c[j::2] for name, c in columns.items()}) for j in range(2)]
        found = curves_of_tables(tables, CurveWishes(request, small=(0, 2, 5)[seed % 3]))
        (curve,) = found.curves
        assert 0.5 < found.begin < 8 and curve.times[0] > found.begin and curve.at_risk[0] >= 20
        assert f"begin        {found.begin:.6g}: rows enter late" in curve_text(found, 5)
        worst.append(np.abs(curve.survival - product_limit(days, died, began, curve.times, found.begin)).max())
    assert max(worst) < 0.12


def test_portions_lose_nobody_and_show_no_few():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(5, 300))
        time, event = rng.exponential(size=n) + 0.01, rng.integers(0, 2, n)
        counts = survival_sums.grid_counts(time, event, np.linspace(0.1, 9, 60))
        told = survival_sums.delayed(counts, 5)
        for cells, before in ((told.events, counts.events), (told.left, counts.left)):
            assert cells.sum() == before.sum()
            assert ((cells == 0) | (cells >= 5)).all() or before.sum() < 5
            assert (np.cumsum(cells) <= np.cumsum(before) + 4).all()  # nobody but the last few is told of early
        after = told.at_risk[1:, 0] - (told.at_risk[:-1] - told.events[:-1] - told.left[:-1])[:, 0]
        assert_allclose(after, 0.0, atol=1e-12)  # who has not gone is at risk


def test_portions_spread_over_time_leave_no_lag():
    """Curves of three silos that tell in portions of five: without spreading they are 0.04 too high on the mean."""
    rng, off = np.random.default_rng(0), []
    grid = 10.0 * np.arange(1, 101)
    for _ in range(20):
        died, left = np.ceil(rng.exponential(400, 200)), np.ceil(rng.uniform(0, 1200, 200))
        time, event = np.minimum(died, left), died <= left
        silo = rng.integers(0, 3, 200)
        parts = [survival_sums.grid_counts(time[silo == j], event[silo == j], grid) for j in range(3)]
        curves = []
        for told in (parts, [survival_sums.evened(one, 5) for one in parts]):
            counts = survival_sums.GridCounts.of(told)
            curves.append(survival_tests.kaplan_meier(counts, grid))
        assert_allclose(curves[1].events.sum(), curves[0].events.sum(), rtol=1e-12)
        assert (curves[1].at_risk >= -1e-9).all()
        off.append((curves[1].survival - curves[0].survival)[curves[0].at_risk >= 20].mean())
    assert abs(np.mean(off)) < 0.015


# -- against what R and statsmodels say ---------------------------------------------------------------------------

SAMPLE = [
    Case(made("cox"), "lung", "lung cut efron", "cut"),
    Case(made("cox"), "pbc", "pbc weighted", "silo"),
    Case(made("ordinal"), "housing", "ordinal housing", "tiny silo"),
    Case(made("gamma"), "trees", "gamma trees", "by outcome"),
    Case(made("cloglog"), "infert", "cloglog infert", "by outcome"),
    Case(made("negative-binomial"), "insects", "negative-binomial searched insects", "shuffled"),
    Case(made("poisson"), "ships", "poisson ships", "shuffled"),
]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: f"{case.name} {case.table}")
def test_the_numbers_of_other_software(case):
    assert case in cases()
    found = compared(case, json.loads((FOLDER / "oracles.json").read_text()))
    assert found.worst <= 1e-6 and found.exchanges <= 12 and found.certificate <= 1e-10


@pytest.mark.parametrize(
    ("given", "tol"),
    [
        (("--model", "poisson", "--penalty", "none"), 1e-12),
        (("--model", "poisson"), 1e-6),
        (("--model", "poisson", "--penalty", "none", "--tol", "1e-4"), 1e-4),
        (("--model", "poisson", "--penalty", "none", "--site-effect", "fixed"), 1e-6),
        (("--model", "linear", "--penalty", "none"), 1e-6),
        (("--model", "tweedie"), 1e-12),
    ],
    ids=str,
)
def test_without_a_penalty_coefficients_have_the_digits_of_other_software(tmp_path, given, tol):
    """At 1e-6 of the energy those of Poisson's model had four digits."""
    rng = np.random.default_rng(4)
    for silo in "ab":
        X = rng.normal(size=(40, 2))
        y = rng.poisson(np.exp(X[:, 0] + 1.0)) + 1
        lines = ["y,x1,x2", *(f"{n},{a},{b}" for n, (a, b) in zip(y, X))]
        (tmp_path / f"{silo}.csv").write_text("\n".join(lines))
    files = [tmp_path / f"{silo}.csv" for silo in "ab"]
    dualfl("fit", *files, "--target", "y", *given, "--no-report", "--no-influence", "--out", tmp_path / "m")
    assert json.loads((tmp_path / "m" / "fit.json").read_text())["settings"]["tol"] == tol
    if given == ("--model", "poisson", "--penalty", "none"):
        rows = np.concatenate([np.loadtxt(path, delimiter=",", skiprows=1) for path in files])
        w, A = np.zeros(3), np.column_stack([rows[:, 1:], np.ones(80)])
        w[2] = np.log(rows[:, 0].mean())
        for _ in range(20):
            m = np.exp(A @ w)
            w += np.linalg.solve(A.T @ (m[:, None] * A), A.T @ (rows[:, 0] - m))
        lines = csv.DictReader((tmp_path / "m" / "coefficients.csv").read_text().splitlines())
        assert_allclose([float(line["coefficient"]) for line in lines], w, rtol=1e-8)


def test_site_effects_are_columns_for_each_silo():
    """Fixed intercepts against a model with a column of ones for each silo, both unpenalised."""
    tables = [read_table(path) for path in FILES]
    wishes = Wishes(Request("died", columns=FEATURES), influence=False)
    own = fit_tables(tables, Recipe("logistic", "none", site_effect="fixed", tol=1e-12), wishes)
    marked = [Table(t.name, {**t.columns, "site": np.full(t.rows, f"s{j}")}) for j, t in enumerate(tables)]
    more = Wishes(Request("died", columns=(*FEATURES, "site")), influence=False)
    dummies = fit_tables(marked, Recipe("logistic", "none", tol=1e-12), more)
    assert own.names == own.schema.names  # no intercept
    assert_allclose(own.theta, dummies.theta[: len(own.names)], rtol=1e-6)
    assert_allclose(own.standard_errors, dummies.standard_errors[: len(own.names)], rtol=1e-6)
    assert own.statistics.log_likelihood == pytest.approx(dummies.statistics.log_likelihood, rel=1e-10)
    assert own.statistics.parameters == dummies.statistics.parameters
    for kind in ("robust", "silo"):
        found, other = (
            fit_tables(ts, Recipe("poisson", "none", site_effect=site, errors=kind, tol=1e-12), Wishes(
                Request("falls", True, columns=columns), influence=False))
            for ts, site, columns in ((tables, "fixed", FEATURES), (marked, "none", (*FEATURES, "site")))
        )  # fmt: skip
        if kind == "robust":  # by silo the scores of dummies are 0 by themselves
            assert_allclose(found.standard_errors, other.standard_errors[: len(found.names)], rtol=1e-6)
        assert found.errors.df == (np.inf if kind == "robust" else 2.0)


def test_a_model_that_scikit_learn_does_not_have_is_refused_by_the_name_that_was_given(tmp_path):
    dualfl("fit", *FILES, *COX, "--no-report", "--no-influence", "--out", tmp_path / "m")
    with pytest.raises(NotSupported, match="no estimator that predicts as --model cox"):
        read(tmp_path / "m").to_sklearn()


def test_a_model_whose_intercepts_stayed_at_silos_is_not_handed_over(tmp_path):
    words = ("--target", "died", "--model", "logistic", "--penalty", "none", "--columns", ",".join(FEATURES))
    dualfl("fit", *FILES, *words, "--site-effect", "fixed", "--no-report", "--no-influence", "--out", tmp_path / "m")
    with pytest.raises(NotSupported, match="an intercept of its own"):
        read(tmp_path / "m").to_sklearn()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--exposure", "days"), "--exposure days"),
        (("--offset", "age", "--exposure", "days"), "--offset age and --exposure days"),
    ],
)
def test_a_model_with_an_offset_is_not_handed_over_without_it(words, expected, tmp_path):
    model = ("--target", "falls", "--model", "poisson", "--columns", "treatment", *words)
    dualfl("fit", *FILES, *model, "--no-report", "--no-influence", "--out", tmp_path / "m")
    with pytest.raises(NotSupported, match=f"with {expected}, which estimators of scikit-learn do not take"):
        read(tmp_path / "m").to_sklearn()


def test_a_label_of_clusters_in_two_files_counts_twice_and_that_is_said(tmp_path):
    """The errors are those of different labels, and the warning names the file and the label that may be meant once."""
    rng = np.random.default_rng(7)
    rows = [(rng.normal(), family, rng.integers(2)) for family in np.repeat(np.arange(30), 4)]

    def fitted(second):
        for name, part, shift in (("a", rows[:60], 0), ("b", rows[60:], second)):
            lines = "".join(f"{x},f{family + shift},{y}\n" for x, family, y in part)
            (tmp_path / f"{name}.csv").write_text("x,family,y\n" + lines)
        files = (tmp_path / "a.csv", tmp_path / "b.csv")
        words = ("--target", "y", "--model", "logistic", "--penalty", "none", "--errors", "cluster:family")
        done = dualfl("fit", *files, *words, "--no-report", "--force", "--out", tmp_path / "m")
        said = " ".join((done.stdout + done.stderr).split())
        assert "30 clusters within silos, times 30/29" in said
        return said

    assert "in several files" not in fitted(0)
    assert "family: 12 labels such as 'f10' are in several files, and count as a cluster of their own" in fitted(-12)
    assert "family: 1 label such as 'f14' is in several files, and counts as a cluster of its own" in fitted(-1)


def test_site_effects_of_clog_log_models_are_columns_too_and_have_a_proof():
    """The silo's third derivatives are bounded row by row, as without a site effect."""
    tables = [read_table(path) for path in FILES]
    wishes = Wishes(Request("died", columns=FEATURES), influence=False)
    own = fit_tables(tables, Recipe("cloglog", "none", site_effect="fixed"), wishes)
    marked = [Table(t.name, {**t.columns, "site": np.full(t.rows, f"s{j}")}) for j, t in enumerate(tables)]
    more = Wishes(Request("died", columns=(*FEATURES, "site")), influence=False)
    dummies = fit_tables(marked, Recipe("cloglog", "none"), more)
    assert_allclose(own.theta, dummies.theta[: len(own.names)], rtol=1e-6)
    assert_allclose(own.standard_errors, dummies.standard_errors[: len(own.names)], rtol=1e-6)
    assert own.estimator.certificate_ <= 1e-6 * abs(own.estimator.objective_)


# -- what is refused ----------------------------------------------------------------------------------------------


def written(tmp_path, lines, head="x,days,died,w"):
    path = tmp_path / "a.csv"
    path.write_text(f"{head}\n" + "\n".join(lines) + "\n")
    return path


GOOD = [f"{i % 5},{i + 1},{i % 2},1" for i in range(20)]


@pytest.mark.parametrize(
    ("lines", "words", "sentence"),
    [
        (["1,-3,1,1", *GOOD], COX[:6], "-3 in column 'days', the time, row 1; it must be greater than 0"),
        (["1,0,1,1", *GOOD], COX[:6], "0 in column 'days', the time, row 1"),
        (["1,3,2,1", *GOOD], COX[:6], "'2' in column 'died', the event, which must be 1 (it happened) or 0 (censored)"),
        ([f"{i % 5},{i + 1},0,1" for i in range(9)], COX[:6], "all are censored and nothing can be said of hazards"),
        (
            ["1,3,1,-1", *GOOD],
            (*COX[:6], "--weights", "w"),
            "-1 in column 'w', the weights, row 1; it must be 0 or more",
        ),
        ([f"{line[:-1]}0" for line in GOOD], (*COX[:6], "--weights", "w"), "All weights are 0"),
        (GOOD, (*COX[:6], "--strata", "stratum"), "no column 'stratum', the strata"),
        (GOOD, (*COX[:6], "--entry", "days"), "Column 'days' has two roles, --time and --entry"),
        (GOOD, (*COX[:6], "--site-effect", "fixed"), "every silo has a baseline of its own already"),
        (GOOD, (*COX[:6], "--target", "died"), "--time and --event"),
        (GOOD, ("--model", "cox", "--time", "days"), "--event is missing"),
        (GOOD, ("--model", "linear", "--target", "days", "--time", "days"), "--time days is for --model cox"),
        (["1,3,1,-inf", *GOOD], ("--model", "poisson", "--target", "days", "--offset", "w"), "'w'"),
        (
            ["1,3,1,0", *GOOD],
            ("--model", "poisson", "--target", "days", "--exposure", "w"),
            "it must be greater than 0",
        ),
        ([f"{i},{i + 1},1,1" for i in range(9)], ("--model", "ordinal", "--target", "died"), "needs at least 2 levels"),
        (GOOD, ("--model", "tweedie", "--target", "days", "--power", "2.5"), "between 1 and 2"),
        (
            GOOD,
            ("--model", "gamma", "--target", "died"),
            "has 0 in column 'died', the target, and this model is for numbers > 0; correct the file, or take another "
            "model, such as --model tweedie",
        ),
        (GOOD, ("--model", "logistic", "--target", "died", "--class-weight", "2:1"), "--class-weight"),
        (GOOD, ("--model", "logistic", "--target", "died", "--errors", "nice"), "--errors must be model, robust"),
        (GOOD, (*COX[:6], "--columns", "x,days"), "--columns 'days' is used by the model, as --time; take other"),
        (GOOD, (*COX[:6], "--formula", "~ x + days"), "--formula 'days' is used by the model, as --time; take other"),
        (GOOD, ("--model", "linear", "--target", "died", "--columns", "died,x"), "--columns 'died' is the target;"),
        (
            GOOD,
            ("--model", "linear", "--target", "died", "--columns", "x,w", "--errors", "cluster:w"),
            "--columns 'w' is used by the model, as --errors cluster; take other columns only.",
        ),
        (
            GOOD,
            ("--model", "linear", "--formula", "zzz ~ x"),
            "has no column 'zzz', the target; there are days, died, w, x. Rename it in the file, or name another",
        ),
        (
            [f"{i % 5},{i + 1},{2 + i % 2},1" for i in range(40)],
            ("--model", "negative-binomial", "--target", "died", "--columns", "x"),
            "The dispersion has no estimate",
        ),
        (
            ["1,3,1,1", "2,5,1,1"],
            ("--model", "gamma", "--target", "days", "--columns", "x"),
            "as many coefficients as rows",
        ),
    ],
)
def test_bad_input_is_one_sentence(lines, words, sentence, tmp_path):
    path = written(tmp_path, lines)
    done = CliRunner().invoke(main, ["fit", str(path), *words, "--out", str(tmp_path / "m")], prog_name="dualfl")
    said = " ".join((done.stdout + done.stderr).split())
    assert sentence in said, said
    assert "Traceback" not in said
    if "as many coefficients" not in sentence:
        assert done.exit_code == 2 and not (tmp_path / "m").exists()


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_strata_of_single_rows_are_named_and_not_the_columns(rows, tmp_path):
    """Or strata whose rows are all the same; with two or more rows that differ there is a fit."""
    lines = [f"{i % 5},{i * i % 7 + 1},{i % 2},s{i // rows}" for i in range(40)]
    path = written(tmp_path, lines, "x,days,died,stratum")
    words = [path, *COX[:6], "--columns", "x", "--strata", "stratum", "--no-report", "--out", tmp_path / "m"]
    said = " ".join(dualfl("fit", *words, code=2 * (rows == 1)).stderr.split())
    told = "In every stratum of column 'stratum' there is one row, or all rows are the same, so no row can be compared"
    assert (told in said) == (rows == 1)


def test_columns_that_repeat_each_other_within_strata_are_told_with_the_strata(tmp_path):
    lines = [f"{i % 5},{i % 5 + i // 4},{i * i % 7 + 1},{i % 2},s{i // 4}" for i in range(40)]
    path = written(tmp_path, lines, "x,z,days,died,stratum")
    words = [path, *COX[:6], "--columns", "x,z", "--strata", "stratum", "--no-report", "--out", tmp_path / "m"]
    said = " ".join(dualfl("fit", *words, code=2).stderr.split())
    assert "have one value within every stratum of column 'stratum', or determine each other there" in said


def test_a_silo_without_events_works(tmp_path):
    lines = FILES[2].read_text().splitlines()
    place = lines[0].split(",").index("died")
    rows = [line.split(",") for line in lines[1:]]
    quiet = tmp_path / "quiet.csv"
    quiet.write_text("\n".join([lines[0], *(",".join([*r[:place], "0", *r[place + 1 :]]) for r in rows)]) + "\n")
    said = dualfl("fit", *FILES[:2], quiet, *COX, "--out", tmp_path / "m", "--no-report").stdout
    assert "200 events" in " ".join(said.split())
