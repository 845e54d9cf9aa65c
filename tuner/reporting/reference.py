"""The reference of the spec as Markdown, in docs/spec.md and on the terminal.

Keys, values, defaults and meanings come from the settings models, and the text about a trainable
from the docstrings of `Learner`. The template has the rest.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Mapping
from textwrap import fill
from types import MappingProxyType
from typing import Any

from tuner.errors import UsageError, suggest_similar
from tuner.spec.declaration import load_default_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schedulers import DEFAULT, SCHEDULERS, SchedulerSettings
from tuner.spec.sections import SECTIONS
from tuner.spec.settings import MAX_COUNT, Settings, build_schema
from tuner.spec.space.parsing import CALLS
from tuner.spec.strategies import SEARCHERS, SearchSettings
from tuner.trial.learner import Learner, LearnerFactory

_WIDTH = 80
# Keys of all strategies or schedulers
_OF_ALL = {"strategy", "space", "forbid", "name", "max_t"}


def render_reference() -> str:
    """The complete reference, without a newline at the end."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tuner.reporting", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    apart = {"training", "search", "scheduler", *SECTIONS}
    declaration = load_default_declaration()
    notes, lists = declaration.describe_settings()
    text = environment.get_template("spec.md.jinja").render(
        top=_format_entries("", ExperimentSpec, besides=apart),
        trainable=_describe_trainable(),
        training=_format_entries(
            "training", declaration.settings or Settings, notes=notes
        ),
        lists=lists,
        list_of=_format_list,
        search=_format_entries("search", SearchSettings, defaults={"strategy": None}),
        domains=_describe_domains(),
        scheduler=_format_entries(
            "scheduler", SchedulerSettings, defaults={"name": DEFAULT}
        ),
        settings=_describe_settings,
        strategies=SEARCHERS.load_shipped_settings(),
        schedulers=SCHEDULERS.load_shipped_settings(),
        sections=SECTIONS,
    )
    return text.rstrip()


def find_section(key: str) -> str:
    """The section `key` with its subsections, or the items about one key.

    Raises UsageError, with the nearest known key, for an unknown one.
    """
    texts = re.split(r"\n\n(?=##+ )", render_reference())[1:]
    sections = {re.split(":|\n", text.lstrip("# "))[0]: text for text in texts}
    matches = [
        text for name, text in sections.items() if f"{name}.".startswith(f"{key}.")
    ]
    if matches:
        return "\n\n".join(matches)
    items = [
        (
            re.split("[`(]", item)[1],
            f"{text.partition(chr(10))[0].lstrip('# ')}\n{item}",
        )
        for text in sections.values()
        for item in re.findall(r"^- `.*(?:\n  .*)*", text, flags=re.MULTILINE)
    ]
    matches = [item for name, item in items if key in (name, name.rpartition(".")[2])]
    if matches:
        return "\n\n".join(matches)
    names = {*sections, *(name for name, _ in items)}
    names |= {name.rpartition(".")[2] for name in names}
    available = ", ".join(sections)
    raise UsageError(
        f"no key {key!r}{suggest_similar(key, names)}; sections: {available}"
    )


def _describe_settings(prefix: str, model: type[Settings]) -> str:
    """The description of a settings model, and its keys except those of all strategies."""
    besides = _OF_ALL if prefix in ("search", "scheduler") else ()
    about = _wrap_text(build_schema(model)["description"])
    return f"{about}\n\n{_format_entries(prefix, model, besides=besides)}".rstrip()


def _format_entries(
    prefix: str,
    model: type[Settings],
    *,
    besides: Collection[str] = (),
    defaults: Mapping[str, str | None] = MappingProxyType({}),
    notes: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """An item for each field. defaults: of fields that the model requires. notes: in place of
    defaults that depend on the network.
    """
    schema = build_schema(model)
    lines = []
    for name, field in schema["properties"].items():
        if name not in besides:
            key = f"{prefix}.{name}" if prefix else name
            required = name in schema.get("required", ()) and name not in defaults
            if name in defaults:
                field["default"] = defaults[name]
            if name in notes:
                field.pop("default", None)
            lines.append(
                _format_entry(key, field, required=required, of=notes.get(name, ""))
            )
    return "\n".join(lines)


def _format_entry(
    key: str, schema: Mapping[str, Any], *, required: bool, of: str
) -> str:
    """A line of a list: the key, what it may be, its default, what it means."""
    default = ""
    if "default" in schema:
        value = schema["default"]
        shown = value if isinstance(value, str) else json.dumps(value)
        default = "default none" if value is None else f"default `{shown}`"
    facts = [_describe_values(schema), "required" if required else default, of]
    meaning = str(schema.get("description", "")).rstrip(".")
    text = f"- `{key}` ({'; '.join(filter(None, facts))})"
    return _wrap_text(f"{text}: {meaning}." if meaning else f"{text}.", indent="  ")


def _describe_values(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return "a mapping"
    if "enum" in schema:
        texts = [json.dumps(value).strip('"') for value in schema["enum"]]
        return f"`{'`, `'.join(texts)}`"
    if "anyOf" in schema:
        options = [option for option in schema["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(map(_describe_values, options)))
    kind = _KINDS.get(str(schema.get("type", "")), "any plain value")
    return " ".join(filter(None, [kind, _describe_bounds(schema)]))


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "string": "text",
    "array": "a list",
    "object": "a mapping",
}


def _describe_bounds(schema: Mapping[str, Any]) -> str:
    words = {
        "minimum": "from {:g}",
        "exclusiveMinimum": "above {:g}",
        "maximum": "to {:g}",
        "exclusiveMaximum": "below {:g}",
    }
    bounds = {
        name: text.format(schema[name])
        for name, text in words.items()
        if schema.get(name, MAX_COUNT) < MAX_COUNT  # which stands for no bound
    }
    between = " " if "maximum" in bounds else " and "
    return between.join(bounds.values()) + " on" * (list(bounds) == ["minimum"])


def _describe_domains() -> str:
    texts = {}
    for name, call in CALLS.items():
        required = call.arguments[: call.required]
        optional = call.arguments[call.required :]
        arguments = ", ".join([*required, *(f"[{argument}]" for argument in optional)])
        texts[f"{name}({arguments})"] = f"{call.meaning}."
    return _format_list(texts)


def _describe_trainable() -> str:
    methods = {
        "__init__(self, config, constants, *, device, rank, world_size)": LearnerFactory.__call__,
        "step(self)": Learner.step,
        "state_dict(self)": Learner.state_dict,
        "load_state_dict(self, state)": Learner.load_state_dict,
    }
    docs = {
        name: " ".join((inspect.getdoc(f) or "").split()) for name, f in methods.items()
    }
    optional = (inspect.getdoc(Learner) or "").split("\n\n")[1:]
    return "\n\n".join(
        [_format_list(docs), *(_wrap_text(" ".join(text.split())) for text in optional)]
    )


def _format_list(texts: Mapping[str, str]) -> str:
    return "\n".join(
        _wrap_text(f"- `{name}`: {text}", indent="  ") for name, text in texts.items()
    )


def _wrap_text(text: str, *, indent: str = "") -> str:
    return fill(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
