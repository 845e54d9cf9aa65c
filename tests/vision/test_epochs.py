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


def plan(*, seed=0, epoch=0, augmentation=None, rows=range(100, 150)):
    return plan_epoch(
        torch.tensor(rows),
        seed=seed,
        epoch=epoch,
        image_size=32,
        augmentation=augmentation or Augmentation(),
        device=CPU,
    )


@given(st.integers(0, 200), st.integers(1, 70), st.integers(1, 6), st.integers(1, 40))
def test_micro_shards_count_each_image_once_in_equally_many_parts_on_every_rank(
    count, batch_size, world_size, size
):
    batches = [
        range(start, min(start + batch_size, count))
        for start in range(0, count, batch_size)
    ]
    counted = [[] for _ in batches]
    numbers = []
    for rank in range(world_size):
        sharding = {"batch_size": batch_size, "rank": rank, "world_size": world_size}
        shards = list(iterate_shards(count, **sharding))
        parts = [split_shard(each, size=size, world_size=world_size) for each in shards]
        numbers.append([len(each) for each in parts])
        for number, batch in enumerate(batches):
            fair = len(batch) // world_size
            assert fair <= shards[number].count <= fair + 1
            for part in parts[number]:
                positions = range(count)[part.positions]
                assert len(positions) == max(part.count, 1) <= size
                assert part.global_count == len(batch)
                counted[number] += positions[: part.count]
    assert [sorted(positions) for positions in counted] == [*map(list, batches)]
    assert numbers == [numbers[0]] * world_size


def test_plan_epoch_depends_on_seed_and_epoch_only():
    torch.manual_seed(1)
    first = plan(seed=3, epoch=4)
    assert first.order_N.sort().values.tolist() == list(range(100, 150))
    torch.manual_seed(2)
    again = plan(seed=3, epoch=4)
    assert torch.equal(first.order_N, again.order_N)
    assert torch.equal(first.draws.row_N, again.draws.row_N)
    for seed, epoch in ((4, 3), (3, 5), (4, 4)):
        other = plan(seed=seed, epoch=epoch)
        assert not torch.equal(first.order_N, other.order_N)
        assert not torch.equal(first.draws.row_N, other.draws.row_N)
