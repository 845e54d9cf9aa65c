"""What runs, what is left over and what is open, from sessions and listeners that are played."""

import shlex
from ipaddress import ip_address
from pathlib import Path

import pytest

from tuner.cluster.sessions import Listener, Session
from tuner.reporting.doctor import exposure


def test_what_runs_and_what_is_left_over(tmp_path):
    ours = [Session(None, (5, 6), None), Session(7, (8, 9), tmp_path / "a")]
    running, *left = exposure.of_sessions(ours, [Path("/tmp/tuner-x")])
    assert (running.name, running.found) == ("running", "2 processes of the driver 7")
    assert [(f.name, f.level) for f in left] == [("left over", "warning")] * 2
    assert [f.advice for f in left] == ["end them: kill 5 6", "remove them: rm -r /tmp/tuner-x"]


@pytest.mark.parametrize(
    ("address", "token", "level", "who"),
    [
        ("127.0.0.1", True, "ok", ""),
        ("::", True, "ok", ""),
        ("127.0.0.1", False, "warning", "every user of this machine can run code"),
        ("10.0.0.1", False, "warning", "every machine that reaches it can run code"),
    ],
)
def test_what_is_open_to_whom(address, token, level, who):
    two = [Listener("raylet", ip_address(address), port, token) for port in (70, 71)]
    [told] = exposure.of_listeners(two)
    assert told.name == ("all addresses" if address == "::" else address)
    assert told.found == f"raylet, with{'' if token else 'out'} a token: 70, 71"
    assert (told.level, told.advice.startswith(who)) == (level, True)


def test_on_a_node_what_asks_for_a_token_is_counted_and_what_does_not_is_named():
    asking = [Listener("raylet", ip_address(on), 70, True) for on in ("::", "10.0.0.1", "::1")]
    open_to_all = Listener("gcs_server", ip_address("::"), 6379, False)
    named, counted = exposure.of_node([*asking, open_to_all])
    assert (named.level, named.found) == ("warning", "gcs_server, without a token: 6379")
    assert counted.found == "2 of Ray open to its network, with a token"
    assert counted.level == "ok"


def test_a_folder_is_quoted_in_a_command():
    odd = Path("/tmp/tuner-x; rm -r ~")
    [finding] = [f for f in exposure.of_sessions([], [odd]) if f.level != "ok"]
    assert shlex.split(finding.advice.partition(": ")[2]) == ["rm", "-r", str(odd)]
