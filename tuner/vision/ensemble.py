"""Models made of several trained ones: the average of their weights, and an ensemble."""

# M members, N images, C channels, H W pixels, K classes

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from tuner.vision.blueprint import Blueprint

Weights = Mapping[str, Tensor]
_MEMBERS = "members"  # the prefix of an ensemble's weights


class Ensemble(nn.Module):
    """Maps x_NCHW to logits_NK whose softmax is the mean of the members' probabilities."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        # Copies, since a first layer may work in place
        parts = [member(x_NCHW.clone()) for member in self.members]
        exact = torch.promote_types(parts[0].dtype, torch.float32)
        logs_MNK = torch.stack(
            [logits_NK.log_softmax(1, dtype=exact) for logits_NK in parts]
        )
        return logs_MNK.logsumexp(0) - math.log(len(parts))


def join_weights(members: Sequence[Weights]) -> dict[str, Tensor]:
    """The weights of an ensemble by those of its members."""
    return {
        f"{_MEMBERS}.{number}.{name}": tensor
        for number, weights in enumerate(members)
        for name, tensor in weights.items()
    }


def build_ensemble(plans: Sequence[Blueprint], weights: Weights) -> Ensemble:
    """The ensemble of the networks of `plans` with these weights. Raises as `Blueprint.build`."""
    members = []
    for number, plan in enumerate(plans):
        prefix = f"{_MEMBERS}.{number}."
        own = {
            n.removeprefix(prefix): w
            for n, w in weights.items()
            if n.startswith(prefix)
        }
        members.append(plan.build(own))
    return Ensemble(members).eval()


def average_weights(members: Sequence[Weights]) -> dict[str, Tensor]:
    """The mean of each tensor, in float64; integers are those of the first member. Copies."""
    means = {}
    for name, first in members[0].items():
        if first.is_floating_point():
            mean = torch.stack([weights[name].double() for weights in members]).mean(0)
            means[name] = mean.to(first.dtype)
        else:
            means[name] = first.clone()
    return means


def find_differing_norms(members: Sequence[Weights]) -> list[str]:
    """The BatchNorm layers whose statistics differ between members: an average needs new ones."""
    statistics = [
        name for name in members[0] if name.endswith((".running_mean", ".running_var"))
    ]
    differing = [
        name.rpartition(".")[0]
        for name in statistics
        if any(
            not torch.equal(members[0][name], weights[name]) for weights in members[1:]
        )
    ]
    return list(dict.fromkeys(differing))
