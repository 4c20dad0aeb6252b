"""`python -m benchmarks.fuzz`: the whole campaign; the same command goes on where it was interrupted."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.fuzz.campaign import FAMILIES, Outcome, campaign, family_of, one, read
from benchmarks.fuzz.ground import prepare
from benchmarks.fuzz.judging import FAULTS
from benchmarks.fuzz.patience import IDLE, LIMIT
from benchmarks.fuzz.traps import TRAPS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=6000, help="how many  [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=25, help="of all cases  [default: %(default)s]")
    parser.add_argument("--case", type=int, help="only the case of this number, here, to see what happens")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/fuzz"), help="folder of outcomes  [default: %(default)s]"
    )
    parser.add_argument("--share", default="1/1", help="of several processes, such as 1/2; the last one tells of all")
    parser.add_argument("--only", choices=list(FAMILIES), help="cases of one family, and no traps")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dualfl-ground-") as ground:
        if given.case is not None:
            print(one(prepare(Path(ground)), given.seed, given.case))
            return 0
        given.out.mkdir(parents=True, exist_ok=True)
        part, parts = (int(number) for number in given.share.split("/"))
        kept, began = given.out / f"seed-{given.seed}-{part}-of-{parts}.jsonl", time.monotonic()
        print(f"seed {given.seed}, {given.cases:,} cases and {len(TRAPS)} traps; outcomes in {kept}", flush=True)
        found: list[Outcome] = []
        cases = [n for n in range(part - 1, given.cases, parts) if given.only in (None, family_of(given.seed, n))]
        traps = given.only is None and part == 1
        for outcome in campaign(given.seed, cases, Path(ground), traps=traps, kept=kept):
            found.append(outcome)
            if outcome.fault:
                print(
                    f"{outcome.kind}: {outcome.family} {outcome.number}: {outcome.what}: {outcome.detail}", flush=True
                )
            if len(found) % 500 == 0:
                print(f"{len(found):,} done, {time.monotonic() - began:.0f} s", flush=True)
    found = [outcome for path in sorted(given.out.glob(f"seed-{given.seed}-*.jsonl")) for outcome in read(path)]
    text = summary(found, given.seed)
    (given.out / f"seed-{given.seed}.md").write_text(text)
    print(text)
    return int(any(outcome.fault for outcome in found))


def summary(found: list[Outcome], seed: int) -> str:
    """The table of a campaign, for people."""
    lines = [
        f"Seed {seed}; {sum(o.family != 'traps' for o in found):,} cases and {len(TRAPS)} traps;",
        f"at most {LIMIT:.0f} s of a processor for a case, and {IDLE:.0f} s of waiting without asking for one.",
        "",
        "| family | cases | accepted | refused | " + " | ".join(FAULTS) + " |",
        "|---|---|---|---|" + "---|" * len(FAULTS),
    ]
    for family in (*FAMILIES, "traps"):
        kinds = Counter(outcome.kind for outcome in found if outcome.family == family)
        cells = [kinds[kind] for kind in ("accepted", "refused", *FAULTS)]
        lines.append(f"| {family} | {sum(kinds.values()):,} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    slowest = max((o.seconds for o in found), default=0.0)
    lines += ["", f"The slowest case took {slowest:.1f} s."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
