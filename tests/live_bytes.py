"""A budget of bytes for the tensors that are alive, kept by raising torch's own OutOfMemoryError.

    with LiveBytes(budget=10 << 20) as memory:
        learner.step()
    memory.peak

It counts the storages that operators make while it is active, and forgets one when it is freed:
saved activations count for as long as the graph holds them, as on a card.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """`live` and `peak` bytes; over `budget` the operator that asked for more raises.

    `raises` makes the error: torch.OutOfMemoryError unless said otherwise.
    """

    def __init__(self, budget=None, raises=torch.OutOfMemoryError):
        super().__init__()
        self.budget = budget
        self.raises = raises
        self.live = self.peak = self.refused = 0
        self._known = weakref.WeakValueDictionary()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for storage in storages(args, kwargs):
            self._known.setdefault(storage._cdata, storage)  # from before: not counted
        out = function(*args, **(kwargs or {}))
        for storage in storages(out):
            self._count(storage)
        if self.budget is not None and self.live > self.budget:
            self.refused += 1
            raise self.raises(f"CUDA out of memory. Tried to allocate for {function}.")
        self.peak = max(self.peak, self.live)
        return out

    def _count(self, storage):
        if storage._cdata in self._known:
            return
        self._known[storage._cdata] = storage
        self.live += storage.nbytes()
        weakref.finalize(storage, self._forget, storage.nbytes()).atexit = False

    def _forget(self, size):
        self.live -= size


def storages(*values):
    leaves = tree_leaves(values)
    return [leaf.untyped_storage() for leaf in leaves if isinstance(leaf, torch.Tensor)]
