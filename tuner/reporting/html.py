"""HTML pages of one file that work offline: the report of an experiment, and a comparison.

Jinja writes text and tables, plotly.js draws the figures. Texts of an experiment are escaped by
Jinja, or are JSON that no script runs. The page requests nothing, and its Content-Security-Policy
would forbid it.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from tuner.experiment.files import write_file
from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.statistics import (
    DOUBTFUL_LABELS,
    MISTAKES,
    class_table,
    doubtful_pairs,
    macro_recall,
    warnings_of,
)
from tuner.reporting import comparison_text
from tuner.reporting.experiment_text import change_text, control_text, label_lines
from tuner.reporting.figures import draw_comparison, draw_confusion, draw_section
from tuner.reporting.figures.figure import Plot
from tuner.reporting.report import Report, utc
from tuner.spec.plain_values import flat
from tuner.wording import amount_of, duration, number, printable, with_error

_SIDE = 96  # px of a thumbnail
_MOST_BYTES = 220_000  # of all thumbnails of a page; base64 makes four bytes of three


def report_page(report: Report, *, images: bool = True) -> str:
    """The report of an experiment as a page, with thumbnails of the user's images if `images`."""
    mistakes = pictures_in(report.test, MISTAKES, "predicted")
    doubted = report.test if doubtful_pairs(report.test) else None
    doubtful = pictures_in(doubted, DOUBTFUL_LABELS, "suggested")
    return render(
        "report.html",
        figures_of=partial(draw_section, data=report.data),
        report=report,
        results=report.results,
        tiles=tiles(report),
        best=best_table(report),
        warnings=warnings_of(*report.accuracies),
        classes=class_table(report.test),
        confusion=[each for each in [draw_confusion(report.test)] if each],
        mistakes=list(with_thumbnails(mistakes) if images else mistakes),
        doubtful=[[p.file, p.label, p.other, f"{p.probability:.2f}"] for p in doubtful],
        spec_yaml=yaml.safe_dump(report.results.document["spec"], sort_keys=False, width=100),
    )


def comparison_page(comparison: Comparison) -> str:
    return render(
        "comparison.html",
        figures=draw_comparison(comparison),
        headline=comparison_text.headline(comparison),
        verdict=comparison_text.verdict(comparison),
        tables=[
            ("On average over the seeds", comparison_text.strategies_table(comparison)),
            ("The experiments", comparison_text.entrants_table(comparison)),
        ],
        notes=comparison.notes,
    )


def render(template: str, **context: Any) -> str:
    """The page of a template with plotly.js in it."""
    environment = Environment(
        loader=PackageLoader("tuner.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    leaders = (comparison_text.leaders_table, comparison_text.leaders_verdict)
    texts = (change_text, control_text, label_lines, printable, utc, versions)
    environment.filters |= {each.__name__: each for each in (figure_json, *texts, *leaders)}
    plotly_js = Markup(get_plotlyjs())  # Plotly's own code: it holds no </script>
    return environment.get_template(template).render(plotly_js=plotly_js, **context)


def figure_json(plot: Plot) -> Markup:
    """A figure as JSON for a page: no text in it can end its element."""
    text = json.dumps(plot, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def write_page(path: Path, page: str) -> None:
    """Write a page to `path`, completely or not at all; raises UsageError."""
    write_file(path, lambda partial: partial.write_text(page, encoding="utf-8"))


def tiles(report: Report) -> Iterator[tuple[str, str, str]]:
    results = report.results
    accuracies = report.accuracies
    if report.best:
        best, searched = report.best[0], _searched(report, report.best[0])
        note = f"trial {best['trial_id']}, epoch {searched['epoch']}"
        if confirmed := best.get("confirmed"):
            note += f"; confirmed mean {_mean(best)} of {confirmed['seeds']} seeds"
        note += "".join(f"; {a.note}" for a in accuracies if a.metric == results.metric)
        value = number(searched["metrics"][results.metric])
        yield f"best {printable(results.metric)}", value, note
    measured = "refit" if report.refit else "best"
    for accuracy in accuracies:
        if accuracy.metric != results.metric:
            whose = measured if accuracy.metric.startswith("test_") else "best"
            yield f"{accuracy.metric} of the {whose}", number(accuracy.value), accuracy.note
    if (macro := macro_recall(report.test)) is not None:
        note = "test split: the mean over the classes, which are uneven"
        yield f"macro recall of the {measured}", number(macro), note
    ended = [f"{count} {status}" for status, count in results.counts.items() if count]
    yield "trials", str(len(results.trials)), ", ".join(ended) or "none has started"
    resumed = results.history.resumed
    again = f", resumed {'once' if resumed == 1 else f'{resumed} times'}" if resumed else ""
    yield "time", duration(results.history.duration_s), f"of searching{again}"
    if expected := results.expected_gain:
        gain = expected["per_hour"]
        note = f"of another hour; the search ends below {number(expected['utility'])}"
        yield "expected gain", "not known yet" if gain is None else f"{gain:.2g}", note
    stopped = amount_of(len(report.data.stopped), "trial")
    yield "epochs trained", str(report.trained_epochs), f"{stopped} stopped early"


def best_table(report: Report) -> list[list[str]]:
    """The head and a row for each of the best trials: value, confirmed mean, hyperparameters."""
    metric = report.results.metric
    configs = [{printable(n): v for n, v in flat(b["config"], ".").items()} for b in report.best]
    names = list(dict.fromkeys(name for config in configs for name in config))
    confirmed = any(best["shown"] == "confirmed" for best in report.best)
    head = ["trial", printable(metric), *(["confirmed mean"] if confirmed else []), "epoch"]
    rows = []
    for best, config in zip(report.best, configs, strict=True):
        searched = _searched(report, best)
        values = (number(config[name]) if name in config else "" for name in names)
        mean = [_mean(best)] if confirmed else []
        value = number(searched["metrics"][metric])
        rows.append([best["trial_id"], value, *mean, str(searched["epoch"]), *values])
    return [[*head, *names], *rows]


def _searched(report: Report, best: Mapping[str, Any]) -> dict[str, Any]:
    return report.results.best_json(report.results.trial(best["trial_id"]))


def _mean(best: Mapping[str, Any]) -> str:
    confirmed = best.get("confirmed")
    return with_error(confirmed["mean"], confirmed["standard_error"]) if confirmed else ""


def versions(by_name: Any) -> str:
    """The versions of packages, which may be missing in someone else's record, as text."""
    pairs = by_name.items() if isinstance(by_name, dict) else ()
    return ", ".join(f"{name} {number}" for name, number in pairs) or "unknown"


@dataclass(frozen=True, slots=True)
class Picture:
    """An image file in words, and its thumbnail as a data URL, if it can be shown."""

    file: str
    label: str
    other: str
    probability: float
    url: str | None = None


def pictures_in(measured: Mapping[str, Any] | None, name: str, other: str) -> list[Picture]:
    """The images of the list `name` in a record, which may be someone else's, without thumbnails.

    other: the key of the class that is not the label. Entries of another shape are left out.
    """
    entries = (measured or {}).get(name)
    return [
        Picture(printable(e["file"]), printable(e["label"]), printable(e[other]), e["probability"])
        for e in (entries if isinstance(entries, list) else [])
        if isinstance(e, dict)
        and all(isinstance(e.get(key), str) for key in ("file", "label", other))
        and isinstance(e.get("probability"), float)
    ]


def with_thumbnails(pictures: list[Picture], most_bytes: int = _MOST_BYTES) -> Iterator[Picture]:
    """`pictures`, those with a thumbnail whose files are here, up to `most_bytes` in all."""
    for picture in pictures:
        jpeg = _thumbnail(Path(picture.file)) if os.path.isabs(picture.file) else None
        if jpeg is None or len(jpeg) > most_bytes:
            yield picture
            continue
        most_bytes -= len(jpeg)
        url = f"data:image/jpeg;base64,{b64encode(jpeg).decode()}"
        yield replace(picture, url=url)


def _thumbnail(path: Path) -> bytes | None:
    from PIL import Image, ImageOps

    try:
        if not path.is_file():  # a pipe might never end
            return None
        with Image.open(path) as image:
            image.draft("RGB", (_SIDE, _SIDE))
            small = ImageOps.exif_transpose(image).convert("RGB")
            small.thumbnail((_SIDE, _SIDE))
            buffer = BytesIO()
            small.save(buffer, "JPEG", quality=75)
            return buffer.getvalue()
    except Exception:  # Pillow's decoders raise any type
        return None
