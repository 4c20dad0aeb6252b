"""Cox models over silos against R's survival: coefficients, errors, tests and curves of a stratified analysis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualfl.errors import InputError
from dualfl.estimators import CoxPH, survival_target
from dualfl.estimators.standard_errors import robust_errors
from dualfl.silos import survival_sums as sums
from dualfl.silos import survival_tests as tests_of
from oracle_tables import Table, oracles

TABLES = ["lung", "veteran", "pbc"]
CLOSE = 1e-6


def loaded(name: str) -> Table:
    return Table(name, "event", "silo", "cut", "weight")


def fitted(t: Table, split: str, **options: Any) -> CoxPH:
    return CoxPH(tol=1e-15, **options).fit(t.X, survival_target(t["event"], t.y), groups=t[split].astype(int))


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("split", ["silo", "cut"])
@pytest.mark.parametrize("name", TABLES)
def test_a_stratified_fit(name, split, ties):
    t, r = loaded(name), oracles()[f"{name} {split} {ties}"]
    model = fitted(t, split, ties=ties)
    assert_allclose(model.coef_, r["coef"], rtol=CLOSE)
    assert_allclose(np.sqrt(np.diag(np.linalg.inv(model.information()))), r["se"], rtol=CLOSE)
    assert model.log_likelihood_ == pytest.approx(r["loglik"][1], rel=1e-10)
    null = -sum(f.mass * f.data_value(np.zeros(f.d)) for f in model.costs_.values())
    assert null == pytest.approx(r["loglik"][0], rel=1e-10)
    for transform, key in (("identity", "zph"), ("log", "zph_log")):
        found = model.proportionality(transform)
        assert_allclose([test.statistic for test in found], r[key], rtol=1e-5)
        assert found[-1].name == "GLOBAL" and found[-1].df == len(model.coef_)
    cov = np.linalg.inv(model.information())
    B = sum(sums.meat(sums.score_residuals(f, model.coef_)) for f in model.costs_.values())
    assert_allclose(np.sqrt(np.diag(cov @ B @ cov)), r["robust"], rtol=CLOSE)
    y = survival_target(t["event"], t.y)
    counts = r["concordance"].reshape(5, -1) if r["concordance"].size > 5 else r["concordance"][:, None]
    con, dis, tied = counts[:3].sum(axis=1)
    assert model.score(t.X, y, groups=t[split].astype(int)) == pytest.approx((con + tied / 2) / (con + dis + tied))
    last = [base[0].y[-1] for base in model.baselines_.values()]
    assert_allclose(last, r["last_hazard"], rtol=CLOSE)
    assert model.certificate_ is not None and model.certificate_ <= 1e-9 * model.objective_
    assert model.n_exchanges_ <= 14


@pytest.mark.parametrize("name", TABLES)
def test_weights(name):
    t, r = loaded(name), oracles()[f"{name} weighted"]
    y = survival_target(t["event"], t.y)
    model = CoxPH(tol=1e-15).fit(t.X, y, groups=t["silo"].astype(int), sample_weight=t["weight"])
    assert_allclose(model.coef_, r["coef"], rtol=CLOSE)
    cov = np.linalg.inv(model.information())
    assert_allclose(np.sqrt(np.diag(cov)), r["naive"], rtol=CLOSE)
    B = sum(sums.meat(sums.score_residuals(f, model.coef_)) for f in model.costs_.values())
    assert_allclose(np.sqrt(np.diag(cov @ B @ cov)), r["robust"], rtol=CLOSE)
    assert model.log_likelihood_ == pytest.approx(r["loglik"][1], rel=1e-10)


@pytest.mark.parametrize("name", TABLES)
def test_an_offset(name):
    """Beside weights."""
    t, r = loaded(name), oracles()[f"{name} offset"]
    y, silo = survival_target(t["event"], t.y), t["silo"].astype(int)
    model = CoxPH(tol=1e-15).fit(t.X, y, groups=silo, sample_weight=t["weight"], offset=r["offset"])
    assert_allclose(model.coef_, r["coef"], rtol=CLOSE)
    cov = np.linalg.inv(model.information())
    assert_allclose(np.sqrt(np.diag(cov)), r["naive"], rtol=CLOSE)
    B = sum(sums.meat(sums.score_residuals(f, model.coef_)) for f in model.costs_.values())
    assert_allclose(np.sqrt(np.diag(cov @ B @ cov)), r["robust"], rtol=CLOSE)
    null = -sum(f.mass * f.data_value(np.zeros(f.d)) for f in model.costs_.values())
    assert_allclose([null, model.log_likelihood_], r["loglik"], rtol=1e-10)
    assert_allclose(model.predict(t.X, r["offset"]) - model.predict(t.X), r["offset"])
    (hazard,) = model.predict_cumulative_hazard_function(t.X[:1], silo="0", offset=[np.log(2)])
    (half,) = model.predict_cumulative_hazard_function(t.X[:1], silo="0")
    assert_allclose(hazard.y, 2 * half.y)


def test_a_column_in_the_place_of_an_offset():
    """What the column has added, an offset adds as well; baselines are those of rows whose offset is 0."""
    t = loaded("lung")
    y, groups = survival_target(t["event"], t.y), t["silo"].astype(int)
    whole = CoxPH(tol=1e-15).fit(t.X, y, groups=groups)
    offset = whole.coef_[0] * t.X[:, 0]
    less = CoxPH(tol=1e-15).fit(t.X[:, 1:], y, groups=groups, offset=offset)
    assert_allclose(less.coef_, whole.coef_[1:], rtol=1e-9)
    assert less.score(t.X[:, 1:], y, groups, offset=offset) == whole.score(t.X, y, groups)
    for silo in whole.baselines_:
        assert_allclose(less.baselines_[silo][0].y, whole.baselines_[silo][0].y, rtol=1e-9)
    found, known = less.proportionality(), whole.proportionality()
    assert found[0].df == 1 and len(found) == len(known) - 1


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_an_offset_beside_late_entries_weights_and_strata(ties):
    t, more, r = (
        Table("heart", "entry", "event", "silo"), oracles()[f"heart {ties} robust"], oracles()[f"heart {ties} offset"],
    )  # fmt: skip
    year, rows = t.X[:, t.names.index("year")], [t["silo"] == j for j in range(3)]
    model = CoxPH(ties=ties, tol=1e-15).fit(
        t.X, survival_target(t["event"], t.y), groups=t["silo"].astype(int), sample_weight=more["weight"],
        entry=t["entry"], strata=year > 3, offset=r["offset"],
    )  # fmt: skip
    assert_allclose(model.coef_, r["coef"], rtol=CLOSE)
    assert model.log_likelihood_ == pytest.approx(r["loglik"][1], rel=1e-10)
    B = sum(sums.meat(sums.score_residuals(model.costs_[str(j)], model.coef_), more["id"][rows[j]]) for j in range(3))
    found = robust_errors(model.information(), B, len(np.unique(more["id"])), "row", 0.0, len(year), 0, 0.95)
    assert_allclose(found.standard, r["clustered"], rtol=CLOSE)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_left_truncation(ties):
    t, r = Table("heart", "entry", "event", "silo"), oracles()[f"heart {ties}"]
    model = CoxPH(ties=ties, tol=1e-15).fit(
        t.X, survival_target(t["event"], t.y), groups=t["silo"].astype(int), entry=t["entry"]
    )
    assert_allclose(model.coef_, r["coef"], rtol=CLOSE)
    assert_allclose(np.sqrt(np.diag(np.linalg.inv(model.information()))), r["se"], rtol=CLOSE)
    assert model.log_likelihood_ == pytest.approx(r["loglik"][1], rel=1e-10)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_robust_errors_of_late_entries_weights_and_strata(ties):
    """By row, and by patient: some came again after a transplant. R has no factor J/(J - 1)."""
    t, r = Table("heart", "entry", "event", "silo"), oracles()[f"heart {ties} robust"]
    year, rows = t.X[:, t.names.index("year")], [t["silo"] == j for j in range(3)]
    y, strata = survival_target(t["event"], t.y), year > 3
    model = CoxPH(ties=ties, tol=1e-15).fit(
        t.X, y, groups=t["silo"].astype(int), sample_weight=r["weight"], entry=t["entry"], strata=strata
    )
    assert_allclose(model.coef_, r["coef"], rtol=CLOSE)
    H = model.information()
    assert_allclose(np.sqrt(np.diag(np.linalg.inv(H))), r["naive"], rtol=CLOSE)
    for by, key in ((np.arange(len(year)), "robust"), (r["id"], "clustered")):
        B = sum(sums.meat(sums.score_residuals(model.costs_[str(j)], model.coef_), by[rows[j]]) for j in range(3))
        found = robust_errors(H, B, len(np.unique(by)), "row", 0.0, len(year), 0, 0.95)
        assert_allclose(found.standard, r[key], rtol=CLOSE)


@pytest.mark.parametrize("name", TABLES)
def test_log_rank_and_curves(name):
    t, r = loaded(name), oracles()[f"{name} arms"]
    arm = r["arm"].astype(int)
    parts = [
        sums.log_rank_sums(t.y[part], t["event"][part], arm[part], 2) for part in (t["silo"] == j for j in range(3))
    ]
    test = tests_of.log_rank(sums.LogRankSums.of(parts))
    assert test.statistic == pytest.approx(r["stratified"][0], rel=1e-10) and test.df == 1
    grid = np.unique(t.y)
    counts: Any = sums.GridCounts.of(
        [
            sums.grid_counts(t.y[part], t["event"][part], grid, arm[part], 2)
            for part in (t["silo"] == j for j in range(3))
        ]
    )
    assert tests_of.log_rank_on_grid(counts).statistic == pytest.approx(r["pooled"][0], rel=1e-10)
    both = sums.GridCounts(*(part.sum(axis=1, keepdims=True) for part in vars(counts).values()))
    curve = tests_of.kaplan_meier(both, grid)
    assert_allclose(curve.times, r["times"])
    assert_allclose(curve.survival, r["survival"], rtol=1e-10, atol=1e-15)
    known = np.isfinite(r["lower"])
    for key in ("error", "lower", "upper"):
        assert_allclose(getattr(curve, key)[known], r[key][known], rtol=1e-8, atol=1e-12)
    assert curve.median() == r["median"][0]
    # joined cells: no small ones are left, nothing is lost, and the curve stays near
    few, ends = sums.joined(counts, grid, 5)
    for cells in (few.events, few.left):
        assert ((cells == 0) | (cells >= 5)).all() or len(ends) == 1  # veteran: four of an arm leave in all
    assert len(ends) > 3 or name == "veteran"
    assert few.events.sum() == counts.events.sum() and ends[-1] == grid[-1]
    rough = tests_of.kaplan_meier(
        sums.GridCounts(*(part.sum(axis=1, keepdims=True) for part in vars(few).values())), ends
    )
    exact = curve.survival[np.searchsorted(grid, ends)]
    assert np.abs(rough.survival - exact).max() < 0.15


def test_predictions_are_those_of_the_silo():
    t = loaded("lung")
    model = fitted(t, "silo")
    curves = model.predict_survival_function(t.X[:2], silo="1")
    hazard = model.predict_cumulative_hazard_function(t.X[:2], silo="1")
    at = np.array([0.0, 100.0, 500.0])
    for curve, h, eta in zip(curves, hazard, model.predict(t.X[:2])):
        assert_allclose(curve(at), np.exp(-h(at)))
        assert_allclose(h(at), model.baselines_["1"][0](at) * np.exp(eta))
        assert curve(0.0) == 1.0
    with pytest.raises(InputError, match="Every silo has its own baseline; name one of 0, 1, 2"):
        model.predict_survival_function(t.X[:2])
    with pytest.raises(InputError, match="no silo 'x'"):
        model.predict_survival_function(t.X[:2], silo="x")


def test_pairs_are_counted_as_a_double_loop_counts_them(monkeypatch):
    monkeypatch.setattr(sums, "BLOCK", 7)
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(1, 40))
        time, risk = rng.integers(1, 9, n).astype(float), rng.integers(0, 6, n).astype(float)
        event = rng.random(n) < 0.6
        con = dis = tied = 0
        for i in np.flatnonzero(event):
            for j in range(n):
                if time[j] > time[i] or (time[j] == time[i] and not event[j]):
                    con += risk[i] > risk[j]
                    dis += risk[i] < risk[j]
                    tied += risk[i] == risk[j]
        assert sums.pair_counts(time, event, risk) == sums.PairCounts(con, dis, tied)


def test_a_ridge_and_an_l1_penalty_are_certified():
    t = loaded("pbc")
    X, y = (t.X - t.X.mean(axis=0)) / t.X.std(axis=0), survival_target(t["event"], t.y)
    for options in ({"alpha": 5.0}, {"alpha": 5.0, "l1_ratio": 0.5}):
        model = CoxPH(tol=1e-8, **options).fit(X, y, groups=t["cut"].astype(int))
        assert model.certificate_ <= 1e-8 * model.objective_


def test_what_cannot_be_fitted_is_one_sentence():
    X, t = np.arange(6.0)[:, None], np.arange(1.0, 7.0)
    with pytest.raises(InputError, match=r"No row of any silo has an event.*all are censored"):
        CoxPH().fit(X, survival_target(np.zeros(6), t))
    with pytest.raises(InputError, match="structured array with an event indicator and a time"):
        CoxPH().fit(X, t)
    y = survival_target(np.ones(6), [1, 2, 3, 0, 5, 6])
    with pytest.raises(InputError, match=r"^time\[3\] is 0; times must be finite and > 0"):
        CoxPH().fit(X, y, groups=list("aaabbb"))
    with pytest.raises(InputError, match=r"Silo b: time\[0\] is 0; times must be finite and > 0"):
        CoxPH().fit_silos([(X[:3], y[:3]), (X[3:], y[3:])], names=["a", "b"])
    with pytest.raises(InputError, match=r"event must be 1 \(it happened\) or 0 \(censored\), and it contains 2\."):
        survival_target([1, 2], [1.0, 2.0])
