"""The base of every settings model: frozen, unknown keys refused, faults in plain words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from tuner.errors import Fault, build_unknown_fault

# Trials, epochs, workers, seconds of waiting: anything above is a slip
MAX_COUNT = 10**9
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class Settings(BaseModel):
    """A frozen model whose numbers are finite and which refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        # Until one is made: of most models and strategies none ever is
        defer_build=True,
    )

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_bool_as_number(
        cls, raw: Any, validate: ModelWrapValidatorHandler[Self]
    ) -> Self:
        """pydantic takes true for 1."""
        model = validate(raw)
        for name, value in raw.items() if isinstance(raw, Mapping) else ():
            if isinstance(value, bool) and type(getattr(model, name)) in (int, float):
                raise FaultsError(Fault(name, "must be a number", value))
        return model


S = TypeVar("S", bound=Settings)


def build_schema(model: type[Settings]) -> dict[str, Any]:
    """The JSON schema of one model; descriptions are inherited, from docstring and base classes."""
    schema: dict[str, Any] = model.model_json_schema()
    schema.pop("$defs", None)
    schema["description"] = " ".join((model.__doc__ or "").partition("\n\n")[0].split())
    for name, field in schema["properties"].items():
        field.pop("title", None)
        bases = (kind for kind in model.__mro__ if issubclass(kind, Settings))
        fields = (
            kind.model_fields[name] for kind in bases if name in kind.model_fields
        )
        field["description"] = next(
            (f.description for f in fields if f.description), ""
        )
    return schema


# Instead of pydantic's messages, which are for programmers
_RULES = {
    "greater_than_equal": "must be at least {ge:.12g}",
    "less_than_equal": "must be at most {le:.12g}",
    "greater_than": "must be above {gt:.12g}",
    "less_than": "must be below {lt:.12g}",
    "string_too_short": "must not be empty",
    **dict.fromkeys(("string_type", "string_sub_type"), "must be text"),
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float"), "must be a whole number"
    ),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(
        ("dict_type", "mapping_type"), "must be a mapping of keys to values"
    ),
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
}


class FaultsError(ValueError):
    """Raised by validators to carry faults through pydantic, with keys relative to the model."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


def bad_value(
    rule: str, value: object = None, choices: tuple[str, ...] = ()
) -> FaultsError:
    """The fault of a value itself; its key is known to those that read it."""
    return FaultsError(Fault("", rule, value, choices))


def parse_texts(raw: object, rule: str) -> tuple[str, ...]:
    """The texts of a list, or one text. Raises FaultsError, with `rule`, for others."""
    texts = [raw] if isinstance(raw, str) else raw
    if not isinstance(texts, list | tuple) or not all(
        isinstance(text, str) for text in texts
    ):
        raise bad_value(rule, raw)
    return tuple(texts)


def parse_names(raw: object, choices: Collection[str], noun: str) -> object:
    """The unique names of a list or text. Raises FaultsError for others."""
    names = [raw] if isinstance(raw, str) else raw
    if not isinstance(names, list | tuple):
        raise bad_value("must be a list of names", raw, tuple(choices))
    if wrong := [name for name in names if name not in choices]:
        raise FaultsError(
            *(build_unknown_fault("", noun, str(name), choices) for name in wrong)
        )
    return tuple(dict.fromkeys(names))


def parse(
    model: type[S],
    values: Mapping[str, Any],
    prefix: str = "",
    *,
    context: object = None,
) -> tuple[S | None, list[Fault]]:
    """(the model of `values`, []), or (None, every fault). context: for the model's validators."""
    try:
        return model.model_validate(values, context=context), []
    except ValidationError as error:
        return None, convert_errors(error, model, prefix)


def convert_errors(
    error: ValidationError, model: type[BaseModel], prefix: str = ""
) -> list[Fault]:
    """pydantic's errors for values of `model`, in plain words."""
    faults: list[Fault] = []
    for item in error.errors(include_url=False):
        location = item["loc"]
        value = item["input"]
        key = ".".join([*([prefix] if prefix else []), *map(str, location)])
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, FaultsError):
            faults += [fault.add_prefix(key) for fault in cause.faults]
        elif item["type"] == "extra_forbidden":
            owner = _find_model(model, location[:-1])
            faults.append(
                build_unknown_fault(key, "key", str(location[-1]), owner.model_fields)
            )
        elif item["type"] == "missing":
            faults.append(Fault(key, "is required"))
        elif item["type"] == "literal_error":
            expected = (
                str(item["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
            )
            choices = tuple(expected.split(", "))
            if isinstance(value, str):
                faults.append(
                    build_unknown_fault(key, str(location[-1]), value, choices)
                )
            else:
                faults.append(Fault(key, "must be one of the choices", value, choices))
        elif item["type"] == "model_type":
            owner = _find_model(model, location)
            keys = () if owner is model else tuple(sorted(owner.model_fields))
            faults.append(
                Fault(key, "must be a mapping of keys to values", value, keys)
            )
        elif item["type"] in _RULES:
            rule = _RULES[item["type"]].format(**item.get("ctx", {}))
            seconds = key.endswith("_s") and rule == _RULES["float_type"]
            faults.append(Fault(key, f"{rule} of seconds" if seconds else rule, value))
        else:
            rule = (
                item["msg"]
                .removeprefix("Value error, ")
                .replace("Input should ", "must ")
            )
            faults.append(Fault(key, rule, value))
    return faults


def _find_model(
    model: type[BaseModel], location: tuple[int | str, ...]
) -> type[BaseModel]:
    """The model that owns the key at `location`, or the outermost model."""
    for part in location:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        options = getattr(inner, "__args__", (inner,))
        models = [
            o for o in options if isinstance(o, type) and issubclass(o, BaseModel)
        ]
        if not models:
            return model
        model = models[0]
    return model
