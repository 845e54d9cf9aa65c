"""A trial's own output in its log.txt, capped: the first and the last part are kept."""

from __future__ import annotations

import faulthandler
import io
import sys
from pathlib import Path
from typing import Self

_LIMIT = 1 << 20  # bytes; half of it for the beginning, a quarter for the end after a cut


class TrialLog(io.TextIOBase):
    """A text stream appended to `path`; past `limit` bytes the middle is cut out.

    As a context it takes the place of sys.stdout and sys.stderr, and a crash of the process leaves
    its Python traceback in it.
    """

    def __init__(self, path: Path, limit: int = _LIMIT) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._limit = limit
        self._file = path.open("ab+", buffering=0)
        self._size = self._file.seek(0, io.SEEK_END)

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "replace")
        self._file.write(data)
        self._size += len(data)
        if self._size > self._limit:
            self._cut()
        return len(text)

    def _cut(self) -> None:
        head, tail = self._limit // 2, self._limit // 4
        self._file.seek(0)
        first = self._file.read(head)
        self._file.seek(self._size - tail)
        last = self._file.read(tail)
        self._file.truncate(0)
        self._file.write(first + b"\n[... cut here: the output is over its limit ...]\n" + last)
        self._size = self._file.seek(0, io.SEEK_END)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            super().close()

    def __enter__(self) -> Self:
        self._streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = self
        faulthandler.enable(self._file)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.stdout, sys.stderr = self._streams
        faulthandler.enable(sys.__stderr__ or 2)
        self.close()
