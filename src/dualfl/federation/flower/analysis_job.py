"""An analysis as the ServerApp runs it: a description goes in, what came of it comes out.

job.pkl        what is analysed             journal        what silos answered, exchange by exchange
rows.jsonl     a line an exchange           result.pkl     what came of it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dualfl.analysis.descriptions import Analysis
from dualfl.analysis.one_algorithm import AlgorithmOutcome, OneAlgorithm
from dualfl.federation.analysis_journal import AnalysisJournal
from dualfl.federation.courier import Courier, Traffic, Transport
from dualfl.federation.far_silos import AnalysisTerms, FarSilos
from dualfl.silos.ledger import Spent
from dualfl.silos.questions import Exchange, drive

JOURNAL = "journal"


@dataclass(frozen=True)
class AnalysisJob:
    """All that decides what is analysed, and how patient it is."""

    terms: AnalysisTerms
    analysis: Analysis
    patience: float = 3600.0
    poll: float = 0.5
    authenticated: bool = False


@dataclass(frozen=True, eq=False)
class Analysed:
    """What came of it, and what it cost."""

    result: Any
    spent: tuple[Spent, ...]
    stopped: str = "done"


class Telling(FarSilos):
    """Says before every exchange what it is for."""

    tell: Callable[[int, str], None]

    def carry(self, exchange: Exchange) -> list[Any]:
        self.tell(self.ledger.exchanges + 1, exchange.purpose)
        return super().carry(exchange)


def carry_out_analysis(job: AnalysisJob, folder: Path, transport: Transport, traffic: Traffic, lines: Any) -> Analysed:
    """Drive the analysis over the transport; what was answered before is not asked again."""
    post = Courier(
        transport,
        job.patience,
        job.poll,
        fixed=job.authenticated,
        say=lines.say,
        waits=lines.waits,
        traffic=traffic,
    )
    silos = Telling(post, job.terms, AnalysisJournal(folder / JOURNAL))
    silos.tell = lines.at
    analysis = job.analysis
    if isinstance(analysis, OneAlgorithm):
        analysis = replace(analysis, bar=lines)
    result = drive(analysis.conversation(silos), silos)
    if isinstance(result, AlgorithmOutcome) and result.result.stopped == "interrupted":
        raise KeyboardInterrupt
    silos.finish()
    return Analysed(result, silos.ledger.entries)
