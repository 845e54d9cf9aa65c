"""One driver at a time, judged by a store alone; a dead one is followed, a live one refused."""

import json
import os
import subprocess
from uuid import uuid4

import pytest

from tuner.errors import UsageError
from tuner.experiment.remote import lease
from tuner.experiment.remote.lease import (
    LeaseLostError,
    acquire_lease,
    find_holder,
    is_held,
)
from tuner.experiment.remote.objects import Objects


@pytest.fixture
def store():
    return Objects(f"memory://{uuid4().hex}/digits")


def acquired(store, *, at=0, sleep=lambda s: None, warnings=None):
    warn = (warnings if warnings is not None else []).append
    return acquire_lease(store, lambda: at, warn=warn, sleep=sleep)


def far(store, generation=1, **changes):
    """The driver of a lease runs on another machine, or as given."""
    name = f"lock/{generation:06}.json"
    lock = json.loads(store.read(name))
    lock["processes"] = "elsewhere"
    lock["owner"] |= {"host": "far"} | changes
    store.write(name, json.dumps(lock).encode())


def test_acquire_without_a_driver_or_after_release_is_immediate(store):
    assert find_holder(store) is None
    assert not is_held(store)
    warnings = []
    lease_held = acquired(store, at=7, warnings=warnings)
    assert (lease_held.generation, find_holder(store).at, warnings) == (1, 7, [])
    assert find_holder(store).owner["pid"] == os.getpid()
    assert is_held(store)
    lease_held.release()
    assert not is_held(store)
    assert (acquired(store, warnings=warnings).generation, warnings) == (2, [])


def test_acquire_from_a_live_driver_is_refused(snapshot, store):
    lease_held = acquired(store)
    far(store)
    warnings = []
    with snapshot.raises(UsageError):
        acquired(store, sleep=lambda s: lease_held.renew(), warnings=warnings)
    assert "waiting 15 s to see whether it is alive" in warnings[0]
    assert find_holder(store).generation == 1
    lease_held.renew()


def test_acquire_from_a_silent_driver_takes_its_lease(store):
    lease_held = acquired(store)
    far(store)
    slept = []
    follower = acquired(store, at=9, sleep=slept.append)
    assert sum(slept) >= lease.PATIENCE_S
    assert (follower.generation, find_holder(store).at) == (2, 9)
    with pytest.raises(LeaseLostError, match="was taken over by another driver"):
        lease_held.renew()
    follower.renew()


def test_acquire_from_a_dead_local_process_is_immediate(store):
    dead = subprocess.Popen(["true"])
    dead.wait()
    acquired(store)
    lock = json.loads(store.read("lock/000001.json"))
    lock["owner"]["pid"] = dead.pid
    store.write("lock/000001.json", json.dumps(lock).encode())
    assert not is_held(store)
    assert acquired(store, sleep=lambda s: pytest.fail("slept")).generation == 2


def test_acquire_of_an_overwritten_lock_is_refused(snapshot, store, monkeypatch):
    create = Objects.create

    def create_and_lose(self, name, data):
        created = create(self, name, data)
        if name.endswith(".json"):
            self.write(name, b"{}")
        return created

    monkeypatch.setattr(Objects, "create", create_and_lose)
    with snapshot.raises(UsageError):
        acquired(store)


def test_acquire_after_a_lost_answer_succeeds(store):
    class Twice(Objects):
        def create(self, name, data):
            super().create(name, data)
            return super().create(name, data)  # as a client does that saw no answer

    assert acquired(Twice(store.url)).generation == 1


@pytest.mark.parametrize(
    "damage", [b"", b"x", b"[]", b"{}", b'{"owner": 1, "at": "x"}', b"\xff"]
)
def test_newest_counts_a_damaged_lock(store, damage):
    acquired(store).release()
    store.write("lock/000001.json", damage)
    holder = find_holder(store)
    assert (holder.generation, holder.owner, holder.at) == (1, None, 0)
    assert acquired(store).generation == 2


def test_watch_follows_a_silent_driver_without_waiting(store):
    holder = acquired(store)
    now = [0.0]
    far(store)
    watch = lease.Watch(store, clock=lambda: now[0])
    for _ in range(3):
        assert watch.take_if_free() is None
        now[0] += 10
        holder.renew()
    assert watch.take_if_free() is None
    now[0] += 14.9
    assert watch.take_if_free() is None
    assert not watch.is_free()
    now[0] += 0.2
    assert watch.is_free()
    assert watch.take_if_free().generation == 2
    with pytest.raises(LeaseLostError):
        holder.renew()
