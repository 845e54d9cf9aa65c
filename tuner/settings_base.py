"""The base of every settings model: frozen, unknown keys refused, faults in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tuner.errors import Fault, unknown

MOST = 10**9  # trials, epochs, workers, seconds of waiting: what is more is a slip


class Part(BaseModel):
    """A frozen settings model. Numbers must be finite; a key it does not know is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True
    )


P = TypeVar("P", bound=Part)

# Where pydantic's words are a programmer's
_RULES = {
    "string_too_short": "must not be empty",
    **dict.fromkeys(("string_type", "string_sub_type"), "must be text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(
        ("model_type", "dict_type", "mapping_type"), "must be a mapping of keys to values"
    ),
}


class Rule(ValueError):
    """Raised by a validator: carries whole faults through pydantic, keys relative to the model."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


def parse(
    model: type[P], values: Mapping[str, Any], prefix: str = ""
) -> tuple[P | None, list[Fault]]:
    """Build `model` from `values`: (the model, []) or (None, every fault), keys under `prefix`."""
    try:
        return model.model_validate(values), []
    except ValidationError as error:
        return None, faults_of(error, model, prefix)


def faults_of(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[Fault]:
    """What pydantic found wrong with values for `model`, in plain words."""
    found: list[Fault] = []
    for item in error.errors(include_url=False):
        location = [str(part) for part in item["loc"]]
        key = ".".join([prefix, *location] if prefix else location)
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, Rule):
            found += [fault.under(key) for fault in cause.faults]
        elif item["type"] == "extra_forbidden":
            owner = _model_at(model, item["loc"][:-1])
            found.append(unknown(key, "key", location[-1], owner.model_fields))
        elif item["type"] == "missing":
            found.append(Fault(key, "is required"))
        elif item["type"] == "literal_error":
            choices = tuple(str(item["ctx"]["expected"]).replace("'", "").split(" or "))
            names = tuple(name for part in choices for name in part.split(", "))
            value = item["input"]
            if isinstance(value, str):
                found.append(unknown(key, location[-1], value, names))
            else:
                found.append(Fault(key, "must be one of the choices", value, names))
        elif item["type"] in _RULES:
            found.append(Fault(key, _RULES[item["type"]], item["input"]))
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Input should ")
            rule = f"must {message}" if item["msg"].startswith("Input should") else message
            found.append(Fault(key, rule, item["input"]))
    return found


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that owns the key at `location`; the outermost one where that is not a model."""
    for part in location:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        options = getattr(inner, "__args__", (inner,))
        models = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if not models:
            return model
        model = models[0]
    return model
