"""Heads that are fitted to features."""

import pytest
import tiny_images
import torch

from tuner.vision import feature_heads
from tuner.vision.batches import ImageSet
from tuner.vision.features import Features


@pytest.mark.parametrize("start", [0.0, 0.1])
def test_fewer_images_than_features_are_fitted_as_exactly(start):
    generator = torch.Generator().manual_seed(0)
    x_NF = torch.randn(20, 50, generator=generator)
    labels_N = torch.arange(20) % 3
    heads = [torch.nn.Linear(50, 3) for _ in range(2)]
    rows = [feature_heads._project_rows(x_NF, 3), feature_heads._Rows(x_NF)]
    assert rows[0].x_NF.shape == (20, 20)
    for head, some in zip(heads, rows, strict=True):
        torch.nn.init.constant_(head.weight, start)
        torch.nn.init.zeros_(head.bias)
        feature_heads._fit_regression(head, some, labels_N, strength=0.1)
    few, all_of_them = heads
    assert torch.allclose(few.weight, all_of_them.weight, atol=1e-3)
    assert torch.allclose(few(x_NF), all_of_them(x_NF), atol=1e-2)


def test_fit_head_gives_no_large_weight_to_a_feature_that_hardly_varies():
    labels_N = torch.arange(60) % 2
    signs_N = 2.0 * labels_N - 1
    noise_N = torch.randn(60, generator=torch.Generator().manual_seed(0))
    views_NVF = torch.stack([signs_N + noise_N, 1e-5 * signs_N], 1).unsqueeze(1)
    images = ImageSet(tiny_images.INFO, views_NVF.flatten(1), labels_N, {})
    rows = torch.arange(40), torch.arange(40, 60)
    w_KF, _ = feature_heads.fit_head(
        Features(views_NVF[:, None], "head"), images, *rows
    )
    assert w_KF[:, 1].abs().max() < w_KF[:, 0].abs().max()
