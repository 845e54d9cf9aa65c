"""The model card of an export: README.md, written from its config.json and metrics.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from tuner.experiment.results.statistics import (
    Accuracy,
    accuracy_of,
    measured_accuracy,
    trials_chosen_from,
)
from tuner.spec.plain_values import flat
from tuner.vision.export.read import ExportConfig
from tuner.wording import number, printable, with_error

_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")


def card_text(config: ExportConfig, metrics: Mapping[str, Any], *, name: str) -> str:
    """The card as Markdown. `metrics` is what metrics.json holds, `name` the folder's."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    filters = {"cell": _cell, "code": _code, "prose": _prose, "text": _text, "number": number}
    environment.filters |= {**filters, "json": json.dumps}
    search = config.search
    scheduler = {key: value for key, value in (search["scheduler"] or {}).items() if value}
    text = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        config=config,
        metrics=metrics,
        name=name,
        plan=config.model,
        settings=flat(config.model.settings, ".") if config.model else {},
        library=config.model.library if config.model else None,
        measured=_measured(config, metrics),
        accuracies=[each for each in _accuracies(config, metrics) if each.baseline is not None],
        search=search,
        ended=", ".join(f"{count} {end}" for end, count in search["counts"].items() if count),
        scheduler=scheduler,
        stopping=", ".join(f"{_text(k)} {_cell(v)}" for k, v in scheduler.items() if k != "name"),
        made_with={
            "experiment": config.experiment,
            "trial": config.trial_id,
            "epoch": config.epoch,
            "seed": config.seed,
            "checkpoint sha256": config.checkpoint_sha256,
            "git revision": config.git_revision or "none",
            **config.versions,
        },
        table=_table,
        with_error=with_error,
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _measured(config: ExportConfig, metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """(split, metric, value): the objective first, then the others of the validation split."""
    reported = {} if config.refit else metrics["metrics"]
    validation = (name for name in reported if name.startswith("val_"))
    for name in dict.fromkeys([metrics["objective"]["metric"], *validation]):
        if name in reported:
            yield "validation", name, reported[name]
    for name, value in (metrics["test"] or {}).items():
        if name.startswith("test_"):
            yield "test", name, value


def _accuracies(config: ExportConfig, metrics: Mapping[str, Any]) -> Iterator[Accuracy]:
    if config.data:
        images = {"images": config.data.validation, "baseline": config.data.baseline}
        among = trials_chosen_from(config.search["counts"])
        if validated := accuracy_of("val_accuracy", metrics["metrics"], images, among=among):
            yield validated
    if test := measured_accuracy(metrics["test"]):
        yield test


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    """A value of any kind in a cell of a table."""
    plain = value if isinstance(value, str) else json.dumps(value)
    return _text(number(value) if isinstance(value, float) else plain)


def _prose(text: str) -> str:
    return fill(" ".join(text.split()), 100, break_long_words=False, break_on_hyphens=False) + "\n"


def _text(text: str) -> str:
    """A foreign text, escaped: it neither breaks a table nor is markup."""
    return "".join(f"\\{char}" if char in "\\|<>*[]`&" else char for char in printable(text))


def _code(text: str) -> str:
    return printable(text).replace("`", "'")
