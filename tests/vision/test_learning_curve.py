"""Heads by least squares, and the learning curve of them."""

from dataclasses import replace

import pytest
import tiny_images
import torch
from torch import nn

from tuner.vision.batches import ImageSet
from tuner.vision.features import Features
from tuner.vision.learning_curve import HeldOutHeads, compute_learning_curve


def drawn(count, *, apart, groups_N=None):
    """(features, images) of three classes whose means are `apart` standard deviations from 0."""
    generator = torch.Generator().manual_seed(0)
    labels_N = torch.arange(count) % 3
    means_NF = apart * nn.functional.one_hot(labels_N, 60)
    views_NVF = torch.randn(count, 2, 60, generator=generator) + means_NF.unsqueeze(1)
    info = replace(tiny_images.INFO, classes=tuple("abc"))
    splits = {
        "train": torch.arange(0, count, 2),
        "validation": torch.arange(1, count, 2),
    }
    images = ImageSet(info, views_NVF.flatten(1), labels_N, splits, groups_N)
    return Features(views_NVF[:, None], "head"), images


def test_learning_curve_falls_where_more_images_help():
    curve = compute_learning_curve(*drawn(600, apart=1.5))
    assert [entry["images"] for entry in curve] == [120, 240, 480]
    quarter, half, whole = (entry["errors"] for entry in curve)
    assert quarter > half > whole > 0
    low, high = curve[-1]["gain"]
    assert 0 < low < half - whole < high
    assert compute_learning_curve(*drawn(600, apart=1.5)) == curve


def test_learning_curve_of_features_that_say_nothing_is_flat():
    low, high = compute_learning_curve(*drawn(600, apart=0.0))[-1]["gain"]
    assert low < 0 < high


@pytest.mark.parametrize(("count", "entries"), [(24, 0), (25, 3)])
def test_learning_curve_needs_a_few_images(count, entries):
    assert len(compute_learning_curve(*drawn(count, apart=1.0))) == entries


def test_learning_curve_does_not_look_at_the_test_split():
    features, images = drawn(600, apart=1.5)
    fewer = replace(
        images, splits={**images.splits, "validation": torch.arange(1, 100, 2)}
    )
    assert compute_learning_curve(features, fewer)[-1]["images"] == round(350 * 0.8)


def test_heads_have_not_seen_copies_of_the_images_that_they_judge():
    features, images = drawn(400, apart=0.0, groups_N=torch.arange(200).repeat(2))
    features.views_NUMF[200:] = features.views_NUMF[:200]
    images.labels_N[200:] = images.labels_N[:200]
    assert (
        HeldOutHeads(features, images, torch.arange(400)).compute_errors(1).mean() > 0.5
    )
    apart = replace(images, groups_N=None)
    assert (
        HeldOutHeads(features, apart, torch.arange(400)).compute_errors(1).mean() < 0.5
    )


def test_scores_are_about_probabilities():
    features, images = drawn(600, apart=1.0)
    [scores_NK] = HeldOutHeads(features, images, torch.arange(600)).compute_scores()
    assert torch.allclose(scores_NK.sum(1), torch.ones(600), atol=1e-3)
    is_right_N = scores_NK.argmax(1) == images.labels_N
    assert abs(scores_NK.max(1).values.mean() - is_right_N.float().mean()) < 0.1
