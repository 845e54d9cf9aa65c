"""What is read of a journal, whole, damaged, cut anywhere, or as it grows."""

import errno
import io
import json

import calls
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import OWNER, Writer, make_folder

from tuner.errors import JournalError
from tuner.experiment import journal as journal_module
from tuner.experiment import reading
from tuner.experiment.events import EXPERIMENT_STARTED
from tuner.experiment.files import JOURNAL
from tuner.experiment.history import fold
from tuner.experiment.journal import Journal, is_locked
from tuner.experiment.reading import Tail, read


@settings(max_examples=200)
@given(data=st.data())
def test_read_cut_journal_returns_complete_lines(whole_journal, data):
    folder, whole, events = whole_journal
    cut = data.draw(st.integers(0, len(whole)))
    (folder / JOURNAL).write_bytes(whole[:cut])
    assert list(read(folder)) == events[: whole[:cut].count(b"\n")]


@settings(max_examples=300)
@given(data=st.data())
def test_read_altered_bytes_gives_events_or_an_error(whole_journal, data):
    folder, whole, _ = whole_journal
    at = data.draw(st.integers(0, len(whole) - 1))
    junk = data.draw(st.binary(max_size=8))
    gap = data.draw(st.integers(0, 8))
    (folder / JOURNAL).write_bytes(whole[:at] + junk + whole[at + gap :])
    try:
        events = list(read(folder))
    except JournalError as error:
        assert "line " in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert all(isinstance(event["event"], str) for event in events)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"7\n",
        b'{"event":"result","time":1}\n',
        b'{"event":"x","time":NaN}\n',
        b'{"event":"trial_started","time":1,"trial_id":"1","config":{"a":1e999}}\n',
        b"\x00\x00\x00\n",
        b"\xff\xfe{\x00}\x00\n",
        b"[" * 100_000 + b"\n",
        b"9" * 10_000 + b"\n",
    ],
)
def test_read_damaged_line_is_named(snapshot, story, line):
    folder, _ = story
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    (folder / JOURNAL).write_bytes(b"".join([*lines[:2], line, *lines[2:]]))
    with snapshot.raises(JournalError):
        list(read(folder))


class FailingDisk(io.FileIO):
    """Fails after its first line."""

    def readline(self, size=-1):
        if self.tell():
            raise OSError(errno.EIO, "Input/output error")
        return super().readline(size)


def test_read_of_a_failing_disk_raises_journal_errors(snapshot, story, monkeypatch):
    folder, _ = story
    with Journal.open(folder) as journal, monkeypatch.context() as patch:
        for module in (journal_module, reading):
            patch.setattr(module, "open_journal", FailingDisk)
        for events in (journal.read_earlier(), read(folder)):
            assert next(events)["event"] == EXPERIMENT_STARTED
            with snapshot.raises(JournalError):
                next(events)
        with snapshot.raises(JournalError):
            Tail(folder).read()


@pytest.mark.parametrize(
    "order", [[1, 0], [0, 2, 1], [0, 1, 2, 2, 3], [0, 1, 4, 6, 5], [0, 7, 5], [5]]
)
def test_read_lines_out_of_order_are_refused(snapshot, story, order):
    folder, _ = story
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    (folder / JOURNAL).write_bytes(b"".join(lines[number] for number in order))
    with snapshot.raises(JournalError):
        list(read(folder))
    with pytest.raises(JournalError):
        Journal.open(folder)
    assert not is_locked(folder)


def test_read_cost_grows_linearly(tmp_path):
    metrics = {"train_loss": 0.5, "val_loss": 0.25, "val_accuracy": 0.75}
    histories = []
    cost = []
    for trials in (20, 80):
        folder = make_folder(tmp_path / f"{trials}")
        writer = Writer(folder)
        for number in range(trials):
            writer.trial(number, [metrics] * 10, end=None)
        writer.kill()
        cost.append(calls.made_by(lambda at=folder: histories.append(fold(read(at)))))
    counts = [
        sum(len(trial.results) for trial in each.trials.values()) for each in histories
    ]
    assert counts == [200, 800]
    assert cost[1] / 800 <= cost[0] / 200 < 50, cost


def test_tail_returns_new_complete_lines(snapshot, tmp_path):
    tail = Tail(tmp_path)
    with snapshot.raises(JournalError):
        tail.read()
    with Journal.open(tmp_path) as journal:
        first = journal.append(EXPERIMENT_STARTED, resumed=False, owner=OWNER)
        assert tail.read() == [first]
        assert tail.read() == []
        path = tmp_path / "journal.jsonl"
        line = (json.dumps(first) + "\n").encode()
        with path.open("ab") as file:
            file.write(line[:10])
            file.flush()
            assert tail.read() == []
            file.write(line[10:])
        assert tail.read() == [first]
        with path.open("ab") as file:
            file.write(b"nonsense\n" + line)
        with snapshot.raises(JournalError):
            tail.read()
