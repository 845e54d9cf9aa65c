"""A Learner's state: copied to the host, its weights by name, and its limits."""

from collections import OrderedDict
from io import BytesIO

import pytest
import torch

from tuner.trial.state import (
    copy_to_host,
    find_state_fault,
    list_weights,
    replace_weights,
)

STATE = {
    "net": {"w": torch.ones(2), "name": "x"},
    "moments": [torch.zeros(1), {"v": torch.ones(1)}],
    "pair": (torch.ones(3), 1),
    "epoch": 3,
}


def save_to_bytes(state):
    file = BytesIO()
    torch.save(state, file)
    return file.getvalue()


def test_host_copy_saves_like_the_state():
    weight = torch.ones(10_000)
    settings = [{"lr": 0.1}]
    state = {
        "model": OrderedDict(first=weight, tied=weight),
        "optimizer": {"state": {0: {"momentum": torch.ones(1)}}, "groups": settings},
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "pair": (1, "x"),
        "none": None,
    }
    before = save_to_bytes(state)
    copy = copy_to_host(state)
    weight += 1
    settings[0]["lr"] = 5.0
    assert isinstance(copy["model"], OrderedDict)
    assert not copy["parameter"].requires_grad
    assert (copy["pair"], copy["none"]) == ((1, "x"), None)
    # The weight has 40,000 bytes
    assert len(save_to_bytes(copy)) == pytest.approx(len(before), abs=999)
    assert torch.equal(copy["model"]["first"], torch.ones(10_000))
    moments = {"state": {0: {"momentum": torch.ones(1)}}, "groups": [{"lr": 0.1}]}
    assert copy["optimizer"] == moments


@pytest.mark.gpu
def test_host_copy_of_gpu_state_does_not_change():
    weight = torch.ones(1 << 22, device="cuda")
    state = {"model": {"a": weight, "tied": weight.view(2, -1).T}, "rest": [weight[:2]]}
    copy = copy_to_host(state)
    for _ in range(100):
        weight += 1
    assert copy["model"]["a"].is_pinned()
    assert bool((copy["model"]["a"] == 1).all())
    assert bool((copy["model"]["tied"] == 1).all())
    assert copy["model"]["tied"].shape == (1 << 21, 2)


def test_weights_of_have_dotted_names():
    names = [name for name, _ in list_weights(STATE)]
    assert names == ["net.w", "moments.0", "moments.1.v", "pair.0"]


def test_weights_of_state_with_model_are_the_models():
    state = {"model": {"a.b": torch.ones(1)}, "optimizer": {"m": torch.zeros(1)}}
    assert [name for name, _ in list_weights(state)] == ["a.b"]
    put = replace_weights(state, {"a.b": torch.full((1,), 5.0)})
    assert put["model"]["a.b"] == 5
    assert torch.equal(put["optimizer"]["m"], torch.zeros(1))
    assert state["model"]["a.b"] == 1


def test_with_weights_replaces_every_tensor():
    weights = {name: torch.full_like(tensor, 7) for name, tensor in list_weights(STATE)}
    put = replace_weights(STATE, weights)
    assert dict(list_weights(put)) == weights
    assert (put["epoch"], put["net"]["name"], put["pair"][1]) == (3, "x", 1)
    assert isinstance(put["pair"], tuple)
    with pytest.raises(KeyError, match=r"moments\.0"):
        replace_weights(STATE, {"net.w": torch.ones(2)})


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def test_fault_of_state_rejects_endless_nesting():
    within = []
    within.append(within)
    shared = [0] * 10
    for _ in range(20):
        shared = [shared] * 10
    for state in (within, shared, {"a": nested(101)}):
        assert find_state_fault(state, 100) is not None
    assert find_state_fault({"a": nested(50)}, 100) is None
