"""Files of initial weights."""

import pytest
import torch
from safetensors.torch import save_file
from test_transfer import model, saved

from tuner.errors import CheckpointError
from tuner.vision.weight_files import load_weights


@pytest.mark.parametrize(
    "wrap", [lambda s: s, lambda s: {"model": s}, lambda s: {"state_dict": s}]
)
def test_load_weights_reads_state_dicts_of_trainers(wrap, tmp_path):
    state = model().state_dict()
    loaded = load_weights(saved(wrap(state), tmp_path))
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_load_weights_reads_safetensors_and_exports(tmp_path):
    state = model().state_dict()
    save_file(state, tmp_path / "model.safetensors")
    assert load_weights(tmp_path).keys() == state.keys()
    assert load_weights(str(tmp_path / "model.safetensors")).keys() == state.keys()


class Evil:
    def __reduce__(self):
        return print, ("it ran",)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("evil.pt", {"weight": Evil()}),
        ("list.pt", [1, 2]),
        ("empty.pt", {"epoch": 1}),
        ("gone.pt", None),
        ("cut.pt", b"PK\x03\x04 cut off"),
        ("cut.safetensors", b"PK\x03\x04 cut off"),
    ],
)
def test_load_weights_of_another_file_raises_and_runs_nothing(
    name, state, snapshot, tmp_path, capsys
):
    if isinstance(state, bytes):
        (tmp_path / name).write_bytes(state)
    elif state is not None:
        saved(state, tmp_path, name)
    with snapshot.raises(CheckpointError):
        load_weights(tmp_path / name)
    assert capsys.readouterr().out == ""
