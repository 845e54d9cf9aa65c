"""Runs the searches of a queue, several at once, each in its own process.

A runner that is killed leaves its searches running. The next runner, here or on another machine,
takes over their entries: it adopts searches that have a driver, resumes those that have none, and
starts the others. The lease of an entry keeps two runners apart. If a runner stands still so long
that it loses the lease, the lock of the experiment still keeps two drivers apart.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname

from tuner.cluster import LOCAL
from tuner.errors import (
    ExperimentError,
    SpecError,
    StorageError,
    TunerError,
    UsageError,
    translate_error,
)
from tuner.experiment.remote.lease import BEAT_S, Lease, LeaseLostError, Watch
from tuner.places import is_url
from tuner.service.queue.entries import COMPLETED, FAILED, Entry, Queue
from tuner.service.queue.searches import (
    AGAIN,
    Search,
    build_entry_spec,
    choose_status,
    estimate_waiting_demand,
    find_outcome,
    is_at_work,
    read_failure,
    start_command,
)
from tuner.service.queue.shares import (
    Demand,
    Room,
    choose_next,
    compute_limits,
    list_gpus,
)
from tuner.trial.gpus import build_sharing_variables, measure_free_shares
from tuner.wording import format_amount

_log = logging.getLogger(__name__)

_EVERY_S = 1.0
_EVERY_S_OF_A_STORE = 5.0  # between two turns
_PATIENCE_S = 60.0  # with a storage that fails
_TO_END_S = 120.0  # for searches to finish their epochs


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of a runner.

    at_once: the most searches at a time. weights: of users. address: of Ray. command: `tuner`.
    every_s: seconds between two turns; by default 1, and 5 for a store.
    """

    at_once: int
    weights: Mapping[str, float]
    address: str = LOCAL
    command: tuple[str, ...] = (sys.executable, "-m", "tuner")
    every_s: float | None = None


class Runner:
    """One runner of a queue.

    capacity(gpus): the CPUs of the machine or cluster now, and its GPUs if needed. notify: called
    with a line about each search that starts or ends. gpus: the names of this machine's GPUs.
    unused(folder, names): what no search uses of each GPU.
    """

    def __init__(
        self,
        queue: Queue,
        terms: Terms,
        *,
        capacity: Callable[[bool], Room],
        notify: Callable[[str], object],
        gpus: Callable[[], tuple[str, ...]] = list_gpus,
        unused: Callable[
            [Path, tuple[str, ...]], tuple[float, ...]
        ] = measure_free_shares,
    ) -> None:
        self._gpu_names = gpus
        self._unused_gpus = unused
        self._queue = queue
        self._terms = terms
        self._capacity = capacity
        self._notify = notify
        self._searches: dict[str, Search] = {}
        self._watches: dict[str, Watch] = {}
        self._waiting: dict[str, Demand] = {}  # an entry is read again before it starts
        self._tries: Counter[str] = Counter()
        self._lease: Lease | None = None  # of the one runner of this machine or cluster
        self._next_beat = 0.0
        self.failed = 0

    def run(self, *, stay: bool = False) -> None:
        """Run the entries of the queue until all have ended; stay: and wait for more.

        Waits for another runner of this machine or cluster. Raises StorageError if the storage
        fails for a minute, ExperimentError if another runner has taken over. At an early end it
        ends its searches, adopted ones on this machine, too; the next runner resumes them.
        """
        every_s = self._terms.every_s
        if every_s is None:
            every_s = _EVERY_S_OF_A_STORE if is_url(self._queue.storage) else _EVERY_S
        self._lease = self._wait_for_lease(every_s)
        failing_since: float | None = None
        try:
            is_left = True
            while is_left or stay:
                self.renew_leases()
                try:
                    is_left = self.run_turn()
                    failing_since = None
                except (StorageError, UsageError):
                    failing_since = failing_since or time.monotonic()
                    if time.monotonic() - failing_since > _PATIENCE_S:
                        raise
                time.sleep(every_s if is_left or stay else 0)
        finally:
            self._end_searches()
            with suppress(OSError):  # the lease then expires
                self._lease.release()

    def _wait_for_lease(self, every_s: float) -> Lease:
        """Wait until no other runner of this machine or cluster is at work."""
        address = self._terms.address
        watch = self._queue.watch_runner(gethostname() if address == LOCAL else address)
        has_notified = False
        with translate_error(StorageError, "cannot use the queue", of=OSError):
            while (lease := watch.take_if_free()) is None:
                if not has_notified:
                    self._notify(
                        "another runner is at work here; this one takes over when it ends"
                    )
                    has_notified = True
                time.sleep(every_s)
        return lease

    def renew_leases(self) -> None:
        """Renew the leases that are due, and drop searches that another runner has taken over.

        Raises ExperimentError if another runner has taken over.
        """
        if time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + BEAT_S
        for name, search in list(self._searches.items()):
            if _is_lost(search.lease):
                del self._searches[name]
        if self._lease is not None and _is_lost(self._lease):
            raise ExperimentError(
                "another runner has taken over, for this one had stood still"
            )

    def run_turn(self) -> bool:
        """Look at all entries once, and act; whether any is left."""
        for search in list(self._searches.values()):
            search.read()
            if search.has_ended:
                self._settle_search(search)
        entries = self._queue.list_open()
        for by_name in (self._watches, self._waiting):
            for name in by_name.keys() - entries.keys():
                del by_name[name]
        free = [
            name
            for name, entry in entries.items()
            if name not in self._searches and (not entry.claimed or self._is_free(name))
        ]
        for name in free:
            if entries[name].begun and is_at_work(self._queue.find_folder(name)):
                self._adopt_search(name)
        demands = {
            name: self._find_demand(name) for name in free if name not in self._searches
        }
        self._share_capacity([demand for demand in demands.values() if demand])
        # A damaged entry is no work
        return any(demands.get(name, True) for name in entries)

    def _is_free(self, name: str) -> bool:
        with suppress(OSError):  # the next turn tries again
            return self._find_watch(name).is_free()
        return False

    def _find_watch(self, name: str) -> Watch:
        return self._watches.setdefault(name, self._queue.watch_entry(name))

    def _find_demand(self, name: str) -> Demand | None:
        """The demand of an entry that waits, or None if the entry is damaged."""
        if name not in self._waiting and (entry := self._queue.read_entry(name)):
            self._waiting[name] = estimate_waiting_demand(entry)
        return self._waiting.get(name)

    def _share_capacity(self, waits: Sequence[Demand]) -> None:
        """Limit the trials of each running search, and start the next search if there is room."""
        weights = self._terms.weights
        demands = [search.estimate_demand() for search in self._searches.values()]
        capacity = self._capacity(
            any(demand.each.gpus for demand in [*waits, *demands])
        )
        first = choose_next(
            waits,
            demands,
            at_once=self._terms.at_once,
            capacity=capacity,
            weights=weights,
        )
        demanding = [*demands, *([first] if first else [])]
        unused = self._find_unused(capacity)
        by_name = compute_limits(
            demanding, capacity=capacity, unused=unused, weights=weights
        )
        for name, search in self._searches.items():
            search.request_limit(by_name[name])
        # Without others it starts in any case: a search that is too large reports that itself
        if first and (most := max(by_name[first.name], 0 if demands else 1)):
            self._begin(first.name, most)

    def _find_unused(self, capacity: Room) -> Room:
        """The capacity without the GPUs that searches on this machine have locked."""
        if self._terms.address != LOCAL or not capacity.gpus:
            return capacity
        folder = self._queue.find_gpu_locks(gethostname())
        return Room(capacity.cpus, self._unused_gpus(folder, self._gpu_names()))

    def _claim_entry(self, name: str) -> tuple[Lease, Entry] | None:
        with suppress(OSError):  # the next turn tries again
            if (lease := self._find_watch(name).take_if_free()) is not None:
                entry = self._queue.read_entry(name)
                if entry is not None and self._queue.read_end(name) is None:
                    return lease, entry
                lease.release()
        return None

    def _adopt_search(self, name: str) -> None:
        """Take over an entry whose search runs although its runner has gone."""
        folder = self._queue.find_folder(name)
        folder.refresh()  # its driver may be on another machine
        # Runners always set it
        limit = folder.read_document()["spec"].get("max_concurrent") or 1
        if claimed := self._claim_entry(name):
            lease, entry = claimed
            search = Search(
                self._queue, entry, build_entry_spec(entry), lease, None, limit=limit
            )
            self._searches[name] = search
            self._notify(f"{name} runs already")

    def _begin(self, name: str, most: int) -> None:
        claimed = self._claim_entry(name)
        if claimed is None:
            return
        lease, entry = claimed
        folder = self._queue.find_folder(name)
        exists = folder.is_taken
        has_begun = self._queue.has_begun(name)
        if exists:
            folder.refresh()
        outcome = find_outcome(folder.path) if exists else None
        if exists and not has_begun:
            self._end(
                name,
                FAILED,
                why=f"an experiment {name} exists, which is not the queue's",
            )
        elif outcome in (COMPLETED, FAILED):
            self._close(name, outcome)
        else:
            self._start(entry, lease, most, resume=exists)
            return
        lease.release()

    def _start(self, entry: Entry, lease: Lease, most: int, *, resume: bool) -> None:
        name = entry.name
        self._tries[name] += 1
        try:
            spec = build_entry_spec(entry)
            command = self._build_command(entry, most, resume=resume)
            environment = dict(os.environ)
            if self._terms.address == LOCAL and spec.resources.gpus:
                environment |= build_sharing_variables(
                    self._queue.find_gpu_locks(gethostname()), self._gpu_names()
                )
            process = start_command(
                command, entry, self._queue.find_log(name), environment
            )
        except (OSError, SpecError) as error:
            self._end(name, FAILED, why=str(error))
            lease.release()
            return
        self._searches[name] = Search(
            self._queue, entry, spec, lease, process, limit=most, is_new=not resume
        )
        how = "goes on" if resume else "starts"
        self._notify(f"{name} {how}, {format_amount(most, 'trial')} at a time")

    def _build_command(self, entry: Entry, most: int, *, resume: bool) -> list[str]:
        name = entry.name
        terms = self._terms
        what = ["resume", name]
        if not resume:
            what = ["run", self._queue.write_spec(entry), "--name", name]
        where = ["--storage", self._queue.storage, "--address", terms.address]
        return [*terms.command, *what, *where, "--max-concurrent", str(most), "--yes"]

    def _settle_search(self, search: Search) -> None:
        """End an entry whose driver has ended, or leave it to be resumed."""
        name = search.entry.name
        process = search.process
        folder = self._queue.find_folder(name)
        if process is not None and is_at_work(folder):  # another driver was faster
            search.process = None
            return
        if folder.is_taken:
            folder.refresh()
        search.read()
        code = None if process is None else process.returncode
        if code == UsageError.exit_code and search.is_new and folder.is_taken:
            # An earlier runner's driver has just created it, or was killed so early
            code = None
        progress = search.progress if folder.is_taken else None
        outcome = find_outcome(folder.path)
        tries = self._tries[name]
        status = choose_status(code, outcome=outcome, tries=tries, progress=progress)
        if progress:
            del self._tries[name]
        if status == AGAIN and code is not None and code > 0:
            why, _, _ = read_failure(self._queue.find_log(name)).partition("\n")
            self._notify(f"the driver of {name} has ended too early: {why}")
        elif status == AGAIN:
            self._notify(f"the driver of {name} was killed, or another one was faster")
        else:
            self._close(name, status, code=code)
        del self._searches[name]
        with suppress(OSError):  # the lease then expires
            search.lease.release()

    def _close(self, name: str, status: str, *, code: int | None = None) -> None:
        """End an entry whose search has run; its log says why."""
        why = "" if status == COMPLETED else read_failure(self._queue.find_log(name))
        self._end(name, status, code=code, why=why)

    def _end(
        self, name: str, status: str, *, code: int | None = None, why: str = ""
    ) -> None:
        reason = self._queue.end(name, status, code=code, why=why).reason
        self.failed += status != COMPLETED
        self._notify(f"{name} {status}{f': {reason}' if reason else ''}")

    def _end_searches(self) -> None:
        """End the searches, wait for them, and leave all to the next runner."""
        searches = list(self._searches.values())
        if searches:
            self._notify(
                "its searches end; the next `tuner queue run` goes on with them"
            )
        out_of_reach: list[str] = []
        deadline = time.monotonic() + _TO_END_S
        left = searches
        while left and time.monotonic() < deadline:
            with suppress(OSError, TunerError):  # the storage: tried again
                left = [search for search in left if not search.has_ended]
                for search in left:
                    search.end()
                out_of_reach += [
                    search.entry.name for search in left if search.is_out_of_reach
                ]
                left = [search for search in left if not search.is_out_of_reach]
                self.renew_leases()
            time.sleep(0.1 if left else 0)
        if out_of_reach:
            names = ", ".join(out_of_reach)
            self._notify(
                f"not ended, as no runner on this machine has started them: {names}"
            )
        for search in searches:
            with suppress(OSError):
                search.lease.release()


def _is_lost(lease: Lease) -> bool:
    """Renew a lease; whether another runner has it."""
    try:
        lease.renew()
    except LeaseLostError:
        return True
    except OSError as error:  # if that lasts, another runner takes over
        _log.warning("%s: %s", lease.objects.url, error.strerror)
    return False
