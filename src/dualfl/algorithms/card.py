"""What a reader wants to know of an algorithm before using it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """What a reader wants to know of an algorithm before using it; `dualfl algorithms` prints it.

    Parameters
    ----------
    title : str
        The name that its paper gives it.
    year : int
        When it was published.
    reference : str
        Its authors.
    exchanges : str
        How many exchanges a round has.
    up, down : str
        Floats that a client sends and receives in a round, for d coefficients.
    participation : str
        Which clients take part.
    needs : str
        What it asks of the costs.
    rate : str
        How many rounds it needs, in theory.
    accelerated : bool
        Whether the rate has the square root of kappa.
    deterministic : bool
        Whether it draws no random numbers.
    paper : str
        Where to find it: "arXiv:NUMBER", "doi:NUMBER" or an address; "" if it is not published.

    Examples
    --------
    >>> import dualfl
    >>> card = dualfl.DualFL.card
    >>> card.reference, card.year, card.link
    ('Park and Xu', 2023, 'https://arxiv.org/abs/2305.10294')
    """

    title: str
    year: int
    reference: str
    exchanges: str = "1"
    up: str = "d"
    down: str = "d"
    participation: str = "all"
    needs: str = "strongly convex, smooth"
    rate: str = ""
    accelerated: bool = False
    deterministic: bool = True
    paper: str = ""

    @property
    def link(self) -> str:
        """The address of the paper; "" if there is none."""
        scheme, _, number = self.paper.partition(":")
        homes = {"arXiv": "https://arxiv.org/abs/", "doi": "https://doi.org/"}
        return homes[scheme] + number if scheme in homes else self.paper
