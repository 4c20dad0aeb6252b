"""The paper's claims on curves that were made to bear them out, and on curves that do not."""

import numpy as np
import pytest

from dualfl.experiments import claims, figure1
from dualfl.experiments.cells import COLUMNS, Outcome
from dualfl.experiments.store import Store, run_all

n = np.arange(21.0)


def line(first, digits):
    """An error that falls to `first` in round 1 and then by so many digits a round."""
    return np.concatenate([[1.0], first * 10 ** (-digits * n[:-1])])


GOOD = {
    "dualfl": line(1e-3, 0.1),
    "fedpd": line(1e-1, 0.11),
    "feddr": line(1e-1, 0.09),
    "scaffnew": line(1e-1, 0.1),
    "feddyn": line(2e-3, 0.05),
}


def test_a_rate_is_the_slope_of_the_curve():
    assert claims.rate(line(1e-2, 0.25)) == pytest.approx(0.25)
    assert claims.rate(line(1e-2, 0.25), later=True) == pytest.approx(0.25)


def test_a_rate_does_not_see_the_floor():
    flat = np.maximum(line(1e-2, 1.0), 1e-14)
    assert claims.rate(flat) == pytest.approx(1.0)


def test_a_short_curve_has_no_rate():
    assert np.isnan(claims.rate(np.array([1.0, 0.1])))
    assert np.isnan(claims.rate(np.zeros(0)))


def test_below_the_others():
    verdict = claims.below_the_others(GOOD, "(a)")
    assert verdict.holds and verdict.number == 1.0 and "all 80 comparisons" in verdict.sentence


def test_not_below_the_others_says_who_and_when():
    crossing = GOOD | {"fedpd": line(1e-1, 0.5)}
    verdict = claims.below_the_others(crossing, "(a)")
    assert verdict.holds is False and "fedpd" in verdict.sentence and "in round 20" in verdict.sentence
    assert verdict.word == "does not hold"


def test_errors_at_the_floor_are_equal():
    curves = {"dualfl": np.array([1.0, 3e-13]), "fedpd": np.array([1.0, 1e-13])}
    assert claims.below_the_others(curves, "(a)").holds


@pytest.mark.parametrize(("factor", "holds"), [(0.1, True), (1.9, True), (2.1, False)])
def test_as_fast_as_feddyn(factor, holds):
    curves = {"dualfl": factor * GOOD["feddyn"], "feddyn": GOOD["feddyn"]}
    verdict = claims.as_fast_as_feddyn(curves, "(a)")
    assert verdict.holds is holds and verdict.number == pytest.approx(factor)


def test_similar_rates():
    assert claims.similar_rates(GOOD, "(a)").holds
    assert claims.similar_rates(GOOD | {"scaffnew": line(1e-1, 0.21)}, "(a)").holds is False
    assert claims.similar_rates(GOOD | {"scaffnew": np.ones(21)}, "(a)").holds is False


def test_primal_methods():
    slow = {"fedavg": np.full(21, 0.5), "fedcm": np.full(21, 0.7)}
    verdict = claims.primal_methods(GOOD, slow, "(a)")
    assert verdict.holds and "fedavg" in verdict.sentence
    assert claims.primal_methods(GOOD, {"fedsam": 2 * GOOD["dualfl"]}, "(a)").holds is False
    assert claims.primal_methods(GOOD, {"fedsam": np.zeros(0)}, "(a)").holds is None


@pytest.mark.parametrize(("digits", "holds"), [(0.2, True), (0.06, True), (0.04, False)])
def test_many_clients(digits, holds):
    verdict = claims.many_clients({2: line(1e-3, 0.1), 1024: line(1e-1, digits)}, "(b)")
    assert verdict.holds is holds and verdict.number == pytest.approx(10 * digits)


@pytest.mark.parametrize(("digits", "holds"), [(0.06, True), (0.04, False)])
def test_robust_to_rho(digits, holds):
    assert claims.robust_to_rho({0.0: line(1e-3, 0.1), 0.1: line(1e-3, digits)}, "(c)").holds is holds


def test_what_is_not_there_cannot_be_told():
    assert claims.many_clients({2: line(1e-3, 0.1)}, "(b)").word == "cannot be told"
    assert claims.as_fast_as_feddyn({"dualfl": n}, "(a)").holds is None
    assert claims.against_benchmarks({"dualfl": np.zeros(0)}, {}, "(a)")[0].holds is None
    assert len(claims.against_benchmarks(GOOD, {}, "(a)")) == 3


def test_a_curve_that_was_cut_is_said_or_settles_nothing():
    curves = {2: line(1e-3, 0.1), 8: line(1e-3, 0.1)}
    assert claims.many_clients(curves, "(b)", [512]).word == "cannot be told"
    assert claims.many_clients(curves | {1024: line(1e-3, 0.1)}, "(b)", [512]).sentence.endswith("Without N = 512.")
    assert claims.robust_to_rho({0.0: line(1e-3, 0.1), 0.01: line(1e-3, 0.1)}, "(c)", [0.1]).word == "cannot be told"


def test_a_primal_method_that_was_cut_is_not_judged():
    whole, cut = line(1e-3, 0.1), line(1e-3, 0.1)[:2]
    lines = [figure1.Line("dualfl", whole, whole, whole)]
    faint = figure1.Line("fedavg", cut, cut, cut, f"{figure1.CUT} 1, its time was up")
    panel = figure1.Panel("digits", "benchmarks", "a", "", tuple(lines), (faint,))
    assert not [v for v in figure1.verdicts([panel]) if "FedAvg" in v.claim]
    clients = [figure1.Line(f"N = {N}", whole, whole, whole) for N in (2, 8)]
    clients += [figure1.Line("N = 512", cut, cut, cut, f"{figure1.CUT} 1, its time was up")]
    (verdict,) = figure1.verdicts([figure1.Panel("digits", "clients", "b", "", tuple(clients))])
    assert verdict.word == "cannot be told" and "N = 512" in verdict.sentence


def test_rates_of_curves_that_were_cut_are_not_compared():
    assert claims.similar_rates(GOOD, "(a)", ["scaffnew"]).word == "cannot be told"
    assert claims.similar_rates(GOOD, "(a)", ["dualfl"]).word == "cannot be told"
    assert claims.similar_rates(GOOD, "(a)", ["feddualavg"]).holds


def test_who_is_not_judged_is_named():
    short = GOOD | {"dualfl": GOOD["dualfl"][:4]}
    del short["scaffnew"]
    first, *_ = claims.against_benchmarks(short, {}, "(a)", ["dualfl", "scaffnew"])
    assert first.holds and "all 9 comparisons" in first.sentence
    assert "Without scaffnew" in first.sentence and "3 rounds" in first.sentence


def test_primal_methods_are_judged_against_all_and_in_the_same_round():
    falling = {"fedcm": line(1e-1, 0.2)}
    assert claims.primal_methods({"dualfl": GOOD["dualfl"][:3]}, falling, "(a)").number == pytest.approx(
        falling["fedcm"][2] / GOOD["dualfl"][2]
    )
    good_and_bad = {"dualfl": line(1e-6, 0.1), "fedpd": np.ones(21), "feddr": np.ones(21)}
    verdict = claims.primal_methods(good_and_bad, {"fedcm": np.full(21, 0.5)}, "(a)")
    assert verdict.holds is False and "below fedpd, feddr" in verdict.sentence


def test_a_round_is_an_exchange(tmp_path):
    """FedDR exchanges once before its first round; FedPD, the same method with alpha = 1, does not."""
    plan = figure1.Plan(
        "digits",
        rounds=3,
        seeds=1,
        panels=("benchmarks",),
        tuned={"fedpd": {"eta": 10.0}, "feddr": {"eta": 10.0, "alpha": 1.0}},
    )
    store = Store(tmp_path)
    names = ("dualfl", "fedpd", "feddr")
    run_all(store, [cell for name in names for cell in plan.lines("benchmarks")[name]], tell=lambda cell, outcome: None)
    for cell in plan.cells:
        if cell.algorithm not in names:
            store.put(Outcome(cell, "does not apply: not run", {name: np.zeros(0) for name in COLUMNS}))
    curves = figure1.panels(plan, store)[0].curves
    assert len(curves["feddr"]) == 4
    np.testing.assert_allclose(curves["feddr"], curves["fedpd"], rtol=1e-6)


def test_methods_without_tuned_values_are_named():
    (note,) = figure1.Plan("mnist", panels=("benchmarks",), tuned={name: {} for name in figure1.BENCHMARKS}).notes
    assert "fedavg, fedcm, fedsam" in note
