"""BatchNorm over all ranks on the host, as torch has it on CUDA alone: to test what surrounds it.

    with norms_over_ranks.on_the_host():
        ImageClassifier(..., rank=rank, world_size=2)

Every forward pass in training has an all_reduce in each norm layer, and so has every backward pass.
"""

from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel

from tuner.vision import collectives, replica

OVER_IMAGES = (0, 2, 3)


@contextmanager
def on_the_host():
    """Within it a Learner of several ranks on the host trains as on CUDA."""
    with (
        patch.object(nn.SyncBatchNorm, "forward", _forward),
        # "GPU only"
        patch.object(DistributedDataParallel, "_passing_sync_batchnorm_handle"),
        patch.object(collectives, "SHARING_NORMS", ("cpu",)),
        patch.object(replica, "OVERLAPPING", ("cpu",)),
    ):
        yield


def _forward(self, x):
    if not self.training:
        return nn.BatchNorm2d.forward(self, x)
    self.num_batches_tracked.add_(1)
    count = x.new_tensor([x.numel() // x.shape[1]])
    sums = torch.cat([x.sum(OVER_IMAGES), x.square().sum(OVER_IMAGES), count])
    sums = all_reduce(sums)
    n = sums[-1].detach()
    mean, square = (sums[:-1] / n).chunk(2)
    var = square - mean.square()
    self.running_mean.lerp_(mean.detach(), self.momentum)
    self.running_var.lerp_(var.detach() * n / (n - 1), self.momentum)
    scale = (var + self.eps).rsqrt() * self.weight
    return (x - _over(mean)) * _over(scale) + _over(self.bias)


def _over(values_C):
    return values_C[:, None, None]
