"""A process's signals, its stdout and stderr, and threads that watch something.

A signal that is ignored when a program starts stays so: `nohup` and scripts that start a job in the
background mean it. Signals are handled in a process's main thread; elsewhere they are left alone.

A metric's name, a path or an error's message may hold escape sequences, and a terminal obeys them:
they hide lines, or write the clipboard. So stdout and stderr show plain text, from any module;
what has colours and moves of its own, a live view, is drawn on a `console`. And stderr outlives its
reader: a closed terminal, a pipe's end, a disk that is full.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NoReturn

from tuner.errors import InterruptedSearchError, OutputError, describe_error
from tuner.wording import clean_lines

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console


@contextmanager
def run_in_thread(watch: Callable[[threading.Event], object]) -> Iterator[None]:
    """Within it `watch` runs in a thread of its own; it is to return once its event is set."""
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


Handler = Callable[[int, object], object]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def catch_signals(handler: Handler) -> Iterator[None]:
    """Within it `handler` takes SIGINT, SIGTERM and SIGHUP, except those that are ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: not Python's
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


class Interrupted(KeyboardInterrupt):
    """A signal, `number`, that no search has taken: it ends what runs as Ctrl-C does elsewhere."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name} while no search was running")
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


class TextOnly:
    """A text stream that writes to `stream`, with a space for each control character.

    An error of the stream, as of a full disk, is an OutputError, which every later `write` raises
    again. A closed pipe stays a BrokenPipeError.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self._error: OutputError | None = None

    def write(self, text: str) -> int:
        """Write `text`; its lines and tabs stay."""
        if self._error is not None:
            raise self._error
        self._try_write(self.stream.write, clean_lines(text))
        return len(text)

    def flush(self) -> None:
        if self._error is None:
            self._try_write(self.stream.flush)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write one after the other."""
        for line in lines:
            self.write(line)

    def _try_write(self, write: Callable[..., object], *text: str) -> None:
        try:
            write(*text)
        except BrokenPipeError:
            raise
        except OSError as error:
            # What is left in the stream goes nowhere: the exit flushes once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
            self._error = OutputError(f"cannot write the output: {describe_error(error)}")
            raise self._error from None

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # a caller that had it would write past this stream
            raise AttributeError(name)
        return getattr(self.stream, name)


def wrap_streams() -> None:
    """Put a `TextOnly` in place of stdout and stderr, for as long as this process lives.

    What their encoding lacks is shown as an escape sequence.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        if stream is not None and not isinstance(stream, TextOnly):
            setattr(sys, name, TextOnly(stream))


def create_console(stream: IO[str], **options: Any) -> Console:
    """A Console of rich on `stream`: its own colours and moves pass, of what it shows only text."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class TextConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else clean_lines(text), style, control)

    file = stream.stream if isinstance(stream, TextOnly) else stream
    return TextConsole(file=file, highlight=False, markup=False, **options)


@contextmanager
def ignore_stderr_errors() -> Iterator[None]:
    """Within it what stderr does not take is dropped, and no error: a search goes on without.

    A stderr that others have put in the place of the process's own is left as it is.
    """
    own = sys.stderr
    if own is not sys.__stderr__ or not isinstance(own, io.TextIOWrapper):  # None: it is closed
        yield
        return
    own.flush()
    raw = io.BufferedWriter(Lossy(own.fileno(), "wb", closefd=False))
    stream = io.TextIOWrapper(raw, own.encoding, own.errors, line_buffering=True)
    with redirect_stderr(stream):
        try:
            yield
        finally:
            stream.flush()


class Lossy(io.FileIO):
    """A file that loses what cannot be written."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes
