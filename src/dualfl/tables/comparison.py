"""What is found when silos lay side by side what each says of its own table (`findings.Inspection`), and no row.

Where a silo tells no numbers of its own (`Inspection.told`), what needs counts is not looked at: separation, and how
many rows there are for the coefficients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from dualfl.tables.cells import DECIMAL_COMMA, folded
from dualfl.tables.findings import Facts, Finding, Inspection
from dualfl.tables.schema import MOST_LEVELS
from dualfl.tables.summaries import order
from dualfl.tables.suspicions import words_for_gaps

MOST_WORDS = 8  # for yes and no, in several languages
EVENTS = 10  # rows of the rarest class for each coefficient, below which estimates are unsure
PAIRS = (  # what people write for 1 and for 0
    ("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("ja", "nein"), ("j", "n"), ("oui", "non"), ("si", "no"),
    ("s\u00ed", "no"), ("sim", "n\u00e3o"), ("positive", "negative"), ("pos", "neg"), ("+", "-"), ("present", "absent"),
    ("case", "control"), ("died", "survived"), ("dead", "alive"), ("ja", "nee"), ("ja", "nej"), ("ja", "nei"),
    ("tak", "nie"), ("ano", "ne"), ("igen", "nem"), ("kyll\u00e4", "ei"), ("evet", "hay\u0131r"), ("s\u00ec", "no"),
    ("wahr", "falsch"), ("vrai", "faux"), ("1", "0"),
)  # fmt: skip
YES, NO = ({pair[i] for pair in PAIRS} for i in (0, 1))


def compare(silos: Sequence[Inspection]) -> tuple[Finding, ...]:
    """All that is odd about these tables as a whole; what each found in its own is not repeated."""
    known = [silo for silo in silos if silo.columns]  # a file that cannot be read lacks no column
    if not known:
        return ()
    found: list[Finding] = []
    names = dict.fromkeys(name for silo in known for name in silo.columns)
    for name in names:
        found += _Together(name, known).findings()
    target = known[0].target
    if target and not any(one.kind in ("types", "yes/no") for one in found if one.column == target):
        found += _classes(known) if known[0].classes else ()
        found += _few_rows(known)
    return tuple(found)


@dataclass(frozen=True)
class _Together:
    """One column in all silos."""

    name: str
    silos: Sequence[Inspection]

    @cached_property
    def facts(self) -> dict[str, Facts]:
        return {silo.silo: silo.columns[self.name] for silo in self.silos if self.name in silo.columns}

    @property
    def is_target(self) -> bool:
        return self.name == self.silos[0].target

    def of_kind(self, *kinds: str) -> tuple[str, ...]:
        return tuple(silo for silo, facts in self.facts.items() if facts.kind in kinds)

    def _found(self, kind: str, silos: Sequence[str], what: str, **more: Any) -> Finding:
        return Finding(kind, self.name, tuple(silos), what, **more)

    def findings(self) -> Iterator[Finding]:
        yield from self._lacking()
        mixed = list(self._kinds())
        yield from mixed
        if not mixed and not any(facts.many for facts in self.facts.values()):
            yield from self._levels()
        yield from self._constant()
        if self.silos[0].classes and not self.is_target:
            yield from self._separation()

    def _lacking(self) -> Iterator[Finding]:
        """Silos without the column, and what they may call it."""
        owners, others = tuple(self.facts), []
        for silo in self.silos:
            if self.name in silo.columns:
                continue
            near = self._called(silo)
            if not near:
                others.append(silo.silo)
            elif self._usual(near) == self.name:  # else it is told of the other name
                what = f"no such column, but one called {near!r}"
                advice = f"rename {near!r} there, if it is the same; or --drop both" * (not self.is_target)
                advice = advice or f"rename {near!r} there, if it is the same"
                yield self._found("columns", [silo.silo], what, stops=True, advice=advice)
        if others:
            what = f"no such column, which {_listed(owners)} {_has(owners)}"
            yield self._found("columns", others, what, stops=True, mend=self._dropped, advice="add it")

    def _called(self, silo: Inspection) -> str:
        """A column that only some silos have, of nearly the same name."""
        free = [name for name in silo.columns if any(name not in one.columns for one in self.silos)]
        same = [name for name in free if _squeezed(name) == _squeezed(self.name)]
        return next(iter(same or get_close_matches(self.name, free, n=1, cutoff=0.8)), "")

    def _usual(self, other: str) -> str:
        """The target's name, or that of the two which more silos have, and else the one that comes first."""
        if self.silos[0].target in (self.name, other):
            return self.silos[0].target
        order = list(dict.fromkeys(name for silo in self.silos for name in silo.columns))
        having = {name: sum(name in silo.columns for silo in self.silos) for name in (self.name, other)}
        return min(having, key=lambda name: (-having[name], order.index(name)))

    @property
    def _dropped(self) -> dict[str, Any]:
        return {} if self.is_target else {"drop": [self.name]}

    # -- types -----------------------------------------------------------------------------------------

    def _kinds(self) -> Iterator[Finding]:
        """Numbers in one silo and words in another."""
        numbers, texts = self.of_kind("numbers"), self.of_kind("text")
        dates = self.of_kind("dates")
        if dates and (numbers or texts):
            others = numbers + texts
            what = f"dates, where {_listed(others)} {_has(others)} {'numbers' if numbers else 'texts'}"
            yield self._found("types", dates, what, stops=bool(numbers), advice="write one kind in all")
            return
        if not numbers or not texts:
            return
        levels = sorted({level for silo in texts for level in self.facts[silo].levels})
        if all(self.facts[silo].zero_one for silo in numbers) and 0 < len(levels) <= MOST_WORDS:
            recode = _as_zero_one(levels)
            what = f"{_quoted(levels)}, where {_listed(numbers)} {_has(numbers)} 0 and 1"
            mend: dict[str, Any] = {"recode": {self.name: recode}} if recode else {}
            advice = "" if recode else f"say which is 1 by --recode '{self.name}=...:1,...:0'"
            yield self._found("yes/no", texts, what, stops=True, mend=mend, advice=advice)
            return
        what = (
            f"texts{f' such as {levels[0]!r:.40}' if levels else ''}, where {_listed(numbers)} {_has(numbers)} numbers"
        )
        commas = any(DECIMAL_COMMA.fullmatch(level) for level in levels)
        words = 0 < len(levels) <= MOST_WORDS and all(order(level)[0] for level in levels)
        mend = {"categorical": [self.name]} if levels and not (self.is_target or words) else {}
        mend = {"decimal": ","} if commas else mend  # never a category
        advice = "correct the texts"
        if words and not commas:  # F and M, where the others write 1 and 2: as categories they would be four
            pairs = ",".join(f"...:{level}" for level in levels)
            advice = f"say which number means which by --recode '{self.name}={pairs}'"
        yield self._found("types", texts, what, stops=True, mend=mend, advice=advice)

    # -- levels ----------------------------------------------------------------------------------------

    def _levels(self) -> Iterator[Finding]:
        owners: dict[str, list[str]] = {}
        for silo, facts in self.facts.items():
            for level in facts.levels:
                owners.setdefault(level, []).append(silo)
        if len(owners) > MOST_LEVELS:
            what = f"more than {MOST_LEVELS} different texts in all, the most that a category may have"
            advice = "group its levels with --recode"
            yield self._found("levels", tuple(self.facts), what, stops=True, mend=self._dropped, advice=advice)
            return
        renamed = dict(self._truths(owners))
        if renamed:
            yield self._same_pair(renamed, owners)
            return
        groups: dict[str, list[str]] = {}
        for level in owners:
            groups.setdefault(_squeezed(level), []).append(level)
        variants = [group for group in groups.values() if len(group) > 1]
        if variants:
            yield self._spelled(variants, owners)
        each_its_own = all(facts.constant for facts in self.facts.values())  # which is told anyway
        if len(self.facts) > 1 and not each_its_own and not (self.is_target and self.silos[0].classes):
            told = {level for group in variants for level in group}
            yield from self._alone(owners, told.union(words_for_gaps(owners)))

    def _truths(self, owners: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
        """Where silos have different words for yes and no: those of the others in the words of the first."""
        sets = {silo: facts.levels for silo, facts in self.facts.items() if facts.levels}
        pairs = {silo: _pair(levels) for silo, levels in sets.items()}
        if len(sets) < 2 or None in pairs.values() or len({pair for pair in pairs.values() if pair}) < 2:
            return
        first = next(silo for silo in sets)
        yes, no = pairs[first] or ("", "")
        words = {folded(level): level for level in sets[first]}
        for silo, levels in sets.items():
            own = pairs[silo] or ("", "")
            for level in levels if own != pairs[first] else ():
                meaning = yes if folded(level) == own[0] else no
                yield level, words.get(meaning, meaning)

    def _same_pair(self, renamed: dict[str, str], owners: Mapping[str, list[str]]) -> Finding:
        silos = sorted({silo for level in renamed for silo in owners[level]}, key=list(self.facts).index)
        others = [silo for silo in self.facts if silo not in silos]
        what = (
            f"{_quoted(list(renamed))}, where {_listed(others)} {_has(others)} {_quoted(sorted(set(renamed.values())))}"
        )
        mend = {"recode": {self.name: renamed}}
        return self._found("yes/no", silos, what, stops=self.is_target, mend=mend)

    def _spelled(self, groups: Sequence[Sequence[str]], owners: Mapping[str, list[str]]) -> Finding:
        """Levels that differ by case or blanks only."""
        having = {silo for group in groups for level in group for silo in owners[level]}
        silos = [silo for silo in self.facts if silo in having]
        mend: dict[str, Any] = {}
        for group in groups:
            if len({folded(level) for level in group}) == 1:
                mend["fold_case"] = True
                continue
            best = max(group, key=lambda level: (self._rows(level), len(owners[level])))
            pairs = mend.setdefault("recode", {}).setdefault(self.name, {})
            pairs.update({level: best for level in group if level != best})
        shown = "; ".join(_quoted(group) for group in groups[:3]) + ("; ..." if len(groups) > 3 else "")
        return self._found("spelling", silos, f"levels that differ by case or blanks only: {shown}", mend=mend)

    def _alone(self, owners: Mapping[str, list[str]], besides: set[str]) -> Iterator[Finding]:
        """Levels that one silo has and no other."""
        for silo, facts in self.facts.items():
            own = [level for level in facts.levels if len(owners[level]) == 1 and level not in besides]
            elsewhere = [level for level in owners if silo not in owners[level] or len(owners[level]) > 1]
            if not own or not elsewhere:
                continue
            counts = [sum(facts.counts.get(level, {}).values()) for level in own]
            what = f"{_quoted(own)}, which no other has"
            near = get_close_matches(own[0], elsewhere, n=1, cutoff=0.8)
            example = f"{own[0]}:{near[0]}" if near else f"{own[0]}:..."
            advice = f"if it is one of the others, say so by --recode '{self.name}={example}'"
            yield self._found("only here", [silo], what, advice=advice, rows=sum(counts))

    def _rows(self, level: str) -> int:
        return sum(sum(facts.counts.get(level, {}).values()) for facts in self.facts.values())

    # -- what they say ---------------------------------------------------------------------------------

    def _constant(self) -> Iterator[Finding]:
        same = [silo for silo, facts in self.facts.items() if facts.constant]
        if not same or self.is_target or len(self.facts) < len(self.silos):
            return
        if len(same) == len(self.facts):
            spans = {span for facts in self.facts.values() for span in facts.spans.values()}
            levels = {level for facts in self.facts.values() for level in facts.levels}
            if len(spans) + len(levels) == 1:
                what = "the same in every row of every file, so a fit leaves it out"
                yield self._found("constant", same, what, mend=self._dropped)
                return
            what = "the same in every row of a file, so it says only which file a row is from"
            advice = "leave it out by --drop, unless it is what files are to be compared by"
            yield self._found("constant", same, what, advice=advice)
        elif len(self.silos) > 1:
            what, advice = "the same in every row there", "look whether that is so"
            yield self._found("constant", same, what, advice=advice)

    def _separation(self) -> Iterator[Finding]:
        """Levels with one class only, or numbers of which those of one class lie all below those of the other."""
        target = self.silos[0].target
        totals: dict[str, Counter[str]] = {}
        spans: dict[str, tuple[float, float]] = {}
        for facts in self.facts.values():
            for level, counts in facts.counts.items():
                totals.setdefault(level, Counter()).update({label: n for label, n in counts.items() if label})
            for label, (low, high) in facts.spans.items():
                before = spans.get(label, (low, high))
                spans[label] = (min(low, before[0]), max(high, before[1]))
        classes = {label for counts in totals.values() for label in counts}
        gaps = words_for_gaps(totals)  # of which is told anyway
        alone = {level: one for level, one in totals.items() if len(one) == 1 < len(classes) and level not in gaps}
        advice = "fit with a penalty, as is the default"
        if alone:
            shown = {level: next(iter(counts)) for level, counts in alone.items()}
            told = ", ".join(f"{level!r:.30} ({target} = {label})" for level, label in list(shown.items())[:3])
            more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
            what = f"levels with one class only: {told}{more}; without a penalty their coefficients would be infinite"
            rows = sum(sum(counts.values()) for counts in alone.values())
            yield self._found("separation", tuple(self.facts), what, rows=rows, advice=advice)
        if len(spans) == 2 and "" not in spans and len(set(spans.values())) > 1:
            (one, (low, high)), (other, (low2, high2)) = spans.items()
            if high <= low2 or high2 <= low:
                below, above = (one, other) if high <= low2 else (other, one)
                what = (
                    f"it separates the classes: rows with {target} = {below} lie at or below those with {above}; "
                    "without a penalty its coefficient would be infinite"
                )
                advice = f"look whether it was known before {target}, or is another name of it; {advice}"
                yield self._found("separation", tuple(self.facts), what, advice=advice)


# -- the target, and all columns --------------------------------------------------------------------------


def _classes(silos: Sequence[Inspection]) -> Iterator[Finding]:
    """Silos without a class, and targets with one class."""
    target = silos[0].target
    facts = {silo.silo: silo.columns[target] for silo in silos if target in silo.columns}
    every = list(dict.fromkeys(level for one in facts.values() for level in one.levels))
    if len(every) == 1:
        what = "one class only in all rows of all files, and a classifier needs two"
        yield Finding("classes", target, tuple(facts), what, stops=True, advice="give another --target")
        return
    for silo, one in facts.items():
        lacking = [level for level in every if level not in one.levels]
        if lacking and one.levels and len(lacking) < len(every):
            what = f"no row of the class {_quoted(lacking)}"
            yield Finding("classes", target, (silo,), what, advice="look whether that is so")


def _few_rows(silos: Sequence[Inspection]) -> Iterator[Finding]:
    """Whether there are rows enough for the coefficients."""
    target = silos[0].target
    rows = [silo.rows for silo in silos]
    if None in rows or any(target not in silo.columns for silo in silos):
        return
    coefficients = 0
    for name in dict.fromkeys(name for silo in silos for name in silo.columns if name != target):
        facts = [silo.columns[name] for silo in silos if name in silo.columns]
        levels = {level for one in facts for level in one.levels}
        if all(one.constant for one in facts) and len(levels) <= 1:
            continue  # it is left out, or nearly
        gaps = any(one.missing for one in facts)
        coefficients += max(len(levels) - 1 + gaps, 1) if levels else 1
    count, what = sum(one or 0 for one in rows), "rows"
    if silos[0].classes:
        classes: Counter[str] = Counter()
        for silo in silos:
            for level, counts in silo.columns[target].counts.items():
                classes[level] += sum(counts.values())
        if len(classes) < 2:
            return
        rarest = min(classes, key=lambda level: classes[level])
        count, what = classes[rarest], f"rows of the rarest class, {target} = {rarest},"
    if count < EVENTS * coefficients:
        sentence = f"{count:,} {what} for {coefficients:,} coefficients, and {EVENTS} for each are a rule of thumb"
        advice = "take fewer columns by --columns, or a penalty chosen by --alpha cv"
        yield Finding("few rows", target, tuple(silo.silo for silo in silos), sentence, advice=advice)


# -- words ------------------------------------------------------------------------------------------------


def _squeezed(text: str) -> str:
    """Without case and without any blank."""
    return "".join(text.lower().split())


def _pair(levels: Sequence[str]) -> tuple[str, str] | None:
    """What the levels call yes and no; None where they are other words."""
    words = {folded(level) for level in levels}
    return next((pair for pair in PAIRS if words <= set(pair)), None) if words else None


def _as_zero_one(levels: Sequence[str]) -> dict[str, str]:
    """What levels are as 1 and 0, if they all are words for that."""
    words = {folded(level) for level in levels}
    return {level: "1" if folded(level) in YES else "0" for level in levels} if words <= YES | NO else {}


def _quoted(levels: Sequence[str], most: int = 4) -> str:
    shown = [f"{level!r:.30}" for level in levels[:most]]
    if len(levels) > most:
        return f"{', '.join(shown)} and {len(levels) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
