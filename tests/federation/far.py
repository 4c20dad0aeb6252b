"""A whole fit on silos in this process, reached by the same bytes as silos elsewhere."""

import json
from dataclasses import replace

from loopback import Loopback, sign_up
from needs import need

from dualfl.analysis.descriptions import WholeFit
from dualfl.analysis.one_algorithm import LinearProblem, OneAlgorithm
from dualfl.analysis.whole_fit import fitting
from dualfl.federation.analysis_journal import AnalysisJournal
from dualfl.federation.courier import Courier
from dualfl.federation.experiment import Experiment
from dualfl.federation.far_silos import AnalysisTerms, FarSilos
from dualfl.federation.fixed_point import BITS
from dualfl.federation.silo_folder import SiloFolder
from dualfl.silos.questions import drive

TABLE = {"loss": "auto", "ridge": 0.1, "l1": 0.0, "solver": None, "intercept": "penalised"}
PINNED = "0123456789abcdef"  # the secret of all silos by which they deal folds


def make_homes(folder, paths, target, secure, **settings):
    folder.mkdir(exist_ok=True)
    homes = []
    for path in paths:
        home = folder / path.stem
        home.mkdir()
        silo = {"name": home.name, "data": str(path), "target": target, "identity": home.name, "minimum": 2}
        (home / "silo.json").write_text(json.dumps(silo | settings))
        (home / "folds").write_text(PINNED)
        homes.append(home)
    if secure:
        need("cryptography", "flower")
        sign_up(homes)
    return homes


def far_silos(homes, secure, fault=None, journal=None, experiment="e", transport=None, analysis=None):
    names = tuple(sorted(home.name for home in homes))
    roster = json.loads((homes[0] / "roster.json").read_text()) if secure else None
    post = Courier(transport or Loopback(homes, fault, resident=True), poll=0.0, patience=5.0)
    return FarSilos(post, AnalysisTerms(experiment, names, analysis or {}, secure, roster), AnalysisJournal(journal))


def far_run(homes, algorithm, rounds=5, secure=BITS, problem=None, **options):
    """One algorithm on these silos, as `dualfl deploy run` has it under masks."""
    told = {name: options.pop(name) for name in ("task", "standardise", "seed", "tol") if name in options}
    analysis = OneAlgorithm(algorithm, LinearProblem(**TABLE | (problem or {})), rounds=rounds, **told)
    silos = far_silos(homes, secure, analysis=analysis.as_json(), **options)
    return drive(analysis.conversation(silos), silos)


def objectives(homes, outcome, problem=None, experiment="e"):
    """What the silos minimised in such a run."""
    cost = LinearProblem(**TABLE | (problem or {})).cost(outcome.schema)
    return [Experiment(SiloFolder(home), experiment).far.chamber.objective(cost) for home in homes]


def far_fit(silos, recipe, wishes):
    silos.terms = replace(silos.terms, description=WholeFit(recipe, wishes).as_json())
    return drive(fitting(silos, recipe, wishes), silos)
