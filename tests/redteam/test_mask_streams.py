"""One stream of masks for sums and maxima of an exchange: no part of it is ever used at two places."""

import numpy as np
import pytest
from hostile import fit, make_homes

from dualfl.errors import InputError
from dualfl.federation import answers, field
from dualfl.federation.fixed_point import Part, to_words
from dualfl.federation.masks import Masks, new_secret, public_part
from dualfl.federation.sealing import LARGEST, SUMS, Seal, Total

NAMES = ("a", "b", "c")


def seals(label="label"):
    """Those of silos in one exchange."""
    secrets = {name: new_secret() for name in NAMES}
    keys = {name: public_part(secret) for name, secret in secrets.items()}
    return [Seal(Masks(name, secrets[name], keys, "e"), b"g" * 32, label, NAMES) for name in NAMES]


def part(size, x=0.0):
    return Part(np.full(size, float(x)), 20, 3)


@pytest.mark.unrefused("a coordinator that only looks")
@pytest.mark.parametrize("shorter", [{"0/x": part(1)}, {"0/x": part(1), "0/y": part(2)}, {}])
def test_other_sums_never_lie_under_the_mask_of_a_silos_maxima(shorter):
    """Silo a sends fewer sums than the others, and its maxima are 0 where its number does not reach. Under one stream
    these zeros and the sums of b and c would meet in one place, and add up to the sums without silo a."""
    a, b, c = seals()
    long = {"0/x": part(400, 7), "0/y": part(2)}
    sent = [a.sealed(shorter, {"0/L": -np.inf}), *(one.sealed(long, {"0/L": -np.inf}) for one in (b, c))]
    rows = [np.concatenate([answer[what]["words"] for what in (SUMS, LARGEST) if what in answer]) for answer in sent]
    size = min(map(len, rows))
    met = field.total([row[:size] for row in rows])
    without_a = to_words("0/x", *part(400, 14))
    assert not np.isin(met[len(shorter) + 3 : 400], without_a[:1]).any()
    assert len(np.unique(met)) > 0.99 * size  # noise


@pytest.mark.unrefused("honest silos")
def test_the_same_fields_still_add_up_and_another_label_has_other_masks():
    fields = {"0/x": part(5, 3)}
    one, other = ([seal.sealed(fields, {"0/L": float(j)}) for j, seal in enumerate(seals(label))] for label in "xy")
    total = Total.of({name: answer[SUMS] for name, answer in zip(NAMES, one)})
    assert np.array_equal(total.checked(b"g" * 32, "x", SUMS).sums()["0/x"], np.full(5, 9.0))
    assert not np.array_equal(one[0][SUMS]["words"], other[0][SUMS]["words"])


@pytest.mark.unrefused("the coordinator notices it")
def test_a_silo_that_answers_in_other_shapes_ends_the_exchange(tmp_path, monkeypatch):
    """As a silo of a patched version would: nothing is opened, and its sums are noise to the coordinator."""
    homes, honest = make_homes(tmp_path), answers.Record.parts

    def parts(self, silos):
        found = honest(self, silos)
        return found | ({"more": Part(np.zeros(3), 20, silos)} if answering[0] == "b" and found else {})

    answering = [""]
    real = answers.answer_all

    def answer_all(far, *rest):
        answering[0] = far.home.name
        return real(far, *rest)

    monkeypatch.setattr(answers.Record, "parts", parts)
    monkeypatch.setattr("dualfl.federation.keeper.answer_all", answer_all)
    with pytest.raises(InputError, match="'b' sent other fields than the rest"):
        fit(homes)


@pytest.mark.unrefused("the coordinator refuses")
@pytest.mark.parametrize(
    "change",
    [
        {"fields": ["0/x"]},
        {"fields": np.zeros(2)},
        {"words": 3.0},
        {"words": np.zeros(6)},
        {"words": np.zeros((2, 3), dtype=np.uint64)},
        {"words": np.full(6, 2**64 - 1, dtype=np.uint64)},
        {"words": np.zeros(0, dtype=np.uint64)},
        {"more": 1},
    ],
)
def test_what_is_no_row_of_words_is_refused_with_the_name_of_its_silo(change):
    sent = {name: seal.sealed({"0/x": part(5)}, {})[SUMS] for name, seal in zip(NAMES, seals())}
    with pytest.raises(InputError, match="'b' sent something that is no row of masked words"):
        Total.of(sent | {"b": sent["b"] | change})


@pytest.mark.unrefused("an oracle for the first test")
def test_with_one_stream_for_all_fields_the_sums_without_one_silo_are_told(monkeypatch):
    """The attack of the first test against a key that does not depend on fields: it works, so that test can fail."""
    monkeypatch.setattr("dualfl.federation.sealing.mask_label", lambda label, fields: label)
    a, b, c = seals()
    long = {"0/x": part(400, 7), "0/y": part(2)}
    sent = [a.sealed({"0/x": part(1)}, {"0/L": -np.inf}), *(one.sealed(long, {"0/L": -np.inf}) for one in (b, c))]
    rows = [np.concatenate([answer[what]["words"] for what in (SUMS, LARGEST)]) for answer in sent]
    size = min(map(len, rows))
    met = field.total([row[:size] for row in rows])
    assert np.array_equal(met[4:400], to_words("0/x", *part(400, 14))[4:400])
