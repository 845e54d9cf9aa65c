"""The entries of a queue, in a folder and in a store: each is added, claimed and ended once."""

import json
import os
from functools import partial
from uuid import uuid4

import pytest
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.experiment.remote.lease import acquire_lease
from tuner.service.queue import entries
from tuner.service.queue.entries import Entry, Queue, build_entry
from tuner.spec.by_value import ByValue
from tuner.spec.experiment import build_spec

SPEC = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 2}


def entry(name, added=1.0, user="ann"):
    return Entry(
        name=name, user=user, added=added, directory="/", spec={**SPEC, "name": name}
    )


@pytest.fixture(params=["folder", "store"])
def queue(request, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_MIRROR", str(tmp_path / "mirror"))
    is_folder = request.param == "folder"
    return Queue(
        str(tmp_path / "results") if is_folder else f"memory://{uuid4().hex}/results"
    )


def statuses(queue):
    return {status.entry.name: status.status for status in queue.list_statuses()}


def test_add_rejects_or_numbers_taken_name(snapshot, queue):
    queue.add(entry("a"))
    with snapshot.raises(UsageError):
        queue.add(entry("a"))
    assert queue.add(entry("a"), is_named=False) == "a-2"
    second = queue.read_entry("a-2")
    assert second.spec["name"] == "a-2"
    assert queue.add(entry("a"), is_named=False) == "a-3"


def test_watch_gives_lease_to_one_at_a_time(queue):
    queue.add(entry("a"))
    watches = [queue.watch_entry("a"), queue.watch_entry("a")]
    leases = [watch.take_if_free() for watch in watches]
    assert [lease is not None for lease in leases] == [True, False]
    assert statuses(queue) == {"a": "running"}
    leases[0].release()
    assert statuses(queue) == {"a": "waiting"}
    assert watches[1].take_if_free() is not None


def test_entry_begins_and_ends_once(queue):
    queue.add(entry("a"))
    assert [queue.has_begun("a"), queue.has_begun("a")] == [False, True]
    assert queue.list_open() == {"a": (True, False)}
    queue.watch_entry("a").take_if_free()
    assert queue.list_open() == {"a": (True, True)}
    queue.end("a", "failed", code=1, why="some\nlines")
    queue.end("a", "completed")  # comes too late
    [status] = queue.list_statuses()
    shown = status.as_dict()
    assert (status.status, shown["exit_code"], shown["why"]) == (
        "failed",
        1,
        "some\nlines",
    )
    assert queue.list_open() == {}


def test_remove_entry_frees_its_name(snapshot, queue):
    queue.add(entry("a"))
    queue.end("a", "completed")
    queue.remove("a", warn=print)
    assert queue.list_statuses() == []
    assert queue.add(entry("a")) == "a"
    assert not queue.has_begun("a")
    with snapshot.raises(UsageError):
        queue.remove("b", warn=print)


def test_remove_rejects_held_entry(snapshot, queue, monkeypatch):
    queue.add(entry("a"))
    lease = queue.watch_entry("a").take_if_free()
    beating = partial(acquire_lease, sleep=lambda s: lease.renew())
    # It beats while it is watched
    monkeypatch.setattr(entries, "acquire_lease", beating)
    with snapshot.raises(UsageError):
        queue.remove("a", warn=lambda text: None)
    assert statuses(queue) == {"a": "running"}


def test_status_of_driven_experiment_is_running(snapshot, tmp_path):
    queue = Queue(str(tmp_path))
    queue.add(entry("a"))
    writer = Writer(make_folder(tmp_path / "a"))
    assert statuses(queue) == {"a": "running"}
    with snapshot.raises(UsageError):
        queue.remove("a", warn=print)
    writer.journal.close()
    queue.remove("a", warn=print)
    assert (tmp_path / "a").is_dir()


def test_statuses_with_damaged_files_keep_the_others(tmp_path):
    queue = Queue(str(tmp_path))
    for name in ("a", "b", "c"):
        queue.add(entry(name))
    (tmp_path / ".queue/a/entry.json").write_text("{")
    (tmp_path / ".queue/b/ended.json").write_text("[]")
    assert statuses(queue) == {"b": "failed", "c": "waiting"}


def test_entry_of_keeps_spec_and_rejects_secret(snapshot, tmp_path):
    spec = build_spec({**SPEC, "name": "a", "notify": ["https://host/${HOOK}"]})
    added = build_entry(spec, user="ann", directory=os.getcwd(), paths=["/x"])
    assert build_spec(added.spec) == spec
    assert json.loads(added.model_dump_json())["paths"] == ["/x"]
    with snapshot.raises(UsageError):
        build_entry(
            spec.replace(notify=["https://host/s3cret"]), user="ann", directory="/"
        )


def test_entry_of_rejects_trainable_by_value(snapshot):
    spec = build_spec({**SPEC, "trainable": ByValue(lambda config: None)})
    with snapshot.raises(UsageError):
        build_entry(spec, user="ann", directory="/")
