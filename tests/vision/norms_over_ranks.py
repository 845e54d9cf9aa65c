"""BatchNorm over all ranks on the host, as torch has it on CUDA alone: to test what surrounds it.

    with norms_over_ranks.on_the_host():
        ImageClassifier(..., rank=rank, world_size=2)

Every forward pass in training has an all_reduce in each norm layer, and so has every backward pass.
"""

from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import distributed as dist
from torch import nn
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
    return _OverRanks.apply(x, self.weight, self.bias, self)


class _OverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, norm):
        count = x.new_tensor([x.numel() // x.shape[1]])
        sums = torch.cat([x.sum(OVER_IMAGES), x.square().sum(OVER_IMAGES), count])
        dist.all_reduce(sums)
        n = sums[-1]
        mean, square = (sums[:-1] / n).chunk(2)
        var = square - mean.square()
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(var * n / (n - 1), norm.momentum)
        scale = (var + norm.eps).rsqrt()
        normed = (x - _over(mean)) * _over(scale)
        ctx.save_for_backward(normed, weight, scale, n)
        return normed * _over(weight) + _over(bias)

    @staticmethod
    def backward(ctx, gradient):
        normed, weight, scale, n = ctx.saved_tensors
        sums = torch.stack(
            [gradient.sum(OVER_IMAGES), (gradient * normed).sum(OVER_IMAGES)]
        )
        means = sums.clone()
        dist.all_reduce(means)
        means /= n
        back = gradient - _over(means[0]) - normed * _over(means[1])
        return back * _over(weight * scale), sums[1], sums[0], None


def _over(values_C):
    return values_C[:, None, None]
