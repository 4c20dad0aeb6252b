"""Silos that are asked what they have before there is an engine, for an algorithm that chooses."""

from __future__ import annotations

from dualfl.algorithms.contract import Constants
from dualfl.engines.decision import conversing
from dualfl.engines.exchanges import Exchanges, drive
from dualfl.engines.survey import Inquiry
from dualfl.federation.remote import Federation, Remote, Setup
from dualfl.objectives.base import Objective
from dualfl.objectives.penalties import Penalty


class SilosAfar(Remote):
    """Carries an inquiry to the silos; it is bound to the algorithm that chooses, and settles nothing."""

    def __init__(self, federation: Federation, setup: Setup, template: Objective, penalty: Penalty | None) -> None:
        self._bind(federation, setup, template, penalty, federation.terms.algorithm)

    def inquire(self, inquiry: Inquiry) -> Constants:
        return drive(self.inquiring(inquiry))

    def inquiring(self, inquiry: Inquiry) -> Exchanges[Constants]:
        return conversing(
            inquiry, self.place, self.template.shape[0], lambda driver, asked: self.exchanging(inquiry, driver, asked)
        )
