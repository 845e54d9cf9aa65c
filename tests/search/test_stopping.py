"""A signal or a spent budget ends a search, and signals are given back."""

import os
import signal
import threading

import pytest

from tuner.errors import InterruptedSearchError
from tuner.search import stopping
from tuner.search.stopping import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_end(number):
    with StopRequest(None) as ends:
        assert not ends.requested
        os.kill(os.getpid(), number)
        assert (ends.requested, ends.signal) == (True, number)
    assert InterruptedSearchError("m", ends.signal).exit_code == 128 + number


def test_of_several_signals_the_first_counts_and_a_second_ctrl_c_is_not_held_back():
    with StopRequest(None) as ends:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        assert ends.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert ends.signal == signal.SIGTERM


def test_one_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest(None) as ends:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not ends.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest(None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_search_under_nohup_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest(None) as ends:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not ends.requested
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with StopRequest(None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def test_time_runs_out(monkeypatch):
    now = 100.0
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now)
    ends = StopRequest(60)
    assert not ends.requested
    now = 160.0
    assert (ends.requested, ends.signal) == (True, None)
