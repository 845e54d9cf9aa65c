"""A Learner's state: copied to the host, its weights by name, and its limits."""

import pytest
import torch

from tuner.trial.state import fault_of_state, host_copy, weights_of, with_weights

STATE = {
    "net": {"w": torch.ones(2), "name": "x"},
    "moments": [torch.zeros(1), {"v": torch.ones(1)}],
    "pair": (torch.ones(3), 1),
    "epoch": 3,
}


def test_nothing_is_shared_with_the_original():
    weight = torch.nn.Parameter(torch.ones(2))
    state = {"a": [weight, (1, "x")], "b": {"c": None}}
    copy = host_copy(state)
    with torch.no_grad():
        weight += 1
    assert torch.equal(copy["a"][0], torch.ones(2))
    assert not copy["a"][0].requires_grad
    assert (copy["a"][1], copy["b"]) == ([1, "x"], {"c": None})


def test_every_tensor_has_its_dotted_name():
    names = [name for name, _ in weights_of(STATE)]
    assert names == ["net.w", "moments.0", "moments.1.v", "pair.0"]


def test_of_a_state_with_a_model_only_that_counts():
    state = {"model": {"a.b": torch.ones(1)}, "optimizer": {"m": torch.zeros(1)}}
    assert [name for name, _ in weights_of(state)] == ["a.b"]
    put = with_weights(state, {"a.b": torch.full((1,), 5.0)})
    assert put["model"]["a.b"] == 5
    assert put["optimizer"] is state["optimizer"]
    assert state["model"]["a.b"] == 1


def test_weights_go_back_where_they_came_from():
    weights = {name: torch.full_like(tensor, 7) for name, tensor in weights_of(STATE)}
    put = with_weights(STATE, weights)
    assert dict(weights_of(put)) == weights
    assert (put["epoch"], put["net"]["name"], put["pair"][1]) == (3, "x", 1)
    assert isinstance(put["pair"], tuple)


def test_a_weight_that_is_missing_is_named():
    with pytest.raises(KeyError, match=r"moments\.0"):
        with_weights(STATE, {"net.w": torch.ones(2)})


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
