"""A stderr that outlives whoever reads it: a closed terminal, a pipe's end, a disk that is full."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


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
    raw = io.BufferedWriter(_Lossy(own.fileno(), "wb", closefd=False))
    stream = io.TextIOWrapper(raw, own.encoding, own.errors, line_buffering=True)
    with redirect_stderr(stream):
        try:
            yield
        finally:
            stream.flush()


class _Lossy(io.FileIO):
    """A file that loses what cannot be written."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes
