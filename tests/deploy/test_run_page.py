"""The files and the page of `deploy run`: the coefficients are there, for the columns as they are."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from loopback import Loopback, run_over
from test_same_as_fit import HOSPITALS, fitted, hospitals

from dualfl.algorithms.registry import make
from dualfl.deploy.project import ProjectSettings, plain
from dualfl.deploy.results import summary, write
from dualfl.deploy.runs import Finished, open_experiment
from dualfl.deploy.study import called
from dualfl.errors import InputError
from dualfl.federation.remote import Terms
from dualfl.silos.ledger import Spent


@pytest.fixture
def finished(tmp_path):
    homes = []
    for path in hospitals(tmp_path):
        home = tmp_path / "silos" / path.stem
        home.mkdir(parents=True)
        silo = {"name": home.name, "data": str(path), "target": "readmitted", "identity": home.name, "minimum": 2}
        (home / "silo.json").write_text(json.dumps(silo))
        homes.append(home)
    settings = ProjectSettings(host="h", silos=("hill", "north", "river"), tls=False, secure=False)
    asked = make("auto", proof=True)
    terms = Terms("e", settings.silos, asked, plain(settings))
    result, engine = run_over(Loopback(homes, resident=True), terms, None, rounds=60, tol=1e-10)
    traffic = {"messages": 1, "down": 2, "up": 3}
    project = SimpleNamespace(settings=settings)
    return Finished(project, tmp_path / "run", result.algorithm, 0, result, engine.setup, engine.constants, traffic)


def test_the_page_of_a_run_on_silos_shows_the_coefficients_of_a_fit(finished, tmp_path):
    finished.folder.mkdir()
    write(replace(finished), "dualfl deploy run study")
    with open(finished.folder / "coefficients.csv", newline="") as file:
        found = {row["feature"]: row for row in csv.DictReader(file)}
    fit = fitted([HOSPITALS / f"{name}.csv" for name in ("north", "river", "hill")], "readmitted", "logistic")
    assert set(found) == {*fit.schema.names, "(intercept)"}
    for name, value in zip((*fit.schema.names, "(intercept)"), fit.theta[:, 0]):
        assert np.isclose(float(found[name]["coefficient"]), value, rtol=1e-5, atol=1e-6)
        assert found[name]["class"] == "yes" and found[name]["std_error"] == ""
    page = (finished.folder / "report.html").read_text(encoding="utf-8")
    assert 'data-coefficients="0"' in page and "earlier_admissions" in page
    assert "<h1>Logistic model of yes against no</h1>" in page
    places = [page.index(f'id="{key}"') for key in ("fitted", "coefficients", "proof", "way")]
    assert places == sorted(places)
    folded = page[places[-1] :]
    assert all(f'<details id="{key}"' in folded for key in ("convergence", "hyperparameters"))


def test_an_evaluation_of_a_model_with_arrays_is_opened_again_by_all_its_digits(tmp_path):
    one, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1e-9
    wanted = [{"analysis": {"analysis": "evaluate", "W": W}, "silos": ("a", "b")} for W in (one, other)]
    assert called(wanted[0]) != called(wanted[1])
    id, begun = open_experiment(tmp_path, wanted[0], fresh=False)
    assert not begun and open_experiment(tmp_path, wanted[0], fresh=False) == (id, True)
    with pytest.raises(InputError, match="has another run"):
        open_experiment(tmp_path, wanted[1], fresh=False)


def test_a_run_has_one_account_of_all_that_travelled(finished):
    """On the console, in run.json and on the page: the columns and the scaling as well as the rounds."""
    last = finished.result.history[-1]
    spent = (Spent("columns and levels", 2, 30, 12), Spent("the run", last.exchanges, last.floats_up, last.floats_down))
    run = replace(finished, spent=spent)
    run.folder.mkdir()
    write(run, "dualfl deploy run study")
    found = json.loads((run.folder / "run.json").read_text())
    numbers = 42 + last.floats_up + last.floats_down
    assert found["results"]["exchanges"] == last.exchanges + 2 and found["results"]["numbers up and down"] == numbers
    assert found["results"]["of the algorithm alone"]["exchanges"] == last.exchanges
    assert found["spent"][0] == {"for": "columns and levels", "exchanges": 2, "numbers": 42}
    text = " ".join(summary(run).split())
    assert (
        f"exchanges {last.exchanges + 2}: 2 for columns and levels, {last.exchanges} for the run; {numbers:,} " in text
    )
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "All that silos and server sent" in page and "everything included" in page and "of the run" not in page
