"""Which numbers a trial computes with, by its `precision` setting and what the hardware has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Hardware:
    """`kind` is the device's type; `bf16` and `fp16`: whether it computes in them natively."""

    kind: str
    bf16: bool
    fp16: bool


@dataclass(frozen=True, slots=True)
class Precision:
    """Weights stay in float32; `autocast` is what most operators compute in, None for theirs.

    tf32: whether CUDA may round the inputs of float32 products to 10 bits of mantissa.
    """

    kind: str
    autocast: torch.dtype | None = None
    tf32: bool = False

    @property
    def scaled(self) -> bool:
        """Whether the loss must be scaled, so that small gradients do not become 0."""
        return self.autocast == torch.float16

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it TF32 is as it should be; the process's own setting comes back after it."""
        backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
        before = [backend.allow_tf32 for backend in backends]
        try:
            for backend in backends:
                backend.allow_tf32 = self.tf32
            yield
        finally:
            for backend, allowed in zip(backends, before, strict=True):
                backend.allow_tf32 = allowed

    def forward(self) -> AbstractContextManager[None]:
        """For a forward pass and its loss."""
        context: AbstractContextManager[None] = torch.autocast(
            self.kind, self.autocast, enabled=self.autocast is not None
        )
        return context


def hardware(device: torch.device) -> Hardware:
    """What `device` of this machine has."""
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        return Hardware("cuda", bf16=capability >= (8, 0), fp16=capability >= (7, 0))
    # On a CPU that emulates them, both are slower than float32. torch has no public question.
    bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return Hardware(device.type, bf16=bf16, fp16=torch.cpu._is_amx_fp16_supported())


def choose(setting: str, has: Hardware) -> Precision:
    """What `setting` means on a device; "auto" is the fastest that trains as well.

    On a CPU "auto" is float32, so that a search gives the same on every machine. What the device
    has only by emulation falls back to float32.
    """
    cuda = has.kind == "cuda"
    if setting == "auto" and cuda:
        setting = "bf16" if has.bf16 else "fp16"
    if setting == "bf16" and has.bf16:
        return Precision(has.kind, torch.bfloat16, tf32=cuda)
    if setting == "fp16" and has.fp16:
        return Precision(has.kind, torch.float16, tf32=cuda)
    return Precision(has.kind, tf32=cuda and setting == "tf32")
