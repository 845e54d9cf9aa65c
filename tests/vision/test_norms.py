import pytest
import torch
from test_image_classifier import TINY
from torch import nn

from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.norms import norm_scales, set_norm_momentum

SMALL = {**TINY, "model": "cnn", "width": 4, "lr": 0.1}


def layers():
    return nn.Sequential(
        nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.GroupNorm(1, 2), nn.BatchNorm2d(2, affine=False)
    )


def test_a_momentum_is_set_in_all_batch_norms_or_left():
    model = layers()
    set_norm_momentum(model, None)
    assert [model[1].momentum, model[3].momentum] == [0.1, 0.1]
    set_norm_momentum(model, 0.4)
    assert [model[1].momentum, model[3].momentum] == [0.4, 0.4]


def test_the_scales_of_norms_that_have_any():
    assert norm_scales(layers(), train=False) == {"1.weight", "2.weight"}
    assert norm_scales(layers(), train=True) == frozenset()


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("freeze", [{}, {"freeze": "features.1", "unfreeze_epoch": 1}])
def test_scales_that_do_not_train_stay_1_and_all_else_trains(norm, freeze):
    learner = ImageClassifier({"train_norm_scales": False, "norm": norm, **freeze}, SMALL)
    before = {name: p.detach().clone() for name, p in learner.model.named_parameters()}
    for _ in range(2):
        learner.step()
    changed = {n for n, p in learner.model.named_parameters() if not torch.equal(p, before[n])}
    scales = norm_scales(learner.model, train=False)
    assert changed == before.keys() - scales
    assert all((before[name] == 1).all() for name in scales)


def test_a_larger_momentum_forgets_the_first_statistics():
    whole = {**SMALL, "batch_size": 49, "lr": 1e-9}
    learners = [ImageClassifier({"norm_momentum": m}, whole) for m in (None, 1.0)]
    means = []
    for learner in learners:
        learner.step()
        means.append(learner.model.features[1].running_mean.clone())
    assert torch.allclose(means[0], 0.1 * means[1])
