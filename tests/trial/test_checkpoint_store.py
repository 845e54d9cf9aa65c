"""A trial's checkpoints on the disk: whole or not there, and read without running code."""

import collections
import os
import pickle
import resource
import zipfile

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import CheckpointError, StorageError
from tuner.experiment.files import sha256_of
from tuner.trial.checkpoint_store import CheckpointStore, load_state

STATE = {"model": {"w": torch.arange(3.0)}, "epoch": 2}


class Foreign:
    """What a user might put into a state."""


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path, "00003")


def test_save_and_load_return_the_state(store, tmp_path):
    saved = store.save(2, STATE)
    assert saved.as_dict() == {
        "epoch": 2,
        "path": "trials/00003/checkpoints/2/state.pt",
        "sha256": sha256_of(tmp_path / saved.path),
    }
    state = load_state(tmp_path / saved.path, saved.sha256)
    assert torch.equal(state["model"]["w"], STATE["model"]["w"])


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
    with pytest.raises((CheckpointError, pickle.PickleError, AttributeError), match=message):
        store.save(1, {"a": [value]})
    assert not list(tmp_path.rglob("state.pt"))


def test_adopt_copies_a_folder(store, tmp_path):
    source = tmp_path / "given"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "weights").write_text("1")
    (tmp_path / "trials/00003/checkpoints/4.partial").mkdir(parents=True)
    saved = store.adopt(4, source)
    assert saved.path == "trials/00003/checkpoints/4"
    assert (tmp_path / saved.path / "sub" / "weights").read_text() == "1"
    assert saved.sha256 == sha256_of(source)
    (source / "sub" / "weights").write_text("2")
    assert store.adopt(4, source).sha256 == sha256_of(source)
    assert os.listdir(tmp_path / "trials/00003/checkpoints") == ["4"]


@pytest.mark.parametrize("save", ["save", "adopt"])
def test_save_on_full_disk_raises_and_leaves_no_checkpoint(store, tmp_path, save):
    source = tmp_path / "given"
    source.mkdir()
    (source / "weights").write_bytes(bytes(100_000))
    saved = store.save(1, STATE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StorageError, match=r"cannot write .*/checkpoints/2.*: .*File too"):
            store.save(2, {"w": torch.zeros(100_000)}) if save == "save" else store.adopt(2, source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "trials/00003/checkpoints/2/state.pt").exists()
    assert not (tmp_path / "trials/00003/checkpoints/2/weights").exists()
    load_state(tmp_path / saved.path, saved.sha256)


def test_load_state_names_missing_and_damaged_files(store, tmp_path):
    with pytest.raises(CheckpointError, match="is missing"):
        load_state(tmp_path / "no.pt", None)
    saved = store.save(2, STATE)
    (tmp_path / saved.path).write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="is damaged"):
        load_state(tmp_path / saved.path, saved.sha256)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_state(tmp_path / saved.path, None)
    torch.save([1], tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match="holds list, not a state dict"):
        load_state(tmp_path / "list.pt", None)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("hacked",)


def test_load_state_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    torch.save({"model": Evil()}, tmp_path / "torch.pt")
    for name in ("plain.pt", "torch.pt"):
        with pytest.raises(CheckpointError, match="cannot be loaded"):
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


def test_load_state_rejects_what_unpacks_to_more(tmp_path):
    torch.save({"w": torch.zeros(1_000_000)}, tmp_path / "plain.pt")
    packed = tmp_path / "packed.pt"
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in plain.namelist():
            target.writestr(name, plain.read(name))
    assert os.path.getsize(packed) < 10_000
    with pytest.raises(CheckpointError, match="it unpacks to more than it holds"):
        load_state(packed, None)
    torch.save({"w": torch.ones(1).expand(10**12)}, tmp_path / "state.pt")
    with pytest.raises(CheckpointError, match="its tensors are larger than what it holds"):
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
