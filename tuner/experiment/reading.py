"""Reads journals: complete, the last line, or as they grow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any, BinaryIO, NoReturn

from pydantic_core import from_json

from tuner.errors import JournalError, translate_error
from tuner.experiment.events import (
    EXPERIMENT_STARTED,
    OF_TRIALS,
    RESULT,
    TRIAL_STARTED,
    Event,
    find_fault,
)
from tuner.experiment.files import JOURNAL, open_plain, seek_tail
from tuner.spec.plain_values import MOST, parse_json

LONGEST = 16 << 20  # bytes of a line: what is longer was not written here
_SHORT = 16 << 10  # bytes of an end: it holds the last line of nearly every search


def read(folder: Path) -> Iterator[Event]:
    """The events in `folder`'s journal as of now, oldest first, without a torn last line.

    Raises JournalError for a missing file, and on reaching a damaged line or one out of order.
    """
    path = folder / JOURNAL
    return iter(Lines(open_journal(path), path))


def read_last_event(folder: Path) -> Event | None:
    """The event of the last line, without reading the others; None if it is damaged."""
    try:
        with open_journal(folder / JOURNAL) as file:
            end = b""
            for length in (_SHORT, LONGEST):
                if end.rfind(b"\n", 0, -1) < 0:
                    seek_tail(file, length)
                    end = file.read(length)
        event = decode(end.splitlines(keepends=True)[-1])
    except (JournalError, OSError, ValueError, IndexError):
        return None
    return event if end.endswith(b"\n") and find_fault(event) is None else None


class Tail:
    """Reads a journal that grows: each `read` returns the events since the one before."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._at = 0
        self._order = Order()

    def read(self) -> list[Event]:
        """The new events, oldest first; raises JournalError as `read` does."""
        with open_journal(self._path) as file:
            file.seek(self._at)
            new = Lines(file, self._path, self._order)
            events = list(new)
            self._at = new.end
        return events


def open_journal(path: Path) -> BinaryIO:
    with translate_error(JournalError, f"cannot read {path}", of=OSError):
        return os.fdopen(open_plain(path), "rb")


class Order:
    """The rules that a journal's events keep as a sequence. lines: how many were added.

    Trials may start in another order than their numbers: each waits for its own worker.
    """

    def __init__(self) -> None:
        self.lines = 0
        # The last one of each trial that has started, or -1
        self._epochs: dict[str, int] = {}

    def find_fault(self, event: Event) -> str | None:
        """Why this event cannot come next, in words, or None."""
        kind = event["event"]
        trial_id = event.get("trial_id", "")
        if not self.lines and kind != EXPERIMENT_STARTED:
            return f"the first event must be {EXPERIMENT_STARTED}, got {shown(kind)}"
        if kind not in OF_TRIALS or kind == TRIAL_STARTED:
            return None
        last = self._epochs.get(trial_id)
        if last is None:
            return f"{kind} of trial {trial_id} comes before its {TRIAL_STARTED}"
        if kind == RESULT and event["epoch"] <= last:
            return (
                f"epoch {event['epoch']} of trial {trial_id} does not come after {last}"
            )
        return None

    def add(self, event: Event) -> None:
        """Note that this event came next."""
        self.lines += 1
        if event["event"] == RESULT:
            self._epochs[event["trial_id"]] = event["epoch"]
        elif event["event"] == TRIAL_STARTED:
            self._epochs.setdefault(event["trial_id"], -1)


class Lines:
    """The events from a file's position on; `end` is the end of the last complete line.

    A torn tail is left out, and so is a torn line right before it, as after a power cut.
    order: of the lines before.
    """

    def __init__(self, file: BinaryIO, path: Path, order: Order | None = None) -> None:
        self._file = file
        self._path = path
        with translate_error(JournalError, f"cannot read {path}", of=OSError):
            self._size = os.fstat(file.fileno()).st_size
            self.end = file.tell()
        self.order = order or Order()

    def __iter__(self) -> Iterator[Event]:
        try:
            yield from self._read_events()
        except OSError as error:  # of the disk, while it reads
            raise JournalError(f"cannot read {self._path}: {error.strerror}") from error

    def _read_events(self) -> Iterator[Event]:
        lines = iter(partial(self._file.readline, LONGEST), b"")
        end = self.end
        size = self._size
        for number, line in enumerate(lines, 1 + self.order.lines):
            end += len(line)
            if end > size or (line[-1:] != b"\n" and len(line) < LONGEST):
                return
            try:
                event = decode(line)
            except ValueError as error:
                if len(line) < LONGEST and self._has_torn_tail(end):
                    return
                raise JournalError(f"{self._path}, line {number}: {error}") from error
            fault = find_fault(event) or self.order.find_fault(event)
            if fault is not None:
                raise JournalError(f"{self._path}, line {number}: {fault}")
            self.order.add(event)
            self.end = end
            yield event

    def _has_torn_tail(self, end: int) -> bool:
        """Whether what comes after `end` is a line without its newline, or nothing."""
        line = self._file.readline(max(0, min(LONGEST, self._size - end)))
        return len(line) < LONGEST and not line.endswith(b"\n")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def decode(line: bytes) -> Any:
    """The JSON value of a line. Raises ValueError, also if it is too large or too deep."""
    if len(line) <= MOST:  # so few bytes hold no more values
        try:
            return from_json(line, allow_inf_nan=False, cache_strings="keys")
        except ValueError:  # for half surrogates, too, which a file's name may have
            pass
    return parse_json(line, what="a line of JSON", decode=_DECODER.decode)
