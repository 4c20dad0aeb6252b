"""The silos of a project as somebody who analyses them sees them: `study = dualfl.connect("study")`.

Every call is one experiment over the coordinator that `dualfl deploy start` runs. What silos have answered is kept, so
that a call which is interrupted goes on where it was when it is given again.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualfl.analysis.descriptions import (
    Analysis,
    EstimatorFit,
    ModelEvaluation,
    SurvivalCurves,
    TableCheck,
    TableDescription,
    WholeFit,
)
from dualfl.analysis.estimator_fits import as_whole_fit, take
from dualfl.analysis.models import Recipe
from dualfl.analysis.survival_curves import Curves, CurveWishes
from dualfl.analysis.tabulating import Description, TableWishes
from dualfl.analysis.whole_fit import Fit, Wishes
from dualfl.deploy.project import Project
from dualfl.deploy.running import submit_and_watch
from dualfl.deploy.runs import as_text, checked_name, open_experiment
from dualfl.engines.progress import Bar
from dualfl.estimators.metrics import Evaluation
from dualfl.federation.far_silos import AnalysisTerms
from dualfl.federation.fixed_point import BITS
from dualfl.federation.flower.analysis_job import Analysed, AnalysisJob
from dualfl.files import write_atomically
from dualfl.tables.findings import Inspection

Say = Callable[[str], None]
RESULT, COLLECTED = "result.pkl", "collected"  # what came of an analysis, and that somebody has got it


class Study:
    """The silos of a project.

    Parameters
    ----------
    folder : the coordinator's folder, made by `dualfl deploy init`.
    patience : seconds without an answer after which a call ends; None: as the project says.
    say : gets a sentence at every exchange; None: nobody hears it.
    warn : gets a sentence where something takes long, such as a silo that does not answer; None: as `say`.
    fresh : whether what was left unfinished is begun anew; else it goes on.
    """

    def __init__(
        self,
        folder: Path | str,
        patience: float | None = None,
        say: Say | None = None,
        fresh: bool = False,
        warn: Say | None = None,
    ) -> None:
        self.project = Project(Path(folder))
        self.patience = self.project.settings.patience if patience is None else patience
        self.say: Say = say or (lambda sentence: None)
        self.warn: Say = warn or self.say
        self.fresh = fresh
        self._told: tuple[int, str] | None = None  # the exchange that was told last

    def __repr__(self) -> str:
        settings = self.project.settings
        how = "masked sums" if settings.secure else "plain sums"
        return f"Study of {len(settings.silos)} silos ({', '.join(settings.silos)}), {how}"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the silos, in order."""
        return tuple(sorted(self.project.settings.silos))

    def fit(self, recipe: Recipe, wishes: Wishes, *, fresh: bool = False) -> Fit:
        """The whole of `dualfl fit`."""
        silos = self.project.settings.silos
        found = self.analyse(WholeFit(recipe, replace(wishes, first=silos[0])), fresh=fresh)
        fit: Fit = found.result
        return replace(fit, wishes=wishes, spent=found.spent, far=True).in_order(silos)

    def curves(self, wishes: CurveWishes) -> Curves:
        """What `dualfl km` prints, as numbers."""
        found = self.analyse(SurvivalCurves(wishes))
        curves: Curves = found.result
        return replace(curves, wishes=wishes, spent=found.spent)

    def describe(self, wishes: TableWishes | None = None) -> Description:
        """What `dualfl describe` prints, as numbers."""
        found = self.analyse(TableDescription(wishes or TableWishes()))
        description: Description = found.result
        return replace(description, spent=found.spent)

    def evaluate(self, model: Any, bins: int = 1000, unseen: str = "error") -> Evaluation:
        """How good a model is on the rows that silos keep for this, or else on those of fits.

        The model is an estimator that was fitted to this study, or one that was read from its folder. With
        `unseen="baseline"` levels that the model does not know count as the reference level.
        """
        evaluation: Evaluation = self.analyse(ModelEvaluation.of(model, bins, unseen)).result
        return evaluation

    def check(self, target: str = "", classes: bool | None = None) -> list[Inspection]:
        """What every silo finds wrong with its table: columns and faults, without entries, rows and counts."""
        found: list[Inspection] = self.analyse(TableCheck(target, classes)).result
        return found

    def fit_estimator(self, estimator: Any, **roles: str) -> None:
        """What an estimator's `fit_silos` does with a study: silos' columns as they are, all of them."""
        whole = as_whole_fit(estimator, roles)
        if whole is not None:
            take(estimator, self.fit(whole.recipe, whole.wishes))
            return
        found = self.analyse(EstimatorFit.of(estimator)).result
        for name, value in vars(found).items():
            setattr(estimator, name, value)

    def analyse(self, analysis: Analysis, name: str | None = None, fresh: bool = False) -> Analysed:
        """Carry out an analysis, or go on with it."""
        project, settings, self._told = self.project, self.project.settings, None
        project.check_complete()
        wanted = {"analysis": analysis.as_json(), "silos": self.names, "secure": settings.secure}
        work = project.folder.absolute() / "analyses" / checked_name(name or called(wanted)) / "work"
        experiment, _ = open_experiment(work, wanted, fresh or self.fresh or finished(work))
        terms = AnalysisTerms(
            experiment,
            self.names,
            analysis.as_json(),
            BITS if settings.secure else None,
            project.roster if settings.tls else None,
        )
        job = AnalysisJob(terms, analysis, self.patience, authenticated=settings.tls)
        if not (work / RESULT).exists():  # else whoever waited for it was killed before it was there
            write_atomically(work / "job.pkl", pickle.dumps(job))
            submit_and_watch(project, work, Bar("", 0, False), self.warn, lambda: None, self._at)
        result: Analysed = pickle.loads((work / RESULT).read_bytes())
        write_atomically(work / COLLECTED, b"")
        return result

    def _at(self, number: int, purpose: str) -> None:
        if (number, purpose) != self._told:  # an exchange that is asked again is still the same
            self._told = (number, purpose)
            self.say(f"exchange {number}: {purpose}")


def called(wanted: dict[str, Any]) -> str:
    """A name for an analysis that is the same whenever the same is asked."""
    kind = str(wanted["analysis"]["analysis"])
    return f"{kind}-{hashlib.sha256(as_text(wanted).encode()).hexdigest()[:12]}"


def finished(work: Path) -> bool:
    """Whether somebody has got the result of the one of before, so that this is another."""
    return (work / RESULT).exists() and (work / COLLECTED).exists()


def connect(
    folder: Path | str,
    *,
    patience: float | None = None,
    say: Say | None = None,
    fresh: bool = False,
    warn: Say | None = None,
) -> Study:
    """Connect to the silos of a deployment, to analyse them as if they were files.

    Parameters
    ----------
    folder : str or Path
        The coordinator's folder, made by `dualfl deploy init`; `dualfl deploy start` must be running there.
    patience : float, optional
        How many seconds to wait for a silo that does not answer; by default what project.json says.
    say : Say, optional
        Called with a sentence at every exchange, such as `print`.
    fresh : bool, default False
        Whether to start an unfinished analysis again. This is necessary if a silo says that it has ended.
    warn : Say, optional
        Called with a sentence where something takes long, such as the names of silos that do not answer; by default
        `say`.

    Returns
    -------
    Study
        Its `fit`, `evaluate` and `check` ask the silos; estimators take it in `fit_silos`.

    Examples
    --------
    >>> import dualfl
    >>> from dualfl.estimators import LogisticRegression
    >>> study = dualfl.connect("study", say=print)  # doctest: +SKIP
    >>> model = LogisticRegression().fit_silos(study)  # doctest: +SKIP
    """
    return Study(folder, patience, say, fresh, warn)
