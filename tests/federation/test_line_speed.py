"""How fast a network is found to be, on networks whose speed is known."""

import json

import numpy as np
import pytest
from loopback import Loopback, sign_up

from dualfl.algorithms.few_exchanges.auto import Auto
from dualfl.errors import InputError
from dualfl.federation import line_speed
from dualfl.federation.courier import Courier
from dualfl.federation.keeper import Keeper
from dualfl.federation.protocol import PROTOCOL
from dualfl.federation.remote import Federation, Terms
from dualfl.federation.wire import decode, encode


class Line:
    """A network of this speed, with a clock of its own."""

    def __init__(self, latency, bandwidth, noise=0.0):
        self.now, self.latency, self.bandwidth, self.longest = 0.0, latency, bandwidth, 0
        self.rng, self.noise = np.random.default_rng(0), noise

    def ask(self, kind, padding):
        self.longest = max(self.longest, padding.size)
        sending = 2 * 8 * padding.size / (1e6 * self.bandwidth)
        self.now += (self.latency + sending) * (1 + self.noise * self.rng.random())


@pytest.mark.parametrize("latency", [0.001, 0.05, 0.2, 1.0])
@pytest.mark.parametrize("bandwidth", [1.0, 10.0, 100.0])
def test_a_network_is_found_to_be_what_it_is(latency, bandwidth):
    line = Line(latency, bandwidth)
    found = line_speed.measured(line.ask, lambda: line.now)
    assert found.latency == pytest.approx(latency, rel=0.05)
    # Empty messages have a byte, and figures two digits.
    visible = 2 * 8 * line_speed.LARGEST / (1e6 * bandwidth) > latency / 10
    assert not visible or found.bandwidth == pytest.approx(bandwidth, rel=0.05)


def test_a_line_that_is_too_fast_to_be_seen_counts_as_fast():
    line = Line(1.0, 1e6)
    found = line_speed.measured(line.ask, lambda: line.now)
    assert 100 < found.bandwidth < np.inf


def test_noise_moves_the_figures_a_little():
    line = Line(0.1, 10.0, noise=0.3)
    found = line_speed.measured(line.ask, lambda: line.now)
    assert 0.1 <= found.latency <= 0.13 and 7 <= found.bandwidth <= 13


def test_a_slow_line_is_not_sent_long_messages():
    line = Line(0.01, 1.0)
    line_speed.measured(line.ask, lambda: line.now)
    assert line.longest == line_speed.FIRST


def test_silos_send_back_what_they_got_and_note_it(tmp_path):
    homes = registered(tmp_path)
    federation = Federation(Courier(Loopback(homes)), Terms("network", ("a", "b", "c"), Auto()))
    found = line_speed.measured(federation.ask)
    assert 0 < found.latency < 10 and found.bandwidth > 0
    assert not list((homes[0] / "experiments").glob("*"))  # nothing is begun by it
    assert '"kind": "echo"' in (homes[0] / "audit.log").read_text().replace('":"', '": "')


@pytest.mark.parametrize(
    "padding", ["text", np.zeros(3), np.zeros((2, 2), np.uint8), np.zeros(line_speed.LARGEST + 1, np.uint8)]
)
def test_an_echo_holds_bytes_and_not_too_many(tmp_path, padding):
    home = registered(tmp_path)[0]
    message = encode({"kind": "echo", "protocol": PROTOCOL, "experiment": "x", "to": None, "padding": padding})
    assert "refusal" in decode(Keeper(home).handle(message))


def test_a_refused_echo_says_what_would_be_right():
    with pytest.raises(InputError, match=r"at most 4,194,304 bytes, and this one has 4,194,305"):
        line_speed.echoed({"padding": np.zeros(line_speed.LARGEST + 1, np.uint8)})


def registered(folder):
    homes = [folder / name for name in "abc"]
    for home in homes:
        home.mkdir()
        (home / "data.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(30)))
        silo = {"name": home.name, "data": "data.csv", "target": "y", "identity": home.name, "minimum": 2}
        (home / "silo.json").write_text(json.dumps(silo))
    sign_up(homes)
    return homes
