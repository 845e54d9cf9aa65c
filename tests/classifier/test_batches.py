import gc
import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import tiny_images
import torch
from hypothesis import given
from hypothesis import strategies as st

from tuner.classifier import batches
from tuner.classifier.augment import Augmentation
from tuner.classifier.batches import (
    Batcher,
    free_bytes,
    home_of,
    image_set,
    micro_shards,
    plan_epoch,
    shards,
    trained_images,
)
from tuner.classifier.catalog import DATASETS

CPU = torch.device("cpu")
CUDA = torch.device("cuda")


@given(st.integers(0, 200), st.integers(1, 70), st.integers(1, 6))
def test_over_the_ranks_each_position_counts_exactly_once(count, batch_size, world_size):
    ranks = [
        list(shards(count, batch_size=batch_size, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    positions = list(range(count))
    batches = [positions[i : i + batch_size] for i in range(0, count, batch_size)]
    assert {len(own) for own in ranks} == {len(batches)}  # every rank takes part in every batch
    for batch, *parts in zip(batches, *ranks, strict=True):
        counted = [positions[part.positions] for part in parts if part.count]
        assert sorted(itertools.chain(*counted)) == batch
        assert [len(own) for own in counted] == [part.count for part in parts if part.count]
        assert {part.global_count for part in parts} == {len(batch)}
        assert all(len(positions[part.positions]) == max(part.count, 1) for part in parts)
        assert max(p.count for p in parts) - min(p.count for p in parts) <= 1


def plan(*, seed=0, epoch=0, augmentation=None, rows=range(100, 150)):
    return plan_epoch(
        torch.tensor(rows),
        seed=seed,
        epoch=epoch,
        image_size=32,
        augmentation=augmentation or Augmentation(),
        device=CPU,
    )


@given(st.integers(1, 200), st.integers(1, 70), st.integers(1, 6), st.integers(1, 40))
def test_parts_of_shards_hold_the_same_images_and_are_as_many_on_every_rank(
    count, batch_size, world_size, size
):
    counted, numbers = [], []
    for rank in range(world_size):
        own = []
        for shard in shards(count, batch_size=batch_size, rank=rank, world_size=world_size):
            parts = micro_shards(shard, size=size, world_size=world_size)
            own.append(len(parts))
            images = [range(count)[part.positions][: part.count] for part in parts]
            assert all(len(part) <= size for part in images)
            assert all(len(range(count)[part.positions]) >= 1 for part in parts)
            assert {part.global_count for part in parts} == {shard.global_count}
            counted += [position for part in images for position in part]
        numbers.append(own)
    assert sorted(counted) == list(range(count))
    assert numbers == [numbers[0]] * world_size


def test_an_epoch_is_a_permutation_of_the_split():
    assert plan().order_N.sort().values.tolist() == list(range(100, 150))


def test_seed_and_epoch_alone_decide():
    torch.manual_seed(1)
    first = plan(seed=3, epoch=4)
    torch.manual_seed(2)
    assert torch.equal(first.order_N, plan(seed=3, epoch=4).order_N)
    assert torch.equal(first.draws.row_N, plan(seed=3, epoch=4).draws.row_N)
    for other in (plan(seed=4, epoch=3), plan(seed=3, epoch=5), plan(seed=4, epoch=4)):
        assert not torch.equal(first.order_N, other.order_N)
        assert not torch.equal(first.draws.row_N, other.draws.row_N)


@pytest.fixture
def images():
    return image_set("tiny", data_dir=None, split_seed=0, device=CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pixels_are_normalised_by_channel(images, dtype):
    batcher = Batcher(images, dtype=dtype, augmentation=Augmentation())
    x, labels = batcher.batch(torch.tensor([5, 2]))
    raw = images.rows_NP[[5, 2]].view(2, 32, 32, 3).permute(0, 3, 1, 2)
    expected = (raw.double() / 255 - 0.5) / 0.25
    assert x.dtype == dtype
    assert (x - expected).abs().max() <= (2e-6 if dtype == torch.float32 else 1e-14)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert labels.tolist() == images.labels_N[[5, 2]].tolist()


def test_a_training_batch_without_augmentation_is_the_plain_one(images):
    batcher = Batcher(images, dtype=torch.float32, augmentation=Augmentation())
    epoch = plan(rows=range(20))
    x, labels = batcher.training_batch(epoch, slice(1, 9, 2))
    plain, plain_labels = batcher.batch(epoch.order_N[1:9:2])
    assert torch.equal(x, plain)
    assert torch.equal(labels, plain_labels)


@pytest.mark.parametrize(
    "augmentation", [Augmentation(4), Augmentation(flip=True), Augmentation(cutout=8)]
)
def test_each_augmentation_changes_training_batches(images, augmentation):
    epoch = plan(rows=range(20), augmentation=augmentation)
    changed, plain = (
        Batcher(images, dtype=torch.float32, augmentation=which).training_batch(epoch, slice(20))[0]
        for which in (augmentation, Augmentation())
    )
    assert not torch.equal(changed, plain)


@pytest.mark.parametrize("mixed", [{}, {"mixup": 0.4, "cutmix": 1.0}], ids=["alone", "mixed"])
def test_an_epoch_augmented_at_once_has_the_same_batches(images, mixed, monkeypatch):
    monkeypatch.setattr(batches, "AT_ONCE", 7)
    augmentation = Augmentation(4, flip=True, cutout=8, crop_fill="reflect", **mixed)
    batcher = Batcher(images, dtype=torch.float32, augmentation=augmentation)
    epoch = plan(rows=range(20), augmentation=augmentation)
    whole = batcher.at_once(epoch)
    for positions in (slice(0, 8), slice(8, 20), slice(1, 20, 2)):
        (x, labels), (wanted, wanted_labels) = (
            batcher.training_batch(each, positions) for each in (whole, epoch)
        )
        assert torch.equal(x, wanted)
        assert torch.equal(labels, wanted_labels)
        assert x.is_contiguous(memory_format=torch.channels_last)
        x.zero_()  # as a first layer may that works in place
        assert torch.equal(batcher.training_batch(whole, positions)[0], wanted)


@given(st.integers(1, 50), st.integers(1, 50))
def test_a_last_batch_is_dropped_or_filled_with_the_first_images(count, batch_size):
    batch_size = min(batch_size, count)
    trained = partial(trained_images, count, batch_size=batch_size)
    dropped, filled = trained(last_batch="drop"), trained(last_batch="fill")
    assert trained(last_batch="short") == count
    assert dropped <= count <= filled < count + batch_size
    assert dropped % batch_size == filled % batch_size == 0
    assert count - dropped < batch_size
    epoch = plan(rows=range(count), augmentation=Augmentation(mixup=0.3)).of(filled)
    assert epoch.order_N.tolist() == [*epoch.order_N[:count], *epoch.order_N[: filled - count]]
    parts = (epoch.draws, epoch.mixes, epoch.partners.draws)
    for values in (epoch.partners.order_N, *(v for part in parts for v in vars(part).values())):
        assert torch.equal(values[count:], values[: filled - count])
    unchanged = plan(rows=range(count))
    assert unchanged.of(dropped) is unchanged


def test_an_image_is_augmented_alike_on_any_number_of_ranks(images):
    augmentation = Augmentation(4, flip=True, cutout=8)
    batcher = Batcher(images, dtype=torch.float32, augmentation=augmentation)
    epoch = plan(rows=range(20), augmentation=augmentation)
    whole, _ = batcher.training_batch(epoch, slice(0, 10))
    (shard, *_) = shards(20, batch_size=10, rank=1, world_size=3)
    part, _ = batcher.training_batch(epoch, shard.positions)
    assert torch.equal(part, whole[1::3])


def test_batches_do_not_change_the_images(images):
    before = images.rows_NP.clone()
    augmentation = Augmentation(4, flip=True, cutout=8)
    batcher = Batcher(images, dtype=torch.float32, augmentation=augmentation)
    batcher.training_batch(plan(rows=range(20), augmentation=augmentation), slice(20))
    assert torch.equal(images.rows_NP, before)


def test_images_of_the_host_go_to_the_device_through_pinned_memory(images, monkeypatch):
    pinned = []

    def pin(values):
        pinned.append(values.dtype)
        return values

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    meta = torch.device("meta")  # stands for a GPU: it has shapes and a place, no values
    batcher = Batcher(images, dtype=torch.float32, augmentation=Augmentation(), device=meta)
    rows = torch.arange(20)
    epoch = plan_epoch(
        rows,
        seed=0,
        epoch=0,
        image_size=32,
        augmentation=Augmentation(),
        device=meta,
        home=CPU,
    )
    assert (epoch.order_N.device, epoch.draws.flip_N.device) == (CPU, meta)
    for x, labels in (batcher.training_batch(epoch, slice(4)), batcher.batch(rows[:4])):
        assert (x.device, labels.device) == (meta, meta)
        assert (x.shape, labels.shape) == ((4, 3, 32, 32), (4,))
    assert pinned == [torch.uint8, torch.int64] * 2
    Batcher(images, dtype=torch.float32, augmentation=Augmentation()).batch(rows[:4])
    assert len(pinned) == 4  # what is at home is not pinned


def test_alternating_flips_mirror_each_image_in_every_second_epoch():
    augmentation = Augmentation(flip=True, alternating_flip=True)

    def flipped(epoch, seed=0):
        planned = plan_epoch(
            torch.arange(200),
            seed=seed,
            epoch=epoch,
            image_size=32,
            augmentation=augmentation,
            device=CPU,
        )
        return set(planned.order_N[planned.draws.flip_N].tolist())

    first, second = flipped(0), flipped(1)
    assert first | second == set(range(200))
    assert not first & second
    assert (flipped(2), flipped(3)) == (first, second)
    assert 70 < len(first) < 130
    assert flipped(0, seed=1) != first


def tiny(*, split_seed=0):
    return image_set("tiny", data_dir=None, split_seed=split_seed, device=CPU)


def test_holds_the_images_as_rows_of_bytes():
    arrays = tiny_images.load(Path(), split_seed=0)
    images = tiny()
    assert images.rows_NP.dtype == torch.uint8
    assert torch.equal(images.rows_NP.view(-1, 32, 32, 3), torch.tensor(arrays.images_NHWC))
    assert torch.equal(images.labels_N, torch.tensor(arrays.labels_N))
    assert {name: len(rows) for name, rows in images.splits.items()} == {
        "train": 49,
        "validation": 21,
        "test": 13,
    }


def test_is_loaded_once_a_process():
    assert tiny() is tiny()
    assert tiny(split_seed=1) is not tiny()


def test_a_few_are_kept_at_most():
    for seed in range(10):
        tiny(split_seed=seed)
    gc.collect()
    kept = [o for o in gc.get_objects() if type(o).__name__ == "ImageSet"]
    assert len(kept) <= 2


def test_a_read_only_array_gives_no_warning(monkeypatch, recwarn):
    def load(folder, *, split_seed):
        arrays = tiny_images.load(folder, split_seed=split_seed)
        arrays.images_NHWC.flags.writeable = False
        return arrays

    monkeypatch.setitem(DATASETS, "read only", replace(tiny_images.INFO, load=load))
    images = image_set("read only", data_dir=None, split_seed=0, device=CPU)
    assert torch.equal(images.rows_NP, tiny().rows_NP)
    assert not recwarn.list


@pytest.mark.parametrize(("size", "home"), [(499, "cuda"), (500, "cuda"), (501, "cpu")])
def test_images_that_would_fill_a_gpu_stay_on_the_host(size, home, monkeypatch):
    monkeypatch.setattr("tuner.classifier.batches.free_bytes", lambda device: 1000)
    assert home_of(size, CUDA).type == home
    assert home_of(size, torch.device("cpu")).type == "cpu"


def test_what_a_process_may_take_of_a_shared_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (900, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)
    assert free_bytes(CUDA) == 900
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 0.25)
    assert free_bytes(CUDA) == 150
