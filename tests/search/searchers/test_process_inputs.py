"""What Gaussian processes are fitted to."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.search.searchers._process_inputs import Features, normalize_losses
from tuner.spec.space.encoding import Encoding
from tuner.testing.spaces import spaces


@settings(max_examples=25)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_targets_keep_the_order_of_losses(losses):
    results = normalize_losses(np.array(losses))
    assert (np.diff(results[np.argsort(losses, kind="stable")]) >= -1e-9).all()
    assert math.isfinite(float(results.sum()))


@given(spaces, st.integers(0, 99))
def test_point_of_features_returns_the_point(space, seed):
    encoding = Encoding(space)
    (u_D,) = encoding.snap(np.random.default_rng(seed).random((1, len(encoding))))
    features = Features(encoding)
    x_NF = features(u_D[None])
    assert (x_NF <= features.largest_F + 1e-12).all()
    assert encoding.decode(features.decode_point(x_NF[0])) == encoding.decode(u_D)
