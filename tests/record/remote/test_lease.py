"""One driver at a time, told by a store alone; a dead one is followed, a live one refused."""

import json
import os
import subprocess
from uuid import uuid4

import pytest

from tuner.errors import UsageError
from tuner.record.remote import lease
from tuner.record.remote.lease import LeaseLostError, is_held, newest, take
from tuner.record.remote.objects import Objects


@pytest.fixture
def store():
    return Objects(f"memory://{uuid4().hex}/digits")


def taken(store, *, at=0, sleep=lambda s: None, said=None):
    return take(store, lambda: at, say=(said if said is not None else []).append, sleep=sleep)


def far(store, generation=1, **changes):
    """The driver of a lease runs on another machine, or as given."""
    name = f"lock/{generation:06}.json"
    told = json.loads(store.read(name))
    told["processes"] = "elsewhere"
    told["owner"] |= {"host": "far"} | changes
    store.write(name, json.dumps(told).encode())


def test_the_first_driver_has_it_at_once(store):
    assert newest(store) is None
    assert not is_held(store)
    said = []
    mine = taken(store, at=7, said=said)
    assert (mine.generation, newest(store).at, said) == (1, 7, [])
    assert newest(store).owner["pid"] == os.getpid()
    assert is_held(store)


def test_what_was_released_is_had_at_once_by_the_next(store):
    taken(store).release()
    assert not is_held(store)
    said = []
    assert taken(store, said=said).generation == 2
    assert said == []


def test_a_driver_that_beats_is_not_followed(store):
    mine = taken(store)
    far(store)
    said = []
    with pytest.raises(UsageError, match=r"held by another driver: pid \d+ on far.*stop it first"):
        taken(store, sleep=lambda s: mine.renew(), said=said)
    assert "looking for 15 s whether it lives" in said[0]
    assert newest(store).generation == 1
    mine.renew()


def test_one_that_lets_go_while_it_is_watched_is_followed(store):
    mine = taken(store)
    far(store)
    assert taken(store, sleep=lambda s: mine.release()).generation == 2


def test_one_that_is_silent_for_as_long_as_it_may_be_is_followed_and_loses_it(store):
    mine = taken(store)
    far(store)
    slept = []
    next_one = taken(store, at=9, sleep=slept.append)
    assert sum(slept) >= lease.PATIENCE_S
    assert (next_one.generation, newest(store).at) == (2, 9)
    with pytest.raises(LeaseLostError, match="was taken over by another driver"):
        mine.renew()
    next_one.renew()


def test_a_dead_process_of_this_machine_is_not_watched(store):
    dead = subprocess.Popen(["true"])
    dead.wait()
    taken(store)
    told = json.loads(store.read("lock/000001.json"))
    told["owner"]["pid"] = dead.pid
    store.write("lock/000001.json", json.dumps(told).encode())
    assert not is_held(store)
    assert taken(store, sleep=lambda s: pytest.fail("slept")).generation == 2


def test_the_same_number_on_another_machine_is_another_process(store):
    taken(store)
    far(store, pid=10**9)
    slept = []
    taken(store, sleep=slept.append)
    assert slept


def test_of_two_that_follow_one_does(store):
    taken(store).release()

    class Raced(Objects):
        def create(self, name, data):
            Objects(self.url).create(name, b'{"owner": {}, "at": 0}')  # a moment before
            return super().create(name, data)

    with pytest.raises(UsageError, match="just taken by another driver"):
        taken(Raced(store.url))


def test_an_answer_that_was_lost_is_no_other_driver(store):
    class Twice(Objects):
        def create(self, name, data):
            super().create(name, data)
            return super().create(name, data)  # as a client does that saw no answer

    assert taken(Twice(store.url)).generation == 1


@pytest.mark.parametrize("damage", [b"", b"x", b"[]", b"{}", b'{"owner": 1, "at": "x"}', b"\xff"])
def test_a_damaged_lock_is_one_all_the_same(store, damage):
    taken(store).release()
    store.write("lock/000001.json", damage)
    holder = newest(store)
    assert (holder.generation, holder.owner, holder.at) == (1, None, 0)
    assert taken(store).generation == 2


def test_an_old_beat_is_no_life(store, monkeypatch):
    taken(store)
    far(store)
    assert is_held(store)
    now = lease.time.time()
    monkeypatch.setattr(lease.time, "time", lambda: now + 3600)
    assert not is_held(store)
