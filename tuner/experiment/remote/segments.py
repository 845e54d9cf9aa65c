"""A journal in an object store, as segments: journal/GENERATION-START-END.jsonl, in bytes.

Each generation (see `lease`) first writes the complete journal, then what follows. The newest
generation with a first segment holds the journal. The lock of a later one without segments says how
much of it counts. A larger segment replaces many smaller ones.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tuner.errors import JournalError
from tuner.experiment.remote.lease import find_holder
from tuner.experiment.remote.objects import Objects

_FOLDER = "journal"
_NAME = re.compile(r"journal/(\d{6,12})-(\d{12,18})-(\d{12,18})\.jsonl")
# Segments of a level that are merged into one of the next. With one a second, each byte is sent at
# most twice in the first hour, and three times in the first three days
MOST = 64
_READERS = 8  # segments that are read at a time
_TRIES = 5  # to read segments while a driver merges them


class Segment(NamedTuple):
    """The journal's bytes from `start` to `end`, as `generation` wrote them."""

    generation: int
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"{_FOLDER}/{self.generation:06}-{self.start:012}-{self.end:012}.jsonl"


def select_segments(segments: Iterable[Segment]) -> list[Segment]:
    """The segments of the journal, in order.

    >>> [s.end for s in select_segments([Segment(1, 0, 9), Segment(2, 0, 4), Segment(2, 4, 6)])]
    [4, 6]
    """
    ordered = sorted(segments)
    begun = [segment.generation for segment in ordered if segment.start == 0]
    if not begun:
        return []
    longest: dict[int, Segment] = {}  # by its start; sorted, so the last is the longest
    for segment in ordered:
        if segment.generation == begun[-1] and segment.end > segment.start:
            longest[segment.start] = segment
    parts: list[Segment] = []
    at = 0
    while at in longest:
        parts.append(longest[at])
        at = longest[at].end
    return parts


def list_segments(objects: Objects) -> list[Segment]:
    matches = (_NAME.fullmatch(name) for name in objects.list_names(_FOLDER))
    return [Segment(*map(int, match.groups())) for match in matches if match]


class Remote(NamedTuple):
    """The journal as the store has it: `data` from byte `start` on, of `generation`."""

    generation: int
    start: int
    data: bytes

    @property
    def end(self) -> int:
        """How many bytes it has in all."""
        return self.start + len(self.data)


def fetch(objects: Objects, *, present: tuple[int, int] = (0, 0)) -> Remote:
    """The journal; only the bytes after `present`, (generation, bytes), if that still counts.

    Raises JournalError for a segment of another size than its name says.
    """
    from concurrent.futures import ThreadPoolExecutor

    for _ in range(_TRIES):
        parts = select_segments(list_segments(objects))
        if not parts:
            return Remote(0, 0, b"")
        generation = parts[-1].generation
        end = parts[-1].end
        holder = find_holder(objects)
        if holder and holder.generation > generation:
            end = min(end, holder.at)
        start = present[1] if present[0] == generation and present[1] <= end else 0
        try:
            with ThreadPoolExecutor(_READERS) as threads:
                needed = [segment for segment in parts if segment.end > start]
                data = list(
                    threads.map(partial(_read_segment, objects, start=start), needed)
                )
        except FileNotFoundError:  # a moment ago it was merged with others
            continue
        return Remote(generation, start, b"".join(data)[: end - start])
    raise JournalError(
        f"the journal in {objects.url} changes faster than it can be read"
    )


def _read_segment(objects: Objects, segment: Segment, *, start: int) -> bytes:
    data = objects.read(segment.name)
    if len(data) != segment.end - segment.start:
        raise JournalError(
            f"{objects.url}/{segment.name} has {len(data)} bytes, not as many as its name says"
        )
    return data[max(0, start - segment.start) :]


class Uploader:
    """Uploads the complete lines that are appended to the journal at `path`."""

    def __init__(
        self, objects: Objects, path: Path, generation: int, *, most: int = MOST
    ) -> None:
        self._objects = objects
        self._path = path
        self._generation = generation
        self._most = most  # segments of a level
        self._done = 0  # bytes
        # The larger, which are older, are last
        self._levels: list[list[Segment]] = [[]]
        self._uploads = threading.Condition()  # notified at the end of each
        self._is_uploading = False

    def upload(self) -> int:
        """Upload what is new and return how many bytes. Raises OSError if the store fails.

        Callable from any thread. Those that wait for a thread's upload share the next one.
        """
        end = os.path.getsize(self._path)
        with self._uploads:
            self._uploads.wait_for(lambda: not self._is_uploading or self._done >= end)
            if self._done >= end:
                return 0
            self._is_uploading = True
        try:
            return self._upload_lines()
        finally:
            with self._uploads:
                self._is_uploading = False
                self._uploads.notify_all()

    def _upload_lines(self) -> int:
        data = self._read(self._done, os.path.getsize(self._path))
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            return 0
        new = self._create(data, start=self._done)
        if self._done:
            # The first may be a long journal as a resume found it: it stays alone
            self._levels[0].append(new)
        self._done = new.end
        return len(data)

    def merge(self) -> None:
        """Replace the segments of a level by one of the next, wherever there are enough.

        Raises OSError if the store fails. Callable from one thread, while others upload.
        """
        for level, segments in enumerate(self._levels):
            small = segments[:]
            if len(small) < self._most:
                return
            start = small[0].start
            large = self._create(self._read(start, small[-1].end), start=start)
            if level + 1 == len(self._levels):
                self._levels.append([])
            self._levels[level + 1].append(large)
            del segments[: len(small)]
            for segment in small:
                self._objects.remove(segment.name)

    def _read(self, start: int, end: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(max(0, end - start))

    def _create(self, data: bytes, *, start: int) -> Segment:
        segment = Segment(self._generation, start, start + len(data))
        # If it exists, an earlier try has made it: only this driver writes this name
        self._objects.create(segment.name, data)
        return segment

    def remove_older(self) -> None:
        """Remove the segments of generations before this one, which has begun."""
        for segment in list_segments(self._objects):
            if segment.generation < self._generation:
                self._objects.remove(segment.name)
