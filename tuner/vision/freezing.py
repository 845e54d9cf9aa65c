"""Parameters and statistics that do not train."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from torch import nn

from tuner.errors import Fault
from tuner.vision.norms import BATCH_NORMS
from tuner.vision.settings import build_settings_error


def match_parameters(model: nn.Module, patterns: Sequence[str]) -> frozenset[str]:
    """The names of the parameters that any of the shell-style `patterns` matches.

    A pattern that names a layer means all of its parameters. Raises SpecError for a pattern that
    matches nothing, and if no parameter is left to train.
    """
    names = [name for name, _ in model.named_parameters()]
    matched = {
        p: {n for n in names if fnmatchcase(n, p) or n.startswith(p + ".")}
        for p in patterns
    }
    layers = tuple(dict.fromkeys(name.split(".")[0] for name in names))
    faults = [
        Fault("freeze", "matches no parameter", pattern, layers)
        for pattern in patterns
        if not matched[pattern]
    ]
    frozen = frozenset[str]().union(*matched.values())
    if len(frozen) == len(names):
        faults.append(Fault("freeze", "leaves nothing to train", ", ".join(patterns)))
    if faults:
        raise build_settings_error(*faults)
    return frozen


def freeze(model: nn.Module, frozen: Collection[str]) -> None:
    """Let all parameters of `model` train but the `frozen`."""
    for name, parameter in model.named_parameters():
        trains = name not in frozen
        parameter.requires_grad_(trains)
        if not trains:
            parameter.grad = None


def freeze_norm_statistics(model: nn.Module) -> None:
    """Put BatchNorm layers that are frozen in evaluation mode, so that their statistics stay."""
    for module in model.modules():
        if isinstance(module, BATCH_NORMS):
            own = list(module.parameters(recurse=False))
            if own and not any(parameter.requires_grad for parameter in own):
                module.eval()
