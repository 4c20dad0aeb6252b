"""What a silo keeps to itself: its rows from other users, its file and its cells from the coordinator."""

import hashlib
import json
import os
import shutil
import stat

import numpy as np
import pytest
from loopback import Loopback, csv_homes, run_over, sign_up
from needs import needs

import dualfl
from dualfl.algorithms.registry import make
from dualfl.errors import InputError
from dualfl.federation import keeper as silo
from dualfl.federation import silo_folder as folder
from dualfl.federation.keeper import PROTOCOL, Keeper
from dualfl.federation.remote import Terms
from dualfl.federation.rows import agree, describe, read_rows
from dualfl.federation.wire import decode, encode

TABLE = {"loss": "auto", "ridge": 0.1, "l1": 0.0, "solver": None, "intercept": "penalised"}
TERMS = Terms("e", ("a", "b", "c"), make("dualfl"), TABLE)
HEAD = {"version": dualfl.__version__, "protocol": PROTOCOL, "experiment": "e", "to": None}
HELLO = encode({"kind": "hello", "task": None} | HEAD)


def requests_of(homes, terms=TERMS, rounds=1):
    """The first request of each kind, as silo a got it, and its answer."""
    seen = {}

    def spy(transport, node, request, answer):
        if node == 100:
            seen.setdefault(decode(request)["kind"], (request, answer))

    run_over(Loopback(homes, spy), terms, None, rounds=rounds)
    return seen


def change(home, **settings):
    path = home / "silo.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def refusal(home, message):
    return decode(Keeper(home).handle(message)).get("refusal", "")


# -- the same request never gets other numbers -------------------------------------------------------


def other_rows(home):
    path = home / "data.csv"
    path.write_text(path.read_text().replace("north", "south"))


@pytest.mark.parametrize("disturb", [other_rows, lambda home: change(home, ignore=["income"])])
@pytest.mark.parametrize("before", [True, False])
def test_sums_of_squares_of_other_data_are_refused(before, disturb, tmp_path):
    """Under the same tag are the same masks: the difference of two uploads would be in clear."""
    homes = csv_homes(tmp_path)
    request, _ = requests_of(homes)["moments"]
    if before:
        shutil.rmtree(homes[0] / "experiments" / "e" / "answers")
    disturb(homes[0])
    assert "has changed since the experiment began" in refusal(homes[0], request)


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    homes = csv_homes(tmp_path)
    request, _ = requests_of(homes)["moments"]
    shutil.rmtree(homes[0] / "experiments" / "e" / "answers")

    def changes(path, *more):
        rows = read_rows(path, *more)
        other_rows(homes[0])
        return rows

    monkeypatch.setattr(folder, "read_rows", changes)
    assert "has changed since the experiment began" in refusal(homes[0], request)


def test_set_up_requests_that_come_again_are_answered_from_disk(tmp_path, monkeypatch):
    homes = csv_homes(tmp_path)
    seen = requests_of(homes)

    def unread(*args):
        raise AssertionError("the file is read again")

    monkeypatch.setattr(folder, "read_rows", unread)
    for kind in ("agree", "moments"):
        request, answer = seen[kind]
        assert Keeper(homes[0]).handle(request) == answer


# -- other users of the machine ---------------------------------------------------------------------


@needs("cryptography", "flower")
def test_rows_secrets_and_uploads_are_for_their_owner_alone_from_their_first_byte(tmp_path, monkeypatch):
    homes = csv_homes(tmp_path)
    sign_up(homes)
    open_to_others = []
    replace = os.replace

    def watched(source, target):
        if stat.S_IMODE(os.stat(source).st_mode) & 0o077:
            open_to_others.append(str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    before = os.umask(0)
    try:
        requests_of(homes)
    finally:
        os.umask(before)
    assert (homes[0] / "experiments" / "e" / "secret").exists() and (homes[0] / "salt").exists()
    assert list((homes[0] / "cache").glob("*.npz")) and (homes[0] / "experiments" / "e" / "state.npz").exists()
    assert open_to_others == []


# -- what the coordinator hears ---------------------------------------------------------------------

CELL = "Xenophon-1973"


@pytest.mark.parametrize(
    "content",
    [
        f"{CELL},{CELL},1\n2,3,4\n",  # no header: the first line is a row
        f"age,sick\n1,{CELL},2\n",
        "name,sick\n" + "".join(f"{CELL}{i},yes\n" for i in range(60)),
        f"age,other\n1,{CELL}\n",
    ],
)
def test_a_file_that_cannot_be_read_is_not_quoted(content, tmp_path):
    home = csv_homes(tmp_path / "a-patients-folder")[0]
    (home / "data.csv").write_text(content)
    told = refusal(home, HELLO)
    assert told.endswith("; the reason is in logs/silo.log of that silo's folder")
    assert "data file" in told and CELL not in told and str(tmp_path) not in told and "data.csv" not in told
    assert str(home / "data.csv") in (home / "logs" / "silo.log").read_text()


def spoil(home, row, column, entry):
    path = home / "data.csv"
    lines = path.read_text().splitlines()
    cells = lines[row].split(",")
    lines[row] = ",".join([*cells[:column], entry, *cells[column + 1 :]])
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("column", "entry", "told"),
    [
        (
            0,
            CELL,
            "its data file has entries in column 'age' that are no numbers, and most entries there are numbers; ",
        ),
        (0, f'"{CELL},5"', "its data file has entries in column 'age' that are no numbers, and most"),
        (2, f'"{CELL}\n{CELL}"', "its data file has a text with a line break in column 'town', which is no category; "),
        (2, CELL * 20, "its data file has a text of more than 200 characters in column 'town', which is no category; "),
        (2, f'"{CELL}', "its data file cannot be read; "),
    ],
)
def test_an_odd_entry_is_quoted_to_the_operator_alone(column, entry, told, tmp_path):
    home = csv_homes(tmp_path)[0]
    spoil(home, 3, column, entry)
    heard = refusal(home, HELLO)
    assert heard.startswith(told) and CELL not in heard and "data.csv" not in heard and str(tmp_path) not in heard
    log = (home / "logs" / "silo.log").read_text()
    assert "data.csv" in log and (CELL in log or "quotation mark" in log)


def test_rows_that_a_quotation_mark_swallows_are_missed_and_stay_here(tmp_path):
    home = csv_homes(tmp_path)[0]
    spoil(home, 3, 3, f'"{CELL}')
    spoil(home, 30, 3, 'yes"')
    heard = refusal(home, HELLO)
    assert heard.startswith("its data file cannot be read; ") and CELL not in heard
    assert "begins in line 4 and ends in line 31, as if 27 rows were in it" in (home / "logs" / "silo.log").read_text()


def test_the_operator_says_how_the_file_is_written(tmp_path):
    homes = csv_homes(tmp_path)
    spoil(homes[0], 3, 0, "unknown")
    path = homes[1] / "data.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("\n".join(";".join(cell.replace(".", ",") for cell in line) for line in lines) + "\n")
    assert "put" not in refusal(homes[0], HELLO) and "no numbers" in refusal(homes[0], HELLO)
    assert "'unknown' under 'na' in silo.json" in (homes[0] / "logs" / "silo.log").read_text()
    assert "commas in the numbers of column 'age'" in refusal(homes[1], HELLO)
    assert 'set "decimal" to "," in silo.json' in (homes[1] / "logs" / "silo.log").read_text()
    change(homes[0], na=["unknown"])
    change(homes[1], decimal=",")
    _, engine = run_over(Loopback(homes), TERMS, None, rounds=1)
    assert engine.setup.schema.features[0].kind == "numeric" and engine.setup.mass == 100
    change(homes[0], na=[])  # other rows than were agreed on
    with pytest.raises(InputError, match="Silo 'a': its data file has entries in column 'age' that are no numbers"):
        run_over(Loopback(homes), TERMS, None, rounds=1)


def test_numbers_become_levels_only_where_the_operator_says_so(tmp_path):
    """Levels are told to others, so no coordinator can ask for a column's numbers as if they were levels."""
    homes = csv_homes(tmp_path)
    asked = encode({"kind": "hello", "task": None, "categorical": ("age",)} | HEAD)
    assert decode(Keeper(homes[0]).handle(asked))["columns"]["age"] is None
    spoil(homes[0], 3, 1, CELL)
    assert "under 'categorical' in the silo.json of every silo" not in refusal(homes[0], HELLO)


def test_a_sparse_file_with_a_typing_error_is_not_quoted(tmp_path):
    home = csv_homes(tmp_path)[0]
    (home / "data.libsvm").write_text(f"1 1:0.5\n{CELL} 1:2\n")
    change(home, data="data.libsvm", target=None)
    assert refusal(home, HELLO).startswith("its data file cannot be read; ")
    assert CELL in (home / "logs" / "silo.log").read_text()


def test_a_target_of_texts_is_not_quoted(tmp_path):
    told = refusal(csv_homes(tmp_path)[0], encode({"kind": "hello", "task": "regression"} | HEAD))
    assert told.startswith("the target holds texts, and regression needs numbers; the reason is in logs/silo.log")
    assert "yes" not in told


def test_rows_that_do_not_suit_the_loss_are_not_quoted(tmp_path):
    homes = csv_homes(tmp_path)
    for home in homes:
        lines = (home / "data.csv").read_text().splitlines()
        counts = [f"{line.rpartition(',')[0]},{3 + i / 2}" for i, line in enumerate(lines[1:])]
        (home / "data.csv").write_text("\n".join([lines[0], *counts]) + "\n")
    path = homes[1] / "data.csv"
    path.write_text(path.read_text().replace(",3.5\n", ",-31.75\n"))
    terms = Terms("e", ("a", "b", "c"), make("lbfgs"), TABLE | {"loss": "poisson"})
    with pytest.raises(InputError, match="Silo 'b': its rows do not suit the loss 'poisson' of the plan") as caught:
        run_over(Loopback(homes), terms, None, rounds=1)
    assert "31.75" not in str(caught.value) and "31.75" in (homes[1] / "logs" / "silo.log").read_text()


def test_of_what_nobody_expected_only_the_kind_is_told(tmp_path, monkeypatch):
    home = csv_homes(tmp_path)[0]

    def fails(*args):
        raise RuntimeError(f"{home}: {CELL}")

    monkeypatch.setattr(silo, "describe", fails)
    assert refusal(home, HELLO) == "it failed with RuntimeError; the reason is in logs/silo.log of that silo's folder"
    log = home / "logs" / "silo.log"
    assert CELL in log.read_text() and "Traceback" in log.read_text() and stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_simulation_has_no_secrets_and_no_folder_that_stays(tmp_path):
    (tmp_path / "silo.json").write_text(json.dumps({"name": "a", "pickle": "gone.pkl"}))
    plan = {"kind": "agree", "names": ("a",), "secure": None, "algorithm": make("dualfl").to_json()} | HEAD
    assert refusal(tmp_path, encode(plan)).startswith("FileNotFoundError: ")


def test_no_refusal_names_a_path(tmp_path):
    homes = csv_homes(tmp_path)
    step, _ = requests_of(homes)["step"]
    (homes[0] / "experiments" / "e" / "state.npz").write_bytes(b"nonsense")
    asked = encode(decode(step) | {"round": 0, "algorithm": make("dualfl").to_json()})
    told = refusal(homes[0], asked)
    assert "its folder/experiments/e/state.npz is not a whole checkpoint" in told and str(tmp_path) not in told
    (homes[0] / "data.csv").unlink()
    assert str(tmp_path) not in refusal(homes[0], HELLO) and "no data file" in refusal(homes[0], HELLO)


def test_the_digest_of_the_file_is_salted_with_what_never_leaves(tmp_path):
    homes = csv_homes(tmp_path)
    sent = []

    def spy(transport, node, request, answer):
        sent.append(answer)

    run_over(Loopback(homes, spy), TERMS, None, rounds=1)
    salts = [(home / "salt").read_bytes() for home in homes]
    assert len(set(salts)) == 3
    assert not any(salt in answer or salt.hex().encode() in answer for salt in salts for answer in sent)
    told = [decode(answer)["data"] for answer in sent if "data" in decode(answer)]
    digest = hashlib.sha256((homes[0] / "data.csv").read_bytes()).hexdigest()
    assert told[0] != hashlib.sha256(f"id-a{digest}".encode()).hexdigest()[:16]
    again = folder.SiloFolder(homes[0])
    assert again.salted == told[0] and (homes[0] / "salt").read_bytes() == salts[0]
    (homes[0] / "salt").unlink()  # a folder of an older version has none
    assert again.salted != told[0] and (homes[0] / "salt").exists()


# -- masks cannot be switched off from outside -------------------------------------------------------


@pytest.mark.parametrize(
    ("certificate", "settings", "refused"),
    [
        (True, {}, True),
        (True, {"secure_only": False}, True),  # as older versions wrote it whether or not anybody had said so
        (True, {"allow_plain": True}, False),
        (True, {"allow_plain": True, "secure_only": True}, True),
        (False, {}, False),
        (False, {"allow_plain": False}, True),
    ],
)
def test_a_silo_with_a_certificate_sends_plain_sums_only_if_its_operator_allows_them(
    certificate, settings, refused, tmp_path
):
    homes = csv_homes(tmp_path)
    if certificate:
        (homes[1] / "ca.crt").write_text("")
        change(homes[1], policy={"approval": "none", "least_per_cell": 0})
    change(homes[1], **settings)
    if refused:
        with pytest.raises(InputError, match="Silo 'b': this silo sends nothing without secure aggregation"):
            run_over(Loopback(homes), TERMS, None, rounds=1)
    else:
        run_over(Loopback(homes), TERMS, None, rounds=1)


# -- classes ------------------------------------------------------------------------------------------


def silo_with(tmp_path, y):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.arange(2.0 * len(y)).reshape(-1, 2), y=y)
    return read_rows(path, None)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([195967002.0, 195967001.0], ["195967001", "195967002"]),
        ([2**60 + 1, 2**60], [str(2**60), str(2**60 + 1)]),
        ([10, 9], ["9", "10"]),
        ([True, False], ["0", "1"]),
        (["yes", "no"], ["no", "yes"]),
    ],
)
def test_classes_keep_their_names_apart_and_come_in_their_own_order(values, names, tmp_path):
    rows = silo_with(tmp_path, np.array(values))
    told = describe(rows, "classification", False)
    assert agree({"a": told, "b": told}).classes == tuple(names)
    assert rows.used().levels(rows.target).tolist() == names[::-1]


def test_large_numbers_are_classes_in_their_own_order(tmp_path):
    homes = csv_homes(tmp_path)
    for home in homes:
        path = home / "data.csv"
        path.write_text(path.read_text().replace("yes", "195967002").replace("no\n", "195967001\n"))
    _, engine = run_over(Loopback(homes), TERMS, None, rounds=1)
    assert engine.setup.schema.classes == ("195967001", "195967002")
