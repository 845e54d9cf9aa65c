"""The global random number generators, seeded for a while: for what a network draws by itself.

A network that ships draws nothing once it is built. One from elsewhere may: Dropout takes torch's
generator, others Python's or numpy's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def mixed(*numbers: int) -> int:
    """A seed from several numbers, such that similar ones lead to unrelated streams."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Within it all global generators begin at `seed`; afterwards they are where they were.

    device: whose generator is meant beside the CPU's.
    """
    on_cuda = device is not None and device.type == "cuda"
    python, arrays = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if on_cuda else []):
        torch.default_generator.manual_seed(seed)
        if on_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(arrays)
