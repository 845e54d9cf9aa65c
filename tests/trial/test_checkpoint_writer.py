"""When the checkpoints of a trial are written, and how."""

from threading import Event

import pytest
import torch

from tuner.errors import StorageError
from tuner.experiment.files import sha256_of
from tuner.trial.checkpoint_store import CheckpointStore, load_state
from tuner.trial.checkpoint_writer import CheckpointWriter, Save, SavePolicy, SaveRules

EPOCH_S, WRITE_S = 0.2, 0.05


def choices(values, *, last=100, write_s=WRITE_S, reported=0, writing=(), first=1, **rules):
    """What becomes of each epoch of a trial, one letter each: Now, Beside, Hold, or - for none."""
    policy = SavePolicy(SaveRules(**rules), reported=reported)
    letters = ""
    for epoch, value in enumerate(values, start=first):
        how = policy.choose(
            epoch,
            is_best=policy.is_best(value),
            is_last=epoch == last,
            epoch_s=EPOCH_S,
            is_writing=epoch in writing,
            now=epoch * EPOCH_S,
        )
        if how is Save.NOW:
            policy.waited(write_s)
        letters += "-" if how is None else how.value[0].upper()
    return letters


WORSE = range(1, 11)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"every_s": 100}, "N---------"),  # what cannot be saved is told at once
        ({"every_s": 100, "rungs": frozenset({4, 8})}, "N--N---N--"),
        ({"every_s": 100, "last": 10}, "N--------N"),
        ({"every_s": 0}, "NBBBBBBBBB"),
        ({"every_s": 0.5}, "N--B--B--B"),
        ({"every_s": 0.5, "writing": (4, 5)}, "N----B--B-"),  # it begins once the other is done
        ({"every_s": 0.5, "rungs": frozenset({3})}, "N-N--B--B-"),  # counted from there
        ({"every_s": 0.5, "write_s": EPOCH_S / 50}, "NNNNNNNNNN"),  # not worth a thread
    ],
)
def test_choose_saves_now_at_rungs_and_the_end(settings, expected):
    assert choices(WORSE, **settings) == expected


@pytest.mark.parametrize(
    ("mode", "values"), [("min", [5, 6, 4, 4, 3, 9, 2]), ("max", [5, 4, 6, 6, 7, 1, 8])]
)
def test_choose_holds_the_best(mode, values):
    assert choices(values, mode=mode, every_s=100) == "N-H-H-H"
    assert choices(values, mode=mode, every_s=100, rungs=frozenset({5})) == "N-H-N-H"


def test_choose_saves_repeated_epochs_now():
    assert choices(WORSE, first=5, reported=8, every_s=100)[:6] == "NNNN--"


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


def test_save_beside_writes_a_copy(writer, store, tmp_path):
    model = torch.nn.Linear(2, 1)
    moments = [torch.zeros(2)]
    settings = {"model": model.state_dict(), "moments": moments, "epoch": 1}
    assert writer.save(1, settings, Save.BESIDE, is_best=True) == []
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


def test_save_writes_the_held_best_first(writer, store):
    store.go.set()
    assert writer.save(1, state(1), Save.HOLD, is_best=True) == []
    assert writer.save(2, state(2), Save.HOLD, is_best=True) == []  # takes the place of the first
    assert epochs(writer.save(4, state(4), Save.NOW, is_best=False)) == [2, 4]
    assert epochs(writer.save(5, state(5), Save.NOW, is_best=False)) == [5]
    writer.save(6, state(6), Save.HOLD, is_best=True)
    writer.save(7, state(7), Save.BESIDE, is_best=True)  # a better one: the held one is dropped
    assert epochs(writer.written(wait=True)) == [7]
    writer.save(8, state(8), Save.HOLD, is_best=True)
    assert epochs(writer.save(8, state(8), Save.NOW, is_best=False)) == [8]  # the trial ends


def test_save_now_waits_for_the_thread(writer, store):
    writer.save(1, state(1), Save.BESIDE, is_best=True)
    assert store.begun.wait(PATIENCE_S)
    writer.save(2, state(2), Save.HOLD, is_best=True)  # does not wait
    store.go.set()
    assert epochs(writer.save(3, state(3), Save.NOW, is_best=False)) == [1, 2, 3]


@pytest.mark.parametrize("how", Save)
def test_error_of_the_thread_is_raised_by_the_next_save(writer, store, how):
    store.error = StorageError("cannot write")
    writer.save(1, state(1), Save.BESIDE, is_best=True)
    store.go.set()
    writer._writing.exception(PATIENCE_S)
    with pytest.raises(StorageError, match="cannot write"):
        writer.save(2, state(2), how, is_best=False)


def test_save_without_a_copy_writes_now(store, tmp_path):
    def out_of_memory(state):
        raise MemoryError

    store.go.set()
    writer = CheckpointWriter(store, out_of_memory)
    for epoch, how in enumerate([Save.BESIDE, Save.HOLD], start=1):
        [saved] = writer.save(epoch, state(epoch), how, is_best=True)
        assert load_state(tmp_path / saved.path, saved.sha256)["epoch"] == epoch
    writer.close()


def test_close_waits_for_the_thread(writer, store, tmp_path):
    writer.save(1, state(1), Save.BESIDE, is_best=True)
    store.go.set()
    writer.close()
    assert load_state(tmp_path / "trials/00000/checkpoints/1/state.pt", None)["epoch"] == 1
