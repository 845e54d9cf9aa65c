"""stdout and stderr of the command line, where the text of others does no harm.

A metric's name, a path or an error's message may hold escape sequences, and a terminal obeys them:
they hide lines, or write the clipboard. So nothing but text comes through here, whoever prints it.
What has colours and moves of its own, a live view, is drawn on a `console`. And stderr outlives
whoever reads it: a closed terminal, a pipe's end, a disk that is full.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import IO, TYPE_CHECKING, Any

from tuner.wording import printable_lines

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console


class TextOnly:
    """A text stream that writes to `stream`, with a space for each control character."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write `text`; its lines and tabs stay."""
        self.stream.write(printable_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # whoever had it would write past this stream
            raise AttributeError(name)
        return getattr(self.stream, name)


def guard() -> None:
    """Put a `TextOnly` in place of stdout and stderr, for as long as this process lives."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, TextOnly):
            setattr(sys, name, TextOnly(stream))


def console(stream: IO[str], **options: Any) -> Console:
    """A Console of rich on `stream`: its own colours and moves pass, of what it shows only text.

    options: of `rich.console.Console`.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class TextConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable_lines(text), style, control)

    file = stream.stream if isinstance(stream, TextOnly) else stream
    return TextConsole(file=file, highlight=False, markup=False, **options)


@contextmanager
def lasting() -> Iterator[None]:
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
