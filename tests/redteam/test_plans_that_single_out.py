"""Plans that look harmless, each by itself, and would tell of a few patients: what a hostile coordinator writes down.

Columns in roles of their own, strata and clusters of one, terms, classes that few have, rows that only some plans
count, survival curves, site effects, refits; and risks that were written by hand.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hostile import POLICY, Hostile, change, far_silos, fit, make_homes, refusals
from test_evaluation_attacks import evaluate
from test_new_questions import add_column, rows_of

from dualfl.analysis.descriptions import ModelEvaluation, SurvivalCurves, TableDescription
from dualfl.analysis.models import Recipe
from dualfl.analysis.survival_curves import CurveWishes, drawing
from dualfl.analysis.tabulating import TableWishes, describing
from dualfl.analysis.whole_fit import Wishes
from dualfl.errors import InputError
from dualfl.federation.few_rows import alone, check_offset, check_weights, effective
from dualfl.federation.fixed_point import BITS
from dualfl.federation.guarded import guarded, joined, rarest_cell
from dualfl.federation.policy import Policy
from dualfl.federation.rows import SiloRows as SiloRowsOfAFile
from dualfl.silos import drive
from dualfl.silos.chamber import SiloRows
from dualfl.silos.predictor import Predictor
from dualfl.silos.random_effect import SiteMoments
from dualfl.silos.survival_scores import survival_sums
from dualfl.tables.reading import Table
from dualfl.tables.schema import Feature, Request, Schema
from dualfl.tables.terms import Factor, Term

SAFE = POLICY | {"least_per_cell": 3, "forbidden_columns": ["town"]}
NUMBERS = Request("sick", columns=("age", "income"))
LOGISTIC = Recipe("logistic", tol=1e-4)


@pytest.fixture
def homes(tmp_path):
    made = make_homes(tmp_path)
    for home in made:
        change(home, policy=SAFE)
    return made


def asking(homes, experiment="e", recipe=LOGISTIC, terms=(), **request):
    return fit(
        homes,
        experiment=experiment,
        recipe=recipe,
        wishes=Wishes(replace(NUMBERS, **request), influence=False, terms=terms),
    )


# -- weights, offsets, exposures, strata, clusters -------------------------------------------------------


def one_other(usual, other):
    return lambda n: [other if i == 7 else usual for i in range(n)]


ROLES = {
    "weights that are large in one row": ("weights", one_other(1.0, 1e6), "let fewer rows of this silo count"),
    "weights that leave one row out": ("weights", one_other(1.0, 0.0), "some rows have the weight 0"),
    "weights that all but leave one row out": ("weights", one_other(1.0, 1e-9), "another weight than the others"),
    "an offset that is huge in all rows but one": ("offset", one_other(-1e6, 0.0), "sets few rows of this silo apart"),
    "an offset that is small in one row": ("offset", one_other(0.5, 0.501), "sets few rows of this silo apart"),
    "an exposure of one row": ("exposure", one_other(1e-9, 1.0), "sets few rows of this silo apart"),
    "a cluster of one": ("cluster", one_other(1, 2), "all rows of this silo but a few are in one cluster"),
    "a cluster of two": ("cluster", lambda n: [int(i < 2) for i in range(n)], "but a few are in one cluster"),
}


@pytest.mark.parametrize("case", ROLES)
def test_no_role_sets_a_few_rows_apart(case, homes):
    """The operator allows the column; sums with it and without differ by these rows."""
    role, values, sentence = ROLES[case]
    for home in homes:
        add_column(home, "mine", [f"{value}" for value in values(rows_of(home))])
        settings = {} if role == "cluster" else {"columns": ["age", "income", "mine"]}
        change(home, roles={role: ["mine"]}, policy=SAFE | {"least_per_level": 3} | settings)
    if role != "cluster":  # a column of two numbers is refused by itself
        for home in homes:
            blur(home)
    recipe = replace(LOGISTIC, errors="cluster:mine") if role == "cluster" else LOGISTIC
    with pytest.raises(InputError, match=sentence):
        asking(homes, recipe=recipe, roles={role: "mine"})
    assert all(sentence in refusals(home)[-1] or "in one cluster" in refusals(home)[-1] for home in homes)


def blur(home):
    """The usual numbers a little apart, so that there are more than two."""
    path = home / "data.csv"
    head, *lines = path.read_text().splitlines()
    cells = [line.split(",", 1) for line in lines]
    usual = float(cells[0][0])
    moved = [
        f"{float(c) * (1 + 1e-14 * i) if float(c) == usual and c != '0.0' else c},{r}" for i, (c, r) in enumerate(cells)
    ]
    path.write_text("\n".join([head, *moved]) + "\n")


@pytest.mark.unrefused("about numbers")
def test_honest_weights_and_offsets_pass():
    rng = np.random.default_rng(0)
    policy = Policy(least_rows=10)
    for _ in range(50):
        n = int(rng.integers(30, 200))
        check_weights(rng.uniform(0.5, 2.0, n), policy, False)
        check_weights(np.exp(rng.normal(0, 0.7, n)), policy, False)
        check_weights(np.ones(n), policy, False)
        check_offset(np.log(rng.uniform(10, 400, n)), 3)
        check_offset(rng.normal(0, 1, n), 3)
        check_offset(np.full(n, -3.0), 3)
    assert effective(np.array([1.0, 0, 0])) == 1 and effective(np.ones(7)) == pytest.approx(7)


SURVIVAL = {"time": "days"}


def survival(homes, **settings):
    """Days and deaths in the place of the class, and two treatments."""
    for home in homes:
        path, rng = home / "data.csv", np.random.default_rng(3)
        lines = path.read_text().splitlines()[1:]
        n = len(lines)
        arm = np.where(np.arange(n) % 2, "drug", "none")
        rows = [f"{d:.2f},{int(i % 3 > 0)},{a},{line.rsplit(',', 2)[0]}" for i, (d, a, line) in
                enumerate(zip(rng.exponential(100, n) + 1, arm, lines))]  # fmt: skip
        path.write_text("\n".join(["days,died,arm,age,income", *rows]) + "\n")
        policy = SAFE | {"classes": ["0", "1"], "forbidden_columns": []} | settings.get("policy", {})
        change(home, **({"target": "died", "roles": {"time": ["days"]}} | settings | {"policy": policy}))


def edit(home, column, row, to):
    path = home / "data.csv"
    head, *lines = path.read_text().splitlines()
    cells = lines[row].split(",")
    cells[head.split(",").index(column)] = to
    lines[row] = ",".join(cells)
    path.write_text("\n".join([head, *lines]) + "\n")


def cox(homes, experiment="e", **roles):
    request = Request("died", columns=("age", "income"), roles=SURVIVAL | roles)
    return fit(
        homes, experiment=experiment, recipe=Recipe("cox", "none", tol=1e-4), wishes=Wishes(request, influence=False)
    )


def test_a_stratum_of_one_is_not_an_analysis_without_that_patient(homes):
    survival(homes, roles={"time": ["days"], "strata": ["ward"]})
    for home in homes:
        add_column(home, "ward", [3 if i == 7 else 1 + i % 2 for i in range(rows_of(home))])
    cox(homes)
    with pytest.raises(InputError, match="a stratum has few rows of this silo"):
        cox(homes, "f", strata="ward")
    assert "A stratum has 1 rows" in refusals(homes[0])[-1]


def test_a_time_that_one_patient_lacks_does_not_single_that_one_out(homes):
    """Rows without an entry in a role are left out: a plan with another role has them."""
    survival(homes, roles={"time": ["days", "weeks"]})
    for home in homes:
        add_column(home, "weeks", [float(i + 1) for i in range(rows_of(home))])
    edit(homes[1], "weeks", 4, "")
    cox(homes)
    request = Request("died", columns=("age", "income"), roles={"time": "weeks"})
    with pytest.raises(InputError, match="differ by fewer than 10 from those of an earlier experiment"):
        fit(homes, experiment="f", recipe=Recipe("cox", "none"), wishes=Wishes(request, influence=False))


# -- survival curves and the log-rank test ---------------------------------------------------------------


def curves(homes, experiment="e", lie=None, roles=None, **wishes):
    about = CurveWishes(Request("died", roles=SURVIVAL | (roles or {})), **wishes)
    transport = Hostile(homes, lie)
    analysis = SurvivalCurves(about).as_json()
    silos = far_silos(homes, BITS, transport=transport, analysis=analysis, experiment=experiment)
    return drive(drawing(silos, about), silos)


def test_an_arm_of_one_tells_no_time(homes):
    """Observed minus expected events of an arm of one patient is his cumulative hazard: his time."""
    survival(homes, policy={"least_per_cell": 0})
    edit(homes[0], "arm", 0, "placebo")
    found = curves(homes, by="arm")
    assert "placebo" not in found.arms and "(rare)" in found.arms
    for row in range(1, 5):  # four more without a time: of the joined arm one row is left that counts
        edit(homes[0], "arm", row, "placebo")
    for home in homes:
        change(
            home, policy=SAFE | {"least_per_cell": 0, "classes": ["0", "1"], "forbidden_columns": [], "least_rows": 1}
        )
    for row in range(1, 5):
        edit(homes[0], "days", row, "")
    with pytest.raises(InputError, match="few of its rows that count have some level of column 'arm'"):
        curves(homes, "f", by="arm")
    assert "1 have one of the levels of column 'arm'" in refusals(homes[0])[-1]


def test_log_rank_sums_are_asked_as_the_plan_has_them(homes):
    survival(homes)

    def other_arms(number, content):
        for one in content.get("asks", ()):
            if one.get("verb") == "log_rank":
                one["given"]["arms"] = ["drug"]
                return content
        return None

    with pytest.raises(InputError, match="asks something else than the plan and the sums imply"):
        curves(homes, lie=other_arms, by="arm")
    assert all("asks something else" in refusals(home)[-1] for home in homes)


def test_curves_by_a_column_with_one_gap_leave_nobody_out(homes):
    """Those with an arm, and all: the difference would be the one without."""
    survival(homes, policy={"least_per_cell": 0})
    edit(homes[2], "arm", 3, "")
    with pytest.raises(InputError, match="gaps in it, have fewer than 5 rows at this silo"):
        curves(homes, by="arm")
    for home in homes:
        change(home, policy=SAFE | {"least_per_cell": 0, "least_per_level": 0, "classes": ["0", "1"]})
    assert curves(homes, "f", by="arm").without_arm == 1  # without the rule


# -- terms, levels, classes, rows ------------------------------------------------------------------------


def term(*factors):
    return Term(tuple(factors), (False,) * len(factors))


@pytest.mark.parametrize("case", ["powers", "a column of few numbers", "a product of powers"])
def test_no_terms_together_are_about_one_row(case, homes):
    """x(x - 1) is 0 but for the one patient with x = 2; and x^4 is about the largest x alone."""
    age, visits, income = Factor("age"), Factor("visits"), Factor("income", "pow", 4)
    for home in homes:
        n = rows_of(home)
        few = [2 if i == 5 else int(i % 3 > 0) for i in range(n)]
        add_column(
            home, "visits", few if case == "a column of few numbers" else [1000.0 if i == 5 else i for i in range(n)]
        )
    terms = {
        "powers": (term(age), term(Factor("visits", "pow", 4))),
        "a column of few numbers": (term(age), term(visits), term(Factor("visits", "pow", 2))),
        "a product of powers": (term(Factor("visits", "pow", 4), income), term(age)),
    }[case]
    with pytest.raises(InputError, match="some combination of columns is about too few rows of this silo"):
        asking(homes, terms=terms, columns=("age", "income", "visits"))
    assert all("nearly 0 in all rows but 1;" in refusals(home)[-1] for home in homes)


@pytest.mark.unrefused("about numbers")
def test_leverage_finds_rows_that_columns_single_out_and_no_others():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(60), rng.normal(size=(60, 5)), rng.lognormal(size=60)])
    assert alone(X, 3) == 0
    few = np.zeros(60)
    for rows in (1, 2):
        few[:rows] = 1
        mixed = np.column_stack([X, few + X[:, 1] + 2 * X[:, 2]])
        same = mixed.copy()
        same[:rows] = same[0]
        assert alone(same, 3) == rows
    few[:3] = 1
    assert alone(np.column_stack([X, few]), 3) == 0


def test_a_class_that_one_patient_has_is_not_fitted(homes):
    """X'y is that patient's row."""
    for home in homes:
        lines = (home / "data.csv").read_text().splitlines()
        moved = [line.rsplit(",", 1)[0] + (",yes" if i == 3 else ",no") for i, line in enumerate(lines[1:])]
        (home / "data.csv").write_text("\n".join([lines[0], *moved]) + "\n")
    with pytest.raises(InputError, match="few of its rows that count have some level of column 'sick'"):
        asking(homes)
    assert all("1 have one of the levels of column 'sick'" in refusals(home)[-1] for home in homes)


@pytest.mark.parametrize("weights", [(("yes", 0.0),), (("yes", 1e9),), (("no", 1e-300), ("yes", 1.0))])
def test_weights_of_classes_leave_no_class_out(weights, homes):
    for home in homes:  # eight rows have the class
        lines = (home / "data.csv").read_text().splitlines()
        moved = [line.rsplit(",", 1)[0] + (",yes" if i < 8 else ",no") for i, line in enumerate(lines[1:])]
        (home / "data.csv").write_text("\n".join([lines[0], *moved]) + "\n")
    with pytest.raises(InputError, match=r"some rows have the weight 0|let fewer rows of this silo count"):
        asking(homes, recipe=replace(LOGISTIC, class_weight=weights))
    asking(homes, "f", recipe=replace(LOGISTIC, class_weight="balanced"))


def test_levels_are_counted_among_the_rows_that_count(homes):
    """Five rows have the level; with `drop` four of them are left out."""
    for home in homes:
        n = rows_of(home)
        add_column(home, "ward", ["x" if i < 5 else "y" for i in range(n)])
        add_column(home, "pulse", ["" if i < 4 or 10 <= i < 16 else 60 + i for i in range(n)])
        change(home, allow_drop_rows=True, policy=SAFE | {"least_per_cell": 0})
    columns = ("age", "ward", "pulse")
    asking(homes, columns=columns)
    with pytest.raises(InputError, match="few of its rows that count have some level of column 'ward'"):
        asking(homes, "f", columns=columns, missing="drop")


@pytest.mark.unrefused("levels are joined")
def test_numbers_that_are_categories_are_joined_as_texts_are(homes):
    for home in homes:
        add_column(home, "ward", [77 if i == 2 else 1 + i % 3 for i in range(rows_of(home))])
        change(home, categorical=["ward"], policy=SAFE | {"least_per_cell": 0})
    transport = asking(homes, columns=("age", "ward"), categorical=("ward",))
    said = [answer for _, by in transport.heard for answer in by.values()]
    assert not any(b'"77"' in one for one in said) and any(b"(rare)" in one for one in said)


@pytest.mark.unrefused("about tables")
def test_numbers_of_many_digits_are_joined_too():
    """They are kept as texts beside the numbers, which lose digits."""
    codes = np.array([str(10**17 + (i == 2)) for i in range(12)])
    table = Table("t", {"code": codes.astype(float), "y": np.arange(12.0)}, None, {"code": codes})
    found = guarded(SiloRowsOfAFile(table, "y", ("code",)), Policy()).table
    assert set(found.levels("code")) == {"(rare)"} and "code" in table.exact


@pytest.mark.unrefused("about texts")
def test_rare_levels_are_joined_until_they_are_enough_and_gaps_are_counted():
    texts = np.array(["a"] * 20 + ["b"] * 9 + ["c"] * 2 + [""])
    found = joined(texts, 5)
    assert dict(zip(*np.unique(found, return_counts=True))) == {"": 1, "(rare)": 11, "a": 20}
    assert rarest_cell(Table("t", {"x": texts})) == 1 and rarest_cell(Table("t", {"x": texts[:-1]})) == 0
    some = np.arange(len(texts)) < 25  # of b five count
    assert dict(zip(*np.unique(joined(texts[:29], 5, some[:29]), return_counts=True))) == {"a": 20, "b": 9}
    assert set(joined(texts[:29], 5, some[:29] & (np.arange(29) < 24))) == {"(rare)"}  # four, and the next larger
    assert (joined(texts[:29], 5) == texts[:29]).all() and (joined(texts, 0) == texts).all()
    assert (joined(np.array(["", ""]), 5) == "").all()


def test_one_gap_in_a_text_is_no_level_of_one(homes):
    """A missing text is a level of its own; where there is one column of texts, no two levels meet."""
    wishes = Wishes(Request("income", True, columns=("age", "arm")), influence=False)
    for home in homes:
        add_column(home, "arm", ["" if i == 4 else "xy"[i % 2] for i in range(rows_of(home))])
        policy = SAFE | {"task": "regression", "classes": None, "forbidden_columns": ["town", "sick"]}
        change(home, target="income", policy=policy)
    with pytest.raises(InputError, match="occur together in too few rows of this silo"):
        fit(homes, recipe=Recipe("linear", "l2"), wishes=wishes)


def test_few_held_out_rows_are_not_evaluated(homes):
    for home in homes:
        lines = (home / "data.csv").read_text().splitlines()
        (home / "held.csv").write_text("\n".join(lines[:4]) + "\n")
        change(home, held_out="held.csv")
    schema = Schema("sick", ("no", "yes"), (Feature("age", "numeric"), Feature("income", "numeric")))
    model = Predictor.from_json({"kind": "probabilities", "W": np.array([[0.1, 0.0]]), "b": np.zeros(1), "classes": 2})
    with pytest.raises(InputError, match="fewer rows than its policy wants for any plan"):
        evaluate(homes, ModelEvaluation(model, schema))


# -- descriptions of two plans ---------------------------------------------------------------------------


def describe(homes, experiment, **wishes):
    about = TableWishes(Request("sick"), **wishes)
    analysis = TableDescription(about).as_json()
    silos = far_silos(homes, BITS, transport=Hostile(homes), analysis=analysis, experiment=experiment)
    return drive(describing(silos, about), silos)


def test_groups_of_two_columns_do_not_differ_by_one_patient(homes):
    """`ward` and `unit` are the same but for one row: the sums of its groups would differ by that row."""
    for home in homes:
        n = rows_of(home)
        ward = ["x" if i % 2 else "y" for i in range(n)]
        add_column(home, "ward", ward)
        add_column(home, "unit", ["y" if i == 9 else one for i, one in enumerate(ward)])
    for wishes in ({"by": "ward"}, {"by": "unit"}, {"crosses": (("ward", "unit"),)}):
        with pytest.raises(InputError, match="two levels of two columns occur together in too few rows"):
            describe(homes, f"e{len(refusals(homes[0]))}", **wishes)


# -- models written by hand, site effects, refits, tests -------------------------------------------------


@pytest.mark.unrefused("it is answered, about three rows of each silo at least")
def test_a_risk_that_one_patient_has_alone_does_not_tell_whom_he_outlived():
    """Pairs in order: with one risk above all others, the number of those who lived longer than that one."""
    rng = np.random.default_rng(2)
    n = 40
    silo = SiloRows(
        "a", np.eye(n)[:, :1] * 0 + rng.normal(size=(n, 1)), np.ones(n), more={"time": rng.exponential(size=n)}
    )
    order = np.argsort(-silo.X[:, 0])
    line = Predictor.from_json({"kind": "hazards", "W": np.array([[1e3]]), "b": np.zeros(1), "classes": 0})
    exact, blurred = (survival_sums(line, silo, k) for k in (1, 3))
    assert exact.tied_risk == 0 and blurred.tied_risk == 12 * 3 + 6  # groups of three, and one of four
    assert blurred.concordant + blurred.discordant + blurred.tied_risk == n * (n - 1) / 2
    # Whichever of the first three has the highest risk, the answer is the same.
    swapped = silo.X.copy()
    swapped[order[0], 0], swapped[order[2], 0] = silo.X[order[2], 0], silo.X[order[0], 0]
    assert vars(survival_sums(line, replace(silo, X=swapped), 3)) == vars(blurred)
    assert survival_sums(line, replace(silo, X=swapped), 1).concordant != exact.concordant


@pytest.mark.unrefused("why it is refused")
def test_the_sums_of_a_random_site_effect_tell_every_silos_rows():
    """The product of 1 + n_j gamma is a polynomial in gamma, whose roots are -1/n_j."""
    rng, sizes = np.random.default_rng(0), (31, 47, 90)
    gammas = np.array([0.0, 0.01, 0.02, 0.04])
    logs = sum(SiteMoments.of(rng.normal(size=(n, 2)), rng.normal(size=n)).terms(gammas)["log"] for n in sizes)
    coefficients = np.polyfit(gammas, np.exp(logs), 3)
    np.testing.assert_allclose(np.sort(-1 / np.roots(coefficients).real), sizes, rtol=1e-6)


def regression(homes, **settings):
    for home in homes:
        change(home, target="income", policy=SAFE | {"task": "regression", "classes": None}, **settings)
    return Wishes(Request("income", True, columns=("age",)), influence=False)


def test_a_random_site_effect_is_for_silos_that_show_their_own_numbers(homes):
    wishes, recipe = regression(homes), Recipe("linear", "none", site_effect="random")
    with pytest.raises(InputError, match="tell every silo's number of rows and means"):
        fit(homes, recipe=recipe, wishes=wishes)
    regression(homes, show_own_numbers=True)
    fit(homes, experiment="f", recipe=recipe, wishes=wishes)


def test_a_fixed_site_effect_tells_no_intercept_and_takes_no_other_point(homes):
    """Each silo has an intercept of its own: no answer has it, and a chosen point is refused."""
    recipe = Recipe("logistic", tol=1e-4, site_effect="fixed")
    transport = asking(homes, recipe=recipe)
    fields = {name.rpartition("/")[2].split(":")[0] for message, by in transport.heard for name in sums_of(by)}
    assert fields and not fields & {"b", "intercept", "own"}

    def chosen(number, content):
        for one in content.get("asks", ()):
            if one.get("step") is not None and one["round"] >= 0 and one.get("probe") is not None:
                one["probe"] = np.full_like(one["probe"], 1e9)
                return content
        return None

    with pytest.raises(InputError, match="asks something else than the plan and the sums imply"):
        fit(homes, chosen, "f", recipe=recipe, wishes=Wishes(NUMBERS, influence=False))


def sums_of(answers):
    from dualfl.federation.wire import decode

    texts = [decode(answer).get("sums", {}).get("fields", "[]") for answer in answers.values()]
    return [one[0] for text in texts for one in json.loads(text)]


def test_a_refit_of_other_columns_is_a_plan_of_its_own(homes):
    """What l1 chose is known to the coordinator alone: its next plan, whatever it names, waits for the operator."""
    from click.testing import CliRunner

    from dualfl.cli import main

    lasso = Recipe("logistic", "l1", 0.05, tol=1e-4)
    for home in homes:
        change(home, policy=SAFE | {"approval": "ask"})
    with pytest.raises(InputError, match="the plan waits"):
        asking(homes, recipe=lasso)
    for home in homes:
        CliRunner().invoke(main, ["deploy", "approve", str(home)], input="always\n")
    asking(homes, "f", recipe=lasso)
    bare = Recipe("logistic", "none", tol=1e-4)
    with pytest.raises(InputError, match="the plan waits"):
        asking(homes, "g", recipe=bare, columns=("age",))
    shown = " ".join(CliRunner().invoke(main, ["deploy", "approve", str(homes[0])], input="no\n").output.split())
    assert "only the columns age with it" in shown and "penalty none" in shown


@pytest.mark.unrefused("no silo is asked")
def test_a_test_of_models_asks_no_silo(tmp_path, monkeypatch):
    """`dualfl test` reads folders that fits have written, and has no way to a study."""
    from dualfl.cli.test import test_command

    names = {parameter.name for parameter in test_command.params}
    assert names == {"folders", "terms", "together"}
    assert "far_silos" not in (test_command.callback.__code__.co_names or ())
