"""A trial's checkpoints on the disk: whole or not there, and read without running code."""

import os
import pickle
import resource

import pytest
import torch

from tuner.errors import CheckpointError, StorageError
from tuner.record.digest import sha256_of
from tuner.trial.checkpoint_store import CheckpointStore, load_state

STATE = {"model": {"w": torch.arange(3.0)}, "epoch": 2}


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path, "00003")


def test_a_state_comes_back(store, tmp_path):
    saved = store.save(2, STATE)
    assert saved.as_dict() == {
        "epoch": 2,
        "path": "trials/00003/checkpoints/2/state.pt",
        "sha256": sha256_of(tmp_path / saved.path),
    }
    state = load_state(tmp_path / saved.path, saved.sha256)
    assert torch.equal(state["model"]["w"], STATE["model"]["w"])


def test_saving_an_epoch_again_replaces_it(store, tmp_path):
    store.save(2, {"epoch": 1})
    saved = store.save(2, STATE)
    assert load_state(tmp_path / saved.path, saved.sha256)["epoch"] == 2
    assert os.listdir(tmp_path / "trials/00003/checkpoints/2") == ["state.pt"]


def test_a_folder_is_adopted_whole(store, tmp_path):
    given = tmp_path / "given"
    (given / "sub").mkdir(parents=True)
    (given / "sub" / "weights").write_text("1")
    (tmp_path / "trials/00003/checkpoints/4.partial").mkdir(parents=True)
    saved = store.adopt(4, given)
    assert saved.path == "trials/00003/checkpoints/4"
    assert (tmp_path / saved.path / "sub" / "weights").read_text() == "1"
    assert saved.sha256 == sha256_of(given)
    (given / "sub" / "weights").write_text("2")
    assert store.adopt(4, given).sha256 == sha256_of(given)
    assert os.listdir(tmp_path / "trials/00003/checkpoints") == ["4"]


@pytest.mark.parametrize("save", ["save", "adopt"])
def test_what_the_disk_does_not_take_is_told_and_leaves_no_checkpoint(store, tmp_path, save):
    given = tmp_path / "given"
    given.mkdir()
    (given / "weights").write_bytes(bytes(100_000))
    saved = store.save(1, STATE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(
            StorageError, match=r"cannot write .*/checkpoints/2.*: .*File too large"
        ):
            store.save(2, {"w": torch.zeros(100_000)}) if save == "save" else store.adopt(2, given)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "trials/00003/checkpoints/2/state.pt").exists()
    assert not (tmp_path / "trials/00003/checkpoints/2/weights").exists()
    load_state(tmp_path / saved.path, saved.sha256)


def test_what_is_missing_or_damaged_is_told(store, tmp_path):
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


def test_loading_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    torch.save({"model": Evil()}, tmp_path / "torch.pt")
    for name in ("plain.pt", "torch.pt"):
        with pytest.raises(CheckpointError, match="cannot be loaded"):
            load_state(tmp_path / name, None)
    assert not (tmp_path / "hacked").exists()
