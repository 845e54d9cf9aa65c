"""The lock of an experiment in an object store.

Each driver is a generation: it creates lock/GENERATION.json, which must not exist, and renews a
beat beside it. If the beat stops, the next generation begins, and readers ignore what the older one
still writes (see `segments`). Watchers use only their own clock.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tuner.errors import ExperimentError, UsageError
from tuner.experiment.events import is_owner
from tuner.experiment.owner import (
    build_owner,
    format_owner,
    is_alive,
    read_namespace_id,
)
from tuner.experiment.remote.objects import Objects

BEAT_S = 3.0
PATIENCE_S = 15.0  # with a beat that stands still
_SKEW_S = 60.0  # that a clock may be off, where one look must do

_FOLDER = "lock"
_NAME = re.compile(r"lock/(\d+)\.json")
_RELEASED = "released"


class LeaseLostError(ExperimentError):
    """Another driver has taken over the experiment."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The newest generation, its owner, and the bytes of the journal that it began with.

    processes: `owner.read_namespace_id` of its machine.
    """

    generation: int
    owner: Mapping[str, Any] | None
    at: int
    processes: str = ""

    @property
    def is_gone(self) -> bool:
        here = self.processes and self.processes == read_namespace_id()
        return bool(here and self.owner and not is_alive(self.owner["pid"]))


class Lease:
    """The experiment whose folder is `objects`, held as `generation` until `release`."""

    def __init__(self, objects: Objects, generation: int) -> None:
        self.objects = objects
        self.generation = generation
        self._renewed_at = -math.inf  # by this machine's clock

    def renew(self) -> None:
        """Show that this driver is alive. Raises LeaseLostError if another has taken over."""
        now = time.monotonic()
        if self.objects.has(_format_lock_name(self.generation + 1)):
            raise LeaseLostError(
                f"{self.objects.url} was taken over by another driver, for this one had not been "
                f"heard of for {PATIENCE_S:g} s"
            )
        self.objects.write(
            _format_beat_name(self.generation), repr(time.time()).encode()
        )
        self._renewed_at = now

    def check(self) -> None:
        """Renew it if another driver may have followed by now. Raises as `renew`."""
        if time.monotonic() - self._renewed_at >= PATIENCE_S:
            self.renew()

    def release(self) -> None:
        """Let the next driver begin at once."""
        self.objects.write(_format_beat_name(self.generation), _RELEASED.encode())


def find_holder(objects: Objects) -> Holder | None:
    matches = (_NAME.fullmatch(name) for name in objects.list_names(_FOLDER))
    generation = max((int(match[1]) for match in matches if match), default=None)
    if generation is None:
        return None
    lock = _decode_lock(objects.read(_format_lock_name(generation)))
    owner = lock.get("owner")
    at = lock.get("at")
    return Holder(
        generation,
        owner if is_owner(owner) else None,
        at if type(at) is int else 0,
        str(lock.get("processes", "")),
    )


def is_held(objects: Objects) -> bool:
    """Whether a live driver holds it, by this machine's clock, which may be off by a minute."""
    holder = find_holder(objects)
    if holder is None or holder.is_gone:
        return False
    beat = _read_beat(objects, holder.generation)
    try:
        return abs(time.time() - float(beat)) < PATIENCE_S + _SKEW_S
    except ValueError:
        return False


def acquire_lease(
    objects: Objects,
    at: Callable[[], int],
    *,
    warn: Callable[[str], object],
    sleep: Callable[[float], object] = time.sleep,
) -> Lease:
    """Become the driver of the experiment.

    at: returns the bytes of the journal, once nobody else drives. warn: called before a long wait
    for a silent driver. Raises UsageError if another driver is alive, and as
    `Objects.check_create`.
    """
    objects.check_create()
    holder = find_holder(objects)
    if holder is not None:
        _await_end(objects, holder, warn, sleep)
    return take_lease(objects, holder, at())


def take_lease(objects: Objects, holder: Holder | None, at: int = 0) -> Lease:
    """Become the driver after `holder` (or None). Raises UsageError if another was faster."""
    generation = holder.generation + 1 if holder else 1
    lock = {
        "owner": build_owner(),
        "processes": read_namespace_id(),
        "at": at,
        "nonce": uuid4().hex,
    }
    data = json.dumps(lock).encode()
    objects.create(_format_lock_name(generation), data)
    if objects.read(_format_lock_name(generation)) != data:
        raise UsageError(
            f"{objects.url} was just taken by another driver; let it end first"
        )
    lease = Lease(objects, generation)
    lease.renew()
    return lease


class Watch:
    """Checks a lease now and then without waiting."""

    def __init__(
        self, objects: Objects, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._seen: tuple[int, str] | None = None  # the generation, and its last beat
        self._since = 0.0  # when that was seen first

    def is_free(self) -> bool:
        """Whether its holder has ended, or was silent for PATIENCE_S."""
        holder = find_holder(self._objects)
        return holder is None or self.has_ended(holder)

    def take_if_free(self) -> Lease | None:
        """The lease if it was free, or None."""
        holder = find_holder(self._objects)
        if holder is not None and not self.has_ended(holder):
            return None
        try:
            return take_lease(self._objects, holder)
        except UsageError:
            return None

    def has_ended(self, holder: Holder) -> bool:
        """Whether this holder has ended, or was silent for PATIENCE_S."""
        beat = _read_beat(self._objects, holder.generation)
        if holder.is_gone or beat == _RELEASED:
            return True
        if self._seen != (holder.generation, beat):
            self._seen, self._since = (holder.generation, beat), self._clock()
        return self.silent_s >= PATIENCE_S

    @property
    def silent_s(self) -> float:
        """How long the beat that was seen last has stood still."""
        return self._clock() - self._since


def _await_end(
    objects: Objects,
    holder: Holder,
    warn: Callable[[str], object],
    sleep: Callable[[float], object],
) -> None:
    """Wait until the holder is released or silent for PATIENCE_S. Raises UsageError if it beats."""
    waited = 0.0
    watch = Watch(objects, clock=lambda: waited)
    if watch.has_ended(holder):
        return
    who = format_owner(holder.owner)
    warn(
        f"{objects.url} is held by {who}; waiting {PATIENCE_S:g} s to see whether it is alive"
    )
    while not watch.has_ended(holder):
        if watch.silent_s < waited:
            raise UsageError(
                f"{objects.url} is held by {who}; let it end or stop it first"
            )
        sleep(BEAT_S / 2)
        waited += BEAT_S / 2


def _decode_lock(data: bytes) -> dict[str, Any]:
    """A lock's object; empty if it is damaged, since a damaged lock counts as well."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _read_beat(objects: Objects, generation: int) -> str:
    try:
        return objects.read(_format_beat_name(generation)).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _format_lock_name(generation: int) -> str:
    return f"{_FOLDER}/{generation:06}.json"


def _format_beat_name(generation: int) -> str:
    return f"{_FOLDER}/{generation:06}.beat"
