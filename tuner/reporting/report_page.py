"""The report of an experiment as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from tuner.reporting.figures.confirmed import confirmation_figure
from tuner.reporting.figures.hyperparameters import hyperparameter_figures
from tuner.reporting.figures.machine import machine_figures
from tuner.reporting.figures.progress import progress_figures
from tuner.reporting.figures.stopping import stopping_figures
from tuner.reporting.page import render
from tuner.reporting.report import Report
from tuner.results.frames import flat
from tuner.wording import duration, number, printable, with_error


class Tile(NamedTuple):
    """A number of the summary."""

    label: str
    value: str
    note: str


class Table(NamedTuple):
    """Cells as text."""

    head: list[str]
    rows: list[list[str]]


def report_page(report: Report) -> str:
    """The whole page."""
    results, savings = report.results, report.savings
    rungs = [rung.epoch for rung in savings.rungs] if savings else []
    sections = {
        "progress": progress_figures(results, report.study, report.compared, rungs),
        "hyperparameters": hyperparameter_figures(report.compared, report.importances),
        "stopping": stopping_figures(results.history, savings),
        "machine": machine_figures(results.history, report.occupancy, report.throughput),
        "confirmation": confirmation_figure(report.confirmation),
    }
    return render(
        "report.html",
        report=report,
        results=results,
        spec=report.spec,
        sections=sections,
        tiles=list(tiles(report)),
        best=best_table(report),
        provenance=list(_provenance(report)),
        spec_yaml=yaml.safe_dump(results.spec, sort_keys=False, width=100),
    )


def tiles(report: Report) -> Iterator[Tile]:
    """The summary in a few numbers."""
    results, savings, occupancy = report.results, report.savings, report.occupancy
    if report.best:
        best, searched = report.best[0], _searched(report, report.best[0])
        note = f"trial {best['trial_id']}, epoch {searched['epoch']}"
        if confirmed := best.get("confirmed"):
            note += f"; confirmed mean {_mean(best)} of {confirmed['seeds']} seeds"
        value = number(searched["metrics"][results.metric])
        yield Tile(f"best {printable(results.metric)}", value, note)
    ended = [f"{count} {status}" for status, count in results.counts.items() if count]
    yield Tile("trials", str(len(results.trials)), ", ".join(ended) or "none has started")
    resumed = results.history.resumed
    again = f", resumed {'once' if resumed == 1 else f'{resumed} times'}" if resumed else ""
    yield Tile("time", duration(occupancy.wall_s), f"of searching{again}")
    if savings and savings.stops:
        share = f"{savings.share:.0%} of all" if savings.share is not None else ""
        note = f"{savings.epochs} more saved by early stopping, {share}"
        yield Tile("epochs trained", str(report.trained_epochs), note)
    else:
        yield Tile("epochs trained", str(report.trained_epochs), "nothing was stopped early")
    if occupancy.busy_share is not None:
        slots = f"{occupancy.slots} slot{'' if occupancy.slots == 1 else 's'}"
        yield Tile("slots busy", f"{occupancy.busy_share:.0%}", f"{slots} side by side")


def best_table(report: Report) -> Table:
    """The best trials, each with its value in the search and its hyperparameters in columns.

    Of those that were confirmed it has the mean over the fresh seeds beside that.
    """
    metric = report.results.metric
    configs = [{printable(n): v for n, v in flat(one["config"]).items()} for one in report.best]
    names = list(dict.fromkeys(name for config in configs for name in config))
    confirmed = any(one["shown"] == "confirmed" for one in report.best)
    head = ["trial", printable(metric), *(["confirmed mean"] if confirmed else []), "epoch"]
    rows = []
    for one, config in zip(report.best, configs, strict=True):
        searched = _searched(report, one)
        values = (number(config[name]) if name in config else "" for name in names)
        mean = [_mean(one)] if confirmed else []
        shown = number(searched["metrics"][metric])
        rows.append([one["trial_id"], shown, *mean, str(searched["epoch"]), *values])
    return Table([*head, *(name.replace("/", ".") for name in names)], rows)


def _searched(report: Report, best: Mapping[str, Any]) -> dict[str, Any]:
    """A trial of the best as the search showed it, confirmed or not."""
    return report.results.best_json(report.results.trial(best["trial_id"]))


def _mean(best: Mapping[str, Any]) -> str:
    found = best.get("confirmed")
    return with_error(found["mean"], found["standard_error"]) if found else ""


def _provenance(report: Report) -> Iterator[tuple[str, str]]:
    """(name, value) of where the results and the report come from."""
    known, spec = report.provenance, report.spec
    document = known["experiment"]
    yield "experiment", printable(report.results.name)
    yield "trainable", printable(spec.trainable)
    yield "seed", str(spec.seed)
    yield "started", known["started"] or "not yet"
    yield "ended", known["ended"] or "not yet"
    yield "resumed", f"{known['resumed']} times"
    yield "git revision", printable(str(document.get("git_revision") or "none: in no repository"))
    yield "versions of the search", _versions(document.get("versions"))
    yield "journal's SHA-256", known["journal_sha256"]
    yield "report made", known["report_made"]
    yield "versions of the report", _versions(known["report_made_by"])


def _versions(versions: Any) -> str:
    if not isinstance(versions, dict):
        return "unknown"
    return printable(", ".join(f"{name} {number}" for name, number in versions.items()))
