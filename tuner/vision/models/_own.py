"""A custom network by its dotted path: `my_module:MyNet`, a class or a function.

It is called with those of `in_channels`, `num_classes` and `image_size` that its signature has, and
with the `model_args`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from tuner.errors import Fault, SpecError, unknown
from tuner.settings import FaultsError
from tuner.spec.code import NOT_STANDARD, is_standard
from tuner.spec.loading import load_trainable
from tuner.trial.failures import message_of
from tuner.vision.models._model import Arguments, ModelInfo

if TYPE_CHECKING:
    from torch import nn

GIVEN = ("in_channels", "num_classes", "image_size")  # arguments that follow from the data set

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def own_model(path: str) -> ModelInfo:
    """The model that `path` names; imports nothing.

    Raises FaultsError for a malformed path, or one of Python's standard library.
    """
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise FaultsError(Fault("", "must be a dotted path, as in 'my_module:MyNet'", path))
    if is_standard(module):
        raise FaultsError(Fault("", NOT_STANDARD, path))
    return ModelInfo(partial(_build, path), Arguments, foreign=True, faults=partial(_faults, path))


def _build(
    path: str, *, in_channels: int, num_classes: int, image_size: int, model_args: dict[str, Any]
) -> nn.Module:
    network = load_trainable(path)
    faults = list(argument_faults(network, model_args))
    if faults:
        raise SpecError(faults, f"model {path}")
    given = {"in_channels": in_channels, "num_classes": num_classes, "image_size": image_size}
    parameters = _parameters(network) or {}  # without **kwargs, whose use is unknown
    named = {n: v for n, v in given.items() if n in parameters and parameters[n].kind in _BY_NAME}
    model: nn.Module = network(**named, **model_args)
    return model


def _faults(path: str, model_args: Mapping[str, Any]) -> Iterator[Fault]:
    """Imports the network; the faults of it or of its arguments."""
    try:
        network = load_trainable(path)
    except FaultsError as error:
        yield from (fault.under("model") for fault in error.faults)
    except Exception as error:  # the user's module may raise any type
        yield Fault("model", f"cannot be imported ({message_of(error)})", path)
    else:
        yield from argument_faults(network, model_args)


def argument_faults(network: Any, model_args: Mapping[str, Any]) -> Iterator[Fault]:
    """Why `network` cannot be called with these arguments and those that follow from the data."""
    if not callable(network):
        yield Fault("model", "must be a class or a function that builds a network", network)
        return
    parameters = _parameters(network)
    if parameters is None:  # a signature is not available
        return
    named = {name for name, p in parameters.items() if p.kind in _BY_NAME}
    own = named - {*GIVEN}
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in model_args:
        if name in GIVEN:
            yield Fault(f"model_args.{name}", "follows from the data set, so it cannot be set")
        elif name not in named and not takes_any:
            fault = unknown(f"model_args.{name}", f"argument of {network.__name__}", name, own)
            yield fault if own else Fault(fault.key, f"{network.__name__} takes no arguments")
    for name, parameter in parameters.items():
        required = parameter.default is Parameter.empty and parameter.kind in _BY_NAME
        if required and name not in GIVEN and name not in model_args:
            yield Fault(f"model_args.{name}", f"is required: {network.__name__} has no default")
        if parameter.kind is Parameter.POSITIONAL_ONLY and parameter.default is Parameter.empty:
            rule = f"{network.__name__} must take its arguments by name, and not {name!r}"
            yield Fault("model", rule)


def _parameters(network: Callable[..., Any]) -> Mapping[str, Parameter] | None:
    try:
        return inspect.signature(network).parameters
    except (TypeError, ValueError):
        return None
