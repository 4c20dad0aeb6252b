"""Linear models against formulas and finite differences, for every loss and every way to store the rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from objective_cases import (
    BOUNDED,
    KINKED,
    LOSSES,
    SMOOTH,
    STORED,
    build,
    cases,
    differences,
    few,
    names,
    some,
)

from dualfl.objectives import (
    CLogLog,
    Cost,
    Gamma,
    LinearModel,
    NegativeBinomial,
    Poisson,
    Softmax,
    Squared,
    Tilted,
    Tweedie,
    regularised,
)

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=names(LOSSES))
every_smooth_loss = pytest.mark.parametrize("loss", SMOOTH, ids=names(SMOOTH))
every_type = pytest.mark.parametrize("kind", STORED)
any_tilt = st.tuples(st.sampled_from(["number", "vector", "none"]), st.booleans())


# -- values and derivatives -----------------------------------------------------------------------------


@every_type
@every_loss
@few
@given(st.data())
def test_value_is_the_formula(loss, kind, data):
    for case in data.draw(cases(loss, kind)):
        assert_allclose(case.f.value(case.x), case.value(case.x), rtol=1e-12, atol=1e-14)


@every_type
@every_smooth_loss
@few
@given(st.data())
def test_gradient_is_the_slope_of_the_formula(loss, kind, data):
    for case in data.draw(cases(loss, kind)):
        if case.kink(case.x) <= 1e-3:
            continue
        value, gradient = case.f.value_gradient(case.x)
        assert_allclose(value, case.value(case.x), rtol=1e-12, atol=1e-14)
        assert_allclose(gradient, differences(case.value, case.x), rtol=1e-7, atol=1e-8)


@every_type
@every_smooth_loss
@few
@given(st.data())
def test_hessians_are_the_slope_of_the_gradient(loss, kind, data):
    for case in data.draw(cases(loss, kind)):
        f, x = case.f, case.x
        if case.kink(x) <= 1e-3:
            continue
        expected = differences(f.gradient, x).T
        v = case.direction()
        assert_allclose(f.hessian_times(x, v), expected @ v, rtol=1e-6, atol=1e-8)
        columns = np.stack([f.hessian_times(x, e) for e in np.eye(f.d)], axis=1)
        H = f.hessian(x)
        assert_allclose(H, columns, rtol=1e-10, atol=1e-13)
        assert_allclose(H, H.T, rtol=0, atol=1e-14)
        # one basis for all classes, and one of the whole space
        U = case.rng.normal(size=(f.design.D, 2))
        wide = np.kron(U, np.eye(f.k))
        M = f.projected_hessian(x, U)
        assert_allclose(M, wide.T @ columns @ wide, rtol=1e-9, atol=1e-12)
        assert_allclose(M, M.T, rtol=0, atol=0)
        full = case.rng.normal(size=(f.d, 3))
        assert_allclose(f.projected_hessian(x, full), full.T @ columns @ full, rtol=1e-9, atol=1e-12)


@every_type
@every_loss
@few
@given(st.data())
def test_rays_are_the_function_on_a_line(loss, kind, data):
    for case in data.draw(cases(loss, kind)):
        f, x, p = case.f, case.x, case.direction()
        ray = f.at(x).ray(p)
        for t in (0.0, 0.4, -1.3):
            assert_allclose(ray.value(t), case.value(x + t * p), rtol=1e-11, atol=1e-13)
            point = ray.point(t)
            assert_allclose(point.x, x + t * p, rtol=1e-15)
            assert_allclose(point.value, case.value(x + t * p), rtol=1e-11, atol=1e-13)
            if loss.smooth:
                assert_allclose(point.gradient, f.fresh().gradient(x + t * p), rtol=1e-10, atol=1e-13)
            if case.kink(x + t * p) > 1e-3:
                h = 1e-6
                slope = (case.value(x + (t + h) * p) - case.value(x + (t - h) * p)) / (2 * h)
                assert_allclose(ray.slope(t), slope, rtol=1e-6, atol=1e-7)


@every_type
@every_loss
@few
@given(st.data(), any_tilt)
def test_a_tilt_adds_its_formula(loss, kind, data, tilt):
    for case in data.draw(cases(loss, kind)):
        check_tilt(case, *tilt)


def check_tilt(case, curved, sloped):
    f, x, p = case.f, case.x, case.direction()
    # both signs, as far as the curvature of f goes
    a = {"none": 0.0, "number": 0.7 - f.mu, "vector": case.rng.random(f.d) - f.mu}[curved]
    c = case.direction() if sloped else None
    g = f.tilted(a, c)
    linear = np.zeros(f.d) if c is None else c

    def value(z):
        return case.value(z) + np.sum(a * z**2) / 2 - linear @ z

    assert isinstance(g, Tilted) and g.cost is f.cost and g.n == f.n and g.shape == f.shape
    assert_allclose(g.mu, np.min(case.ridge * case.penalised + a), atol=1e-15)
    assert_allclose(g.value(x), value(x), rtol=1e-11, atol=1e-12)
    ray = g.at(x).ray(p)
    assert_allclose(ray.value(0.6), value(x + 0.6 * p), rtol=1e-11, atol=1e-12)
    assert_allclose(ray.point(0.6).value, value(x + 0.6 * p), rtol=1e-11, atol=1e-12)
    if case.kink(x + 0.6 * p) > 1e-3:
        h = 1e-6
        slope = (value(x + (0.6 + h) * p) - value(x + (0.6 - h) * p)) / (2 * h)
        assert_allclose(ray.slope(0.6), slope, rtol=1e-6, atol=1e-7)
    if not case.loss.smooth:
        return
    assert_allclose(g.L, f.L + np.max(a))
    assert_allclose(g.gradient(x), f.gradient(x) + a * x - linear, rtol=1e-12, atol=1e-13)
    assert_allclose(g.hessian_times(x, p), f.hessian_times(x, p) + a * p, rtol=1e-12, atol=1e-13)
    H = f.hessian(x) + np.diag(np.broadcast_to(a, f.d))
    assert_allclose(g.hessian(x), H, rtol=1e-12, atol=1e-13)
    U = case.rng.normal(size=(f.design.D, 2))
    wide = np.kron(U, np.eye(f.k))
    assert_allclose(g.projected_hessian(x, U), wide.T @ H @ wide, rtol=1e-9, atol=1e-12)
    full = case.rng.normal(size=(f.d, 2))
    assert_allclose(g.projected_hessian(x, full), full.T @ H @ full, rtol=1e-9, atol=1e-12)


@every_loss
@few
@given(st.data(), st.sampled_from([0.0, 0.5, 3.0]))
def test_scaling_leaves_the_regulariser(loss, data, factor):
    for case in data.draw(cases(loss, "float64")):
        f, x = case.f, case.x
        ridge = case.ridge / 2 * np.sum(case.penalised * x**2)
        if loss.smooth:
            before = f.L, f.L_row
        g = f.scaled(factor)
        assert_allclose(g.value(x), factor * (case.value(x) - ridge) + ridge, rtol=1e-11, atol=1e-13)
        assert (g.mu, g.mass, g.n) == (f.mu, f.mass, f.n)
        assert g.design is f.design and g.cost is not f.cost
        if loss in BOUNDED:
            assert_allclose(g.L - f.ridge, factor * (before[0] - f.ridge), rtol=1e-9, atol=1e-13)
            assert_allclose(g.L_row - f.ridge, factor * (before[1] - f.ridge), rtol=1e-12, atol=1e-13)


@every_type
@every_smooth_loss
@few
@given(st.data())
def test_sample_gradients_average_to_the_gradient(loss, kind, data):
    for case in data.draw(cases(loss, kind)):
        f, x = case.f, case.x
        each = [f.sample_gradient(np.array([i]), x) for i in range(f.n)]
        assert_allclose(np.mean(each, axis=0), f.gradient(x), rtol=1e-10, atol=1e-12)
        assert_allclose(f.sample_gradient(np.arange(f.n), x), f.gradient(x), rtol=1e-10, atol=1e-12)
        tilted = f.tilted(0.3, np.cos(np.arange(f.d)))
        assert_allclose(tilted.sample_gradient(np.arange(f.n), x), tilted.gradient(x), rtol=1e-10, atol=1e-12)
        assert tilted.L_row == f.L_row + 0.3


# -- constants ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float64", "uint8", "csr float32"])
@pytest.mark.parametrize("loss", BOUNDED, ids=names(BOUNDED))
@few
@given(st.data())
def test_L_and_mu_enclose_the_spectrum(loss, kind, data):
    for case in data.draw(cases(loss, kind)):
        f = case.f
        for scale in (0.0, 0.1, 1.0, 10.0):
            eigenvalues = np.linalg.eigvalsh(f.hessian(scale * case.x))
            assert eigenvalues[-1] <= f.L * (1 + 1e-12) + 1e-15
            assert eigenvalues[0] >= f.mu - 1e-12
        steepest = (case.y + 1 / 0.6) / 4 if isinstance(loss, NegativeBinomial) else np.full(f.n, loss.curvature)
        exact = np.linalg.eigvalsh(case.rows.T * (steepest * case.s) @ case.rows)[-1] + case.ridge
        assert exact * (1 - 1e-12) <= f.L <= exact * 1.00001 + 1e-12
        row = (steepest * f.n * case.s * np.sum(case.rows**2, axis=1)).max() + case.ridge
        assert_allclose(f.L_row, row, rtol=1e-12)


UNBOUNDED = [Poisson(), Gamma(), Tweedie(1.5), CLogLog(), *KINKED]


@pytest.mark.parametrize("loss", UNBOUNDED, ids=names(UNBOUNDED))
def test_L_is_infinite_without_a_bound_on_the_curvature(loss):
    case = build(loss)
    assert case.f.L == case.f.L_row == case.f.tilted(1.0).L == np.inf
    nothing = LinearModel(np.zeros((3, 2)), np.ones(3), loss)
    assert nothing.L == nothing.L_row == np.inf  # not 0 * inf


def test_features_of_zeros_have_no_curvature():
    f = LinearModel(np.zeros((3, 2)), np.ones(3), Squared(), ridge=0.25)
    assert f.L == f.L_row == f.mu == 0.25


@pytest.mark.parametrize("loss", LOSSES, ids=names(LOSSES))
def test_offers_say_what_can_be_asked(loss):
    f = build(loss).f
    expected = {"gradient", "hessian", "moments", "projected", "samples"} if loss.smooth else {"dual"}
    assert f.offers == expected and f.smooth == loss.smooth and f.name == type(loss).__name__


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("intercept", [False, True, "free"])
def test_regularised_adds_curvature_where_there_is_none(intercept, ridge):
    case = build(Softmax(3), intercept=intercept, ridge=ridge)
    f, x = case.f, case.x
    g = regularised(f, 0.1)
    if intercept == "free":
        added = np.where((case.penalised == 0) | (ridge == 0), 0.1, 0.0)
        assert_allclose(g.mu, 0.1)
    else:
        added = np.full(f.d, 0.1)
        assert_allclose(g.mu, ridge + 0.1)
    assert_allclose(g.value(x), case.value(x) + added @ x**2 / 2, rtol=1e-12)
    assert np.linalg.eigvalsh(g.hessian(x))[0] >= g.mu - 1e-12
    # what was taken on can be taken away again, down to nothing
    assert_allclose(g.tilted(-g.mu).mu, 0.0, atol=1e-16)


# -- memory, memo, cost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_dense_rows_are_held_once_and_as_they_came(dtype):
    X = np.random.default_rng(0).integers(0, 200, (20, 5)).astype(dtype)
    f = LinearModel(X, np.ones(20), Squared(), intercept=True, scale=1 / 255)
    for g in (f, f.fresh(), f.scaled(2.0), f.tilted(1.0).base):
        assert np.shares_memory(g.design.X, X) and g.design.X.dtype == dtype
        g.value_gradient(np.ones(6))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_sparse_rows_are_held_once_and_as_they_came(kind, dtype):
    X = kind(np.random.default_rng(0).integers(0, 3, (20, 5)).astype(dtype))
    f = LinearModel(X, np.ones(20), Squared())
    assert f.design.X.dtype == dtype
    for part in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(f.design.X, part), getattr(X, part))


def test_wide_indices_are_narrowed_and_the_values_shared():
    X = sp.csr_array(np.eye(3))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    f = LinearModel(X, np.ones(3), Squared())
    assert f.value(np.zeros(3)) == 0.5 and np.shares_memory(f.design.X.data, X.data)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.float16, bool, ">f8", np.longdouble])
def test_other_numbers_become_float64(dtype):
    X = np.random.default_rng(0).integers(0, 2, (6, 3)).astype(dtype)
    for given_X in (X, np.asfortranarray(X)):
        f = LinearModel(given_X, np.ones(6), Squared())
        assert f.design.X.dtype == np.float64
        assert f.value(np.ones(3)) == LinearModel(X.astype(float), np.ones(6), Squared()).value(np.ones(3))


@pytest.mark.parametrize("form", ["csc_array", "coo_array", "lil_array", "dia_array"])
def test_other_sparse_formats_become_csr(form):
    X = np.random.default_rng(0).integers(0, 2, (6, 3)).astype(float)
    f = LinearModel(getattr(sp, form)(X), np.ones(6), Squared(), ridge=1.0)
    g = LinearModel(X, np.ones(6), Squared(), ridge=1.0)
    assert f.design.X.format == "csr"
    assert_allclose(f.gradient(np.ones(3)), g.gradient(np.ones(3)), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_entries_given_twice_add_up_and_the_users_matrix_stays(dtype):
    data, indices, indptr = np.array([200, 100, 7], dtype), np.array([1, 1, 0]), np.array([0, 2, 3])
    X = sp.csr_array((data, indices, indptr), shape=(2, 2))
    f = LinearModel(X, np.zeros(2), Squared())
    g = LinearModel(np.array([[0.0, 300.0], [7.0, 0.0]]), np.zeros(2), Squared())
    x = np.array([1.0, 0.1])
    assert_allclose(f.value(x), g.value(x), rtol=1e-14)
    assert_allclose([f.L, f.L_row], [g.L, g.L_row], rtol=1e-9)
    assert X.nnz == 3 and X.data[0] == 200


def test_targets_and_weights_are_copies():
    y, w = np.ones(3), np.ones(3)
    f = LinearModel(np.eye(3), y, Squared(), weights=w)
    before = f.value(np.zeros(3))
    y[:], w[0] = 9.0, 9.0
    assert f.fresh().value(np.zeros(3)) == before
    assert f.mass == 3.0


def test_weights_count_rows_as_often_as_they_say():
    case = build(Squared(), n=4)
    often = np.array([1, 0, 3, 2])
    repeated = LinearModel(
        np.repeat(case.X, often, axis=0), np.repeat(case.y, often), Squared(), 0.3, scale=case.f.design.scale
    )
    weighted = LinearModel(case.X, case.y, Squared(), 0.3, weights=often, scale=case.f.design.scale)
    assert_allclose(weighted.gradient(case.x), repeated.gradient(case.x), rtol=1e-12)
    assert weighted.mass == repeated.mass == 6.0


def test_a_remembered_point_is_not_changed_from_outside():
    f = build(Squared()).f
    x = np.ones(4)
    point = f.at(x)
    at_one = point.value, point.gradient.copy()
    x[:] = 5.0
    assert (point.x == 1.0).all() and f.at(np.ones(4)) is point
    assert f.value(np.ones(4)) == at_one[0]
    assert f.at(x) is not point and f.value(x) != at_one[0]
    for result in (point.x, point.gradient):
        with pytest.raises(ValueError, match="read-only"):
            result[0] = 1.0


def test_a_ray_is_not_changed_from_outside():
    for f in (build(Squared()).f, build(Squared()).f.tilted(0.5, np.ones(4))):
        p = np.ones(4)
        ray = f.at(np.zeros(4)).ray(p)
        expected = f.value(0.5 * p)
        p[:] = 7.0
        assert_allclose(ray.value(0.5), expected, rtol=1e-13)
        assert_allclose(ray.point(0.5).value, expected, rtol=1e-13)


def test_a_tilt_is_not_changed_from_outside():
    f = build(Squared()).f
    a, c = np.ones(4), np.ones(4)
    g = f.tilted(a, c)
    before = g.value(np.ones(4))
    a[:], c[:] = 3.0, 4.0
    assert g.fresh().value(np.ones(4)) == before


def test_two_points_are_remembered():
    f = build(Squared()).f
    first, second = f.at(np.zeros(4)), f.at(np.ones(4))
    assert f.at(np.zeros(4)) is first and f.at(np.ones(4)) is second
    f.at(np.full(4, 2.0))
    assert f.at(np.ones(4)) is second and f.at(np.zeros(4)) is not first


@pytest.mark.parametrize("kind", ["float64", "csr uint8"])
def test_the_account_is_exact(kind):
    f = build(Softmax(3), kind, n=9).f
    x, p = np.zeros(f.d), np.ones(f.d)
    account = []

    def spent(what):
        account.append((what, f.cost.gradients, f.cost.hessian_products, f.cost.passes))
        f._cost = Cost()

    f.gradient(x), spent("value and gradient are one pass")
    f.value(x), f.gradient(x), spent("and are remembered")
    f.hessian_times(x, p), spent("a Hessian product")
    ray = f.at(x).ray(p)
    spent("the predictors of p")
    ray.value(0.5), ray.slope(0.5), ray.value(2.0), spent("steps are free")
    point = ray.point(0.5)
    assert point.value == pytest.approx(ray.value(0.5))
    spent("so is a value there")
    assert point.gradient.shape == (f.d,)
    spent("a gradient there needs only X'")
    f.value(p), spent("a value alone")
    f.gradient(p), spent("a gradient after it")
    f.sample_gradient(np.array([1, 2, 2]), x), spent("3 of 9 rows")
    assert f.L > 0
    spent("constants are preparation")
    assert account == [
        ("value and gradient are one pass", 1, 0, 1.0),
        ("and are remembered", 0, 0, 0.0),
        ("a Hessian product", 0, 1, 1.0),
        ("the predictors of p", 0, 0, 0.5),
        ("steps are free", 0, 0, 0.0),
        ("so is a value there", 0, 0, 0.0),
        ("a gradient there needs only X'", 1, 0, 0.5),
        ("a value alone", 0, 0, 0.5),
        ("a gradient after it", 1, 0, 0.5),
        ("3 of 9 rows", pytest.approx(1 / 3), 0, pytest.approx(1 / 3)),
        ("constants are preparation", 0, 0, 0.0),
    ]


def test_views_share_the_account_and_fresh_copies_do_not():
    f = build(Squared()).f
    f.tilted(1.0).value_gradient(np.ones(4))
    assert f.cost == Cost(1, 0, 1)
    fresh = f.tilted(1.0).fresh()
    fresh.value_gradient(np.zeros(4))
    assert fresh.cost == Cost(1, 0, 1) and f.cost == Cost(1, 0, 1)
    assert f.cost - Cost(1, 0, 0.5) + Cost(0, 2, 0) == Cost(0, 2, 0.5)


def test_tilts_add_up_and_do_not_nest():
    f = build(Squared()).f
    c = np.arange(4.0)
    g = f.tilted(0.5, c).tilted(0.25, c)
    assert g.base is f and g.a == 0.75
    assert_allclose(g.gradient(c), f.gradient(c) + 0.75 * c - 2 * c, rtol=1e-12)
    plain = f.tilted(0.5).scaled(2.0)
    assert_allclose(plain.gradient(c), f.scaled(2.0).gradient(c) + 0.5 * c, rtol=1e-12)


@every_loss
def test_a_copy_for_another_process_is_the_same_function(loss):
    case = build(loss, "csr float32", intercept="free", weighted=True)
    case.f.value(case.x)
    copy = pickle.loads(pickle.dumps(case.f))
    assert len(copy._recent) == 0
    assert copy.value(case.x) == case.f.value(case.x)
    tilted = pickle.loads(pickle.dumps(case.f.tilted(0.5, case.x)))
    assert tilted.value(case.x) == case.f.tilted(0.5, case.x).value(case.x)
    tilted.value(2 * case.x)
    assert tilted.cost is tilted.base.cost


@some
@given(st.integers(0, 10**6))
def test_predictors_stay_exact_along_many_rays(seed):
    """Far away and back, the rounding errors of |Z| = 1e9 must not stay in a Z of size 1."""
    case = build(Squared(), n=10, seed=seed)
    f, p = case.f, case.direction()
    point = f.at(case.x)
    for _ in range(3):
        point = point.ray(p).point(1e9)
        point = point.ray(case.x - point.x).point(1.0)
        assert_allclose(point.value, case.value(point.x), rtol=1e-12)
    for _ in range(400):  # and many small steps
        point = point.ray(case.rng.normal(size=f.d) * 0.1).point(0.7)
    assert_allclose(point.predictors, case.predictors(point.x), rtol=0, atol=1e-12)


# -- clients as they come --------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True, "free"])
def test_a_client_may_lack_classes(intercept):
    """A silo with a single class, of several, is an ordinary client."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3))
    f = LinearModel(X, np.full(6, 2), Softmax(4), 0.1, intercept=intercept)
    x = rng.normal(size=f.d)
    assert f.d == (3 + bool(intercept)) * 4
    assert_allclose(f.gradient(x), differences(f.value, x), rtol=1e-7, atol=1e-8)
    assert f.value(np.zeros(f.d)) == pytest.approx(np.log(4))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_huge_features_are_finite_features(dtype, sparse, signs):
    """Their sum overflows, to inf or to nan, and no entry is wrong."""
    huge = np.finfo(dtype).max
    X = np.outer(np.ones(64), np.array(signs, dtype) * huge).astype(dtype)
    X[:32] *= -1
    f = LinearModel(sp.csr_array(X) if sparse else X, np.zeros(64), Squared())
    assert f.n == 64
    if dtype == np.float64:
        assert np.isinf(f.L)  # |x|^2 is beyond the numbers
    else:
        assert 0.99 * 2 * float(huge) ** 2 <= f.L < np.inf


def test_large_numbers_keep_a_finite_L():
    X = np.full((3, 2), 1e150)
    assert 2e300 * (1 - 1e-12) <= LinearModel(X, np.zeros(3), Squared()).L < np.inf
