"""A journal in a store is what its driver has written, whatever older drivers still do."""

import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import JournalError
from tuner.experiment.remote import segments
from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import Segment, Uploader, fetch


@pytest.fixture
def store():
    return Objects(f"memory://{uuid4().hex}/digits")


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.touch()
    return path


def append(path, *lines):
    with path.open("ab") as file:
        for line in lines:
            file.write(line)


def hold(store, generation, at=0):
    """What a lock of this generation is to a reader."""
    store.create(f"lock/{generation:06}.json", b'{"at": %d}' % at)


def test_upload_after_a_lost_answer_repeats(store, journal):
    append(journal, b"one\n")
    Uploader(store, journal, 1).upload()
    assert Uploader(store, journal, 1).upload() == 4
    assert fetch(store).data == b"one\n"


class Counting(Objects):
    """Counts the bytes that are created."""

    sent = 0

    def create(self, name, data):
        self.sent += len(data)
        return super().create(name, data)


def test_upload_merges_segments_in_levels(journal):
    store = Counting(f"memory://{uuid4().hex}/digits")
    up = Uploader(store, journal, 1, most=4)
    for number in range(4**3):
        append(journal, b"%05d\n" % number)
        up.upload()
        up.merge()
        assert fetch(store).data == journal.read_bytes()
    assert len(segments.list_segments(store)) <= 1 + 3 * 3
    assert store.sent <= 3 * len(journal.read_bytes())


def test_merge_keeps_what_is_uploaded_meanwhile(journal):
    store = Meeting(f"memory://{uuid4().hex}/digits")
    up = Uploader(store, journal, 1, most=2)

    def append_and_upload():
        append(journal, b"one more\n")
        up.upload()

    for _ in range(3):
        append_and_upload()
    store.meet_at_create = append_and_upload
    up.merge()
    assert store.meet_at_create is None
    for _ in range(3):
        append_and_upload()
        up.merge()
        assert fetch(store).data == journal.read_bytes()


class Meeting(Objects):
    """Calls `meet` before a segment is read, and `meet_at_create` after one is created, once."""

    meet = meet_at_create = None

    def create(self, name, data):
        created = super().create(name, data)
        if meet := self.meet_at_create:
            self.meet_at_create = None
            meet()
        return created

    def read(self, name):
        if name.startswith("journal/") and self.meet:
            meet = self.meet
            self.meet = None
            meet()
        return super().read(name)


def test_fetch_during_a_merge_reads_again(journal):
    store = Meeting(f"memory://{uuid4().hex}/digits")
    up = Uploader(store, journal, 1)
    for number in range(segments.MOST):
        append(journal, b"%d\n" % number)
        up.upload()
    append(journal, b"last\n")
    up.upload()
    store.meet = up.merge
    assert fetch(store).data == journal.read_bytes()
    assert store.meet is None


def test_fetch_returns_only_missing_bytes(store, journal):
    up = Uploader(store, journal, 3)
    append(journal, b"one\n")
    up.upload()
    append(journal, b"two\n")
    up.upload()
    assert fetch(store, present=(3, 4)) == (3, 4, b"two\n")
    assert fetch(store, present=(3, 6)) == (3, 6, b"o\n")
    assert fetch(store, present=(3, 8)) == (3, 8, b"")
    assert fetch(store, present=(2, 4)) == (3, 0, b"one\ntwo\n")
    assert fetch(store, present=(3, 99)) == (3, 0, b"one\ntwo\n")


def test_fetch_refuses_a_segment_of_another_size(snapshot, store, journal):
    append(journal, b"one\n")
    Uploader(store, journal, 1).upload()
    store.write(Segment(1, 0, 4).name, b"on")
    with snapshot.raises(JournalError):
        fetch(store)


@given(st.data())
def test_fetch_returns_a_prefix_of_the_newest_journal(data):
    """Drivers follow one another, each held up at any point, and write on; readers look anytime."""
    store = Objects(f"memory://{uuid4().hex}/x")
    with tempfile.TemporaryDirectory() as folder:
        drivers = []  # (uploader, path)
        seen = b""
        for step in range(data.draw(st.integers(1, 25))):
            act = data.draw(
                st.sampled_from(["write", "upload", "upload", "follow", "look"])
            )
            if act == "follow" or not drivers:
                start = fetch(store).data
                path = Path(folder, str(len(drivers)))
                path.write_bytes(start)
                hold(store, len(drivers) + 1, at=len(start))
                drivers.append((Uploader(store, path, len(drivers) + 1), path))
                seen = start
                continue
            up, path = data.draw(st.sampled_from(drivers))
            if act == "write":
                append(path, b"%d of %s\n" % (step, path.name.encode()))
            elif act == "upload":
                up.upload()
                up.merge()
                if up is drivers[-1][0]:
                    up.remove_older()
            journaled = fetch(store).data
            assert drivers[-1][1].read_bytes().startswith(journaled)
            assert journaled.startswith(seen)
            seen = journaled
