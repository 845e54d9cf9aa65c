"""A state as it can be kept: nothing in it is shared with what goes on training."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def host_copy(value: Any) -> Any:
    """`value`, plain or nested, with every tensor in it copied to the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: host_copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [host_copy(item) for item in value]
    return value
