"""What a runner holds: its searches and its place, by leases that a thread renews."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock

from tuner.errors import StorageError, translate_error
from tuner.experiment.remote.lease import BEAT_S, Lease, LeaseLostError, Watch
from tuner.process import running
from tuner.service.queue.searches import Search

_log = logging.getLogger(__name__)


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
