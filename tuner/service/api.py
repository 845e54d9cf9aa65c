"""The JSON endpoints: `tuner ls`, `show`, `best` and `trials` with --json; control.

Those of the page are figures, a log, and the report.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from tuner.errors import CheckpointError
from tuner.experiment import control
from tuner.experiment.files import open_plain, resolve_path, seek_tail
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results import listing
from tuner.experiment.results.confirmation import describe_best, show_json
from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import select_rows
from tuner.experiment.results.selection import check
from tuner.experiment.results.trial_rows import describe_trial
from tuner.experiment.trials import TrialRecord
from tuner.reporting.control_text import format_control, format_dated_request
from tuner.reporting.figures import Section, draw_section
from tuner.reporting.figures.best import By
from tuner.reporting.figures.data import FigureData
from tuner.service.answers import Json
from tuner.service.dependencies import (
    BROWSER,
    All,
    ChosenRows,
    Opened,
    Reverse,
    Sort,
    Top,
    Where,
    choose_trials,
)
from tuner.service.watch import Followed
from tuner.wording import clean_lines

router = APIRouter(prefix="/api/experiments")
_MAX_LOG_BYTES = 1 << 18
_MAX_REPORTS = 4  # pages of five megabytes
_MAKING = threading.Lock()  # a report takes seconds, and memory
# Its scripts run in an origin of their own, which has no cookie and may ask the network for nothing
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
RequestedControl = Annotated[control.AnyControl, Body(discriminator="verb")]


@router.get("")
def experiments(
    all_experiments: All,
    where: Where = None,
    tag: str | None = None,
    strategy: str | None = None,
    sort: Sort = None,
    reverse: Reverse = False,
) -> Response:
    """Every experiment of the storage, oldest first: `tuner ls --json`."""
    matches = listing.find(
        all_experiments.list_experiments(),
        where=where,
        tag=tag,
        strategy=strategy,
        sort=sort,
        reverse=reverse,
    )
    return Json([experiment.as_dict() for experiment in matches])


@router.get("/{name}")
def experiment(results: Opened) -> Response:
    """The status of an experiment, and its best trial: `tuner show --json`."""
    return Json(show_json(results))


@router.get("/{name}/best")
def best(
    results: Opened,
    top: Annotated[int, Query(ge=1, description="how many")] = 1,
    metric: str | None = None,
    mode: str | None = None,
) -> Response:
    """The best trials, best first: `tuner best --top K --json`."""
    return Json(describe_best(results, top=top, metric=metric, mode=mode))


@router.get("/{name}/trials")
def trials(chosen: ChosenRows) -> Response:
    """A row for each trial: `tuner trials --json`. X-Total-Count says how many match."""
    return Json(chosen.rows, headers={"X-Total-Count": str(chosen.total)})


@router.get("/{name}/trials/{trial_id}")
def trial(results: Opened, trial_id: str) -> Response:
    """One trial with its reports: `tuner trials --trial ID --json`."""
    return Json(describe_trial(results, results.trial(trial_id)))


@router.get("/{name}/trials/{trial_id}/log", response_class=PlainTextResponse)
def log(results: Opened, trial_id: str) -> Response:
    """The end of a trial's output, as plain text."""
    trial = results.trial(trial_id)
    return PlainTextResponse(read_log(results, trial))


@router.get("/{name}/figures")
def figures(
    results: Opened,
    section: Annotated[list[Section], Query(description="the figures of these")],
    where: Where = None,
    top: Top = None,
    by: Annotated[By, Query(description="the axis of the best so far")] = "trial",
    metric: Annotated[str | None, Query(description="of the curves")] = None,
) -> Response:
    """The figures of the trials that are chosen, as descriptions for plotly.js."""
    return Json(
        describe_figures(results, section, where=where, top=top, by=by, metric=metric)
    )


@router.get("/{name}/spec")
def spec(results: Opened) -> Response:
    """experiment.json: the resolved spec, and the versions that it ran with."""
    return Json(results.document)


@router.get("/{name}/report", response_class=HTMLResponse)
def report(all_experiments: All, name: str) -> Response:
    """The report, as `tuner report` writes it; its scripts run in an origin of their own."""
    page = render_report(all_experiments.find_folder(name))
    return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/{name}/control")
def controls(results: Opened) -> Response:
    """The controls that were requested of the search, oldest first, with the driver's answers."""
    requests = control.read_requests(results.files)
    by_id = {request.id: request.model_dump(mode="json") for request in requests}
    by_id |= {answer.id: answer.as_dict() for answer in results.history.steered.answers}
    in_order = [by_id[request_id] for request_id in sorted(by_id)]
    return Json(
        [
            {
                **each,
                "text": format_control(each["control"]),
                "line": format_dated_request(each),
            }
            for each in in_order
        ]
    )


@router.post("/{name}/control", status_code=202)
def ask(results: Opened, requested: RequestedControl) -> Response:
    """Ask the driver for a control: `tuner control`. Answers with the id of the request."""
    request_id = control.send_request(results.files, requested, by=BROWSER)
    return Json({"id": request_id}, status_code=202)


def describe_figures(
    results: Followed,
    sections: Sequence[Section],
    *,
    where: str | None = None,
    top: int | None = None,
    by: By = "trial",
    metric: str | None = None,
) -> dict[str, Any]:
    """The metric and mode, all metrics that were reported, and the figures of the sections.

    A figure without a plot has its reason as caption. Raises UsageError for an unknown metric.
    """
    metrics = results.metrics
    if metric is not None:
        check("metric", metric, [results.metric, *metrics])
    chosen = choose_trials(results, select_rows(results.rows, where=where), top)
    trials = {trial_id: results.trials[trial_id] for trial_id in chosen.values()}
    data = FigureData(results, trials)
    drawn = [
        figure.as_dict()
        for section in sections
        for figure in draw_section(section, data, by=by, metric=metric)
    ]
    return {
        "metric": results.metric,
        "mode": results.mode,
        "metrics": metrics,
        "figures": drawn,
    }


def read_log(
    results: Results, trial: TrialRecord, *, most: int = _MAX_LOG_BYTES
) -> str:
    """The last lines of a trial's output, or "".

    Colours are removed, and progress bars show their last state. Only a plain file in the
    experiment's folder is read.
    """
    path = results.log_path(trial)
    try:
        path = resolve_path(results.folder, path.relative_to(results.folder).as_posix())
        with os.fdopen(open_plain(path), "rb") as file:
            start = seek_tail(file, most)
            data = file.read(most)
    except (OSError, CheckpointError):
        return ""
    if start:
        data = b"...\n" + data.partition(b"\n")[2]
    text = _COLOURS.sub("", data.decode(errors="replace"))
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return clean_lines("\n".join(lines))


def render_report(folder: Path) -> str:
    """The report of the experiment in `folder`, as `tuner report` writes it; the last are kept."""
    with _MAKING:
        return _report(folder, ExperimentFolder(folder).compute_fingerprint())


@lru_cache(_MAX_REPORTS)
def _report(folder: Path, mark: Hashable) -> str:
    from tuner.reporting.html import render_report_page
    from tuner.reporting.report import Report

    return render_report_page(Report(Results(folder)), images=False)
