"""Muon for the weights of hidden layers, beside SGD for all other parameters.

Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

Group = dict[str, Any]
_FILTERED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def hidden_weights(model: nn.Module) -> frozenset[str]:
    """The names of the weights of convolutions and linear layers but the first and last layer.

    The first layer may be one whose weight does not train.
    """
    weighted = [
        (name, layer)
        for name, layer in model.named_modules()
        if getattr(getattr(layer, "weight", None), "ndim", 0) >= 2
    ]
    hidden = [name for name, layer in weighted[1:-1] if isinstance(layer, _FILTERED)]
    return frozenset(f"{name}.weight" if name else "weight" for name in hidden)


class MuonBesideSGD(Optimizer):
    """torch's Muon, which takes matrices alone, for filters, and SGD for the other parameters.

    Each filter is a row of its matrix. Groups of the other parameters come first, and what either
    optimizer remembers is in one `state`, under the parameter it belongs to.

    sgd, muon: make the two optimizers of their groups.
    """

    def __init__(
        self,
        others: Sequence[Group],
        filters: Sequence[Group],
        *,
        sgd: Callable[..., Optimizer],
        muon: Callable[..., Optimizer],
    ) -> None:
        self._sgd = sgd(list(others))
        self._muon = muon([{**group, "params": _matrices(group)} for group in filters])
        own = [{**self._muon.defaults, **group} for group in filters]
        super().__init__([*self._sgd.param_groups, *own], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        others = len(self._sgd.param_groups)
        # Loading a state puts other groups and another state in place of those that there were
        self._sgd.state, self._sgd.param_groups = self.state, self.param_groups[:others]
        self._sgd.step()
        self._step_filters(self.param_groups[others:])

    def _step_filters(self, groups: Sequence[Group]) -> None:
        pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
        for own, group in zip(self._muon.param_groups, groups, strict=True):
            own.update({name: value for name, value in group.items() if name != "params"})
            pairs += zip(own["params"], group["params"], strict=True)
        trained = [(matrix, weight) for matrix, weight in pairs if weight.grad is not None]
        for matrix, weight in trained:
            assert weight.grad is not None
            # A view, or a copy where the channels come last in memory
            matrix.data, matrix.grad = weight.detach().flatten(1), weight.grad.flatten(1)
            self._muon.state[matrix] = self.state[weight]
        self._muon.step()
        for matrix, weight in trained:
            weight.copy_(matrix.view_as(weight))
            matrix.grad = None


def _matrices(group: Group) -> list[nn.Parameter]:
    return [nn.Parameter(weight.detach().flatten(1)) for weight in group["params"]]
