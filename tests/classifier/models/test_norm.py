import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tuner.classifier.models.norm import norm_layer


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
