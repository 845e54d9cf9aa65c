"""What a driver does for its store: the journal in order; checkpoints go once a newer is there."""

import os
import threading
import time
from contextlib import contextmanager
from uuid import uuid4

import pytest
from synthetic import OWNER, make_folder

from tuner.errors import StorageError
from tuner.experiment.files import JOURNAL
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import Journal
from tuner.experiment.remote import lease
from tuner.experiment.remote.lease import LeaseLostError, acquire_lease, find_holder
from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import fetch
from tuner.experiment.remote.sync import RemoteSync, Timing
from tuner.places import ROOT, find_local_folder

PATIENCE_S = 20


QUICK = Timing(beat_s=0.02, journal_s=0.01)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))


class Flaky(Objects):
    """A store that creates nothing while it is out of order, and counts what it refuses."""

    is_out_of_order = False
    refused = 0

    def create(self, name, data):
        if self.is_out_of_order:
            self.refused += 1
            raise OSError(0, "out of order")
        return super().create(name, data)


@pytest.fixture
def folder():
    """The copy of a new experiment in a store."""
    made = make_folder(find_local_folder(f"memory://{uuid4().hex}/runs") / "digits")
    ExperimentFolder(made).mirror.objects.upload(
        made / "experiment.json", "experiment.json"
    )
    return made


@pytest.fixture
def store(folder):
    return Flaky(ExperimentFolder(folder).mirror.url)


def begin(journal):
    journal.append("experiment_started", resumed=False, owner=OWNER)


@contextmanager
def driving(folder, store, on_error=print, upload=None, timing=QUICK):
    """Drive the experiment: yields what keeps its store in sync, and its journal."""
    held = acquire_lease(store, lambda: fetch(store).end, warn=print)
    sync = RemoteSync(folder, held, upload or ExperimentFolder(folder).upload, timing)
    with Journal.open(folder) as journal, sync.keep_synced(journal, on_error):
        yield sync, journal
    if not sync.is_lost:
        held.release()


def write_name(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.name)


def until(true):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_running_uploads_the_journal_and_finally_everything(folder, store):
    errors = []
    with driving(folder, store, errors.append) as (_, journal):
        begin(journal)
        until(lambda: fetch(store).data == (folder / "journal.jsonl").read_bytes())
        curve = folder / "trials/00000/events.1"
        curve.parent.mkdir(parents=True)
        curve.write_text("1")
        (folder / "trials/00000/log.txt").write_text("its worker uploads it")
        journal.append("experiment_ended", status="completed")
        assert ExperimentFolder(folder).is_driven
    assert fetch(store).data == (folder / "journal.jsonl").read_bytes()
    assert store.list_names("trials") == ["trials/00000/events.1"]
    assert not errors
    assert not ExperimentFolder(folder).is_driven


def test_running_uploads_all_files_of_trials(snapshot, folder, store, tmp_path):
    trial = folder / "trials/00000"
    files = trial / "files"
    with driving(folder, store) as (_, journal):
        begin(journal)
        for name in (
            "log.txt",
            "checkpoints/epoch=1.ckpt",
            ".hidden/.x",
            "a.partial",
            JOURNAL,
        ):
            write_name(files / name)
        for name in (
            "log.txt",
            "log.rank1.txt",
            "tensorboard.partial",
            "checkpoints/1/state.pt",
        ):
            write_name(trial / name)
        (files / "last.ckpt").symlink_to("checkpoints/epoch=1.ckpt")
        write_name(tmp_path / "outside/x")
        for name in ("outside", "outside/x", "missing"):
            (files / f"to-{name.replace('/', '-')}").symlink_to(tmp_path / name)
        os.mkfifo(files / "pipe")
    snapshot("\n".join(store.list_names("trials")))
    assert store.read("trials/00000/files/last.ckpt") == b"epoch=1.ckpt"


def test_remove_waits_for_the_uploaded_journal(folder, store):
    path = folder / "trials/00000/checkpoints/1"
    store.write("trials/00000/checkpoints/1/state.pt", b"")
    store.write("trials/00000/checkpoints/2/state.pt", b"")
    with driving(folder, store) as (sync, journal):
        store.is_out_of_order = True
        begin(journal)
        path.mkdir(parents=True)
        sync.remove(path)
        assert not path.exists()
        refused = store.refused
        until(lambda: store.refused > refused + 1)
        assert len(store.list_names("trials")) == 2
        store.is_out_of_order = False
        until(
            lambda: (
                store.list_names("trials") == ["trials/00000/checkpoints/2/state.pt"]
            )
        )
        assert fetch(store).data


class Slow(Objects):
    """A store that takes a while to create an object; `created` has the names of segments."""

    def __init__(self, url):
        super().__init__(url)
        self.created = []

    def create(self, name, data):
        time.sleep(0.1)
        if name.startswith("journal/"):
            self.created.append(name)
        return super().create(name, data)


def test_await_journal_of_many_threads_shares_uploads(folder):
    store = Slow(ExperimentFolder(folder).mirror.url)
    writing = threading.Lock()
    stored = []

    def report():
        for _ in range(4):
            with writing:
                begin(journal)
                size = (folder / "journal.jsonl").stat().st_size
            sync.await_journal()
            stored.append(fetch(store).end >= size)

    with driving(folder, store, timing=Timing()) as (sync, journal):
        threads = [threading.Thread(target=report) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert stored == [True] * 40
        assert len(store.created) <= 13  # one by one they would be 40
        store.created.clear()
        sync.await_journal()
        assert not store.created
    sync.await_journal()
    assert ExperimentFolder(folder).is_driven is False


def test_await_journal_after_a_lost_lease_is_refused(folder, store, monkeypatch):
    with driving(folder, store, timing=Timing(beat_s=PATIENCE_S)) as (sync, journal):
        begin(journal)
        sync.await_journal()
        store.create("lock/000002.json", b'{"at": 0}')
        begin(journal)
        # As after a machine that has stood still
        later = time.monotonic() + lease.PATIENCE_S
        monkeypatch.setattr(lease.time, "monotonic", lambda: later)
        with pytest.raises(LeaseLostError):
            sync.await_journal()
        monkeypatch.undo()
        sync.is_lost = True


def test_await_journal_of_a_failing_store_is_an_error(folder, store):
    impatient = Timing(patience_s=0.05)
    with driving(folder, store, timing=impatient) as (sync, journal):
        begin(journal)
        store.is_out_of_order = True
        with pytest.raises(StorageError):
            sync.await_journal()
        store.is_out_of_order = False


def test_lost_lease_ends_uploads(folder, store):
    errors = []
    with driving(folder, store, errors.append) as (_, journal):
        begin(journal)
        until(lambda: fetch(store).data)
        before = fetch(store).data
        store.create("lock/000002.json", b"{}")
        until(lambda: errors)
        journal.append("experiment_ended", status="completed")
    assert isinstance(errors[0], LeaseLostError)
    assert fetch(store).data == before[: find_holder(store).at]


def test_failing_store_is_reported_once(snapshot, folder, store):
    errors = []
    impatient = Timing(beat_s=0.02, journal_s=0.01, patience_s=0.05)

    def drive():
        with driving(folder, store, errors.append, timing=impatient) as (_, journal):
            begin(journal)
            store.is_out_of_order = True
            until(lambda: errors)

    with snapshot.raises(StorageError):
        drive()
    assert [type(error) for error in errors] == [StorageError]


def test_next_driver_continues_the_journal(folder, store):
    for number in (1, 2):
        with driving(folder, store) as (_, journal):
            begin(journal)
        assert find_holder(store).generation == number
        assert fetch(store).data.count(b"\n") == number
    assert all(
        name.startswith("journal/000002-") for name in store.list_names("journal")
    )


def test_resume_uploads_what_a_kill_left(folder, store):
    with driving(folder, store) as (_, journal):
        begin(journal)
    with Journal.open(folder) as journal:
        begin(journal)  # as if killed before it was uploaded
    assert fetch(store).data.count(b"\n") == 1
    with driving(folder, store):
        assert fetch(store).data.count(b"\n") == 2


def test_slow_upload_delays_neither_beats_nor_journal(folder, store):
    go_on = threading.Event()
    began = threading.Event()

    def slow(path):
        began.set()
        go_on.wait(PATIENCE_S)

    timing = Timing(beat_s=0.02, journal_s=0.01, sweep_s=0)
    with driving(folder, store, upload=slow, timing=timing) as (_, journal):
        begin(journal)
        assert began.wait(PATIENCE_S)
        beat = store.read("lock/000001.beat")
        begin(journal)
        until(lambda: fetch(store).data.count(b"\n") == 2)
        until(lambda: store.read("lock/000001.beat") != beat)
        go_on.set()
