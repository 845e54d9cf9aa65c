"""Who takes the signals that end a process."""

import contextlib
import os
import signal
import threading

import pytest

from tuner import signals
from tuner.errors import InterruptedSearchError

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_handled_within_only(number):
    seen, before = [], signal.getsignal(number)
    with signals.handled(lambda number, frame: seen.append(number)):
        send(number)
        send(number)
    assert seen == [number, number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", ENDING)
def test_one_that_is_ignored_stays_so(number, monkeypatch):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with signals.interrupting(), signals.held_back():
            send(number)
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_in_another_thread_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with signals.interrupting():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("number", ENDING)
def test_the_first_is_an_error_and_the_next_is_nothing(number):
    cleaned = []

    def work():
        with signals.interrupting():
            try:
                send(number)
            finally:
                send(number)
                cleaned.append(True)

    name = signal.Signals(number).name
    with pytest.raises(InterruptedSearchError, match=f"ended by {name} while no search") as error:
        work()
    assert error.value.exit_code == 128 + number
    assert cleaned


def test_what_takes_any_error_does_not_take_it():
    with (
        pytest.raises(InterruptedSearchError),
        signals.interrupting(),
        contextlib.suppress(Exception),
    ):
        send(signal.SIGTERM)


def test_on_the_way_out_none_has_an_effect():
    with signals.interrupting() as no_more:
        no_more()
        send(signal.SIGTERM)


def test_what_is_held_back_comes_at_the_end():
    reached = []

    def work():
        with signals.interrupting(), signals.held_back():
            send(signal.SIGTERM)
            reached.append(True)
            raise RuntimeError("of what could not be left")

    with pytest.raises(InterruptedSearchError, match="SIGTERM"):
        work()
    assert reached
