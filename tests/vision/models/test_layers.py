import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tuner.vision.models._layers import GlobalMax, GlobalMean, Scale, in_sequence, norm_layer


def test_names_choose_the_layer():
    assert isinstance(norm_layer("batch", 12), nn.BatchNorm2d)
    assert isinstance(norm_layer("group", 12), nn.GroupNorm)


@given(st.integers(1, 4096))
def test_groups_divide_the_channels_and_are_at_most_eight(channels):
    groups = norm_layer("group", channels).num_groups
    assert channels % groups == 0
    assert groups <= 8


@pytest.mark.parametrize(("channels", "groups"), [(16, 8), (12, 4), (7, 1)])
def test_group_counts(channels, groups):
    assert norm_layer("group", channels).num_groups == groups


def test_means_maxima_and_factors():
    x = torch.arange(8.0).view(1, 2, 2, 2)
    assert GlobalMean()(x).tolist() == [[1.5, 5.5]]
    assert GlobalMax()(x).tolist() == [[3, 7]]
    assert Scale(0.5)(GlobalMax()(x)).tolist() == [[1.5, 3.5]]


def test_names_are_those_of_the_state():
    made = in_sequence(stem=nn.Conv2d(1, 2, 1, bias=False), head=nn.Linear(2, 1))
    assert list(made.state_dict()) == ["stem.weight", "head.weight", "head.bias"]
