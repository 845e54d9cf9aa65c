"""A Learner's state as plain data: copies on the host, its weights by name, and its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_MOST_VALUES = 1_000_000
_DEEPEST = 100  # levels of dicts and lists: what walks through them recurses
_MOST_TIMES = 10  # how often tensors may use each byte of a file: weights can be tied


def copy_to_host(state: Any) -> Any:
    """A copy of `state`, plain or nested, that no later epoch changes, with its tensors on the CPU.

    What `state_dict()` returns may be what trains. A tensor that is in it twice, as tied weights
    are, is copied once, and takes no more room in a file. Raises what a value raises that cannot
    be copied, and RuntimeError or MemoryError if there is no room.
    """
    import torch

    memo = {}
    copies = {}
    devices = set[torch.device]()
    for _, tensor in _walk_tensors(state):
        memory = (
            tensor.device,
            tensor.untyped_storage().data_ptr(),
            tensor.storage_offset(),
        )
        key = *memory, tensor.dtype, tensor.shape, tensor.stride()
        if key not in copies:
            copies[key] = _copy_tensor(tensor.detach(), devices)
        memo[id(tensor)] = copies[key]
    for device in devices:
        torch.cuda.current_stream(device).synchronize()
    return deepcopy(state, memo)


def _copy_tensor(source: Tensor, devices: set[torch.device]) -> Tensor:
    """A copy on the host, complete once the `devices`, to which its own may be added, are done.

    Copies into pinned memory run at the same time. Each into other memory waits for the GPU, and
    goes through a buffer of the driver's.
    """
    import torch

    if source.is_cuda:
        with suppress(RuntimeError):  # there is no more pinned memory
            target = torch.empty_like(source, device="cpu", pin_memory=True)
            devices.add(source.device)
            return target.copy_(source, non_blocking=True)
    return source.to("cpu", copy=True)


def list_weights(state: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    """(dotted name, tensor) of the "model" in `state`, else of all of it; a name may repeat."""
    model = state.get("model")
    return list(_walk_tensors(model if isinstance(model, dict) else state))


def replace_weights(
    state: dict[str, Any], weights: Mapping[str, Tensor]
) -> dict[str, Any]:
    """A copy with the tensors that `list_weights` lists replaced; KeyError if one is missing."""
    model = state.get("model")
    new = {id(t): weights[name] for name, t in list_weights(state)}
    if isinstance(model, dict):
        return {**state, "model": deepcopy(model, new)}
    return deepcopy(state, new)


def _walk_tensors(state: object, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """(dotted name, tensor) of every tensor in nested dicts, lists and tuples."""
    from torch import Tensor

    if isinstance(state, Tensor):
        yield prefix, state
    elif isinstance(state, dict | list | tuple):
        items: Any = state.items() if isinstance(state, dict) else enumerate(state)
        for name, inner in items:
            yield from _walk_tensors(inner, f"{prefix}.{name}" if prefix else str(name))


def find_state_fault(state: object, size: int) -> str | None:
    """The fault of a `state` from a file of `size` bytes, or None: tensors may claim more."""
    from torch import Tensor

    todo: list[tuple[object, int]] = [(state, 0)]
    values = used = 0
    while todo:
        value, depth = todo.pop()
        values += 1
        if depth > _DEEPEST or values > _MOST_VALUES:
            return "it is nested deeper, or holds more values, than any state"
        if isinstance(value, dict):
            todo += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list | tuple):
            todo += [(inner, depth + 1) for inner in value]
        elif isinstance(value, Tensor):
            used += value.numel() * value.element_size()
            if used > size * _MOST_TIMES:
                return "its tensors are larger than what it holds"
    return None
