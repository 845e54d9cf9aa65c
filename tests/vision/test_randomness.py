import random

import numpy as np
import pytest
import torch

from tuner.vision.randomness import mixed, seeded


def drawn():
    return torch.rand(2).tolist(), random.random(), np.random.rand()


def test_all_global_generators_begin_at_the_seed_and_are_back_after_it():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with seeded(3):
        first = drawn()
    after = drawn()
    with seeded(3):
        assert drawn() == first
    with seeded(2**40):
        assert drawn() != first
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    assert drawn() == after


def test_they_are_back_after_an_error():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = drawn()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with pytest.raises(ValueError, match="inside"), seeded(3):
        raise ValueError("inside")
    assert drawn() == expected


def test_similar_numbers_mix_to_seeds_of_their_own():
    seeds = [mixed(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    assert len(set(seeds)) == 27
    assert mixed(0, 1) == mixed(0, 1)
