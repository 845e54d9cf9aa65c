"""The base of every settings model: frozen, unknown keys refused, faults in plain words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tuner.errors import Fault, unknown

MAX_COUNT = 10**9  # trials, epochs, workers, seconds of waiting: anything above is a slip


class Settings(BaseModel):
    """A frozen model whose numbers are finite and which refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        defer_build=True,  # until one is made: of most models and strategies none ever is
    )

    @model_validator(mode="before")
    @classmethod
    def _has_no_truth_as_a_number(cls, values: Any) -> Any:
        """pydantic takes true for 1."""
        if isinstance(values, Mapping):
            truths = [name for name, value in values.items() if isinstance(value, bool)]
            if wrong := [name for name in truths if name in _numbers(cls)]:
                raise FaultsError(*(Fault(n, "must be a number", values[n]) for n in wrong))
        return values


S = TypeVar("S", bound=Settings)


def schema_of(model: type[Settings]) -> dict[str, Any]:
    """The JSON schema of one settings model, described by the first paragraph of its docstring.

    A field without a description has that of the same field in a base class.
    """
    schema: dict[str, Any] = model.model_json_schema()
    schema.pop("$defs", None)
    schema["description"] = " ".join((model.__doc__ or "").partition("\n\n")[0].split())
    for name, field in schema["properties"].items():
        field.pop("title", None)
        bases = (kind for kind in model.__mro__ if issubclass(kind, Settings))
        fields = (kind.model_fields[name] for kind in bases if name in kind.model_fields)
        field["description"] = next((f.description for f in fields if f.description), "")
    return schema


@cache
def _numbers(model: type[BaseModel]) -> frozenset[str]:
    """The fields that take a number, and neither true nor false."""
    kinds = {name: _kinds(field.annotation) for name, field in model.model_fields.items()}
    return frozenset(name for name, of in kinds.items() if of & {int, float} and bool not in of)


def _kinds(annotation: Any) -> set[Any]:
    """The members of a union, without metadata."""
    if get_origin(annotation) in (Union, UnionType):
        return {kind for part in get_args(annotation) for kind in _kinds(part)}
    return _kinds(get_args(annotation)[0]) if get_origin(annotation) is Annotated else {annotation}


# In place of pydantic's own messages where those are a programmer's
_MESSAGES = {
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "string_sub_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "dict_type": "must be a mapping of keys to values",
    "mapping_type": "must be a mapping of keys to values",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}
_BOUNDS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}


class FaultsError(ValueError):
    """Raised by validators to carry faults through pydantic, with keys relative to the model."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


def known_names(raw: object, known: Collection[str], what: str) -> object:
    """The unique names of a list or a single text. Raises FaultsError for one not in `known`.

    what: the noun for a name.
    """
    names = [raw] if isinstance(raw, str) else raw
    if not isinstance(names, list | tuple):
        raise FaultsError(Fault("", "must be a list of names", raw, tuple(known)))
    if wrong := [name for name in names if name not in known]:
        raise FaultsError(*(unknown("", what, str(name), known) for name in wrong))
    return tuple(dict.fromkeys(names))


def parse(
    model: type[S], values: Mapping[str, Any], prefix: str = "", *, context: object = None
) -> tuple[S | None, list[Fault]]:
    """(the model of `values`, []), or (None, every fault) with keys under `prefix`.

    context: handed to the model's validators.
    """
    try:
        return model.model_validate(values, context=context), []
    except ValidationError as error:
        return None, faults_of(error, model, prefix)


def faults_of(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[Fault]:
    """pydantic's errors for values of `model`, in plain words."""
    faults: list[Fault] = []
    for item in error.errors(include_url=False):
        location, value, message = item["loc"], item["input"], item["msg"]
        key = ".".join([*([prefix] if prefix else []), *map(str, location)])
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, FaultsError):
            faults += [fault.under(key) for fault in cause.faults]
        elif item["type"] == "extra_forbidden":
            owner = _model_at(model, location[:-1])
            faults.append(unknown(key, "key", str(location[-1]), owner.model_fields))
        elif item["type"] == "missing":
            faults.append(Fault(key, "is required"))
        elif item["type"] == "literal_error":
            expected = str(item["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
            choices = tuple(expected.split(", "))
            if isinstance(value, str):
                faults.append(unknown(key, str(location[-1]), value, choices))
            else:
                faults.append(Fault(key, "must be one of the choices", value, choices))
        elif item["type"] == "model_type":
            owner = _model_at(model, location)
            keys = () if owner is model else tuple(sorted(owner.model_fields))
            faults.append(Fault(key, "must be a mapping of keys to values", value, keys))
        elif item["type"] in _MESSAGES:
            unit = " of seconds" if key.endswith("_s") else ""
            faults.append(Fault(key, _MESSAGES[item["type"]] + unit, value))
        elif message.startswith("Input should "):
            rule = message.removeprefix("Input should ")
            for theirs, ours in _BOUNDS.items():
                rule = rule.replace(f"be {theirs} ", f"be {ours} ")
            faults.append(Fault(key, f"must {rule}", value))
        else:
            faults.append(Fault(key, message.removeprefix("Value error, "), value))
    return faults


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that owns the key at `location`, or the outermost model."""
    for part in location:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        options = getattr(inner, "__args__", (inner,))
        models = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if not models:
            return model
        model = models[0]
    return model
