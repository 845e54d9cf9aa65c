import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.epochs import iterate_shards, plan_epoch, seed_generators, split_shard
from tuner.vision.recipe import Augmentation

CPU = torch.device("cpu")


def drawn():
    return torch.rand(2).tolist(), random.random(), np.random.rand()


def seed_all():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)


def test_seeded_sets_all_global_generators_and_restores_them():
    seed_all()
    with seed_generators(3):
        first = drawn()
    after = drawn()
    with seed_generators(3):
        assert drawn() == first
    with seed_generators(2**40):
        assert drawn() != first
    seed_all()
    assert drawn() == after
    seed_all()
    with pytest.raises(ValueError, match="inside"), seed_generators(3):
        raise ValueError("inside")
    assert drawn() == after


@given(st.integers(0, 200), st.integers(1, 70), st.integers(1, 6))
def test_shards_count_each_position_once_over_the_ranks(count, batch_size, world_size):
    ranks = [
        list(
            iterate_shards(
                count, batch_size=batch_size, rank=rank, world_size=world_size
            )
        )
        for rank in range(world_size)
    ]
    positions = list(range(count))
    batches = [positions[i : i + batch_size] for i in range(0, count, batch_size)]
    assert {len(shards_of_rank) for shards_of_rank in ranks} == {
        len(batches)
    }  # every rank takes part in every batch
    for batch, *parts in zip(batches, *ranks, strict=True):
        counted = [positions[part.positions] for part in parts if part.count]
        assert sorted(itertools.chain(*counted)) == batch
        assert [len(shards_of_rank) for shards_of_rank in counted] == [
            part.count for part in parts if part.count
        ]
        assert {part.global_count for part in parts} == {len(batch)}
        assert all(
            len(positions[part.positions]) == max(part.count, 1) for part in parts
        )
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
def test_micro_shards_hold_all_images_in_equally_many_parts_on_every_rank(
    count, batch_size, world_size, size
):
    counted = []
    numbers = []
    for rank in range(world_size):
        of_rank = []
        for shard in iterate_shards(
            count, batch_size=batch_size, rank=rank, world_size=world_size
        ):
            parts = split_shard(shard, size=size, world_size=world_size)
            of_rank.append(len(parts))
            images = [range(count)[part.positions][: part.count] for part in parts]
            assert all(len(part) <= size for part in images)
            assert all(len(range(count)[part.positions]) >= 1 for part in parts)
            assert {part.global_count for part in parts} == {shard.global_count}
            counted += [position for part in images for position in part]
        numbers.append(of_rank)
    assert sorted(counted) == list(range(count))
    assert numbers == [numbers[0]] * world_size


def test_plan_epoch_depends_on_seed_and_epoch_only():
    torch.manual_seed(1)
    first = plan(seed=3, epoch=4)
    assert first.order_N.sort().values.tolist() == list(range(100, 150))
    torch.manual_seed(2)
    assert torch.equal(first.order_N, plan(seed=3, epoch=4).order_N)
    assert torch.equal(first.draws.row_N, plan(seed=3, epoch=4).draws.row_N)
    for other in (plan(seed=4, epoch=3), plan(seed=3, epoch=5), plan(seed=4, epoch=4)):
        assert not torch.equal(first.order_N, other.order_N)
        assert not torch.equal(first.draws.row_N, other.draws.row_N)
