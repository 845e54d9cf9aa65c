import pytest
import torch
from torch import nn

from tuner.classifier.collectives import Ranks

CPU = torch.device("cpu")


def test_one_rank_does_nothing():
    ranks = Ranks(0, 1, CPU)
    model = nn.Linear(1, 1)
    assert ranks.wrapped(model, model) is model is ranks.synchronised(model)
    assert ranks.reduced([1.0, 2.0]) == [1.0, 2.0]
    assert ranks.smallest(3) == 3
    model.weight.grad = torch.ones(1, 1)
    assert ranks.used_by_any([*model.parameters()]) == [True, False]
    with ranks.without_exchange(model):
        pass


def test_several_ranks_need_a_process_group():
    with pytest.raises(RuntimeError, match="process group"):
        Ranks(0, 2, CPU)
