import torch

from tuner.trial.host_copy import host_copy


def test_nothing_is_shared_with_the_original():
    weight = torch.nn.Parameter(torch.ones(2))
    state = {"a": [weight, (1, "x")], "b": {"c": None}}
    copy = host_copy(state)
    with torch.no_grad():
        weight += 1
    assert torch.equal(copy["a"][0], torch.ones(2))
    assert not copy["a"][0].requires_grad
    assert (copy["a"][1], copy["b"]) == ([1, "x"], {"c": None})
