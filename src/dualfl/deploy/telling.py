"""A condition for people and for machines: lines for the terminal, a page for the browser, metrics for Prometheus."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from dualfl.colours import COLOURS
from dualfl.lines import WIDTH, paragraph

Content = dict[str, Any]
Value = tuple[dict[str, Any], float | None]  # labels, and the number if it is known
GOOD = {"connected", "running", "done"}
TURNED_AWAY = {"401": "by key or clock", "412": "by a key in use or revoked"}  # as Flower answers
BAD = {"gone", "failed", "refused", "not admitted", "stopped", "other protocol", "wrong clock"}


def ago(seconds: float | None) -> str:
    """
    >>> ago(None), ago(3.2), ago(150), ago(10_000), ago(200_000)
    ('-', '3 s', '2 min', '2.8 h', '2.3 days')
    """
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def size(number: float) -> str:
    """
    >>> size(2_000_000), size(3e9)
    ('2 MB', '3.0 GB')
    """
    return f"{number / 1e6:.0f} MB" if number < 1e9 else f"{number / 1e9:.1f} GB"


def lasting(days: float) -> str:
    """
    >>> lasting(730.0), lasting(-3.2)
    ('valid for 730 days', 'expired 3 days ago')
    """
    return f"valid for {days:.0f} days" if days > 0 else f"expired {-days:.0f} days ago"


def title(found: Content) -> str:
    who = "Coordinator" if found["kind"] == "coordinator" else f"Silo {found['name']}"
    since = f", for {ago(max(0.0, found['time'] - found['since']))}" if found["since"] else ""
    return f"{who}: {found['state']}{since}; dualfl {found['version']}, protocol {found['protocol']}"


def sentences(found: Content) -> list[str]:
    """All that somebody should know or do."""
    said = [found["sentence"], found["disk"]["sentence"], *(one["sentence"] for one in found["certificates"])]
    said += [f"{silo['name']}: {silo['sentence']}" for silo in found.get("silos", []) if silo["sentence"]]
    said += [f"{run['name']}: {run['sentence']}" for run in found.get("runs", []) if run["sentence"]]
    return [sentence for sentence in said if sentence]


def silo_rows(found: Content) -> list[list[str]]:
    return [
        [silo["name"], silo["state"], ago(silo["age"]), silo["version"], silo["protocol"], silo["policy"]]
        for silo in found.get("silos", [])
    ]


def run_rows(found: Content) -> list[list[str]]:
    rows = []
    for run in found.get("runs", []):
        at = "" if run["exchange"] is None else str(run["exchange"])
        proven = "" if run["certificate"] is None else f"{run['certificate']:.1e}"
        waits = ", ".join(run["waits_for"])
        rows.append([run["name"], run["state"], at, run["purpose"], proven, waits, ago(run["age"])])
    return rows


SILOS = ("silo", "state", "last word", "version", "protocol", "policy")
RUNS = ("run", "state", "exchange", "for", "proven", "waits for", "last change")


def facts(found: Content) -> list[tuple[str, str]]:
    disk = found["disk"]
    said = [("disk", f"{size(disk['used'])} used here, {size(disk['free'])} free")]
    said += [(one["name"], lasting(one["days"])) for one in found["certificates"]]
    for name, part in found["parts"].items():
        restarts = part["restarts"]
        again = f", started again {'once' if restarts == 1 else f'{restarts} times'}" if restarts else ""
        said.append((name, f"{'runs' if part['running'] else 'down'}{again}"))
    if found["kind"] == "silo":
        heard = "not heard yet" if found["heard"] is None else f"last word {ago(found['heard'])} ago"
        said.append(("coordinator", f"{found['coordinator']}, {heard}"))
        said.append(("plans", f"{found['plans']} waiting for approval ({found['approval']})"))
        said.append(("experiments", f"{found['experiments']} open"))
    elif found["turned_away"]:
        away = sorted(found["turned_away"].items())
        counts = ", ".join(f"{count} {TURNED_AWAY.get(code, 'requests')} ({code})" for code, count in away)
        said.append(("turned away", counts))
    return said


def lines(found: Content) -> list[str]:
    """For a terminal of 80 columns."""
    told = [title(found), ""]
    told += [f"  {name:<14}{what}" for name, what in facts(found)]
    for heads, rows in ((SILOS, silo_rows(found)), (RUNS, run_rows(found))):
        if rows:
            told += ["", *columns(heads, rows)]
    said = [paragraph(sentence, "  ") for sentence in sentences(found)]
    return [*told, "", *said] if said else told


def columns(heads: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """As wide as they need, the whole cut at 80; columns without any entry are left out."""
    kept = entered(rows)
    table = [[heads[k] for k in kept], *([row[k] for k in kept] for row in rows)]
    widths = [max(len(row[k]) for row in table) for k in range(len(kept))]
    while sum(widths) + 2 * len(widths) > WIDTH and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    return ["  ".join(short(word, width).ljust(width) for word, width in zip(row, widths)).rstrip() for row in table]


def entered(rows: list[list[str]]) -> list[int]:
    """The columns in which something stands."""
    return [k for k in range(len(rows[0])) if k == 0 or any(row[k] for row in rows)]


def short(word: str, width: int) -> str:
    return word if len(word) <= width else word[: width - 1] + "…"


# -- the page --------------------------------------------------------------------------------------------------

STYLE = """:root{color-scheme:light dark;--ink:#222;--line:#ddd;--box:#f6f6f2;--bar:#999}
@media (prefers-color-scheme:dark){:root{--ink:#e6e6e6;--line:#444;--box:#26262a;--bar:#888}body{background:#18181b}}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--ink)}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}.wide{overflow-x:auto}
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
.wide th,.wide td{white-space:nowrap}th{font-weight:600}
.say{background:var(--box);padding:.6rem 1rem;margin:.4rem 0;border-left:4px solid var(--bar);overflow-wrap:anywhere}"""


TOP = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="10">'
    '<meta name="viewport" content="width=device-width">'
)


def page(found: Content) -> str:
    """One page without scripts; it loads itself again every ten seconds."""
    said = "".join(f'<p class="say">{html.escape(sentence)}</p>' for sentence in sentences(found))
    about = table_of(("", ""), [list(fact) for fact in facts(found)])
    body = f"<h1>{html.escape(title(found))}</h1>{said}{about}"
    for head, heads, rows in (("Silos", SILOS, silo_rows(found)), ("Runs", RUNS, run_rows(found))):
        if rows:
            body += f"<h2>{head}</h2>{table_of(heads, rows)}"
    return TOP + f"<title>dualfl</title><style>{STYLE}</style></head><body>{body}</body></html>\n"


def table_of(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    """Columns without any entry are left out; what is wider than a telephone is moved by hand, and not the page."""
    if not any(heads):
        return f"<table>{''.join(line(row) for row in rows)}</table>"
    kept = entered(rows)
    top = "".join(f"<th>{html.escape(heads[k])}</th>" for k in kept)
    inner = "".join(line([row[k] for k in kept]) for row in rows)
    return f'<div class="wide"><table><tr>{top}</tr>{inner}</table></div>'


def line(row: list[str]) -> str:
    return "<tr>" + "".join(cell(word) for word in row) + "</tr>"


def cell(word: str) -> str:
    colour = COLOURS[2] if word in GOOD else COLOURS[1] if word in BAD else None
    style = f' style="color:{colour};font-weight:600"' if colour else ""
    return f"<td{style}>{html.escape(word)}</td>"


# -- metrics ---------------------------------------------------------------------------------------------------


def metrics(found: Content) -> str:
    """Prometheus' text format."""
    told: list[str] = []

    def tell(name: str, what: str, values: Sequence[Value], kind: str = "gauge") -> None:
        known = [(labels, value) for labels, value in values if value is not None]
        if known:
            told.extend((f"# HELP dualfl_{name} {what}", f"# TYPE dualfl_{name} {kind}"))
        for labels, value in known:
            inner = ",".join(f'{key}="{escaped(word)}"' for key, word in labels.items())
            told.append(f"dualfl_{name}{{{inner}}} {value:.15g}" if inner else f"dualfl_{name} {value:.15g}")

    about = {"kind": found["kind"], "version": found["version"]}
    tell("up", "Whether the service runs.", [(about, float(bool(found["pid"])))])
    parts = [({"part": name}, part) for name, part in found["parts"].items()]
    tell("part_up", "Whether a part of the service runs.", [(label, float(part["running"])) for label, part in parts])
    restarts = [(label, float(part["restarts"])) for label, part in parts]
    tell("part_restarts_total", "How often a part was started again.", restarts, "counter")
    tell("disk_free_bytes", "Of the disk that holds the folder.", [({}, float(found["disk"]["free"]))])
    tell("disk_used_bytes", "By the folder.", [({}, float(found["disk"]["used"]))])
    valid = [({"certificate": one["name"]}, 86_400.0 * one["days"]) for one in found["certificates"]]
    tell("certificate_remaining_seconds", "Until a certificate expires.", valid)
    if found["kind"] == "silo":
        tell("connected", "Whether the coordinator answers.", [({}, float(found["state"] == "connected"))])
        tell("heard_seconds", "Since the coordinator's last word.", [({}, found["heard"])])
        tell("plans_waiting", "For the operator's approval.", [({}, float(found["plans"]))])
        tell("experiments_open", "Of which something is kept.", [({}, float(found["experiments"]))])
        return "\n".join(told) + "\n"
    silos = [({"silo": silo["name"]}, silo) for silo in found["silos"]]
    there = [(label, float(silo["state"] == "connected")) for label, silo in silos]
    tell("silo_connected", "Whether a silo spoke within a minute.", there)
    tell("silo_last_word_seconds", "Since a silo's last word.", [(label, silo["age"]) for label, silo in silos])
    away = [({"code": code}, float(count)) for code, count in found["turned_away"].items()]
    tell("requests_refused_total", "Requests that were refused.", away, "counter")
    under_way = [({"run": run["name"]}, run) for run in found["runs"] if run["state"] == "running"]
    tell("runs_running", "Runs and analyses under way.", [({}, float(len(under_way)))])
    tell("run_exchange", "Where a run is.", [(label, run["exchange"]) for label, run in under_way])
    waits = [(label, float(len(run["waits_for"]))) for label, run in under_way]
    tell("run_waits_for", "Silos that have not answered yet.", waits)
    return "\n".join(told) + "\n"


def escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
