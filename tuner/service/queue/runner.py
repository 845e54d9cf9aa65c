"""Runs the searches of a queue, several at once, each in a process of its own.

A runner that is killed leaves its searches running. The next one, here or on another machine, takes
over their entries: it leaves alone what has a driver, goes on with what was begun and has none, and
starts the rest. What keeps two from running the same search is the lease of its entry and, should a
runner be held up so long that it loses that, the lock of its experiment.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import gethostname
from threading import Event, Lock

from tuner.errors import ExperimentError, SpecError, StorageError, UsageError, translate_error
from tuner.experiment.remote.lease import BEAT_S, Lease, LeaseLostError, Watch
from tuner.places import LOCAL, is_url
from tuner.process import running
from tuner.service.queue.entries import COMPLETED, FAILED, Entry, Queue
from tuner.service.queue.searches import (
    AGAIN,
    Search,
    is_completed,
    outcome_of,
    spec_of,
    started,
    verdict,
    waiting,
    why_of,
)
from tuner.service.queue.shares import Room, Waiting, gpus_here, limits, next_to_start
from tuner.spec.experiment import ExperimentSpec
from tuner.trial.gpus import room, sharing
from tuner.wording import amount_of

_log = logging.getLogger(__name__)

_EVERY_S, _EVERY_S_OF_A_STORE = 1.0, 5.0
_PATIENCE_S = 60.0  # with a storage that fails
_TO_END_S = 120.0  # for searches to end in order, each with the epoch in flight


@dataclass(frozen=True, slots=True)
class Terms:
    """How a runner runs: the most searches at once, users' weights, the address of Ray, and the
    command that is `tuner` here.
    """

    at_once: int
    weights: Mapping[str, float]
    address: str = LOCAL
    command: tuple[str, ...] = (sys.executable, "-m", "tuner")


class Held:
    """The searches that a runner has; it loses those that another runner has taken over.

    is_followed: whether another runner has taken its place.
    """

    def __init__(self) -> None:
        self.is_followed = False
        self._searches: dict[str, Search] = {}
        self._changing = Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._searches

    @property
    def searches(self) -> list[Search]:
        """Those that it has now."""
        with self._changing:
            return list(self._searches.values())

    def keep(self, search: Search) -> None:
        """Take one on, whose lease this runner has."""
        with self._changing:
            self._searches[search.entry.name] = search

    def let_go(self, search: Search) -> None:
        """Forget one; its lease is the caller's to release."""
        with self._changing:
            self._searches.pop(search.entry.name, None)

    @contextmanager
    def alone(
        self, watch: Watch, *, every_s: float, tell: Callable[[str], object]
    ) -> Iterator[None]:
        """Within it this runner has the place of `watch`, and all leases are renewed.

        Waits for another runner that has it. Raises StorageError where the storage fails.
        """
        has_told = False
        while (place := _followed(watch)) is None:
            if not has_told:
                tell("another runner is at work here; this one takes over when it ends")
                has_told = True
            time.sleep(every_s)

        def beat(over: Event) -> None:
            while not over.wait(BEAT_S):
                self.renew(place)

        try:
            with running(beat):
                yield
        finally:
            with suppress(OSError):  # it then counts as silent, and soon as gone
                place.release()

    def renew(self, place: Lease) -> None:
        """Renew every lease; one that another runner has is let go."""
        self.is_followed = self.is_followed or _is_lost(place)
        for search in self.searches:
            if _is_lost(search.lease):
                self.let_go(search)


def _followed(watch: Watch) -> Lease | None:
    with translate_error(StorageError, "cannot use the queue", of=OSError):
        return watch.followed()


def _is_lost(lease: Lease) -> bool:
    """Whether another runner has it; else it is renewed, if the storage lets it."""
    try:
        lease.renew()
    except LeaseLostError:
        return True
    except OSError as error:  # where that lasts, another runner takes over
        _log.warning("%s: %s", lease.objects.url, error.strerror)
    return False


class Runner:
    """One runner of a queue.

    capacity(gpus): the CPUs of the machine or cluster, now, and its GPUs, if they are asked for.
    tell: called with a line about each search that starts or ends.
    """

    def __init__(
        self,
        queue: Queue,
        terms: Terms,
        *,
        capacity: Callable[[bool], Room],
        tell: Callable[[str], object],
    ) -> None:
        self._queue, self._terms, self._capacity, self._tell = queue, terms, capacity, tell
        self._held = Held()
        self._watches: dict[str, Watch] = {}
        self._waiting: dict[str, Waiting] = {}  # entries; each is read again before it starts
        self._tries: Counter[str] = Counter()
        self._failing_since: float | None = None
        self.failed = 0

    def run(self, *, stay: bool = False) -> None:
        """Run what is in the queue, until all of it has ended; stay: and wait for more.

        Waits for another runner of this machine or cluster. Raises StorageError if the storage
        fails for a minute, ExperimentError if another runner has taken over. Whatever ends it early
        ends its searches, too, which the next runner goes on with.
        """
        every_s = _EVERY_S_OF_A_STORE if is_url(self._queue.storage) else _EVERY_S
        address = self._terms.address
        watch = self._queue.watch_runner(gethostname() if address == LOCAL else address)
        with self._held.alone(watch, every_s=every_s, tell=self._tell):
            try:
                while (self._patient_turn() or stay) and not self._held.is_followed:
                    time.sleep(every_s)
            finally:
                self._leave()
        if self._held.is_followed:
            raise ExperimentError("another runner has taken over, for this one had stood still")

    def _patient_turn(self) -> bool:
        """A turn, which a storage may fail for a while."""
        try:
            is_left = self.turn()
            self._failing_since = None
            return is_left
        except (StorageError, UsageError):
            now = time.monotonic()
            self._failing_since = self._failing_since or now
            if now - self._failing_since > _PATIENCE_S:
                raise
            return True

    def turn(self) -> bool:
        """Look at everything once, and do what is to be done; whether anything is left."""
        for search in self._held.searches:
            search.read()
            if search.has_ended:
                self._settle(search)
        entries = self._queue.open()
        self._forget(entries)
        free = [
            name
            for name, one in entries.items()
            if name not in self._held and (not one.claimed or self._is_free(name))
        ]
        for name in free:
            if entries[name].begun and self._queue.experiment(name).is_driven:
                self._adopt(name)
        waits = {name: self._waits(name) for name in free if name not in self._held}
        self._share([one for one in waits.values() if one])
        return any(waits.get(name, True) for name in entries)  # what cannot be read, is left

    def _is_free(self, name: str) -> bool:
        """Whether no other runner has an entry."""
        with suppress(OSError):  # the next turn tries again
            return self._watch(name).is_free()
        return False

    def _watch(self, name: str) -> Watch:
        return self._watches.setdefault(name, self._queue.watch(name))

    def _forget(self, entries: Collection[str]) -> None:
        """Forget what is known of all but these."""
        for known in (self._watches, self._waiting):
            for name in known.keys() - {*entries}:
                del known[name]

    def _share(self, waits: Sequence[Waiting]) -> None:
        """Start what is due, and let each search know how many trials it may run at a time."""
        terms, searches = self._terms, self._held.searches
        reserved = [one.each for one in waits] + [search.each for search in searches]
        capacity = self._capacity(any(each.gpus for each in reserved))
        demands = [search.demand(capacity) for search in searches]
        first = next_to_start(
            waits,
            demands,
            at_once=terms.at_once,
            capacity=capacity,
            weights=terms.weights,
        )
        found = limits(
            [*demands, *([first.to_start(capacity)] if first else [])],
            capacity=capacity,
            unused=self._unused(capacity),
            weights=terms.weights,
        )
        for search in self._held.searches:
            if (name := search.entry.name) in found:
                search.limit(found[name])
        # Alone it starts in any case: one that is too large says so by itself
        if first and (most := max(found[first.name], 0 if demands else 1)):
            self._begin(first.name, most)

    def _unused(self, capacity: Room) -> Room:
        """Of the GPUs that searches share by locks, what no process has locked."""
        if self._terms.address != LOCAL or not capacity.gpus:
            return capacity
        return Room(capacity.cpus, room(self._queue.gpus(gethostname()), gpus_here()))

    def _waits(self, name: str) -> Waiting | None:
        """An entry that waits; None where it cannot be read."""
        if name not in self._waiting and (entry := self._queue.entry(name)):
            self._waiting[name] = waiting(entry)
        return self._waiting.get(name)

    def _claim(self, name: str) -> tuple[Lease, Entry] | None:
        """The lease of an entry, and the entry as it is now; None where another runner has it."""
        with suppress(OSError):  # the next turn tries again
            if (lease := self._watch(name).followed()) is not None:
                entry = self._queue.entry(name)
                if entry is not None and self._queue.ended(name) is None:
                    return lease, entry
                lease.release()
        return None

    def _adopt(self, name: str) -> None:
        """Take over an entry whose search runs though its runner has gone."""
        folder = self._queue.experiment(name)
        folder.refresh()  # its driver may be on another machine
        begun_with = folder.document()["spec"].get("max_concurrent")
        if claimed := self._claim(name):
            lease, entry = claimed
            search = Search(self._queue, entry, spec_of(entry), lease, None, limit=begun_with)
            self._held.keep(search)
            self._tell(f"{name} runs already")

    def _begin(self, name: str, most: int) -> None:
        """Start the search of an entry, or go on with it."""
        claimed = self._claim(name)
        if claimed is None:
            return
        lease, entry = claimed
        folder = self._queue.experiment(name)
        exists, has_begun = folder.is_taken, self._queue.has_begun(name)
        if exists:
            folder.refresh()
        if exists and not has_begun:
            self._end(name, FAILED, why=f"an experiment {name} exists, which is not the queue's")
        elif exists and is_completed(folder.path):
            self._close(name, outcome_of(folder.path) or FAILED)
        else:
            self._start(entry, lease, most, resume=exists)
            return
        lease.release()

    def _start(self, entry: Entry, lease: Lease, most: int, *, resume: bool) -> None:
        name = entry.name
        self._tries[name] += 1
        try:
            spec = spec_of(entry)
            command = self._command(entry, most, resume=resume)
            environment = {**os.environ, **self._gpus(spec)}
            process = started(command, entry, self._queue.log(name), environment)
        except (OSError, SpecError) as error:
            self._end(name, FAILED, why=str(error))
            lease.release()
            return
        self._held.keep(Search(self._queue, entry, spec, lease, process, limit=most))
        how = "goes on" if resume else "starts"
        self._tell(f"{name} {how}, {amount_of(most, 'trial')} at a time")

    def _gpus(self, spec: ExperimentSpec) -> dict[str, str]:
        """What lets the Ray of a search share this machine's GPUs with those of others."""
        if self._terms.address != LOCAL or not spec.resources.gpus:
            return {}
        return sharing(self._queue.gpus(gethostname()), gpus_here())

    def _command(self, entry: Entry, most: int, *, resume: bool) -> list[str]:
        """What runs the search of an entry, or goes on with it."""
        name, terms = entry.name, self._terms
        what = ["resume", name]
        if not resume:
            what = ["run", self._queue.spec_file(entry), "--name", name]
        where = ["--storage", self._queue.storage, "--address", terms.address]
        return [*terms.command, *what, *where, "--max-concurrent", str(most), "--yes"]

    def _settle(self, search: Search) -> None:
        """What becomes of an entry whose driver has ended."""
        name, process = search.entry.name, search.process
        folder = self._queue.experiment(name)
        if process is not None and folder.is_driven:  # another driver was faster
            search.process = None
            return
        if folder.is_taken:
            folder.refresh()
        code = None if process is None else process.returncode
        tries = self._tries[name]
        status = verdict(code, came_to=outcome_of(folder.path), tries=tries)
        if status == AGAIN:
            self._tell(f"the driver of {name} was killed")
        else:
            self._close(name, status, code=code)
        self._held.let_go(search)
        with suppress(OSError):  # it then counts as silent, and soon as gone
            search.lease.release()

    def _close(self, name: str, status: str, *, code: int | None = None) -> None:
        """Say how an entry has ended whose search has run; why is in its log."""
        why = "" if status == COMPLETED else why_of(self._queue.log(name))
        self._end(name, status, code=code, why=why)

    def _end(self, name: str, status: str, *, code: int | None = None, why: str = "") -> None:
        reason = self._queue.end(name, status, code=code, why=why).reason
        self.failed += status != COMPLETED
        self._tell(f"{name} {status}{f': {reason}' if reason else ''}")

    def _leave(self) -> None:
        """End the searches that this runner has started, and leave all for the next one."""
        searches = self._held.searches
        for search in searches:
            search.end()
        if searches:
            self._tell("its searches end; the next `tuner queue run` goes on with them")
        deadline = time.monotonic() + _TO_END_S
        for search in searches:
            while search.process and not search.has_ended and time.monotonic() < deadline:
                time.sleep(0.1)
            with suppress(OSError):
                search.lease.release()
