"""The precision in which a trial computes, by its settings and the hardware."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tuner.trial.torch_compat import find_cpu_precisions, set_numerics
from tuner.vision.settings import ClassifierSettings

_IN_STATE = "precision"


@dataclass(frozen=True, slots=True)
class Hardware:
    """kind: the device's type. bf16, fp16: whether it computes in them natively."""

    kind: str
    bf16: bool
    fp16: bool


@dataclass(frozen=True, slots=True)
class Precision:
    """autocast: the dtype of most operators, default the weights'. tf32: as in `computing`."""

    kind: str
    autocast: torch.dtype | None = None
    tf32: bool = False

    @property
    def scaled(self) -> bool:
        """Whether the loss must be scaled, so that small gradients do not become 0."""
        return self.autocast == torch.float16

    @property
    def name(self) -> str:
        """The setting of this precision."""
        if self.autocast is not None:
            return "bf16" if self.autocast == torch.bfloat16 else "fp16"
        return "tf32" if self.tf32 else "float32"

    def describe_state(self) -> dict[str, str]:
        """The entries of a state; none for float32."""
        return {_IN_STATE: self.name} if self.name != "float32" else {}

    def apply(self) -> AbstractContextManager[None]:
        """The context of all computations of the trial; the process's settings are restored."""
        return set_numerics(tf32=self.tf32, tries_convolutions=self.kind == "cuda")

    def apply_autocast(self) -> AbstractContextManager[None]:
        """The context of a forward pass and its loss."""
        return torch.autocast(
            self.kind, self.autocast, enabled=self.autocast is not None
        )


def detect_hardware(device: torch.device) -> Hardware:
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        return Hardware("cuda", bf16=capability >= (8, 0), fp16=capability >= (7, 0))
    bf16, fp16 = find_cpu_precisions()
    return Hardware(device.type, bf16=bf16, fp16=fp16)


def choose_precision(
    settings: ClassifierSettings, device: torch.device, *, split: int = 1
) -> Precision:
    """The precision of a trial of these settings, as one of `split` stages."""
    setting = "float32" if settings.dtype == "float64" else settings.precision
    precision = resolve_precision(setting, detect_hardware(device))
    if split > 1 and precision.scaled:  # each stage would detect only its own overflows
        return resolve_precision("float32", detect_hardware(device))
    return precision


def choose_dtype(settings: ClassifierSettings) -> torch.dtype:
    """The dtype of the weights."""
    return torch.float64 if settings.dtype == "float64" else torch.float32


def cast_weights(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """`model` in `dtype`; complex tensors in that precision: torch would drop imaginary parts."""
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_complex():
            tensor.data = tensor.data.to(dtype.to_complex())
        elif tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
    return model


def read_precision(state: Mapping[str, Any], device: torch.device) -> Precision:
    """The precision of a state's training, or the fallback of `resolve_precision`."""
    return resolve_precision(state.get(_IN_STATE, "float32"), detect_hardware(device))


def resolve_precision(setting: str, has: Hardware) -> Precision:
    """The precision of a setting on a device; "auto" is the fastest that trains as well.

    On a CPU "auto" is float32, so that a search gives the same on every machine. A precision that
    the device could only emulate, slower than float32, falls back to float32.
    """
    cuda = has.kind == "cuda"
    if setting == "auto" and cuda:
        setting = "bf16" if has.bf16 else "fp16"
    if setting == "bf16" and has.bf16:
        return Precision(has.kind, torch.bfloat16, tf32=cuda)
    if setting == "fp16" and has.fp16:
        return Precision(has.kind, torch.float16, tf32=cuda)
    return Precision(has.kind, tf32=cuda and setting == "tf32")
