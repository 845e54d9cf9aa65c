import contextlib
import os
import signal
import threading

import pytest

from tuner.errors import InterruptedSearchError
from tuner.signals import catch_signals, defer_signals, raise_interrupts

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDING)
def test_handled_signal_runs_handler_until_exit(number):
    seen = []
    before = signal.getsignal(number)
    with catch_signals(lambda number, frame: seen.append(number)):
        send(number)
        send(number)
    assert seen == [number, number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", ENDING)
def test_interrupting_keeps_ignored_signal(number, monkeypatch):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with raise_interrupts(), defer_signals():
            send(number)
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_interrupting_in_other_thread_changes_no_handler():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with raise_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("number", ENDING)
def test_interrupting_raises_for_first_signal_only(snapshot, number):
    cleaned = []

    def work():
        with raise_interrupts():
            try:
                send(number)
            finally:
                send(number)
                cleaned.append(True)

    with snapshot.raises(InterruptedSearchError) as error:
        work()
    assert error.value.exit_code == 128 + number
    assert cleaned


def test_interrupting_error_passes_except_exception():
    with (
        pytest.raises(InterruptedSearchError),
        raise_interrupts(),
        contextlib.suppress(Exception),
    ):
        send(signal.SIGTERM)


def test_interrupting_after_no_more_ignores_signal():
    with raise_interrupts() as no_more:
        no_more()
        send(signal.SIGTERM)


def test_held_back_signal_raises_at_end(snapshot):
    reached = []

    def work():
        with raise_interrupts(), defer_signals():
            send(signal.SIGTERM)
            reached.append(True)
            raise RuntimeError("of what could not be left")

    with snapshot.raises(InterruptedSearchError):
        work()
    assert reached
