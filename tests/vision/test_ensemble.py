import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tuner.vision.blueprint import Blueprint
from tuner.vision.ensemble import (
    Ensemble,
    average_weights,
    build_ensemble,
    find_differing_norms,
    join_weights,
)

CNN = {"in_channels": 1, "image_size": 8, "num_classes": 10}


def plan(width=4, norm="batch"):
    return Blueprint(name="cnn", settings={"width": width, "norm": norm}, **CNN)


def weights(blueprint, seed):
    torch.manual_seed(seed)
    return dict(blueprint.initialize_model().state_dict())


def test_ensemble_has_the_mean_of_the_probabilities():
    plans = plan(4), plan(8), plan(4)
    several = [weights(each, seed) for seed, each in enumerate(plans)]
    ensemble = build_ensemble(plans, join_weights(several))
    x_NCHW = torch.randn(3, 1, 8, 8)
    members = [
        each.build(w)(x_NCHW).softmax(1) for each, w in zip(plans, several, strict=True)
    ]
    expected_NK = torch.stack(members).mean(0)
    assert torch.allclose(ensemble(x_NCHW).softmax(1), expected_NK, atol=1e-6)
    assert ensemble.state_dict().keys() == join_weights(several).keys()
    assert not ensemble.training


def test_ensemble_members_get_the_image_itself():
    inplace = nn.Sequential(nn.ReLU(inplace=True), nn.Flatten())
    x_NCHW = torch.tensor([[[[-1.0, 2.0]]]])
    expected_NK = torch.tensor([[0.0, 2.0], [-1.0, 2.0]]).softmax(1).mean(0)
    ensemble = Ensemble([inplace, nn.Flatten()])
    assert torch.allclose(ensemble(x_NCHW).softmax(1), expected_NK)


def test_ensemble_of_half_precision_computes_in_float32():
    members = [nn.Flatten(), nn.Flatten()]
    assert Ensemble(members)(torch.ones(1, 3, 1, 1).half()).dtype == torch.float32
    assert Ensemble(members)(torch.ones(1, 3, 1, 1).double()).dtype == torch.float64


@pytest.mark.parametrize("member", [0, 1])
def test_ensemble_of_other_weights_raises(member):
    plans = plan(), plan()
    both = join_weights([weights(each, 0) for each in plans])
    del both[next(name for name in both if name.startswith(f"members.{member}."))]
    with pytest.raises(RuntimeError, match="Missing key"):
        build_ensemble(plans, both)


@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1
    )
)
def test_average_is_the_mean_and_between_the_members(values):
    members = [
        {"w": torch.tensor(v), "n": torch.tensor(k)} for k, v in enumerate(values)
    ]
    means = average_weights(members)
    stacked = torch.tensor(values)
    mean = stacked.double().mean(0)
    assert torch.allclose(means["w"].double(), mean, rtol=1e-6)
    assert torch.equal(means["w"], means["w"].clamp(*stacked.aminmax(dim=0)))
    assert (means["w"].dtype, means["n"].item()) == (torch.float32, 0)


def test_renewed_norms_are_those_whose_statistics_differ():
    first = weights(plan(), 0)
    second = weights(plan(), 1)
    names = [name for name in first if name.endswith(".running_mean")]
    assert find_differing_norms([first, second]) == []
    second[names[0]] += 1
    assert find_differing_norms([first, second]) == [names[0].rpartition(".")[0]]
    assert find_differing_norms([first]) == []
