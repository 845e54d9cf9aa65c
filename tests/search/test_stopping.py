"""A signal or a spent budget ends a search, and signals are given back."""

import os
import signal
import threading

import pytest

from tuner.errors import InterruptedSearchError
from tuner.search import stopping as ending
from tuner.search.stopping import Ending


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_end_and_a_second_one_is_not_held_back(number):
    before = signal.getsignal(number)
    with Ending(None) as ends:
        assert not ends.has_come()
        os.kill(os.getpid(), number)
        assert (ends.has_come(), ends.signal) == (True, number)
        assert signal.getsignal(number) is before
    assert InterruptedSearchError("m", ends.signal).exit_code == 128 + number


def test_handlers_are_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with Ending(None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with Ending(None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def test_time_runs_out(monkeypatch):
    now = 100.0
    monkeypatch.setattr(ending.time, "monotonic", lambda: now)
    ends = Ending(60)
    assert not ends.has_come()
    now = 160.0
    assert (ends.has_come(), ends.signal) == (True, None)
