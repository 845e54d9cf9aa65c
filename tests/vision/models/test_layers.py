import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tuner.vision.models._layers import GlobalMax, GlobalMean, Scale, in_sequence, norm_layer


def test_norm_layer_chooses_by_name():
    assert isinstance(norm_layer("batch", 12), nn.BatchNorm2d)
    assert isinstance(norm_layer("group", 12), nn.GroupNorm)
    assert [norm_layer("group", channels).num_groups for channels in (16, 12, 7)] == [8, 4, 1]


@given(st.integers(1, 4096))
def test_norm_layer_groups_divide_the_channels(channels):
    groups = norm_layer("group", channels).num_groups
    assert channels % groups == 0
    assert groups <= 8


def test_global_mean_max_and_scale():
    x = torch.arange(8.0).view(1, 2, 2, 2)
    assert GlobalMean()(x).tolist() == [[1.5, 5.5]]
    assert GlobalMax()(x).tolist() == [[3, 7]]
    assert Scale(0.5)(GlobalMax()(x)).tolist() == [[1.5, 3.5]]


def test_in_sequence_names_the_state():
    made = in_sequence(stem=nn.Conv2d(1, 2, 1, bias=False), head=nn.Linear(2, 1))
    assert list(made.state_dict()) == ["stem.weight", "head.weight", "head.bias"]
