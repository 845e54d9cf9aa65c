from dataclasses import replace

import pytest
import torch

from tuner.vision.batches import Batcher, choose_device, load_image_set, split_for_trial
from tuner.vision.catalog import DataChoice
from tuner.vision.recipe import Augmentation
from tuner.vision.settings import ClassifierSettings

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


def tiny(*, split_seed=0):
    return load_image_set(DataChoice("tiny", split_seed=split_seed), CPU)


@pytest.fixture
def images():
    return tiny()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_normalises_pixels_by_channel(images, dtype):
    batcher = Batcher(images, dtype=dtype, augmentation=Augmentation())
    x, labels = batcher.build_batch(torch.tensor([5, 2]))
    raw = images.rows_NP[[5, 2]].view(2, 32, 32, 3).permute(0, 3, 1, 2)
    expected = (raw.double() / 255 - 0.5) / 0.25
    assert x.dtype == dtype
    assert (x - expected).abs().max() <= (2e-6 if dtype == torch.float32 else 1e-14)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert labels.tolist() == images.labels_N[[5, 2]].tolist()


def test_batches_of_images_on_the_host_use_pinned_memory(images, monkeypatch):
    pinned = []

    def pin(values):
        pinned.append(values.dtype)
        return values

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    how = {"dtype": torch.float32, "augmentation": Augmentation()}
    # Stands for a GPU: it has shapes and a place, no values
    meta = torch.device("meta")
    batcher = Batcher(images, **how, device=meta)
    epoch = batcher.plan_epoch(0, seed=0)
    assert (epoch.order_N.device, epoch.draws.flip_N.device) == (CPU, meta)
    rows = torch.arange(4)
    for x, labels in (
        batcher.build_training_batch(epoch, slice(4)),
        batcher.build_batch(rows),
    ):
        assert (x.device, labels.device) == (meta, meta)
        assert (x.shape, labels.shape) == ((4, 3, 32, 32), (4,))
    assert pinned == [torch.uint8, torch.int64] * 2
    Batcher(images, **how).build_batch(rows)
    assert len(pinned) == 4  # what is at home is not pinned


def test_image_set_keeps_two_sets():
    first = tiny(split_seed=0)
    second = tiny(split_seed=1)
    assert tiny(split_seed=0) is first
    assert tiny(split_seed=1) is second
    tiny(split_seed=2)
    assert tiny(split_seed=0) is not first


@pytest.mark.parametrize(("size", "home"), [(499, "cuda"), (500, "cuda"), (501, "cpu")])
def test_home_of_large_images_is_the_host(size, home):
    assert choose_device(size, CUDA, free=lambda device: 1000).type == home
    assert choose_device(size, CPU).type == "cpu"


def split_for(images, **settings):
    return split_for_trial(
        images, ClassifierSettings(dataset="tiny", batch_size=8, **settings)
    )


@pytest.mark.parametrize(("train_on", "count"), [("train+validation", 2), ("all", 3)])
def test_of_trial_on_several_splits_has_their_images_in_training(
    images, train_on, count
):
    merged = split_for(images, train_on=train_on)
    rows_N = torch.cat([*images.splits.values()][:count]).sort().values
    assert torch.equal(merged.splits["train"], rows_N)
    assert merged.info.train == len(rows_N)
    assert len(merged.splits["validation"]) == merged.info.validation == 0
    assert merged.splits["test"] is images.splits["test"]
    assert split_for(images) is images


def shares(images, rows):
    return torch.bincount(images.labels_N[rows], minlength=10) / len(rows)


def split_into_folds(images, settings):
    """The four folds, and the rows that each holds out: every image is in one of them."""
    folds = [split_for_trial(images, settings, fold=fold) for fold in range(4)]
    held_out = [fold.splits["validation"].tolist() for fold in folds]
    assert (
        sorted(row for rows in held_out for row in rows) == images.searched_N.tolist()
    )
    return folds, held_out


def test_folds_are_disjoint_stratified_and_follow_from_the_split_seed(images):
    settings = ClassifierSettings(dataset="tiny", folds=4, fold_epochs=1)
    folds, held_out = split_into_folds(images, settings)
    for fold, rows in zip(folds, held_out, strict=True):
        assert fold.searched_N.tolist() == images.searched_N.tolist()
        assert fold.splits["test"] is images.splits["test"]
        assert (fold.info.train, fold.info.validation) == (70 - len(rows), len(rows))
        apart = shares(images, rows) - shares(images, images.searched_N)
        assert apart.abs().max() < 1 / len(rows)
    for others in ({"seed": 1}, {"split_seed": 1}, {"seed": 1, "resplit": True}):
        other = split_for_trial(images, settings.model_copy(update=others))
        last = other.splits["validation"].tolist()
        assert (last == held_out[-1]) == (others == {"seed": 1})


def test_resplit_draws_a_stratified_split_of_the_same_sizes_from_the_seed(images):
    first, again, other = (
        split_for(images, resplit=True, seed=seed) for seed in (1, 1, 2)
    )
    rows = first.splits["validation"]
    assert rows.tolist() == again.splits["validation"].tolist()
    assert rows.tolist() != other.splits["validation"].tolist()
    assert first.searched_N.tolist() == images.searched_N.tolist()
    assert len(rows) == images.info.validation
    apart = shares(images, rows) - shares(images, images.searched_N)
    assert apart.abs().max() <= 1 / len(rows)


@pytest.mark.parametrize(
    "settings", [{"folds": 4, "fold_epochs": 1}, {"resplit": True}]
)
def test_of_trial_keeps_copies_on_one_side(images, settings):
    rows_N = torch.arange(len(images.labels_N))
    copied = replace(
        images, groups_N=rows_N // 2 * 2, labels_N=images.labels_N[rows_N // 2 * 2]
    )
    split = split_for_trial(
        copied, ClassifierSettings(dataset="tiny", batch_size=8, **settings)
    ).splits
    train = {*(split["train"] // 2).tolist()}
    validation = {*(split["validation"] // 2).tolist()}
    assert train.isdisjoint(validation)
    assert validation
