"""The model card of an export: README.md, written from its config.json and metrics.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from textwrap import fill
from typing import Any

from tuner.export.read import ExportConfig
from tuner.wording import number, printable, with_error

_SHOWN = 10  # classes


def card_text(config: ExportConfig, metrics: Mapping[str, Any], *, name: str) -> str:
    """The card as Markdown. `metrics` is what metrics.json holds, `name` the folder's."""
    sections = {
        "Use it": _use(config, name),
        "Measured": _measured(config, metrics),
        "Data": _data(config),
        "Config": _config(config),
        "Search": _search(config),
        "Made with": _made_with(config),
    }
    blocks = [f"# {_text(name)}", _summary(config)]
    for title, section in sections.items():
        blocks += [f"## {title}", *section]
    return "\n\n".join(blocks) + "\n"


def _summary(config: ExportConfig) -> str:
    plan = config.model
    if plan is None:
        return _prose(f"A model of {_text(config.trainable)}, found by a hyperparameter search.")
    size = f"{plan.in_channels}x{plan.image_size}x{plan.image_size}"
    own = "".join(f", {key} {number(value)}" for key, value in plan.settings.items())
    shown = [*map(_text, config.classes[:_SHOWN]), *["..."] * (len(config.classes) > _SHOWN)]
    return _prose(
        f"An image classifier, found by a hyperparameter search: model {plan.name}{own}. It maps "
        f"images of {size} to the logits of {plan.num_classes} classes: {', '.join(shown)}."
    )


def _use(config: ExportConfig, name: str) -> Iterator[str]:
    if config.model is None or config.input is None:
        weights = (
            "Its checkpoint is the folder `checkpoint`."
            if config.weights_sha256 is None
            else "Its weights are `model.safetensors`, which `safetensors.torch.load_file` reads."
        )
        yield _prose(
            "The trainable's own class rebuilds the model, from `config` and `training` of "
            f"`config.json`. {weights}"
        )
        return
    plan, size = config.model, config.model.image_size
    double = ", dtype=torch.float64" if config.input.dtype == "float64" else ""
    shape = f"2, {plan.in_channels}, {size}, {size}{double}"
    lines = [
        "import torch",
        "import tuner",
        "",
        f"model = tuner.load_model({json.dumps(name)})",
        f"pixels = torch.rand({shape})  # two images, N x C x H x W, from 0 to 1",
        f"mean = torch.tensor({list(config.input.mean)}).view(-1, 1, 1)",
        f"std = torch.tensor({list(config.input.std)}).view(-1, 1, 1)",
        "logits = model((pixels - mean) / std)",
    ]
    yield "\n".join(["```python", *lines, "```"])
    if config.input.mirrored:
        yield _prose(
            "The figures below are of the mean over an image and its mirror image: "
            "`(model(x) + model(x.flip(-1))) / 2`."
        )


def _measured(config: ExportConfig, metrics: Mapping[str, Any]) -> Iterator[str]:
    objective, reported = metrics["objective"], metrics["metrics"]
    names = dict.fromkeys([objective["metric"], *(n for n in reported if n.startswith("val_"))])
    test = metrics["test"] or {}
    rows = [("validation", name, reported[name]) for name in names if name in reported]
    rows += [("test", name, value) for name, value in test.items()]
    yield _table(("split", "metric", "value"), rows)
    tested = "was measured once, for this model" if test else "has not been measured"
    metric = f"`{_code(objective['metric'])}`"
    yield _prose(
        f"Chosen by {metric} ({objective['mode']}) on the validation split alone, at epoch "
        f"{config.epoch}. The test split {tested}."
    )
    confirmed = metrics["confirmed"]
    if confirmed:
        error = confirmed["standard_error"]
        mean = with_error(confirmed["mean"], error) + " (standard error)" * (error is not None)
        seeds = "one fresh seed" if confirmed["seeds"] == 1 else f"{confirmed['seeds']} fresh seeds"
        yield _prose(
            f"Confirmed: retrained with {seeds} this config has a mean {metric} of "
            f"{mean}; the search had shown "
            f"{number(confirmed['searched'])}."
        )


def _data(config: ExportConfig) -> Iterator[str]:
    data = config.data
    if data is None:
        yield _prose(f"What {_text(config.trainable)} reads.")
        return
    yield _prose(f"{_text(data.title)}. From {_text(data.origin)}.")
    yield _prose(f"Licence of the data: {_text(data.licence)}.")
    yield _prose(
        f"{data.train:,} images for training, {data.validation:,} for validation, {data.test:,} "
        f"for the test; the classes have the same shares in each (split seed {data.split_seed})."
    )


def _config(config: ExportConfig) -> Iterator[str]:
    yield _table(("hyperparameter", "value"), config.config.items())
    if config.training:
        yield "Not searched:"
        yield _table(("constant", "value"), config.training.items())


def _search(config: ExportConfig) -> Iterator[str]:
    search = config.search
    ended = ", ".join(f"{count} {status}" for status, count in search["counts"].items() if count)
    scheduler = {key: value for key, value in (search["scheduler"] or {}).items() if value}
    settings = ", ".join(f"{_text(k)} {_cell(v)}" for k, v in scheduler.items() if k != "name")
    stopping = f"scheduler {_cell(scheduler['name'])} ({settings})" if scheduler else "no scheduler"
    yield _prose(
        f"Experiment {_text(search['experiment'])}: strategy {_text(search['strategy'])}, "
        f"{sum(search['counts'].values())} trials ({ended}), seed {search['seed']}, {stopping}."
    )
    yield _table(("hyperparameter", "domain"), search["space"].items())


def _made_with(config: ExportConfig) -> Iterator[str]:
    rows = {
        "experiment": config.experiment,
        "trial": config.trial_id,
        "epoch": config.epoch,
        "seed": config.seed,
        "checkpoint sha256": config.checkpoint_sha256,
        "git revision": config.git_revision or "none",
        **config.versions,
    }
    yield _table(("", ""), rows.items())


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    """A value of any kind in a cell of a table."""
    plain = value if isinstance(value, str) else json.dumps(value)
    return _text(number(value) if isinstance(value, float) else plain)


def _prose(text: str) -> str:
    return fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _text(text: str) -> str:
    """Text of others, which neither breaks a table nor is markup."""
    return "".join(f"\\{char}" if char in "\\|<>*[]`&" else char for char in printable(text))


def _code(text: str) -> str:
    return printable(text).replace("`", "'")
