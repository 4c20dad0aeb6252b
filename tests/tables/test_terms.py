"""Formulas: which columns they make, against formulaic and R's rules; what they refuse, and that no code is run."""

import numpy as np
import pandas as pd
import pytest

from dualfl.errors import InputError
from dualfl.tables.formulas import parse_formula
from dualfl.tables.terms import FUNCTIONS, Factor, Term, coded, natural_spline, spline

formulaic = pytest.importorskip("formulaic")


def test_a_formula_is_taken_apart():
    found = parse_formula("died ~ age + bs(bmi, df=4) + sex:ward + I(age ** 2) + log(`my x`) + C(code)")
    assert found.target == "died" and found.categorical == ("code",)
    assert [term.name for term in found.terms] == ["age", "bs(bmi, 4)", "age^2", "log(my x)", "code", "sex:ward"] or [
        term.name for term in found.terms
    ] == ["age", "bs(bmi, 4)", "sex:ward", "age^2", "log(my x)", "code"]
    assert set(found.columns) == {"age", "bmi", "sex", "ward", "my x", "code"}
    assert [term.name for term in parse_formula("y ~ a*b - a").terms] == ["b", "a:b"]


@pytest.mark.parametrize(
    ("formula", "sentence"),
    [
        ("died", "--formula is TARGET ~ TERMS"),
        ("y ~ a ~ b", "--formula is TARGET ~ TERMS"),
        ("y ~ 1", "no term on its right side"),
        ("y ~ a - 1", "every model has an intercept"),
        ("y ~ 0 + a", "every model has an intercept"),
        ("y ~ .", "name all columns"),
        ("y ~ a | b", "there is no sign \\|"),
        ("y ~ {a + 1}", "name all columns"),
        ("y ~ x +", "cannot be read"),
        ("y ~ exp(age)", "'exp' is not among the functions that are allowed; take a column"),
        ("y ~ eval(age)", "'eval' is not among the functions"),
        ("y ~ __import__('os')", "is not allowed"),
        ("y ~ open('x')", "is not allowed"),
        ("y ~ np.random.rand(age)", "name all columns"),
        ("y ~ I(age == 93)", "'I\\(age == 93\\)' is not allowed"),
        ("y ~ I(age > 92)", "is not allowed"),
        ("y ~ I(age ** 40)", "a whole number from 2 to 4, but it has 40"),
        ("y ~ I(age ** bmi)", "is not allowed"),
        ("y ~ bs(bmi, knots=[92.9, 93.1])", "it is written bs\\(x, 4\\)"),
        ("y ~ bs(bmi, 99)", "a whole number from 3 to 10, but it has 99"),
        ("y ~ bs(bmi)", "it is written bs\\(x, 4\\)"),
        ("y ~ log(age, 2)", "it is written log\\(x\\)"),
        ("y ~ log(sqrt(age))", "is not allowed"),
        ("y ~ a:b:c:d", "a product of more than 3 factors"),
        ("y ~ 2:a", "is not allowed"),
        ("y ~ np.exp(age)", "'exp' is not among"),
        ("y ~ log(age + 2)", "is not allowed"),
        ("y ~ age + offset(bmi)", "give --offset COLUMN"),
        ("y ~ age + strata(ward)", "give --strata COLUMN"),
        ("Surv(days, died) ~ age", "give --time COLUMN --event COLUMN"),
        ("y ~ age + (1|ward)", "--site-effect random"),
        ("y ~ C(ward, Treatment('a'))", "its most frequent level is the reference"),
        ("a b ~ x", "is no column; put names with other signs in"),
    ],
)
def test_what_is_not_allowed_is_named_and_not_run(formula, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_formula(formula)


def test_functions_as_statsmodels_and_r_write_them():
    found = parse_formula("y ~ np.log(a) + log(b + 1) + log(1 + `c d`) + factor(ward)")
    assert [term.name for term in found.terms] == ["log(a)", "log1p(b)", "log1p(c d)", "ward"]
    assert found.categorical == ("ward",)


def test_no_formula_runs_code(tmp_path):
    for text in (
        "__import__('pathlib').Path({0!r}).touch()",
        "open({0!r}, 'w')",
        "log(open({0!r}, 'w'))",
        "I(open({0!r}, 'w') ** 2)",
    ):
        with pytest.raises(InputError):
            parse_formula("y ~ " + text.format(str(tmp_path / "x")))
    assert not (tmp_path / "x").exists()


def test_a_term_that_travels_is_checked_again():
    good = {
        "factors": [{"column": "a", "function": "bs", "count": 4, "state": [0, 1, 2]}],
        "full": [False],
        "part_of": "",
    }
    assert Term.from_json(good).factors[0].state == (0, 1, 2)
    for change in ({"function": "exp", "count": 0}, {"count": 400}, {"function": "pow", "count": 40}):
        bad = {**good, "factors": [good["factors"][0] | change]}
        with pytest.raises(InputError):
            Term.from_json(bad)
    with pytest.raises(InputError):
        Term.from_json({**good, "factors": good["factors"] * 4})


# -- columns ------------------------------------------------------------------------------------------------


def same_space(A, B):
    """Whether two matrices span the same columns."""
    joined = np.linalg.matrix_rank(np.column_stack([A, B]), tol=1e-8)
    return joined == np.linalg.matrix_rank(A, tol=1e-8) == np.linalg.matrix_rank(B, tol=1e-8)


def test_splines_are_those_of_formulaic():
    x = np.random.default_rng(0).normal(size=200)
    knots = (-1.6, -0.4, 0.5, 1.7)
    from formulaic.transforms import basis_spline

    theirs = basis_spline(
        x,
        knots=list(knots[1:-1]),
        degree=3,
        lower_bound=knots[0],
        upper_bound=knots[-1],
        extrapolation="extend",
        _state={},
    )
    assert np.allclose(spline(x, knots), np.column_stack(list(theirs.values())), atol=1e-10)


def test_a_natural_spline_is_linear_outside_and_cubic_with_its_knots_inside():
    knots = (-1.0, 0.0, 0.7, 2.0)
    far = np.array([-5.0, -4.0, -3.0]), np.array([3.0, 4.0, 5.0])
    for x in far:
        assert np.allclose(np.diff(natural_spline(x, knots), 2, axis=0), 0, atol=1e-9)
    x = np.linspace(-3, 4, 300)
    B = natural_spline(x, knots)
    assert B.shape == (300, 3)
    truncated = np.column_stack([x**0, x, x**2, x**3, *(np.maximum(x - k, 0) ** 3 for k in knots)])
    assert same_space(np.column_stack([truncated, B]), truncated)
    assert np.linalg.matrix_rank(np.column_stack([np.ones(300), B])) == 4


FORMULAS = [
    "a + b",
    "a:b",
    "a + a:b",
    "a*b",
    "a:x",
    "x + a:x",
    "a*b*c",
    "a:b + c",
    "a*x + b:x",
    "x:z + a",
    "a + b + a:b:c",
    "a:b:x",
]


@pytest.mark.long
@pytest.mark.parametrize("formula", FORMULAS)
def test_levels_are_coded_as_by_r_and_formulaic(formula):
    """The same column space as formulaic's matrix, with as many columns, and of full rank."""
    rng = np.random.default_rng(1)
    n = 400
    levels = {"a": ["p", "q", "r"], "b": ["u", "v"], "c": ["k", "l", "m"]}
    frame = pd.DataFrame(
        {name: rng.choice(own, n) for name, own in levels.items()} | {v: rng.normal(size=n) for v in "xz"}
    )
    theirs = np.asarray(formulaic.model_matrix(formula, frame), dtype=float)
    from dualfl.tables.encoding import features
    from dualfl.tables.reading import Table
    from dualfl.tables.schema import Feature, Schema

    made = coded(parse_formula(f"y ~ {formula}").terms, levels)
    own = [Feature(name, "categorical", levels=tuple(ls), reference=ls[1]) for name, ls in levels.items()]
    own += [Feature(name, "numeric") for name in "xz"]
    schema = Schema("y", (), tuple(own), terms=made)
    table = Table("t", {name: frame[name].to_numpy(dtype=float if name in "xz" else str) for name in frame})
    mine = np.column_stack([np.ones(n), features(table, schema)])
    assert mine.shape == theirs.shape and len(set(schema.names)) == len(schema.names)
    assert same_space(mine, theirs)
    assert np.linalg.matrix_rank(mine) == mine.shape[1]
    assert Schema.from_json(schema.as_json()) == schema
    wanted = {tuple(sorted(term.name.split(":"))) for term in parse_formula(f"y ~ {formula}").terms}
    assert {tuple(sorted(name.split(":"))) for name in schema.blocks} <= wanted


def test_functions_compute_what_they_say():
    x = np.array([1.0, 2.0, 5.0])
    assert np.allclose(Factor("x", "log").values(x)[:, 0], np.log(x))
    assert np.allclose(Factor("x", "pow", 3).values(x)[:, 0], x**3)
    assert np.allclose(Factor("x", "scale", 0, (2.0, 4.0)).values(x)[:, 0], (x - 2) / 4)
    assert np.allclose(Factor("x", "poly", 2, (2.0, 4.0)).values(x), np.column_stack([(x - 2) / 4, ((x - 2) / 4) ** 2]))
    assert set(FUNCTIONS) == {"center", "scale", "log", "log2", "log10", "log1p", "sqrt", "poly", "bs", "ns"}
    for function, value in (("log", 0.0), ("sqrt", -1.0), ("log1p", -1.0)):
        with pytest.raises(InputError, match="is for numbers"):
            Factor("x", function).values(np.array([1.0, value]))
