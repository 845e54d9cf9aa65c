import errno
import fcntl
import math
import os
import resource
import shutil
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import OWNER

from tuner.errors import JournalError, JournalLostError, UsageError
from tuner.experiment.events import (
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    RESULT,
    TRIAL_STARTED,
)
from tuner.experiment.files import JOURNAL
from tuner.experiment.journal import Journal, is_locked, start_clock
from tuner.experiment.owner import build_owner
from tuner.experiment.reading import read


@settings(max_examples=50)
@given(data=st.data())
def test_open_cuts_a_torn_line(whole_journal, data):
    folder, whole, events = whole_journal
    cut = data.draw(st.integers(0, len(whole)))
    (folder / JOURNAL).write_bytes(whole[:cut])
    with Journal.open(folder) as journal:
        resumed = journal.append(EXPERIMENT_STARTED, resumed=True, owner=OWNER)
    assert list(read(folder)) == [*events[: whole[:cut].count(b"\n")], resumed]


def test_open_cuts_a_line_of_zeros(story):
    folder, events = story
    with (folder / JOURNAL).open("ab") as file:
        file.write(b"\0" * 40 + b"\n" + b"\0" * 7)
    assert list(read(folder)) == events
    Journal.open(folder).close()
    assert b"\0" not in (folder / JOURNAL).read_bytes()


def test_open_damaged_journal_is_refused(snapshot, story):
    folder, _ = story
    damaged = b"damage\n" + (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(damaged)
    with snapshot.raises(JournalError):
        Journal.open(folder)
    assert (folder / JOURNAL).read_bytes() == damaged
    assert not is_locked(folder)


@pytest.mark.parametrize("call", ["ftruncate", "fsync", "fstat"])
def test_open_of_a_journal_on_a_failing_disk_is_refused(story, monkeypatch, call):
    folder, _ = story

    def fail(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(
            (JournalError, OSError), match="Input/output error"
        ) as raised:
            Journal.open(folder)
    assert isinstance(raised.value, JournalError)
    assert not is_locked(folder)


def test_check_and_close_on_a_failing_disk_raise_journal_errors(story, monkeypatch):
    folder, _ = story
    journal = Journal.open(folder)
    close = os.close

    def fail(fd):
        if call == "close":
            close(fd)
        raise OSError(errno.EIO, "Input/output error")

    for call, use in (("fstat", journal.check), ("close", journal.close)):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(JournalError, match="Input/output"):
                use()
    journal.close()
    assert not is_locked(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["config", "note"])
def test_append_refuses_nan_and_infinity(snapshot, tmp_path, value, field):
    fields = {"config": {}, field: {"lr": [value]}}
    with Journal.open(tmp_path) as journal:
        with snapshot.raises(JournalError):
            journal.append(TRIAL_STARTED, trial_id="00001", **fields)
        assert (tmp_path / JOURNAL).read_bytes() == b""


@pytest.mark.parametrize("reopened", [False, True])
def test_append_requires_increasing_epochs(tmp_path, reopened):
    journal = Journal.open(tmp_path)
    journal.append(EXPERIMENT_STARTED, resumed=False, owner=OWNER)
    for trial_id in ("00001", "00002"):
        journal.append(TRIAL_STARTED, trial_id=trial_id, config={})
    journal.append(RESULT, trial_id="00001", epoch=3, metrics={})
    if reopened:
        journal.close()
        journal = Journal.open(tmp_path)
    with journal:
        for epoch in (3, 2):
            with pytest.raises(AssertionError, match="trial 00001"):
                journal.append(RESULT, trial_id="00001", epoch=epoch, metrics={})
        journal.append(RESULT, trial_id="00002", epoch=1, metrics={})
        journal.append(RESULT, trial_id="00001", epoch=4, metrics={})
    assert [event["epoch"] for event in read(tmp_path) if "epoch" in event] == [3, 1, 4]


def test_append_refuses_what_nobody_could_read(tmp_path):
    with Journal.open(tmp_path) as journal:
        with pytest.raises(AssertionError, match="first event"):
            journal.append(TRIAL_STARTED, trial_id="00001", config={})
        journal.append(EXPERIMENT_STARTED, resumed=False, owner=OWNER)
        with pytest.raises(AssertionError, match="before its trial_started"):
            journal.append(RESULT, trial_id="00001", epoch=1, metrics={})
    assert len(list(read(tmp_path))) == 1


def test_open_held_journal_names_the_holder(snapshot, tmp_path):
    with Journal.open(tmp_path) as journal:
        journal.append(EXPERIMENT_STARTED, resumed=False, owner=build_owner())
        assert is_locked(tmp_path)
        with snapshot.raises(UsageError):
            Journal.open(tmp_path)
    assert not is_locked(tmp_path)
    Journal.open(tmp_path).close()


def test_open_waits_for_readers_of_the_lock(tmp_path):
    Journal.open(tmp_path).close()
    with (tmp_path / JOURNAL).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        threading.Timer(0.05, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        Journal.open(tmp_path).close()


def test_append_on_a_full_disk_leaves_no_partial_line(snapshot, tmp_path):
    report = {"trial_id": "00001", "metrics": {"loss": 0.5}}
    with Journal.open(tmp_path) as journal:
        journal.append(EXPERIMENT_STARTED, resumed=False, owner=OWNER)
        journal.append(TRIAL_STARTED, trial_id="00001", config={})
        journal.append(RESULT, epoch=1, **report)
        before = (tmp_path / JOURNAL).read_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
        try:  # the file may grow by 10 bytes: the line is taken in part, then refused
            with pytest.raises(JournalError) as raised:
                journal.append(RESULT, epoch=2, **report)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        snapshot(str(raised.value))
        assert (tmp_path / JOURNAL).read_bytes() == before
        journal.append(RESULT, epoch=2, **report)
    assert [event["epoch"] for event in read(tmp_path) if "epoch" in event] == [1, 2]


@pytest.mark.parametrize(
    "vanish", [shutil.rmtree, lambda folder: folder.rename(f"{folder}-2")]
)
def test_append_to_a_moved_folder_is_refused(snapshot, tmp_path, vanish):
    folder = tmp_path / "digits"
    folder.mkdir()
    with Journal.open(folder) as journal:
        journal.append(EXPERIMENT_STARTED, resumed=False, owner=OWNER)
        vanish(folder)
        with snapshot.raises(JournalLostError):
            journal.append(EXPERIMENT_ENDED, status="completed")
    assert not folder.exists()


def test_append_after_another_writer_is_refused(snapshot, tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda fd, how: None)
    with Journal.open(tmp_path) as first:
        first.append(EXPERIMENT_STARTED, resumed=False, owner=OWNER)
        with Journal.open(tmp_path) as second:
            second.append(
                EXPERIMENT_STARTED, resumed=True, owner={**OWNER, "host": "other"}
            )
            with snapshot.raises(JournalLostError):
                first.append(EXPERIMENT_ENDED, status="completed")
            with pytest.raises(JournalLostError):
                first.check()
            second.append(EXPERIMENT_ENDED, status="completed")
    names = [event["event"] for event in read(tmp_path)]
    assert names == [EXPERIMENT_STARTED, EXPERIMENT_STARTED, EXPERIMENT_ENDED]


def test_steady_clock_ignores_changes_of_the_machines_time():
    shown = [1000.0]
    passed = [50.0]
    clock = start_clock(now=lambda: shown[0], elapsed=lambda: passed[0])
    assert clock() == 1000.0
    shown[0] = -9e9
    passed[0] = 70.0
    assert clock() == 1020.0
    resumed = start_clock(
        not_before=1020.0, now=lambda: shown[0], elapsed=lambda: passed[0]
    )
    assert resumed() == 1020.0


def test_open_continues_after_the_last_event(tmp_path):
    with Journal.open(tmp_path, clock=lambda: 9e10) as journal:
        journal.append(EXPERIMENT_STARTED, resumed=False, owner=OWNER)
    with Journal.open(tmp_path) as journal:
        assert journal.clock() >= 9e10
