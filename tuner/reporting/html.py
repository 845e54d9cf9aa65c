"""HTML pages of one file that work offline: the report of an experiment, and a comparison.

Jinja writes text and tables, plotly.js draws the figures. Texts of an experiment are escaped by
Jinja, or are JSON that no script runs. The page requests nothing, and its Content-Security-Policy
would forbid it.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from tuner.experiment.files import write_file
from tuner.experiment.results.accuracy import collect_warnings
from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.split_details import (
    CLASS_HEAD,
    DOUBTFUL_LABELS,
    MISTAKES,
    build_class_table,
    count_doubtful_pairs,
)
from tuner.reporting import comparison_text, confirmation_text
from tuner.reporting.control_text import format_change, format_control
from tuner.reporting.experiment_text import format_labels
from tuner.reporting.figures import (
    draw_comparison,
    draw_confusion,
    draw_plugins,
    draw_section,
)
from tuner.reporting.figures.figure import Plot
from tuner.reporting.pictures import add_thumbnails, parse_pictures
from tuner.reporting.report import Report, format_confirmed_mean, format_utc
from tuner.reporting.trial_tables import list_hyperparameters
from tuner.spec.plain_values import flatten
from tuner.wording import clean_text, format_number


def render_report_page(report: Report, *, images: bool = True) -> str:
    """The report of an experiment as a page, with thumbnails of the user's images if `images`."""
    mistakes = parse_pictures(report.test, MISTAKES, "predicted")
    doubted = report.test if count_doubtful_pairs(report.test) else None
    doubtful = parse_pictures(doubted, DOUBTFUL_LABELS, "suggested")
    return render_template(
        "report.html",
        figures_of=partial(draw_section, data=report.data),
        report=report,
        results=report.results,
        tiles=report.tiles,
        best=build_best_table(report),
        warnings=collect_warnings(*report.accuracies),
        class_head=CLASS_HEAD,
        classes=build_class_table(report.test),
        confusion=[each for each in [draw_confusion(report.test)] if each],
        mistakes=list(add_thumbnails(mistakes) if images else mistakes),
        plugins=draw_plugins(report.results),
        doubtful=[[p.file, p.label, p.other, f"{p.probability:.2f}"] for p in doubtful],
        spec_yaml=yaml.safe_dump(
            report.results.document["spec"], sort_keys=False, width=100
        ),
    )


def render_comparison_page(comparison: Comparison) -> str:
    return render_template(
        "comparison.html",
        figures=draw_comparison(comparison),
        headline=comparison_text.format_headline(comparison),
        verdict=comparison_text.format_verdict(comparison),
        tables=[
            (
                "On average over the seeds",
                comparison_text.build_strategies_table(comparison),
            ),
            ("The experiments", comparison_text.build_entrants_table(comparison)),
        ],
        notes=comparison.notes,
    )


def render_template(template: str, **context: Any) -> str:
    """The page of a template with plotly.js in it."""
    environment = Environment(
        loader=PackageLoader("tuner.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure_json": encode_figure,
        "change_text": format_change,
        "control_text": format_control,
        "label_lines": format_labels,
        "printable": clean_text,
        "utc": format_utc,
        "versions": format_versions,
        "leaders_table": confirmation_text.build_leaders_table,
        "leaders_verdict": confirmation_text.format_leaders_verdict,
    }
    plotly_js = Markup(get_plotlyjs())  # Plotly's own code: it holds no </script>
    return environment.get_template(template).render(plotly_js=plotly_js, **context)


def encode_figure(plot: Plot) -> Markup:
    """A figure as JSON for a page: no text in it can end its element."""
    text = json.dumps(plot, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def write_page(path: Path, page: str) -> None:
    """Write a page to `path`, completely or not at all; raises UsageError."""
    write_file(path, lambda partial: partial.write_text(page, encoding="utf-8"))


def build_best_table(report: Report) -> list[list[str]]:
    """The head and a row for each of the best trials: value, confirmed mean, hyperparameters."""
    metric = report.results.metric
    configs = [
        {clean_text(n): v for n, v in flatten(b["config"], ".").items()}
        for b in report.best
    ]
    names = list_hyperparameters(configs)
    confirmed = any(best["shown"] == "confirmed" for best in report.best)
    head = [
        "trial",
        clean_text(metric),
        *(["confirmed mean"] if confirmed else []),
        "epoch",
    ]
    rows = []
    for best, config in zip(report.best, configs, strict=True):
        searched = report.describe_searched(best)
        values = (
            format_number(config[name]) if name in config else "" for name in names
        )
        mean = [format_confirmed_mean(best)] if confirmed else []
        value = format_number(searched["metrics"][metric])
        rows.append([best["trial_id"], value, *mean, str(searched["epoch"]), *values])
    return [[*head, *names], *rows]


def format_versions(by_name: Any) -> str:
    """The versions of packages, which may be missing in someone else's record, as text."""
    pairs = by_name.items() if isinstance(by_name, dict) else ()
    return ", ".join(f"{name} {number}" for name, number in pairs) or "unknown"
