"""What a trial's model is before its first step: what it draws, and which images it learns from."""

import pytest
import torch

from tuner.vision import new_model as models
from tuner.vision.augment import Augmentation
from tuner.vision.batches import Batcher, image_set
from tuner.vision.blueprint import blueprint_of
from tuner.vision.collectives import Ranks
from tuner.vision.new_model import new_model
from tuner.vision.precision import precision_for
from tuner.vision.settings import settings_of_trial

CPU = torch.device("cpu")


def made(**settings):
    of_trial = settings_of_trial({"dataset": "tiny", "batch_size": 16, **settings}, {}, split=1)
    images = image_set("tiny", data_dir=None, split_seed=0, device=CPU)
    return new_model(
        of_trial,
        blueprint_of(of_trial, images.info),
        Batcher(images, dtype=torch.float32, augmentation=Augmentation(4)),
        precision=precision_for(of_trial, CPU),
        ranks=Ranks(0, 1, CPU),
        images=images.info.train,
        split=1,
    )


def test_its_weights_follow_from_the_seed_alone_and_disturb_no_other_draw():
    torch.manual_seed(3)
    one, drawn = made(model="cnn", width=4, seed=7), torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    same, other = (made(model="cnn", width=4, seed=seed) for seed in (7, 8))
    weights, again, others = (next(model.parameters()) for model in (one, same, other))
    assert torch.equal(weights, again)
    assert not torch.equal(weights, others)
    assert weights.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("count", [2, 1000])
def test_it_learns_from_the_first_images_of_the_training_split_as_they_are(count, monkeypatch):
    monkeypatch.setattr(models, "PREPARING", count)
    images = image_set("tiny", data_dir=None, split_seed=0, device=CPU)
    plain = Batcher(images, dtype=torch.float32, augmentation=Augmentation())
    wanted = made(model="speednet", width=8)
    wanted.whitening.learn(plain.batch(images.splits["train"][:count])[0])
    learned = made(model="speednet", width=8).whitening.weight
    assert torch.equal(learned, wanted.whitening.weight)
