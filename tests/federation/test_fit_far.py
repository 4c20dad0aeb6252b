"""A fit on silos far away is the fit of their files: to the last bit without masks, to 1e-9 of an error under them."""

import json
from itertools import count

import numpy as np
import pytest
from far import PINNED, far_fit, far_silos, make_homes
from loopback import Loopback
from sklearn.exceptions import ConvergenceWarning
from test_same_as_fit import hospitals, regression, with_gaps

from dualfl.analysis.descriptions import EstimatorFit, ModelEvaluation, from_json
from dualfl.analysis.estimator_fits import as_whole_fit, take
from dualfl.analysis.models import Recipe
from dualfl.analysis.whole_fit import Wishes, fitting
from dualfl.errors import InputError
from dualfl.estimators import CLogLogRegression, LogisticRegression, LogisticRegressionCV, evaluate
from dualfl.federation import fixed_point
from dualfl.federation.chambers import fold_dealing
from dualfl.federation.fixed_point import BITS
from dualfl.fits import model_folder
from dualfl.fits.console import fit_text
from dualfl.fits.predicting import evaluate_model
from dualfl.silos import Chamber, SilosHere, drive
from dualfl.silos.curvature import DISTANCE, FARTHEST, NEAREST, POWER
from dualfl.tables.encoding import features, targets
from dualfl.tables.reading import read_table
from dualfl.tables.schema import Request, agree, summarise, used

TIGHT = 1e-12

CASES = {
    "logistic": (hospitals, Request("readmitted"), Recipe("logistic", tol=TIGHT), {}),
    "unpenalised": (hospitals, Request("readmitted"), Recipe("logistic", "none", tol=TIGHT), {}),
    "l1 by folds": (hospitals, Request("readmitted"), Recipe("logistic", "l1", tol=1e-9), {"cross_validate": True}),
    "svm": (hospitals, Request("readmitted"), Recipe("squared-hinge", tol=1e-9), {}),
    "classes": (
        with_gaps,
        Request("class", categorical=("code",)),
        Recipe("multinomial", tol=TIGHT),
        {"cross_validate": True, "cv": 2, "influence": False},
    ),
    "machines": (with_gaps, Request("class", categorical=("code",)), Recipe("svm", tol=1e-6), {"influence": False}),
    "indicator": (
        with_gaps,
        Request("class", categorical=("code",), missing="indicator"),
        Recipe("multinomial", tol=TIGHT),
        {},
    ),
    "linear": (regression, Request("y", True), Recipe("linear", "none", tol=TIGHT), {}),
    "lasso": (regression, Request("y", True), Recipe("lasso", "l1", tol=TIGHT), {"cross_validate": True, "cv": "silo"}),
    "huber": (regression, Request("y", True), Recipe("huber", tol=TIGHT), {}),
    "quantile": (regression, Request("y", True), Recipe("quantile", tol=1e-6), {"influence": False}),
}


def here(paths, homes, recipe, wishes):
    """The same files on this machine, dealt into folds by the same secrets, in the order of the silos' names."""
    dealing = fold_dealing(homes_of(homes)[0])
    tables = {path.stem: read_table(path) for path in paths}
    chambers = [Chamber(tables[name], dealing, name) for name in sorted(tables)]
    silos = SilosHere(chambers)
    return drive(fitting(silos, recipe, wishes), silos), silos


def homes_of(homes):
    from dualfl.federation.silo_folder import SiloFolder

    return [SiloFolder(home) for home in homes]


@pytest.mark.parametrize("secure", [None, BITS])
@pytest.mark.parametrize("case", CASES)
def test_a_fit_is_a_fit_wherever_the_silos_are(case, secure, tmp_path):
    files, request, recipe, more = CASES[case]
    wishes = Wishes(request, **more)
    paths = files(tmp_path)
    homes = make_homes(
        tmp_path / "silos",
        paths,
        request.target,
        secure,
        categorical=list(request.categorical),
        show_own_numbers=True,
    )
    expected, mine = here(paths, homes, recipe, wishes)
    silos = far_silos(homes, secure)
    found = far_fit(silos, recipe, wishes)
    assert found.schema == expected.schema or secure
    assert found.schema.names == expected.schema.names
    assert [one.reference for one in found.schema.features] == [one.reference for one in expected.schema.features]
    assert found.estimator.algorithm_ == expected.estimator.algorithm_
    if secure is None:
        assert silos.ledger.exchanges == mine.ledger.exchanges
        same_bits(found, expected)
    else:
        same_but_for_rounding(found, expected)


def same_bits(found, expected):
    assert found.theta.tobytes() == expected.theta.tobytes()
    assert found.recipe == expected.recipe
    assert (found.errors is None) == (expected.errors is None)
    if expected.errors is not None:
        assert found.errors.covariance.tobytes() == expected.errors.covariance.tobytes()
    assert found.losses == expected.losses and found.loss == expected.loss
    assert str(found.evaluation) == str(expected.evaluation)
    for one, other in zip(found.without, expected.without, strict=True):
        assert one.reason == other.reason
        assert (one.theta is None) == (other.theta is None) or one.theta.tobytes() == other.theta.tobytes()
    if expected.path is not None:
        assert found.path.losses.tobytes() == expected.path.losses.tobytes()


def same_but_for_rounding(found, expected):
    assert np.isclose(found.recipe.alpha, expected.recipe.alpha, rtol=1e-9)
    unit = np.abs(expected.theta).max() if expected.standard_errors is None else expected.standard_errors
    assert (np.abs(found.theta - expected.theta) <= 1e-9 * unit).all()
    if expected.standard_errors is not None:
        np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-9)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)


def test_the_secret_of_folds_is_the_silos_own(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("a", "b"):
        home = tmp_path / name
        home.mkdir(exist_ok=True)
        (home / "silo.json").write_text(json.dumps({"name": name}))
    one, other = (fold_dealing(home) for home in homes_of([tmp_path / "a", tmp_path / "b"]))
    assert one != other and one == fold_dealing(homes_of([tmp_path / "a"])[0])
    assert (tmp_path / "a" / "folds").stat().st_mode & 0o077 == 0
    assert PINNED not in (tmp_path / "a" / "folds").read_text()


# -- what may go wrong --------------------------------------------------------------------------------------

LOGISTIC = Recipe("logistic")
NUMBERS = count()
READMITTED = Wishes(Request("readmitted"), influence=False)


def started(tmp_path, secure=None, **settings):
    paths = hospitals(tmp_path)
    return make_homes(tmp_path / "silos", paths, "readmitted", secure, **settings)


def refusal(homes, wishes=READMITTED):
    silos = far_silos(homes, None, experiment=f"e{next(NUMBERS)}")
    with pytest.raises(InputError) as caught:
        far_fit(silos, LOGISTIC, wishes)
    return str(caught.value)


def test_an_interrupted_fit_goes_on_and_asks_nothing_twice(tmp_path):
    homes, journal = started(tmp_path, BITS), tmp_path / "journal"
    whole = far_fit(far_silos(homes, BITS, experiment="whole"), LOGISTIC, READMITTED)
    seen = []

    def fault(transport, node, request, answer):
        seen.append(request)
        if len(seen) == 3 * 6 + 2:  # in the middle of an exchange
            raise KeyboardInterrupt
        return

    with pytest.raises(KeyboardInterrupt):
        far_fit(far_silos(homes, BITS, fault, journal), LOGISTIC, READMITTED)
    again = []
    found = far_fit(far_silos(homes, BITS, lambda *call: again.append(call[2]), journal), LOGISTIC, READMITTED)
    assert np.allclose(found.theta, whole.theta, rtol=0, atol=1e-9)
    assert not set(seen[: 3 * 6]) & set(again)  # whole exchanges are not asked for again


def test_a_silo_that_restarts_with_every_message_gives_the_same(tmp_path):
    homes = started(tmp_path)
    resident = far_fit(far_silos(homes, None, experiment="a"), LOGISTIC, READMITTED)
    anew = far_silos(homes, None, experiment="b", transport=Loopback(homes))
    assert far_fit(anew, LOGISTIC, READMITTED).theta.tobytes() == resident.theta.tobytes()


def test_what_is_the_operators_to_say(tmp_path):
    homes = started(tmp_path)
    assert "this silo's target is 'readmitted'" in refusal(homes, Wishes(Request("age", True)))
    assert "allow_drop_rows" in refusal(homes, Wishes(Request("readmitted", missing="drop")))
    assert "'days'" in refusal(homes, Wishes(Request("readmitted", categorical=("days",))))
    (tmp_path / "silos" / "north" / "silo.json").write_text(
        json.dumps(json.loads((homes[0] / "silo.json").read_text()) | {"secure_only": True})
    )
    assert "secure aggregation" in refusal(homes)


def test_own_numbers_are_withheld_unless_shown_and_never_given_away_by_the_others(tmp_path):
    homes = started(tmp_path, BITS)
    hidden = far_fit(far_silos(homes, BITS, experiment="a"), LOGISTIC, Wishes(Request("readmitted")))
    assert hidden.own == (None,) * 3 and not hidden.evaluation.silos and not hidden.without
    assert hidden.rows == 456 and "withheld" in fit_text(hidden)
    for home in homes[:2]:  # two show theirs, so those of the third would be known
        settings = json.loads((home / "silo.json").read_text())
        (home / "silo.json").write_text(json.dumps(settings | {"show_own_numbers": True}))
    one_left = far_fit(far_silos(homes, BITS, experiment="b"), LOGISTIC, Wishes(Request("readmitted")))
    assert not one_left.evaluation.silos and one_left.own == (None,) * 3


def test_evaluation_is_that_of_the_files(tmp_path):
    homes = started(tmp_path, show_own_numbers=True)
    fit = far_fit(far_silos(homes, None, experiment="a"), LOGISTIC, READMITTED)
    model_folder.write(fit, tmp_path / "model", "a test", page=False)
    model = model_folder.read(tmp_path / "model")
    tables = [read_table(tmp_path / f"{name}.csv") for name in ("hill", "north", "river")]
    expected, _ = evaluate_model(model, tables)
    silos = far_silos(homes, None, experiment="b", analysis=ModelEvaluation.of(model).as_json())
    found = drive(ModelEvaluation.of(model).conversation(silos), silos)
    assert list(found.silos) == ["hill", "north", "river"]
    for name, sums in zip(found.silos, expected.silos.values()):
        assert found.silos[name].table() == pytest.approx(sums.table(), rel=1e-12)
    assert found.overall.table() == pytest.approx(expected.overall.table(), rel=1e-12)


def test_held_out_rows_may_have_levels_that_the_model_does_not_know(tmp_path):
    """Held-out files are small, so some level is rare there. The analyst hears what to do, and not which it is."""
    homes = started(tmp_path, show_own_numbers=True)
    fit = far_fit(far_silos(homes, None, experiment="a"), LOGISTIC, READMITTED)
    model_folder.write(fit, tmp_path / "model", "a test", page=False)
    model = model_folder.read(tmp_path / "model")
    for home in homes:
        text = (tmp_path / f"{home.name}.csv").read_text()
        (home / "held.csv").write_text(text.replace(",former", ",pipe"))
        settings = json.loads((home / "silo.json").read_text())
        (home / "silo.json").write_text(json.dumps(settings | {"held_out": "held.csv"}))
    tables = [read_table(home / "held.csv") for home in sorted(homes)]
    expected, _ = evaluate_model(model, tables, "baseline")
    asked = ModelEvaluation.of(model)
    with pytest.raises(InputError, match=r"column .smoker. has a level that .* --unseen baseline") as refused:
        drive(asked.conversation(silos := far_silos(homes, None, experiment="b", analysis=asked.as_json())), silos)
    assert "pipe" not in str(refused.value) and "held.csv" not in str(refused.value)
    asked = from_json(json.loads(json.dumps(ModelEvaluation.of(model, unseen="baseline").as_json(), default=list)))
    silos = far_silos(homes, None, experiment="c", analysis=asked.as_json())
    found = drive(asked.conversation(silos), silos)
    assert found.overall.table() == pytest.approx(expected.overall.table(), rel=1e-9)
    assert expected.overall.table() != fit.evaluation.overall.table()


class Near:
    """As much of a study as estimators and `evaluate` ask for."""

    def __init__(self, homes):
        self.homes, self.asked = homes, 0

    def analyse(self, analysis):
        self.asked += 1
        silos = far_silos(self.homes, None, experiment=f"near{self.asked}", analysis=analysis.as_json())
        return drive(analysis.conversation(silos), silos)

    def fit_estimator(self, estimator, **roles):
        whole = as_whole_fit(estimator, roles)
        if whole is None:
            vars(estimator).update(vars(self.analyse(EstimatorFit.of(estimator))))
        else:
            take(estimator, self.analyse(whole))

    def evaluate(self, model, bins):
        return self.analyse(ModelEvaluation.of(model, bins))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    "model", [LogisticRegression(), LogisticRegression(l1_ratio=1.0), LogisticRegressionCV(Cs=3, cv=2)]
)
def test_an_estimator_that_was_fitted_to_a_study_is_evaluated_there(model, tmp_path):
    study = Near(started(tmp_path, show_own_numbers=True))
    found = evaluate(model.fit_silos(study), study)
    rows = [used(read_table(tmp_path / f"{name}.csv"), Request("readmitted"))[0] for name in ("hill", "north", "river")]
    silos = [(features(table, model.schema_), table.columns["readmitted"]) for table in rows]
    expected = evaluate(model, silos, ["hill", "north", "river"])
    for name, sums in expected.silos.items():
        assert found.silos[name].table() == pytest.approx(sums.table(), rel=1e-12)
    assert found.overall.table() == pytest.approx(expected.overall.table(), rel=1e-12)
    with pytest.raises(InputError, match="leave out names and quantile"):
        evaluate(model, study, ["a", "b", "c"])
    with pytest.raises(InputError, match="this LogisticRegression was not: the names of its columns"):
        evaluate(LogisticRegression().fit(*silos[0]), study)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("C", [np.inf, 1.0])
def test_a_clog_log_estimator_on_a_study_has_the_proof_that_it_has_on_rows(C, tmp_path):
    study, tight = Near(started(tmp_path)), {"C": C, "tol": 1e-9, "max_iter": 500}
    far = CLogLogRegression(**tight).fit_silos(study)
    tables = [
        used(read_table(tmp_path / f"{name}.csv"), Request("readmitted"))[0] for name in ("hill", "north", "river")
    ]
    rows = [(features(table, far.schema_), table.columns["readmitted"]) for table in tables]
    here = CLogLogRegression(**tight).fit_silos(rows)
    assert 0 <= far.certificate_ <= 1e-9 * far.objective_
    # What is proven is true: the other fit has its own proof, and is no better than the certificate says.
    assert here.objective_ >= far.objective_ - far.certificate_
    np.testing.assert_allclose(far.coef_, here.coef_, rtol=0, atol=1e-5 * np.abs(here.coef_).max())


def test_a_fit_with_hardly_a_penalty_on_separated_classes_ends_without_a_proof(tmp_path):
    """Rows are so far out, in the norm of the inverse Hessian, that the power of it was no number and a silo failed."""
    rng, paths = np.random.default_rng(0), []
    for name in ("a", "b", "c"):
        X = rng.normal(size=(150, 3))
        lines = [",".join([*map(repr, map(float, x)), "yes" if x[0] > 0.1 else "no"]) for x in X]
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join(["u,v,w,y", *lines]) + "\n")
    study = Near(make_homes(tmp_path / "silos", paths, "y", None))
    with pytest.warns(ConvergenceWarning, match="tol was not certified"):
        model = CLogLogRegression(C=1e6).fit_silos(study)
    assert model.certificate_ is None


def test_masks_carry_how_far_out_rows_are():
    for told in (NEAREST, FARTHEST):
        power = (told / DISTANCE) ** POWER
        parts = fixed_point.limbs("power", power, 1000)  # refused if the sum of so many silos could not be carried
        words = {name: fixed_point.to_words(name, *part) for name, part in parts.items()}
        back = {name: fixed_point.number_from(int(words[name][0]), part.bits) for name, part in parts.items()}
        assert fixed_point.whole(back)["power"] == pytest.approx(power, rel=1e-15)


def test_estimators_fit_silos_far_away(tmp_path):
    homes = started(tmp_path)
    silos = far_silos(homes, None)
    found = drive(EstimatorFit.of(LogisticRegression(C=2.0, tol=1e-10)).conversation(silos), silos)
    assert found.classes_.tolist() == ["no", "yes"] and found.certificate_ <= 1e-9
    frames = [read_table(tmp_path / f"{name}.csv") for name in ("hill", "north", "river")]
    request = Request("readmitted")
    schema = agree([summarise(table, request) for table in frames], request)
    rows = [used(table, request)[0] for table in frames]
    here = LogisticRegression(C=2.0, tol=1e-10).fit_silos([(features(t, schema), targets(t, schema)) for t in rows])
    np.testing.assert_allclose(found.coef_, here.coef_, rtol=1e-6)
    np.testing.assert_allclose(found.inference_.covariance, here.inference_.covariance, rtol=1e-6, atol=1e-9)
    assert "ward=surgery" in found.summary() and "odds ratio" in here.summary()
    again = from_json(json.loads(json.dumps(EstimatorFit.of(LogisticRegression(C=2.0)).as_json())))
    assert again.estimator.get_params() == LogisticRegression(C=2.0).get_params()
