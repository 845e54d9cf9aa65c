"""The JSON endpoints: `tuner ls`, `show`, `best` and `trials` with --json; control.

Those of the page are figures, a log, and the report.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from tuner.errors import (
    CheckpointError,
    ExperimentError,
    NameTakenError,
    NoUsableTrialError,
    SearchClosedError,
    TunerError,
)
from tuner.experiment import control
from tuner.experiment.files import open_plain, resolve_path, seek_tail
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results import listing
from tuner.experiment.results.confirmation import describe_best, show_json
from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import select_rows
from tuner.experiment.results.selection import check
from tuner.experiment.results.trial_rows import describe_trial, select_trial_rows
from tuner.experiment.trials import TrialRecord
from tuner.reporting.control_text import format_control, format_dated_request
from tuner.reporting.figures import Section, draw_section
from tuner.reporting.figures.best import By
from tuner.reporting.figures.data import FigureData
from tuner.service.access import REPORT_POLICY, Json, build_refusal
from tuner.service.watch import Experiments, Followed, UnknownNameError
from tuner.wording import clean_lines

BROWSER = "browser"  # the user who requests controls
RETRY_S = "2"  # after which a client may ask a closed search again, which opens it

router = APIRouter(prefix="/api/experiments")
_MAX_LOG_BYTES = 1 << 18
_MAX_REPORTS = 4  # pages of five megabytes
_MAKING = threading.Lock()  # a report takes seconds, and memory
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


async def _find_experiments(request: Request) -> Any:
    return request.app.state.experiments


All = Annotated[Experiments, Depends(_find_experiments)]


def _open_experiment(name: str, experiments: All) -> Followed:
    return experiments.open_experiment(name)


Opened = Annotated[Followed, Depends(_open_experiment)]
Where = Annotated[str | None, Query(description="an expression that chooses rows")]
Sort = Annotated[str | None, Query(description="a column to sort by")]
Top = Annotated[int | None, Query(ge=1, description="the best ones alone, so many")]
Reverse = Annotated[bool, Query(description="the other way round")]
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
    with results.lock:
        return Json(show_json(results))


@router.get("/{name}/best")
def best(
    results: Opened,
    top: Annotated[int, Query(ge=1, description="how many")] = 1,
    metric: str | None = None,
    mode: str | None = None,
) -> Response:
    """The best trials, best first: `tuner best --top K --json`."""
    with results.lock:
        return Json(describe_best(results, top=top, metric=metric, mode=mode))


class Chosen(NamedTuple):
    """The rows of `trials --json` that a page of an answer has, of `total` that match."""

    rows: list[dict[str, Any]]
    total: int


def choose_rows(
    results: Opened,
    where: Where = None,
    sort: Sort = None,
    reverse: Reverse = False,
    limit: Annotated[int | None, Query(ge=0, description="at most so many")] = None,
    offset: Annotated[int, Query(ge=0, description="after so many")] = 0,
    top: Top = None,
) -> Chosen:
    with results.lock:
        rows = results.list_rows()
        matches = select_trial_rows(rows, where=where, sort=sort, reverse=reverse)
        order = [*choose_trials(results, matches, top)]
    return Chosen([rows[number] for number in order[offset:][:limit]], len(order))


ChosenRows = Annotated[Chosen, Depends(choose_rows)]


@router.get("/{name}/trials")
def trials(chosen: ChosenRows) -> Response:
    """A row for each trial: `tuner trials --json`. X-Total-Count says how many match."""
    return Json(chosen.rows, headers={"X-Total-Count": str(chosen.total)})


@router.get("/{name}/trials/{trial_id}")
def trial(results: Opened, trial_id: str) -> Response:
    """One trial with its reports: `tuner trials --trial ID --json`."""
    with results.lock:
        return Json(describe_trial(results, results.trial(trial_id)))


@router.get("/{name}/trials/{trial_id}/log", response_class=PlainTextResponse)
def log(results: Opened, trial_id: str) -> Response:
    """The end of a trial's output, as plain text."""
    with results.lock:
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
    with results.lock:
        return Json(describe_figures(results, section, where=where, top=top, by=by, metric=metric))


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
    with results.lock:
        by_id |= {answer.id: answer.as_dict() for answer in results.history.steered.answers}
    in_order = [by_id[request_id] for request_id in sorted(by_id)]
    return Json(
        [
            {**each, "text": format_control(each["control"]), "line": format_dated_request(each)}
            for each in in_order
        ]
    )


@router.post("/{name}/control", status_code=202)
def ask(results: Opened, requested: RequestedControl) -> Response:
    """Ask the driver for a control: `tuner control`. Answers with the id of the request."""
    request_id = control.send_request(results.files, requested, by=BROWSER)
    return Json({"id": request_id}, status_code=202)


_STATUSES = {
    UnknownNameError: 404,
    NameTakenError: 409,
    NoUsableTrialError: 409,
    SearchClosedError: 503,
    ValueError: 400,
    ExperimentError: 503,
    OSError: 503,
}


def _render_error(request: Request, error: Exception) -> Response:
    """The message of a TunerError, or of a storage's OSError."""
    # Below ask-tell this process drives: what fails there is not the request
    kinds = {ExperimentError: 503, **_STATUSES} if "/ask-tell/" in request.url.path else _STATUSES
    status = next((code for kind, code in kinds.items() if isinstance(error, kind)), 500)
    headers = {"Retry-After": RETRY_S} if isinstance(error, SearchClosedError) else {}
    return build_refusal(status, str(error), headers=headers)


async def _render_faults(request: Request, error: Exception) -> Response:
    """The faults of parameters and body, in one line."""
    assert isinstance(error, RequestValidationError)
    faults = (
        f"{'.'.join(map(str, fault['loc'][1:])) or 'the body'}: "
        + fault["msg"].removeprefix("Value error, ")
        for fault in error.errors()
    )
    return build_refusal(400, "; ".join(faults))


async def _render_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return build_refusal(error.status_code, str(error.detail), headers=error.headers)


ERRORS: dict[int | type[Exception], Any] = {
    TunerError: _render_error,
    OSError: _render_error,
    RequestValidationError: _render_faults,
    HTTPException: _render_http_error,
}


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
    chosen = choose_trials(results, select_rows(results.list_rows(), where=where), top)
    trials = {trial_id: results.trials[trial_id] for trial_id in chosen.values()}
    data = FigureData(results, trials)
    drawn = [
        figure.as_dict()
        for section in sections
        for figure in draw_section(section, data, by=by, metric=metric)
    ]
    return {"metric": results.metric, "mode": results.mode, "metrics": metrics, "figures": drawn}


def choose_trials(results: Followed, order: Sequence[int], top: int | None) -> dict[int, str]:
    """The ids of the rows in `order`, or of the best `top` of them, by the number of the row."""
    rows = results.list_rows()
    ids = {number: rows[number]["trial_id"] for number in order}
    if top is None:
        return ids
    among = {*ids.values()}
    ranked = (trial.trial_id for _, trial in results.ranked if trial.trial_id in among)
    best = {*islice(ranked, top)}
    return {number: trial_id for number, trial_id in ids.items() if trial_id in best}


def read_log(results: Results, trial: TrialRecord, *, most: int = _MAX_LOG_BYTES) -> str:
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
