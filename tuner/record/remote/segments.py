"""A journal in an object store: segments of it, each an object, and which of them count.

    journal/GENERATION-START-END.jsonl      the bytes from START to END of the journal

Each generation (see `lease`) begins with the whole journal as it found it, from 0, and goes on in
segments that follow one another. The newest generation that has a first segment tells the journal;
what an older one has written since counts for nothing. Of one that has just begun, and has no
segment yet, its lock says how much of the older one's journal it goes on from. A large segment
takes the place of many small ones; as long as both are there, either tells the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tuner.errors import JournalError
from tuner.record.remote.lease import newest
from tuner.record.remote.objects import Objects

_FOLDER = "journal"
_NAME = re.compile(r"journal/(\d{6,12})-(\d{12,18})-(\d{12,18})\.jsonl")
_MOST = 32  # segments of a generation before they are made one
_TRIES = 5  # to read segments that a driver is making one of


class Segment(NamedTuple):
    """The bytes from `start` to `end` of the journal, as `generation` has written them."""

    generation: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """The object's name below the experiment."""
        return f"{_FOLDER}/{self.generation:06}-{self.start:012}-{self.end:012}.jsonl"


def chain(segments: Iterable[Segment]) -> list[Segment]:
    """Those that tell the journal, in order and without a gap: of the newest generation that began.

    >>> [s.end for s in chain([Segment(1, 0, 9), Segment(2, 0, 4), Segment(2, 4, 6)])]
    [4, 6]
    """
    known = sorted(segments)
    begun = [segment.generation for segment in known if segment.start == 0]
    if not begun:
        return []
    longest: dict[int, Segment] = {}  # by where it starts; sorted, so that the last is the longest
    for segment in known:
        if segment.generation == begun[-1] and segment.end > segment.start:
            longest[segment.start] = segment
    found: list[Segment] = []
    at = 0
    while at in longest:
        found.append(longest[at])
        at = longest[at].end
    return found


def listed(objects: Objects) -> list[Segment]:
    """All segments of the experiment, in no order."""
    matches = (_NAME.fullmatch(name) for name in objects.names(_FOLDER))
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


def fetch(objects: Objects, *, known: tuple[int, int] = (0, 0)) -> Remote:
    """The journal; where it is still of the generation `known`, only what is past its bytes.

    Raises JournalError where a segment does not have the bytes that its name says.
    """
    for _ in range(_TRIES):
        found = chain(listed(objects))
        if not found:
            return Remote(0, 0, b"")
        generation, end = found[-1].generation, found[-1].end
        holder = newest(objects)
        if holder and holder.generation > generation:
            end = min(end, holder.at)
        start = known[1] if known[0] == generation and known[1] <= end else 0
        try:
            data = [_piece(objects, segment, start) for segment in found if segment.end > start]
        except FileNotFoundError:  # made one with others, a moment ago
            continue
        return Remote(generation, start, b"".join(data)[: end - start])
    raise JournalError(f"the journal in {objects.url} changes faster than it can be read")


def _piece(objects: Objects, segment: Segment, start: int) -> bytes:
    data = objects.read(segment.name)
    if len(data) != segment.end - segment.start:
        raise JournalError(f"{objects.url}/{segment.name} has {len(data)} bytes, not those it says")
    return data[max(0, start - segment.start) :]


class Uploader:
    """Brings what is appended to the journal at `path` to the store, as `generation`.

    What was brought is what readers elsewhere see; lines that are not whole yet are not.
    """

    def __init__(self, objects: Objects, path: Path, generation: int) -> None:
        self._objects = objects
        self._path = path
        self._generation = generation
        self._done = 0  # bytes
        self._segments: list[Segment] = []

    def bring(self) -> int:
        """Bring what is new; how many bytes that were. Raises OSError where the store fails."""
        size = os.path.getsize(self._path)
        merged = len(self._segments) >= _MOST
        if size <= self._done and self._segments:
            return 0
        start = 0 if merged else self._done
        with self._path.open("rb") as file:
            file.seek(start)
            data = file.read(size - start)
        data = data[: data.rfind(b"\n") + 1]
        segment = Segment(self._generation, start, start + len(data))
        if segment.end <= self._done:
            return 0
        # Where it exists, an earlier try has made it: the name is of these bytes of this generation
        self._objects.create(segment.name, data)
        old, new = (self._segments, [segment]) if merged else ([], [*self._segments, segment])
        brought, self._segments, self._done = segment.end - self._done, new, segment.end
        for one in old:
            self._objects.remove(one.name)
        return brought

    def remove_older(self) -> None:
        """Remove the segments of generations before this one, which has begun."""
        for segment in listed(self._objects):
            if segment.generation < self._generation:
                self._objects.remove(segment.name)
