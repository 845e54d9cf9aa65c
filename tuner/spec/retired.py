"""Settings that earlier versions had: what they recorded is shown, and does not run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.errors import Fault, SpecError
from tuner.spec.plain_values import find_value

RECORDED = "recorded"  # the validation context in which retired settings are accepted
SCHEDULERS = ("forecast",)

_RULE = "is of an earlier version, so that no trial can go on: begin a new search --from this one"


# Of the image classifier, each with the values that are gone; None: all
_TRAINING: dict[str, tuple[str, ...] | None] = {
    "model": ("speednet",),
    "dtype": ("float16", "bfloat16"),
    "crop_fill": None,
    "alternating_flip": None,
    "augment_at_once": None,
    "last_batch": None,
    "test_time_shift": None,
    "decoupled": None,
    "train_norm_scales": None,
    "norm_momentum": None,
    "norm_bias_lr": None,
    "lookahead_steps": None,
    "lookahead_decay": None,
    "lookahead_power": None,
}


def find_retired(raw: Mapping[str, Any]) -> Iterator[Fault]:
    """The retired settings of a recorded spec, by which its trials cannot go on."""
    name = find_value(raw, "scheduler.name")
    if name in SCHEDULERS:
        yield Fault("scheduler.name", _RULE, name)
    if not str(raw.get("trainable")).startswith("tuner."):
        return
    for section in ("training", "search.space"):
        values = find_value(raw, section)
        if not isinstance(values, Mapping):
            continue
        for key, gone in _TRAINING.items():
            if key in values and (gone is None or values[key] in gone):
                yield Fault(f"{section}.{key}", _RULE, values[key])


def refuse_retired(raw: Mapping[str, Any], source: str) -> None:
    """Raise SpecError for a recorded spec with retired settings."""
    if faults := list(find_retired(raw)):
        raise SpecError(faults, source)
