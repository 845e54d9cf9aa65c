"""A trial's checkpoints on the disk: whole or not there, when, and read without running code."""

import collections
import os
import pickle
import resource
import shutil
import zipfile
from threading import Event

import numpy
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuner.errors import CheckpointError, StorageError
from tuner.experiment.files import compute_sha256
from tuner.experiment.results.selection import find_best_report
from tuner.experiment.trials import Report, TrialRecord
from tuner.spec.sections import Objective
from tuner.trial.checkpoints import (
    CheckpointStore,
    CheckpointWriter,
    Save,
    SavePolicy,
    SaveRules,
    load_state,
)

STATE = {"model": {"w": torch.arange(3.0)}, "epoch": 2}

EPOCH_S = 0.2
WRITE_S = 0.05
LOWEST = Objective()


class Foreign:
    """What a user might put into a state."""


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path, "00003")


def load(folder, saved):
    return load_state(folder / saved.path, saved.sha256)


def copied(store, epoch, source):
    return store.save_folder(epoch, lambda folder: shutil.copytree(source, folder))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (numpy.float64(0.5), r"cannot be loaded: .*: numpy\."),
        (collections.deque([1]), r"cannot be loaded: .*: collections\.deque"),
        (Foreign(), r"cannot be loaded: .*: .*Foreign"),
        (lambda x: x, "pickle"),
    ],
)
def test_save_foreign_value_fails_at_the_first_save(store, tmp_path, value, message):
    with pytest.raises(
        (CheckpointError, pickle.PickleError, AttributeError), match=message
    ):
        store.save(1, {"a": [value]})
    assert not list(tmp_path.rglob("state.pt"))


def test_fill_copies_a_folder(store, tmp_path):
    source = tmp_path / "given"
    (source / "sub").mkdir(parents=True)
    (source / "sub/weights").write_text("1")
    (tmp_path / "trials/00003/checkpoints/4.partial").mkdir(parents=True)
    saved = copied(store, 4, source)
    assert saved.path == "trials/00003/checkpoints/4"
    assert (tmp_path / saved.path / "sub/weights").read_text() == "1"
    assert saved.sha256 == compute_sha256(source)
    (source / "sub/weights").write_text("2")
    assert copied(store, 4, source).sha256 == compute_sha256(source)
    assert os.listdir(tmp_path / "trials/00003/checkpoints") == ["4"]


@pytest.mark.parametrize("is_file", [True, False])
def test_save_follows_no_link(store, tmp_path, is_file):
    outside = tmp_path / "outside"
    source = tmp_path / "given"
    for folder in (outside / "1", source):
        folder.mkdir(parents=True)
        (folder / "kept").write_text("1")
    trial = tmp_path / "trials/00003"
    trial.mkdir(parents=True)
    (trial / "checkpoints").symlink_to(outside)
    with pytest.raises(StorageError, match="checkpoints is a symbolic link"):
        store.save(1, STATE) if is_file else copied(store, 1, source)
    assert [path.name for path in outside.rglob("*")] == ["1", "kept"]


def test_save_replaces_a_link_that_has_the_name_of_its_partial_file(store, tmp_path):
    target = tmp_path / "target"
    partial = tmp_path / "trials/00003/checkpoints/1/state.partial"
    target.write_text("kept")
    partial.parent.mkdir(parents=True)
    partial.symlink_to(target)
    saved = store.save(1, STATE)
    assert target.read_text() == "kept"
    load(tmp_path, saved)


@pytest.mark.parametrize("is_file", [True, False])
def test_save_on_full_disk_raises_and_leaves_no_checkpoint(
    snapshot, store, tmp_path, is_file
):
    source = tmp_path / "given"
    source.mkdir()
    (source / "weights").write_bytes(bytes(100_000))
    saved = store.save(1, STATE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StorageError) as raised:
            store.save(2, {"w": torch.zeros(100_000)}) if is_file else copied(
                store, 2, source
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    snapshot(str(raised.value))
    assert not (tmp_path / "trials/00003/checkpoints/2/state.pt").exists()
    assert not (tmp_path / "trials/00003/checkpoints/2/weights").exists()
    load(tmp_path, saved)


def test_load_state_names_missing_and_damaged_files(snapshot, store, tmp_path):
    with snapshot.raises(CheckpointError):
        load_state(tmp_path / "no.pt", None)
    saved = store.save(2, STATE)
    (tmp_path / saved.path).write_bytes(b"torn")
    with snapshot.raises(CheckpointError):
        load(tmp_path, saved)
    with snapshot.raises(CheckpointError):
        load_state(tmp_path / saved.path, None)
    torch.save([1], tmp_path / "list.pt")
    with snapshot.raises(CheckpointError):
        load_state(tmp_path / "list.pt", None)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("hacked",)


def test_load_state_runs_no_code(snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    torch.save({"model": Evil()}, tmp_path / "torch.pt")
    for name in ("plain.pt", "torch.pt"):
        with snapshot.raises(CheckpointError):
            load_state(tmp_path / name, None)
    assert not (tmp_path / "hacked").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A state's file, and its bytes for Hypothesis to bend."""
    path = tmp_path_factory.mktemp("state") / "state.pt"
    model = {"weight": torch.arange(40.0).reshape(4, 10), "tied": torch.ones(3)}
    torch.save({"model": model, "epoch": 3, "rng": torch.get_rng_state()}, path)
    return path, path.read_bytes()


def test_load_state_reads_files_of_torch(saved):
    path, _ = saved
    assert load_state(path, None)["epoch"] == 3
    weight = torch.ones(1000, 10)
    torch.save({"a": weight, "b": weight, "c": weight.T}, path)
    assert set(load_state(path, None)) == {"a", "b", "c"}
    torch.save({"w": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    assert torch.equal(load_state(path, None)["w"], torch.ones(3))


def test_load_state_rejects_what_unpacks_to_more(snapshot, tmp_path):
    torch.save({"w": torch.zeros(1_000_000)}, tmp_path / "plain.pt")
    packed = tmp_path / "packed.pt"
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in plain.namelist():
            target.writestr(name, plain.read(name))
    assert os.path.getsize(packed) < 10_000
    with snapshot.raises(CheckpointError):
        load_state(packed, None)
    torch.save({"w": torch.ones(1).expand(10**12)}, tmp_path / "state.pt")
    with snapshot.raises(CheckpointError):
        load_state(tmp_path / "state.pt", None)


@settings(max_examples=200)
@given(data=st.data())
def test_load_state_of_changed_bytes_loads_or_raises(saved, data):
    path, whole = saved
    at = data.draw(st.integers(0, len(whole) - 1))
    gap = data.draw(st.integers(0, 8) | st.just(len(whole)))
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=8)) + whole[at + gap :])
    try:
        assert isinstance(load_state(path, None), dict)
    except CheckpointError as error:
        assert "state.pt" in str(error)  # noqa: PT017 - either outcome is right


def choices(
    values,
    *,
    last=100,
    write_s=WRITE_S,
    writing=(),
    objective=LOWEST,
    **rules,
):
    """What becomes of each epoch of a trial, one letter each: Now, Beside, Hold, or - for none."""
    policy = SavePolicy(SaveRules(**rules), objective, reported=0)
    letters = ""
    for epoch, value in enumerate(values, start=1):
        how = policy.choose(
            epoch,
            is_best=policy.is_best(epoch, {"val_loss": value}),
            is_last=epoch == last,
            epoch_s=EPOCH_S,
            is_writing=epoch in writing,
            now=epoch * EPOCH_S,
        )
        if how is Save.NOW:
            policy.record_wait(write_s)
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
        # It begins once the other is done
        ({"every_s": 0.5, "writing": (4, 5)}, "N----B--B-"),
        ({"every_s": 0.5, "rungs": frozenset({3})}, "N-N--B--B-"),  # counted from there
        ({"every_s": 0.5, "write_s": EPOCH_S / 50}, "NNNNNNNNNN"),  # not worth a thread
    ],
)
def test_choose_saves_now_at_rungs_and_the_end(settings, expected):
    assert choices(WORSE, **settings) == expected


def test_choose_holds_the_best():
    how = {"objective": Objective(mode="max", choose="best_epoch"), "every_s": 100}
    values = [5, 4, 6, 6, 7, 1, 8]
    assert choices(values, **how) == "N-H-H-H"
    assert choices(values, **how, rungs=frozenset({5})) == "N-H-N-H"


@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    objective=st.sampled_from(
        [
            LOWEST,
            Objective(from_epoch=3),
            Objective(limits=("val_loss < 8",)),
            Objective(mode="max"),
        ]
    ),
    cut=st.integers(0, 30),
)
@example(values=[9, 5, 8, 4], objective=Objective(limits=("val_loss < 8",)), cut=1)
def test_policy_and_history_name_the_same_epoch_also_after_a_resume(
    values, objective, cut
):
    reports = [*enumerate(({"val_loss": value} for value in values), 1)]
    whole, resumed = (SavePolicy(SaveRules(), objective) for _ in range(2))
    for epoch, metrics in reports[:cut]:
        resumed.is_best(epoch, metrics)
    named = None
    for epoch, metrics in reports:
        is_best = whole.is_best(epoch, metrics)
        assert epoch <= cut or resumed.is_best(epoch, metrics) == is_best
        named = epoch if is_best else named
        trial = TrialRecord(
            "00000", 0.0, results=[Report(n, 0.0, m) for n, m in reports[:epoch]]
        )
        assert find_best_report(trial, objective).epoch == named


PATIENCE_S = 60


class Gated:
    """A store that writes only once it is let to."""

    def __init__(self, folder):
        self.store = CheckpointStore(folder, "00000")
        self.begun = Event()
        self.go = Event()
        self.error = None

    def save(self, epoch, state):
        self.begun.set()
        assert self.go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return self.store.save(epoch, state)


@pytest.fixture
def gated(tmp_path):
    return Gated(tmp_path)


@pytest.fixture
def writer(gated):
    made = CheckpointWriter(gated)
    yield made
    gated.go.set()
    made.close()


def state(epoch):
    return {"epoch": epoch, "w": torch.full((3,), float(epoch))}


@pytest.fixture
def save(writer):
    """Saves the state of an epoch; the epochs of the checkpoints that are written by then."""

    def save(epoch, how, *, is_best=False):
        return [
            each.epoch
            for each in writer.save(epoch, state(epoch), how, is_best=is_best)
        ]

    return save


def test_save_beside_writes_a_copy(writer, gated, tmp_path):
    weight = torch.zeros(2)
    assert writer.save(1, {"w": weight}, Save.BESIDE, is_best=True) == []
    weight += 1  # as in the next epoch, before any of it is written
    assert writer.collect_written() == []
    gated.go.set()
    [saved] = writer.collect_written(wait=True)
    assert saved.sha256 == compute_sha256(tmp_path / saved.path)
    assert torch.equal(load(tmp_path, saved)["w"], torch.zeros(2))
    assert writer.collect_written(wait=True) == []  # each is told of once


def test_save_writes_the_held_best_first(writer, gated, save):
    gated.go.set()
    assert save(1, Save.HOLD, is_best=True) == []
    assert save(2, Save.HOLD, is_best=True) == []  # takes the place of the first
    assert save(4, Save.NOW) == [2, 4]
    assert save(5, Save.NOW) == [5]
    save(6, Save.HOLD, is_best=True)
    save(7, Save.BESIDE, is_best=True)  # a better one: the held one is dropped
    assert [each.epoch for each in writer.collect_written(wait=True)] == [7]
    save(8, Save.HOLD, is_best=True)
    assert save(8, Save.NOW) == [8]  # the trial ends


def test_save_now_waits_for_the_thread(gated, save):
    save(1, Save.BESIDE, is_best=True)
    assert gated.begun.wait(PATIENCE_S)
    save(2, Save.HOLD, is_best=True)  # does not wait
    gated.go.set()
    assert save(3, Save.NOW) == [1, 2, 3]


@pytest.mark.parametrize("how", Save)
def test_error_of_the_thread_is_raised_by_the_next_save(
    snapshot, writer, gated, save, how
):
    gated.error = StorageError("cannot write")
    save(1, Save.BESIDE, is_best=True)
    gated.go.set()
    writer._writing.exception(PATIENCE_S)
    with snapshot.raises(StorageError):
        save(2, how)


def test_save_without_a_copy_writes_now(gated, tmp_path):
    def out_of_memory(state):
        raise MemoryError

    gated.go.set()
    writer = CheckpointWriter(gated, out_of_memory)
    for epoch, how in enumerate([Save.BESIDE, Save.HOLD], start=1):
        [saved] = writer.save(epoch, state(epoch), how, is_best=True)
        assert load(tmp_path, saved)["epoch"] == epoch
    writer.close()


def test_close_waits_for_the_thread(writer, gated, save, tmp_path):
    save(1, Save.BESIDE, is_best=True)
    gated.go.set()
    writer.close()
    assert (
        load_state(tmp_path / "trials/00000/checkpoints/1/state.pt", None)["epoch"] == 1
    )
