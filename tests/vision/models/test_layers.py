import torch
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.models._layers import GlobalMean, build_norm


@given(st.integers(1, 4096))
def test_norm_layer_groups_divide_the_channels(channels):
    groups = build_norm("group", channels).num_groups
    assert channels % groups == 0
    assert groups <= 8


def test_global_mean():
    x = torch.arange(8.0).view(1, 2, 2, 2)
    assert GlobalMean()(x).tolist() == [[1.5, 5.5]]
