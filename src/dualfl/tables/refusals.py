"""What stands in the way in somebody's table, and what can be done about it there.

The same fault has another remedy where files lie side by side and where silos are elsewhere: an option of the command,
or an entry of a settings file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dualfl.errors import InputError


class Unfit(InputError):
    """A silo's own data are not what they must be. The sentence is for whoever has the file; where others must hear of
    it they get `told`, which names no file and quotes no cell."""

    def __init__(self, sentence: str, told: str) -> None:
        super().__init__(sentence)
        self.told = told


@dataclass(frozen=True)
class Remedies:
    """How to do what a sentence advises; {!r} stands for the column."""

    drop: str = "leave it out with --drop {!r}"
    drop_everywhere: str = "leave it out everywhere with {}"
    column: str = "--drop {!r}"  # one of those
    between: str = " "
    gap: str = "count {} as missing with {}"
    value: str = "--na {!r}"  # one of those
    decimal: str = "read them with --decimal ','"
    commas: str = "read them with --decimal '{}=,'"  # in one column, where others have points
    dates: str = "make days of its dates with --dates as-days-since:2020-01-01"
    names: str = "say that it names rows with --id {!r}"
    recode: str = "such as by --recode {}=no:0,yes:1"
    categorical: str = "take its entries as categories with --categorical {!r}"
    allow_empty: str = "let the rule for missing values fill it with --allow-empty"
    drop_gaps: str = "take --missing fill, or leave out columns with gaps by --drop"

    def everywhere(self, *names: str) -> str:
        """Leaving these columns out in all silos."""
        return self.drop_everywhere.format(self.between.join(self.column.format(name) for name in names))

    def missing(self, texts: Sequence[str]) -> str:
        """Counting these entries as gaps."""
        it = "it" if len(texts) == 1 else "them"
        return self.gap.format(it, self.between.join(self.value.format(text) for text in texts))


IN_FILES = Remedies()
IN_SILOS = Remedies(
    drop="put {!r} under 'ignore' in silo.json",
    drop_everywhere="put {} under 'ignore' in the silo.json of every silo",
    column="{!r}",
    between=", ",
    gap="count {} as missing by {} under 'na' in silo.json",
    value="{!r}",
    decimal='set "decimal" to "," in silo.json',
    commas="put '{}' under 'commas' in silo.json",
    dates='make days of its dates by "dates": "as-days-since:2020-01-01" in silo.json',
    names="say that it names rows by {!r} under 'id' in silo.json",
    recode="such as by 'recode' for {!r} in silo.json",
    categorical="put {!r} under 'categorical' in the silo.json of every silo",
    allow_empty='let the mean of the others fill it ("allow_empty": true in silo.json)',
    drop_gaps="put columns with gaps under 'ignore' in silo.json",
)
