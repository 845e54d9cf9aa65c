"""Checkpoints written in a thread: one at a time, the best before the newest, errors told."""

from threading import Barrier, Event

import pytest
import torch

from tuner.errors import StorageError
from tuner.experiment.checkpoints import sha256_of
from tuner.trial.checkpoint_store import CheckpointStore, load_state
from tuner.trial.checkpoint_writer import CheckpointWriter
from tuner.trial.save_policy import Save

PATIENCE_S = 60


class Gated:
    """A store that writes only once it is let to."""

    def __init__(self, folder):
        self.store = CheckpointStore(folder, "00000")
        self.begun, self.go, self.error = Event(), Event(), None

    def save(self, epoch, state):
        self.begun.set()
        assert self.go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return self.store.save(epoch, state)


@pytest.fixture
def store(tmp_path):
    return Gated(tmp_path)


@pytest.fixture
def writer(store):
    made = CheckpointWriter(store)
    yield made
    store.go.set()
    made.close()


def state(epoch):
    return {"epoch": epoch, "w": torch.full((3,), float(epoch))}


def epochs(records):
    return [record.epoch for record in records]


def test_what_trains_on_does_not_change_what_is_written(writer, store, tmp_path):
    model = torch.nn.Linear(2, 1)
    moments = [torch.zeros(2)]
    given = {"model": model.state_dict(), "moments": moments, "epoch": 1}
    assert writer.save(1, given, Save.BESIDE, is_best=True) == []
    before = model.weight.detach().clone()
    with torch.no_grad():  # as the next epoch does, while nothing of it is written yet
        model.weight += 1
    moments[0] += 1
    moments.append(torch.ones(1))
    assert writer.written() == []
    store.go.set()
    [saved] = writer.written(wait=True)
    assert saved.sha256 == sha256_of(tmp_path / saved.path)
    loaded = load_state(tmp_path / saved.path, saved.sha256)
    assert torch.equal(loaded["model"]["weight"], before)
    assert len(loaded["moments"]) == 1
    assert torch.equal(loaded["moments"][0], torch.zeros(2))
    assert writer.written(wait=True) == []  # each is told of once


def test_the_best_is_written_before_the_newest(writer, store):
    store.go.set()
    assert writer.save(1, state(1), Save.HOLD, is_best=True) == []
    assert writer.save(2, state(2), Save.HOLD, is_best=True) == []  # takes the place of the first
    assert epochs(writer.save(4, state(4), Save.NOW, is_best=False)) == [2, 4]
    assert epochs(writer.save(5, state(5), Save.NOW, is_best=False)) == [5]


def test_the_best_and_the_newest_are_written_at_the_same_time(tmp_path):
    both = Barrier(2, timeout=PATIENCE_S)

    class Meeting(Gated):
        def save(self, epoch, state):
            both.wait()
            return super().save(epoch, state)

    writer = CheckpointWriter(Meeting(tmp_path))
    writer._store.go.set()
    writer.save(2, state(2), Save.HOLD, is_best=True)
    assert epochs(writer.save(4, state(4), Save.NOW, is_best=False)) == [2, 4]
    writer.close()


def test_a_better_one_makes_the_held_one_needless(writer, store):
    store.go.set()
    writer.save(1, state(1), Save.HOLD, is_best=True)
    writer.save(2, state(2), Save.BESIDE, is_best=True)
    assert epochs(writer.written(wait=True)) == [2]


def test_the_best_is_written_once_where_it_is_the_newest(writer, store):
    store.go.set()
    writer.save(3, state(3), Save.HOLD, is_best=True)
    assert epochs(writer.save(3, state(3), Save.NOW, is_best=False)) == [3]  # the trial ends


def test_what_is_decided_on_waits_for_what_is_being_written(writer, store):
    writer.save(1, state(1), Save.BESIDE, is_best=True)
    assert store.begun.wait(PATIENCE_S)
    writer.save(2, state(2), Save.HOLD, is_best=True)  # does not wait
    store.go.set()
    assert epochs(writer.save(3, state(3), Save.NOW, is_best=False)) == [1, 2, 3]


@pytest.mark.parametrize("how", Save)
def test_what_the_disk_did_not_take_is_told_at_the_next_call(writer, store, how):
    store.error = StorageError("cannot write")
    writer.save(1, state(1), Save.BESIDE, is_best=True)
    store.go.set()
    writer._writing.exception(PATIENCE_S)
    with pytest.raises(StorageError, match="cannot write"):
        writer.save(2, state(2), how, is_best=False)


def test_a_state_that_cannot_be_copied_is_written_at_once(store, tmp_path):
    def out_of_memory(state):
        raise MemoryError

    store.go.set()
    writer = CheckpointWriter(store, out_of_memory)
    for epoch, how in enumerate([Save.BESIDE, Save.HOLD], start=1):
        [saved] = writer.save(epoch, state(epoch), how, is_best=True)
        assert load_state(tmp_path / saved.path, saved.sha256)["epoch"] == epoch
    writer.close()


def test_its_thread_ends_with_it_and_what_is_written_is_whole(writer, store, tmp_path):
    writer.save(1, state(1), Save.BESIDE, is_best=True)
    store.go.set()
    writer.close()
    assert load_state(tmp_path / "trials/00000/checkpoints/1/state.pt", None)["epoch"] == 1
