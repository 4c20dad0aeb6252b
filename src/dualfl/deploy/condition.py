"""How a coordinator or a silo is: read from its folder, with a sentence for every state that says what to do.

Reads files alone, imports little and asks nobody, so the service itself can show it, and `dualfl deploy status` works
also when the service is down.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualfl.deploy.certificates import lifetimes
from dualfl.deploy.proxy import key_id
from dualfl.deploy.service import HEARD, SAID, SERVICE, age, is_same, read_record, running
from dualfl.deploy.telling import ago
from dualfl.errors import InputError
from dualfl.federation.protocol import PROTOCOL, UNDECIDED
from dualfl.lines import plain_text
from dualfl.version import __version__

SILENT = ("never seen", "quiet", "gone")
CONNECTED, QUIET = 60.0, 300.0  # seconds since the last word of a silo
LITTLE = 1 << 30  # bytes of a disk that are few
SHOWN = 10  # runs
PARTS = ("superlink", "proxy")  # without which nobody can connect
WORKS = ("runs/*/work", "analyses/*/work", "network/work")
Content = dict[str, Any]


def condition(folder: Path) -> Content:
    """Of the coordinator or the silo whose folder this is."""
    kinds = {"project.json": of_coordinator, "silo.json": of_silo}
    for name, look in kinds.items():
        if (folder / name).exists():
            try:
                return look(folder)
            except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
                raise InputError(
                    f"{folder} has a file that was edited or cut ({error!r}); mend {name}, or what lies beside it in "
                    f"{SERVICE}/, or restore a backup by `dualfl deploy restore`."
                ) from error
    raise InputError(
        f"{folder} is neither a coordinator's folder nor a silo's; make one by `deploy init` or `deploy join`."
    )


def common(folder: Path, kind: str) -> Content:
    record = read_record(folder)
    parts = {
        name: {"running": is_same(part), "restarts": part.get("restarts", 0), "since": part.get("since", 0.0)}
        | {"pid": part["pid"]}
        for name, part in record.get("parts", {}).items()
    }
    pid = running(folder)
    found: Content = {"kind": kind, "version": __version__, "protocol": PROTOCOL, "time": time.time(), "pid": pid}
    return found | {"since": record.get("started") if pid else None, "parts": parts, "disk": disk(folder)}


def disk(folder: Path) -> Content:
    used = sum(path.stat().st_size for path in folder.rglob("*") if is_file(path))
    return {"free": shutil.disk_usage(folder).free, "used": used, "sentence": too_full(folder)}


def too_full(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free >= LITTLE:
        return ""
    return (
        f"Only {free / 2**20:.0f} MB of the disk are free: make room, or let `dualfl deploy purge` delete old "
        "experiments; nothing is answered on a full disk."
    )


def warnings(folder: Path, certificates: Callable[[], list[Content]]) -> dict[str, str]:
    """What a service says by itself, by what it is about."""
    try:
        found = {one["name"]: str(one["sentence"]) for one in certificates()}
    except InputError as error:  # one that cannot be read is no reason to end what runs
        found = {"certificates": str(error)}
    return found | {"disk": too_full(folder)}


def is_file(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.is_file() and not path.is_symlink()
    return False


def read(path: Path) -> Content:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        if isinstance(found, dict):
            return found
    return {}


# -- a silo ----------------------------------------------------------------------------------------------------


def of_silo(folder: Path) -> Content:
    settings, said = read(folder / "silo.json"), read(folder / SERVICE / SAID)
    found = common(folder, "silo") | {
        "name": settings.get("name", "?"),
        "coordinator": settings.get("coordinator", "?"),
    }
    heard = age(folder / SERVICE / HEARD)
    plans = len(list((folder / "approvals" / "waiting").glob("*.json")))
    experiments = [path for path in (folder / "experiments").glob("*") if path.is_dir()]
    if found["pid"] is None:
        state = "stopped"
        sentence = f"The service does not run; start it by `dualfl deploy serve {folder}`."
    elif not found["parts"].get("silo", {}).get("running") or said.get("pid") != found["parts"]["silo"]["pid"]:
        state, sentence = "starting", "The silo's process is being started; look again in a minute."
    else:
        state, sentence = str(said["state"]), str(said["sentence"])
    policy = settings.get("policy", {})
    found |= {"state": state, "sentence": sentence, "heard": heard, "plans": plans, "experiments": len(experiments)}
    found |= {"approval": policy.get("approval", "ask"), "certificates": lifetimes(folder, ("ca.crt",))}
    if plans:
        found["sentence"] += f" {plans} plan{'s wait' if plans > 1 else ' waits'} for `dualfl deploy approve {folder}`."
    return found


# -- the coordinator -------------------------------------------------------------------------------------------


def of_coordinator(folder: Path) -> Content:
    found = common(folder, "coordinator")
    settings = read(folder / "project.json")
    seen = read(folder / SERVICE / "seen.json")
    found |= {"address": f"{settings.get('host')}:{settings.get('port', 9443)}"}
    found["state"] = "running" if found["pid"] else "stopped"
    down = [name for name, part in found["parts"].items() if not part["running"]]
    if found["pid"] is None:
        found["sentence"] = f"The service does not run; start it by `dualfl deploy start {folder}`."
    elif missing := [name for name in PARTS if name not in found["parts"]]:
        found["sentence"] = f"Being started: {', '.join(missing)}; silos may connect in a moment."
    elif down:
        found["sentence"] = f"Being started again: {', '.join(down)}; see logs/{down[0]}.log if that lasts."
    else:
        found["sentence"] = f"Silos may connect to {found['address']}."
    logins = read(folder / "logins.json")
    found["silos"] = [
        silo(name, logins.get(name), seen, bool(settings.get("tls", True)), folder)
        for name in settings.get("silos", [])
    ]
    if found["since"] is None or abs(time.time() - found["since"]) < CONNECTED:
        for one in found["silos"]:  # their silence is this service's own, which was not there
            one["sentence"] = "" if one["state"] in SILENT else one["sentence"]
    found["turned_away"] = seen.get("turned_away", {})
    found["runs"] = runs(folder)
    found["certificates"] = lifetimes(folder / "certificates", ("server.pem", "ca.crt"))
    return found


def silo(name: str, login: str | None, seen: Content, tls: bool, folder: Path) -> Content:
    """What is known of one silo, from its last request that was let in, and from one that its clock kept out."""
    found: Content = {"name": str(name), "age": None, "version": "", "protocol": "", "policy": ""}
    if login is None:
        words = f"It is not admitted; get its card.txt and `dualfl deploy admit {folder}` it." if tls else "No keys."
        return found | {"state": "not admitted" if tls else "without a name", "sentence": words}
    who = key_id(base64.b64decode(login.split()[1]))
    last, ahead = seen.get("silos", {}).get(who), seen.get("clocks", {}).get(who)
    if last is None and ahead is None:
        return found | {"state": "never seen", "sentence": "It has not connected; ask its operator to start it."}
    if last is not None:
        found |= {word: str(last.get(word, "")) for word in ("version", "protocol", "policy")}
        found["age"] = abs(time.time() - last["time"])  # of the future: the clock was set back since
    quiet = found["age"]
    if ahead is not None:
        state, way = "wrong clock", "ahead of" if ahead > 0 else "behind"
        words = f"It is not let in: its clock is {ago(abs(ahead))} {way} this machine's; set the wrong one, by NTP."
    elif quiet < CONNECTED and found["protocol"] not in ("", str(PROTOCOL)):
        state = "other protocol"
        words = f"It speaks protocol {found['protocol']} and this coordinator {PROTOCOL}; upgrade one of them."
    elif quiet < CONNECTED:
        state, words = "connected", ""
    elif quiet < QUIET:
        state, words = "quiet", "It may be restarting; if that lasts, ask its operator."
    else:
        state, words = "gone", "Ask its operator for `dualfl deploy status` there; runs wait for it."
    return found | {"state": state, "sentence": words}


def runs(folder: Path) -> list[Content]:
    """Those under way, and the last of those that ended."""
    begun = sorted((work for work in works(folder) if (work / "job.pkl").exists()), key=lambda w: -touched(w))
    return [run(work) for work in begun[:SHOWN]]


def works(folder: Path) -> list[Path]:
    """Where runs, analyses and a measurement of the network keep what they need to go on."""
    return sorted(work for place in WORKS for work in folder.glob(place))


def touched(work: Path) -> float:
    return max((path.stat().st_mtime for path in work.glob("*") if path.exists()), default=0.0)


def run(work: Path) -> Content:
    """Where it is: the exchange, what is proven so far, and who is waited for."""
    outcome, waiting = read(work / "outcome.json"), read(work / "waiting.json")
    found: Content = {"name": work.parent.name, "age": max(0.0, time.time() - touched(work)), **progress(work)}
    found["waits_for"] = []
    again = "the same command goes on where it was."
    if "stopped" in outcome:
        return found | {"state": "done", "sentence": ""}
    if "error" in outcome:
        error = plain_text(str(outcome["error"]), 300)
        return found | {"state": "to be approved" if UNDECIDED in error else "failed", "sentence": error}
    if (work / "stopped").exists():
        return found | {"state": "ended", "sentence": f"It was ended; {again}"}
    waits = read(work / "submitted.json").get("waits")
    if not waits:
        return found | {"state": "not begun", "sentence": "The coordinator's service has not taken it; give it again."}
    if not is_same(waits):
        return found | {"state": "left", "sentence": f"Nobody waits for it any more; {again}"}
    found["waits_for"] = [plain_text(str(name), 80) for name in waiting.get("silos", [])]
    return found | {"state": "running", "sentence": ""}


def progress(work: Path) -> Content:
    """The last line of what the server app tells: an exchange of an analysis, or a round of a run."""
    found: Content = {"exchange": None, "purpose": "", "certificate": None}
    with contextlib.suppress(OSError):
        lines = (work / "rows.jsonl").read_bytes()[-20_000:].decode(errors="replace").splitlines()
        for text in reversed(lines):
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and "exchange" in line:
                    return found | {"exchange": line["exchange"], "purpose": str(line["for"])}
                if isinstance(line, list):
                    return found | of_row(line)
    return found


def of_row(line: list[Any]) -> Content:
    """As `engines.history.Row` has it: the round, the exchanges, and, ninth, what is proven."""
    return {"exchange": line[1], "purpose": f"round {line[0]}", "certificate": line[8]}
