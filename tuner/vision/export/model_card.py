"""The model card of an export: README.md, written from its config.json and metrics.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from tuner.experiment.results.accuracy import (
    Accuracy,
    build_accuracy,
    build_test_accuracy,
    count_candidates,
)
from tuner.spec.plain_values import flatten
from tuner.vision.export.read import ExportConfig
from tuner.wording import clean_text, format_mean, format_number

_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")


def render_card(config: ExportConfig, metrics: Mapping[str, Any], *, name: str) -> str:
    """The card as Markdown. `metrics` is what metrics.json holds, `name` the folder's."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    filters = {
        "cell": _format_cell,
        "code": _format_code,
        "prose": _wrap_prose,
        "text": _escape_text,
        "number": format_number,
    }
    environment.filters |= {**filters, "json": json.dumps}
    search = config.search
    scheduler = {
        key: value for key, value in (search["scheduler"] or {}).items() if value
    }
    text = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        config=config,
        metrics=metrics,
        name=name,
        plan=config.model,
        settings=flatten(config.model.settings, ".") if config.model else {},
        library=config.model.library if config.model else None,
        measured=_list_metrics(config, metrics),
        accuracies=[
            each
            for each in _list_accuracies(config, metrics)
            if each.baseline is not None
        ],
        search=search,
        ended=", ".join(
            f"{count} {end}" for end, count in search["counts"].items() if count
        ),
        scheduler=scheduler,
        stopping=", ".join(
            f"{_escape_text(k)} {_format_cell(v)}"
            for k, v in scheduler.items()
            if k != "name"
        ),
        made_with={
            "experiment": config.experiment,
            "trial": config.trial_id,
            "epoch": config.epoch,
            "seed": config.seed,
            "checkpoint sha256": config.checkpoint_sha256,
            "git revision": config.git_revision or "none",
            **config.versions,
        },
        table=_format_table,
        with_error=format_mean,
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _list_metrics(
    config: ExportConfig, metrics: Mapping[str, Any]
) -> Iterator[tuple[str, str, float]]:
    """(split, metric, value): the objective first, then the others of the validation split."""
    reported = {} if config.refit else metrics["metrics"]
    validation = (name for name in reported if name.startswith("val_"))
    for name in dict.fromkeys([metrics["objective"]["metric"], *validation]):
        if name in reported:
            yield "validation", name, reported[name]
    for name, value in (metrics["test"] or {}).items():
        if name.startswith("test_"):
            yield "test", name, value


def _list_accuracies(
    config: ExportConfig, metrics: Mapping[str, Any]
) -> Iterator[Accuracy]:
    if config.data:
        images = {"images": config.data.validation, "baseline": config.data.baseline}
        among = count_candidates(config.search["counts"])
        if validated := build_accuracy(
            "val_accuracy", metrics["metrics"], images, among=among
        ):
            yield validated
    if test := build_test_accuracy(metrics["test"]):
        yield test


def _format_table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [
        head,
        ("---",) * len(head),
        *(tuple(map(_format_cell, row)) for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _format_cell(value: Any) -> str:
    """A value of any kind in a cell of a table."""
    plain = value if isinstance(value, str) else json.dumps(value)
    return _escape_text(format_number(value) if isinstance(value, float) else plain)


def _wrap_prose(text: str) -> str:
    return (
        fill(
            " ".join(text.split()), 100, break_long_words=False, break_on_hyphens=False
        )
        + "\n"
    )


def _escape_text(text: str) -> str:
    """A foreign text, escaped: it neither breaks a table nor is markup."""
    return "".join(
        f"\\{char}" if char in "\\|<>*[]`&" else char for char in clean_text(text)
    )


def _format_code(text: str) -> str:
    return clean_text(text).replace("`", "'")
