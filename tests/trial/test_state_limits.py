"""A state's file can make no more of itself than it holds."""

import os
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import CheckpointError
from tuner.trial.checkpoint_store import load_state
from tuner.trial.state_limits import fault_of_archive, fault_of_state


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A state's file, and its bytes for Hypothesis to bend."""
    path = tmp_path_factory.mktemp("state") / "state.pt"
    model = {"weight": torch.arange(40.0).reshape(4, 10), "tied": torch.ones(3)}
    torch.save({"model": model, "epoch": 3, "rng": torch.get_rng_state()}, path)
    return path, path.read_bytes()


def test_what_torch_saves_passes(saved):
    path, _ = saved
    assert fault_of_archive(path) is None
    assert load_state(path, None)["epoch"] == 3
    torch.save({"w": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    assert torch.equal(load_state(path, None)["w"], torch.ones(3))


def test_tied_weights_pass(tmp_path):
    weight = torch.ones(1000, 10)
    torch.save({"a": weight, "b": weight, "c": weight.T}, tmp_path / "state.pt")
    assert set(load_state(tmp_path / "state.pt", None)) == {"a", "b", "c"}


def refused(path, reason):
    with pytest.raises(CheckpointError, match=f"cannot be loaded: .*{reason}"):
        load_state(path, None)


def test_a_compressed_record_is_not_unpacked(tmp_path):
    torch.save({"w": torch.zeros(1_000_000)}, tmp_path / "plain.pt")
    packed = tmp_path / "packed.pt"
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in plain.namelist():
            target.writestr(name, plain.read(name))
    assert os.path.getsize(packed) < 10_000
    refused(packed, "it unpacks to more than it holds")


def test_a_tensor_is_no_larger_than_what_is_stored(tmp_path):
    torch.save({"w": torch.ones(1).expand(10**12)}, tmp_path / "state.pt")
    refused(tmp_path / "state.pt", "its tensors are larger than what it holds")


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def test_what_never_ends_is_refused():
    within = []
    within.append(within)
    shared = [0] * 10
    for _ in range(20):
        shared = [shared] * 10
    for state in (within, shared, {"a": nested(101)}):
        assert fault_of_state(state, 100) is not None
    assert fault_of_state({"a": nested(50)}, 100) is None


@settings(max_examples=200)
@given(data=st.data())
def test_bent_bytes_load_or_are_told(saved, data):
    path, whole = saved
    at = data.draw(st.integers(0, len(whole) - 1))
    gap = data.draw(st.integers(0, 8) | st.just(len(whole)))
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=8)) + whole[at + gap :])
    try:
        assert isinstance(load_state(path, None), dict)
    except CheckpointError as error:
        assert "state.pt" in str(error)  # noqa: PT017 - either outcome is right
