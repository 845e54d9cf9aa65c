"""A process's stdout and stderr.

A metric's name, a path or an error's message may hold escape sequences, and a terminal obeys them:
they hide lines, or write the clipboard. So stdout and stderr show plain text, from any module;
what has colours and moves of its own, a live view, is drawn on a `console`. And stderr outlives its
reader: a closed terminal, a pipe's end, a disk that is full.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import IO, TYPE_CHECKING, Any

from tuner.errors import OutputError, describe_error
from tuner.wording import clean_lines

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console


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
            self._error = OutputError(
                f"cannot write the output: {describe_error(error)}"
            )
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
    if own is not sys.__stderr__ or not isinstance(own, io.TextIOWrapper):
        # None: it is closed
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
