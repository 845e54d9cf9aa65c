"""What a driver does for its store: the journal in order; checkpoints go once a newer is there."""

import threading
import time
from contextlib import contextmanager
from uuid import uuid4

import pytest
from synthetic import make_folder

from tuner.errors import StorageError
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import Journal
from tuner.experiment.remote import sync as syncing
from tuner.experiment.remote.lease import LeaseLostError, newest
from tuner.experiment.remote.mirror import Mirror
from tuner.experiment.remote.segments import fetch
from tuner.places import ROOT, local

PATIENCE_S = 20


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))
    monkeypatch.setattr(syncing, "_JOURNAL_EVERY_S", 0.01)
    monkeypatch.setattr(syncing, "BEAT_S", 0.02)


@pytest.fixture
def folder():
    """The copy of a new experiment in a store."""
    made = make_folder(local(f"memory://{uuid4().hex}/runs") / "digits")
    ExperimentFolder(made).mirror.objects.upload(made / "experiment.json", "experiment.json")
    return made


@pytest.fixture
def store(folder):
    return ExperimentFolder(folder).mirror.objects


def begin(journal):
    journal.append(
        "experiment_started", resumed=False, owner={"host": "h", "pid": 1, "started": 1.0}
    )


@contextmanager
def driving(folder, on_error=print):
    """Drive the experiment: yields what keeps its store in sync, and its journal."""
    with (
        ExperimentFolder(folder).held(print) as sync,
        Journal.open(folder) as journal,
        sync.running(journal, on_error),
    ):
        yield sync, journal


def until(true):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def fail(*arguments):
    raise OSError(0, "out of order")


def break_down(monkeypatch):
    """Let the store fail from now on, and nobody have patience with it."""
    monkeypatch.setattr(syncing.Uploader, "upload", fail)
    monkeypatch.setattr(syncing, "patiently", lambda do: do())


def test_running_uploads_the_journal_and_finally_everything(folder, store):
    errors = []
    with ExperimentFolder(folder).held(print) as sync, Journal.open(folder) as journal:
        with sync.running(journal, errors.append):
            begin(journal)
            until(lambda: fetch(store).data == (folder / "journal.jsonl").read_bytes())
            curve = folder / "trials" / "00000" / "events.1"
            curve.parent.mkdir(parents=True)
            curve.write_text("1")
            (folder / "trials" / "00000" / "log.txt").write_text("its worker uploads it")
            journal.append("experiment_ended", status="completed")
        assert fetch(store).data == (folder / "journal.jsonl").read_bytes()
        assert ExperimentFolder(folder).is_driven
    names = store.names("trials")
    assert names == ["trials/00000/events.1"]
    assert not errors
    assert not ExperimentFolder(folder).is_driven


def test_remove_waits_for_the_uploaded_journal(folder, store, monkeypatch):
    path = folder / "trials" / "00000" / "checkpoints" / "1"
    store.write("trials/00000/checkpoints/1/state.pt", b"")
    store.write("trials/00000/checkpoints/2/state.pt", b"")
    upload, out_of_order = syncing.Uploader.upload, threading.Event()

    def sometimes(self):
        if out_of_order.is_set():
            fail()
        return upload(self)

    monkeypatch.setattr(syncing.Uploader, "upload", sometimes)
    with driving(folder) as (sync, journal):
        out_of_order.set()
        begin(journal)
        path.mkdir(parents=True)
        sync.remove(path)
        assert not path.exists()
        time.sleep(0.1)
        assert len(store.names("trials")) == 2
        out_of_order.clear()
        until(lambda: store.names("trials") == ["trials/00000/checkpoints/2/state.pt"])
        assert fetch(store).data


def test_lost_lease_ends_uploads(folder, store):
    errors = []
    with ExperimentFolder(folder).held(print) as sync, Journal.open(folder) as journal:
        with sync.running(journal, errors.append):
            begin(journal)
            until(lambda: fetch(store).data)
            before = fetch(store).data
            store.create("lock/000002.json", b"{}")
            until(lambda: errors)
            journal.append("experiment_ended", status="completed")
        assert isinstance(errors[0], LeaseLostError)
    assert fetch(store).data == before[: newest(store).at]


def test_failing_store_is_reported_once(folder, monkeypatch):
    errors = []
    monkeypatch.setattr(syncing, "PATIENCE_S", 0.05)
    with ExperimentFolder(folder).held(print) as sync, Journal.open(folder) as journal:

        def drive():
            with sync.running(journal, errors.append):
                begin(journal)
                break_down(monkeypatch)
                until(lambda: errors)

        with pytest.raises(StorageError, match=r"cannot write to memory:.*out of order.*resume"):
            drive()
        assert [type(error) for error in errors] == [StorageError]


def test_next_driver_continues_the_journal(folder, store):
    for number in (1, 2):
        with driving(folder) as (_, journal):
            begin(journal)
        assert newest(store).generation == number
        assert fetch(store).data.count(b"\n") == number
    assert all(name.startswith("journal/000002-") for name in store.names("journal"))


def test_resume_uploads_what_a_kill_left(folder, store):
    with ExperimentFolder(folder).held(print) as sync, Journal.open(folder) as journal:
        with sync.running(journal, print):
            begin(journal)
        begin(journal)  # as if killed before it was uploaded
    assert fetch(store).data.count(b"\n") == 1
    with driving(folder):
        assert fetch(store).data.count(b"\n") == 2


def test_slow_upload_delays_neither_beats_nor_journal(folder, store, monkeypatch):
    monkeypatch.setattr(syncing, "_SWEEP_EVERY_S", 0)
    go_on, began = threading.Event(), threading.Event()

    def slow(self, path):
        began.set()
        go_on.wait(PATIENCE_S)

    monkeypatch.setattr(Mirror, "upload", slow)
    with driving(folder) as (_, journal):
        begin(journal)
        assert began.wait(PATIENCE_S)
        beat = store.read("lock/000001.beat")
        begin(journal)
        until(lambda: fetch(store).data.count(b"\n") == 2)
        until(lambda: store.read("lock/000001.beat") != beat)
        go_on.set()
