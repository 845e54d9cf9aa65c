"""The weights in a Learner's state, each tensor by its dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch


def weights_of(state: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """(dotted name, tensor) of what is under "model" in `state`, else of all of it.

    Names repeat where two of a state read the same.
    """
    model = state.get("model")
    return list(_tensors(model if isinstance(model, dict) else state))


def with_weights(state: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """`state` with the tensors that `weights_of` finds in it replaced; KeyError if one is missing.

    Everything else is as in `state`.
    """
    model = state.get("model")
    if isinstance(model, dict):
        return {**state, "model": _replaced(model, weights)}
    found: dict[str, Any] = _replaced(dict(state), weights)
    return found


def _tensors(state: object, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """(dotted name, tensor) of every tensor in nested dicts, lists and tuples."""
    if isinstance(state, torch.Tensor):
        yield prefix, state
    elif isinstance(state, dict | list | tuple):
        for name, inner in _items(state):
            yield from _tensors(inner, _below(prefix, name))


def _replaced(state: Any, weights: Mapping[str, torch.Tensor], prefix: str = "") -> Any:
    if isinstance(state, torch.Tensor):
        return weights[prefix]
    if not isinstance(state, dict | list | tuple):
        return state
    inner = {name: _replaced(v, weights, _below(prefix, name)) for name, v in _items(state)}
    return inner if isinstance(state, dict) else type(state)(inner.values())


def _items(state: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    yield from state.items() if isinstance(state, dict) else enumerate(state)


def _below(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)
