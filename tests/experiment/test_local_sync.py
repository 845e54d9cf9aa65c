"""What a power cut may find on the disk: never less than what was promised."""

import errno
import os
import shutil
import threading
import time

import pytest
from synthetic import OWNER, make_folder

from tuner.errors import JournalError, JournalLostError, StorageError
from tuner.experiment.journal import Journal
from tuner.experiment.local_sync import LocalSync

PATIENCE_S = 20


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "digits")


@pytest.fixture
def forced(monkeypatch):
    """The paths that were forced to the disk, in order."""
    paths = []
    fsync = os.fsync

    def note(fd):
        paths.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    return paths


def checkpoint(folder, epoch):
    path = folder / "trials/00000/checkpoints" / str(epoch) / "state.pt"
    path.parent.mkdir(parents=True)
    path.write_text(str(epoch))
    return path


def begin(journal):
    journal.append("experiment_started", resumed=False, owner=OWNER)


def test_flush_syncs_before_it_removes(folder, forced):
    sync = LocalSync(folder)
    old = checkpoint(folder, 1)
    new = checkpoint(folder, 2)
    with Journal.open(folder) as journal:
        begin(journal)
        forced.clear()
        sync.notify_saved(new)
        sync.remove(old.parent)
        assert old.exists()
        sync.flush(journal)
    assert not old.exists()
    trial = folder / "trials/00000"
    names = [folder / "trials", trial, trial / "checkpoints", new.parent]
    assert forced[:1] == [str(new)]
    assert {str(name) for name in names} <= set(forced)
    assert forced.index(str(journal.path)) > forced.index(str(trial))


def test_flush_on_a_failing_disk_removes_nothing(snapshot, folder, monkeypatch):
    def refuse(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sync = LocalSync(folder)
    old = checkpoint(folder, 1)
    new = checkpoint(folder, 2)
    with Journal.open(folder) as journal:
        sync.notify_saved(new)
        sync.remove(old.parent)
        monkeypatch.setattr(os, "fsync", refuse)
        with snapshot.raises(StorageError):
            sync.flush(journal)
        begin(journal)
        with snapshot.raises(JournalError):
            sync.flush(journal)
        assert old.exists()
        monkeypatch.undo()


def test_running_syncs_a_single_line(folder, forced):
    with (
        Journal.open(folder) as journal,
        LocalSync(folder, every_s=0.01).keep_synced(journal, print),
    ):
        forced.clear()
        begin(journal)
        deadline = time.monotonic() + PATIENCE_S
        while not forced:
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.mark.parametrize(
    "vanish", [shutil.rmtree, lambda folder: folder.rename(folder / "../x")]
)
def test_running_notices_a_moved_folder(folder, vanish):
    errors = []
    notified = threading.Event()

    def on_error(error):
        errors.append(error)
        notified.set()

    with (
        Journal.open(folder) as journal,
        LocalSync(folder, every_s=0.01).keep_synced(journal, on_error),
    ):
        begin(journal)
        vanish(folder)
        assert notified.wait(PATIENCE_S)
    assert isinstance(errors[0], JournalLostError)
    assert "digits was moved or removed while the search ran" in str(errors[0])
    assert not folder.exists()
