"""A model as an estimator of scikit-learn, and through it as ONNX: the same predictions."""

import numpy as np
import pytest

from dualfl.errors import NotSupported
from dualfl.estimators import (
    CLogLogRegression,
    GammaRegressor,
    HuberRegressor,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)


def problem(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 3))
    z = X @ [1.0, -0.5, 0.2]
    targets = {
        "two": np.where(z + rng.normal(size=120) > 0, "yes", "no"),
        "three": np.array(["a", "b", "c"])[np.digitize(z + rng.normal(size=120), [-0.5, 0.5])],
        "count": rng.poisson(np.exp(0.4 * z)).astype(float),
        "amount": np.exp(0.3 * z + 0.1 * rng.normal(size=120)),
        "real": z + rng.normal(size=120),
    }
    return X, targets[kind], np.arange(120) % 3


CASES = [
    (LogisticRegression, "two"),
    (LogisticRegression, "three"),
    (LinearSVC, "two"),
    (LinearSVC, "three"),
    (Ridge, "real"),
    (HuberRegressor, "real"),
    (PoissonRegressor, "count"),
    (GammaRegressor, "amount"),
]
METHODS = ("predict", "predict_proba", "decision_function")


@pytest.mark.parametrize(("kind", "target"), CASES)
def test_scikit_learn_predicts_the_same(kind, target):
    X, y, groups = problem(target)
    model = kind().fit(X, y, groups=groups)
    plain = model.to_sklearn()
    assert type(plain).__module__.startswith("sklearn.")
    new = problem(target, seed=1)[0]
    for method in METHODS:
        if hasattr(model, method) and hasattr(plain, method):
            mine, theirs = getattr(model, method)(new), getattr(plain, method)(new)
            assert (mine == theirs).all() if mine.dtype.kind == "U" else np.allclose(mine, theirs, rtol=1e-12)


def test_what_scikit_learn_does_not_have_is_refused():
    X, y, groups = problem("two")
    with pytest.raises(NotSupported, match="no estimator that predicts as CLogLogRegression"):
        CLogLogRegression().fit(X, y, groups=groups).to_sklearn()


def test_the_model_of_a_folder(tmp_path):
    from pathlib import Path

    from click.testing import CliRunner

    from dualfl.cli import main
    from dualfl.fits.model_folder import read
    from dualfl.tables.encoding import features
    from dualfl.tables.reading import read_table

    files = [f"examples/hospitals/{name}.csv" for name in ("north", "river")]
    words = ["fit", *files, "--target", "readmitted", "--model", "logistic", "--no-report", "--no-influence"]
    assert CliRunner().invoke(main, [*words, "--out", str(tmp_path / "m")]).exit_code == 0
    model = read(tmp_path / "m")
    plain = model.to_sklearn()
    assert list(plain.classes_) == ["no", "yes"] and list(plain.feature_names_in_) == list(model.schema.names)
    X = features(read_table(Path("examples/hospitals/hill.csv")), model.schema)
    import pandas as pd

    theirs = plain.predict_proba(pd.DataFrame(X, columns=list(model.schema.names)))
    assert np.allclose(theirs, model.estimator().predict_proba(X), rtol=1e-12)


@pytest.mark.extras
@pytest.mark.parametrize(("kind", "target"), [case for case in CASES if case[0] is not GammaRegressor])
@pytest.mark.filterwarnings("ignore")
def test_onnx_predicts_the_same(kind, target):
    """Needs skl2onnx and onnxruntime, which `make test-extras` installs."""
    skl2onnx, onnxruntime = pytest.importorskip("skl2onnx"), pytest.importorskip("onnxruntime")
    X, y, groups = problem(target)
    model = kind().fit(X, y, groups=groups)
    types = skl2onnx.common.data_types
    precision = types.FloatTensorType if y.dtype.kind == "U" else types.DoubleTensorType  # no classifier has the latter
    inputs = [("X", precision([None, 3]))]
    converted = skl2onnx.convert_sklearn(model.to_sklearn(), initial_types=inputs).SerializeToString()
    session = onnxruntime.InferenceSession(converted, providers=["CPUExecutionProvider"])
    new = problem(target, seed=1)[0].astype(np.float32 if y.dtype.kind == "U" else np.float64)
    found = session.run(None, {"X": new})[0].ravel()
    mine = model.predict(new.astype(np.float64))
    if mine.dtype.kind == "U":
        assert (found == mine).mean() > 0.99  # ties of single precision aside
    else:
        assert np.allclose(found, mine, rtol=1e-12, atol=1e-12)
