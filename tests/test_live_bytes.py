import gc

import pytest
import torch
from live_bytes import LiveBytes

KIB = 1024


def test_it_counts_what_is_alive():
    with LiveBytes() as memory:
        first = torch.zeros(KIB, dtype=torch.uint8)
        view = first[: KIB // 2].view(2, -1)
        assert memory.live == KIB
        second = first + 1
        assert memory.live == 2 * KIB
        del first
        assert memory.live == 2 * KIB  # the view holds it
        del view, second
    assert memory.live == 0
    assert memory.peak == 2 * KIB


def test_a_graph_holds_its_activations():
    weight = torch.ones(KIB, requires_grad=True)
    with LiveBytes() as memory:
        out = (weight * 2).exp().sum()
        held = memory.live
        assert held == 4 * KIB + 4  # the result of exp, which its gradient needs, and the sum
        out.backward()
        del out
    weight.grad = None
    gc.collect()
    assert memory.live == 0


def test_over_the_budget_it_raises_torchs_own_error_and_keeps_nothing():
    with LiveBytes(budget=KIB) as memory:
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(2 * KIB, dtype=torch.uint8)
        gc.collect()
        assert memory.live == 0
        torch.zeros(KIB, dtype=torch.uint8)
    assert memory.refused == 1
