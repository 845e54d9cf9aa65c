"""What a driver does for its store: the journal in order, checkpoints only when a newer is told."""

import threading
import time
from uuid import uuid4

import pytest
from synthetic import make_folder

from tuner.errors import StorageError, UsageError
from tuner.places import ROOT, local
from tuner.record.journal import Journal
from tuner.record.remote import mirror
from tuner.record.remote import sync as upkeep
from tuner.record.remote.lease import LeaseLostError, newest
from tuner.record.remote.objects import Objects
from tuner.record.remote.segments import fetch
from tuner.record.remote.sync import InPlace, InStore, held

PATIENCE_S = 20


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))
    monkeypatch.setattr(upkeep, "_EVERY_S", 0.01)
    monkeypatch.setattr(upkeep, "BEAT_S", 0.02)


@pytest.fixture
def folder():
    """The mirror of a new experiment."""
    made = make_folder(local(f"memory://{uuid4().hex}/runs") / "digits")
    mirror.objects_of(made).upload(made / "experiment.json", "experiment.json")
    return made


@pytest.fixture
def store(folder):
    return mirror.objects_of(folder)


def begin(journal):
    journal.append(
        "experiment_started", resumed=False, owner={"host": "h", "pid": 1, "started": 1.0}
    )


def until(true):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def fail(*arguments):
    raise OSError(0, "out of order")


def break_down(monkeypatch):
    """Let the store fail from now on, and nobody have patience with it."""
    monkeypatch.setattr(upkeep.Uploader, "bring", fail)
    monkeypatch.setattr(upkeep, "patiently", lambda do: do())


def test_the_journal_follows_and_all_is_there_at_the_end(folder, store):
    errors = []
    with held(folder, say=print) as keep, Journal.open(folder) as journal:
        with keep.during(errors.append):
            begin(journal)
            until(lambda: fetch(store).data == (folder / "journal.jsonl").read_bytes())
            curve = folder / "trials" / "00000" / "events.1"
            curve.parent.mkdir(parents=True)
            curve.write_text("1")
            (folder / "trials" / "00000" / "log.txt").write_text("its worker brings it")
            journal.append("experiment_ended", status="completed")
        assert fetch(store).data == (folder / "journal.jsonl").read_bytes()
        assert mirror.is_held_elsewhere(folder)
    names = store.names("trials")
    assert names == ["trials/00000/events.1"]
    assert not errors
    assert not mirror.is_held_elsewhere(folder)


def test_a_checkpoint_goes_only_after_the_journal_has_come(folder, store, monkeypatch):
    path = folder / "trials" / "00000" / "checkpoints" / "1"
    store.write("trials/00000/checkpoints/1/state.pt", b"")
    store.write("trials/00000/checkpoints/2/state.pt", b"")
    bring, out_of_order = upkeep.Uploader.bring, threading.Event()

    def sometimes(self):
        if out_of_order.is_set():
            fail()
        return bring(self)

    monkeypatch.setattr(upkeep.Uploader, "bring", sometimes)
    with held(folder, say=print) as keep, Journal.open(folder) as journal, keep.during(print):
        out_of_order.set()
        begin(journal)
        path.mkdir(parents=True)
        keep.remove(path)
        assert not path.exists()
        time.sleep(0.1)
        assert len(store.names("trials")) == 2
        out_of_order.clear()
        until(lambda: store.names("trials") == ["trials/00000/checkpoints/2/state.pt"])
        assert fetch(store).data


def test_a_driver_that_was_followed_is_told_and_brings_no_more(folder, store):
    errors = []
    with held(folder, say=print) as keep, Journal.open(folder) as journal:
        with keep.during(errors.append):
            begin(journal)
            until(lambda: fetch(store).data)
            before = fetch(store).data
            store.create("lock/000002.json", b"{}")
            until(lambda: errors)
            journal.append("experiment_ended", status="completed")
        assert isinstance(errors[0], LeaseLostError)
    assert fetch(store).data == before[: newest(store).at]


def test_a_store_that_fails_for_long_is_told_once(folder, monkeypatch):
    errors = []
    monkeypatch.setattr(upkeep, "PATIENCE_S", 0.05)
    with held(folder, say=print) as keep, Journal.open(folder) as journal:

        def drive():
            with keep.during(errors.append):
                begin(journal)
                break_down(monkeypatch)
                until(lambda: errors)

        with pytest.raises(StorageError, match=r"cannot write to memory:.*out of order.*resume"):
            drive()
        assert [type(error) for error in errors] == [StorageError]


def test_a_store_that_fails_at_the_end_does_not_hide_why_it_ended(folder, monkeypatch, caplog):
    with held(folder, say=print) as keep, Journal.open(folder) as journal:

        def drive():
            with keep.during(print):
                begin(journal)
                break_down(monkeypatch)
                raise KeyError

        with pytest.raises(KeyError):
            drive()
    assert "out of order" in caplog.text


def test_a_second_driver_is_refused(folder, monkeypatch):
    with held(folder, say=print) as keep, Journal.open(folder) as journal, keep.during(print):
        begin(journal)
        told = []
        with (
            pytest.raises(UsageError, match="is held by another driver"),
            held(folder, say=told.append),
        ):
            pytest.fail("two drivers")
        assert told


def test_the_next_driver_begins_with_what_is_there(folder, store):
    for number in (1, 2):
        with (
            held(folder, say=print) as keep,
            Journal.open(folder) as journal,
            keep.during(print),
        ):
            begin(journal)
        assert newest(store).generation == number
        assert fetch(store).data.count(b"\n") == number
    assert all(name.startswith("journal/000002-") for name in store.names("journal"))


def test_what_a_killed_driver_had_not_brought_comes_with_its_resume(folder, store):
    with held(folder, say=print) as keep, Journal.open(folder) as journal:
        with keep.during(print):
            begin(journal)
        begin(journal)  # as if killed before it was brought
    assert fetch(store).data.count(b"\n") == 1
    with held(folder, say=print) as keep, Journal.open(folder), keep.during(print):
        assert fetch(store).data.count(b"\n") == 2


def test_a_folder_of_its_own_has_nothing_to_be_kept(tmp_path):
    made = make_folder(tmp_path / "digits")
    with held(made, say=print) as keep:
        assert isinstance(keep, InPlace)
        with keep.during(print):
            pass
        (made / "trials").mkdir()
        keep.remove(made / "trials")
        assert not (made / "trials").exists()


def test_a_mirror_is_kept(folder):
    with held(folder, say=print) as keep:
        assert isinstance(keep, InStore)
    assert Objects(keep._objects.url).has("lock/000001.json")


def test_an_upload_that_takes_long_holds_up_neither_beats_nor_the_journal(
    folder, store, monkeypatch
):
    monkeypatch.setattr(upkeep, "_SWEEP_S", 0)
    go_on, began = threading.Event(), threading.Event()

    def slow(path):
        began.set()
        go_on.wait(PATIENCE_S)

    monkeypatch.setattr(mirror, "hand_over", slow)
    with held(folder, say=print) as keep, Journal.open(folder) as journal, keep.during(print):
        begin(journal)
        assert began.wait(PATIENCE_S)
        beat = store.read("lock/000001.beat")
        begin(journal)
        until(lambda: fetch(store).data.count(b"\n") == 2)
        until(lambda: store.read("lock/000001.beat") != beat)
        go_on.set()
