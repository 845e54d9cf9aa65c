"""A process's signals.

A signal that is ignored when a program starts stays so: `nohup` and scripts that start a job in the
background mean it. Signals are handled in a process's main thread; elsewhere they are left alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

from tuner.errors import InterruptedSearchError

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def catch_signals(handler: Callable[[int, object], object]) -> Iterator[None]:
    """Within it `handler` takes SIGINT, SIGTERM and SIGHUP, except those that are ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                # None: not Python's
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


class Interrupted(KeyboardInterrupt):
    """A signal, `number`, that no search has taken: it ends what runs as Ctrl-C does elsewhere."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"ended by {signal.Signals(number).name} while no search was running"
        )
        self.number = number


def interrupt(number: int, frame: object) -> NoReturn:
    """The handler of signals outside of a search: raises Interrupted."""
    raise Interrupted(number)


@contextmanager
def raise_interrupts() -> Iterator[Callable[[], object]]:
    """Within it the first signal raises Interrupted, and no other has an effect.

    Yields a function after whose call none has any: to be called before the way out. Outside of it
    that is an InterruptedSearchError.
    """
    over: list[int] = []

    def interrupt_once(number: int, frame: object) -> None:
        if not over:
            over.append(number)
            interrupt(number, frame)

    try:
        with catch_signals(interrupt_once):
            yield partial(over.append, 0)
    except Interrupted as error:
        raise InterruptedSearchError(str(error), error.number) from error


@contextmanager
def defer_signals() -> Iterator[None]:
    """Signals that arrive within take effect at its end: for code that no error may leave."""
    arrived: list[int] = []
    try:
        with catch_signals(lambda number, frame: arrived.append(number)):
            yield
    finally:
        if arrived:
            signal.raise_signal(arrived[0])
