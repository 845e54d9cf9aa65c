"""The JSON endpoints: what `tuner ls`, `show`, `best` and `trials` print with --json, and control.

Each is a function of its request, listed in ENDPOINTS, from which both the routes and their
description (`tuner.service.openapi`) are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tuner.errors import NoUsableTrialError, TunerError, UsageError
from tuner.experiment import control
from tuner.experiment.results import listing
from tuner.experiment.results.baseline import with_interval
from tuner.experiment.results.best import best_json, known_test, show_json
from tuner.experiment.results.rows import arranged, trial_json
from tuner.service.access import REPORT_POLICY, Json, refusal
from tuner.service.detail import Reports, curves_json, log_of
from tuner.service.followed import Followed
from tuner.service.watch import Experiments, UnknownNameError

_BY = "browser"  # who asks for a control, as it is shown


class Endpoint(NamedTuple):
    """A path below /api, its method, what answers it, and what the answer is.

    answer: a schema's name of `tuner.service.openapi`, or a content type. query: name -> what it
    means; `number` ones are whole numbers from 0 on.
    """

    path: str
    run: Callable[[Request], Any]
    answer: str
    query: Mapping[str, str] = {}
    method: str = "GET"
    body: str = ""


def experiments(request: Request) -> Response:
    """Every experiment of the storage, oldest first: `tuner ls --json`."""
    asked = request.query_params
    found = listing.find(
        _experiments(request).all(),
        where=asked.get("where"),
        tag=asked.get("tag"),
        strategy=asked.get("strategy"),
        sort=asked.get("sort"),
        reverse=_is_set(request, "reverse"),
    )
    return Json([one.as_dict() for one in found])


def experiment(request: Request) -> Response:
    """How an experiment stands, and its best trial: `tuner show --json`."""
    results = _opened(request)
    with results.lock:
        return Json(shown(results))


def best(request: Request) -> Response:
    """The K best trials, best first: `tuner best --top K --json`."""
    results, asked = _opened(request), request.query_params
    top = _number(request, "top", 1)
    if top < 1:
        raise UsageError(f"`top` must be at least 1, got {top}")
    with results.lock:
        found = best_json(results, top=top, metric=asked.get("metric"), mode=asked.get("mode"))
        return Json(found)


def trials(request: Request) -> Response:
    """A row for each trial: `tuner trials --json`. X-Total-Count says how many match."""
    results, asked = _opened(request), request.query_params
    with results.lock:
        rows = results.rows()
        order = arranged(
            rows,
            where=asked.get("where"),
            sort=asked.get("sort"),
            reverse=_is_set(request, "reverse"),
        )
        start = _number(request, "offset", 0)
        shown = order[start : start + _number(request, "limit", len(order))]
        total = {"X-Total-Count": str(len(order))}
        return Json([rows[number] for number in shown], headers=total)


def trial(request: Request) -> Response:
    """One trial with its reports: `tuner trials --trial ID --json`."""
    results = _opened(request)
    with results.lock:
        return Json(trial_json(results, results.trial(request.path_params["trial_id"])))


def log(request: Request) -> Response:
    """The end of what a trial wrote, as plain text."""
    results = _opened(request)
    with results.lock:
        found = results.trial(request.path_params["trial_id"])
    return PlainTextResponse(log_of(results, found))


def curves(request: Request) -> Response:
    """What the page draws: each trial's best value, the best so far, and some trials' curves."""
    results = _opened(request)
    with results.lock:
        return Json(curves_json(results, request.query_params.get("metric")))


def spec(request: Request) -> Response:
    """experiment.json: the resolved spec, and the versions that it ran with."""
    return Json(_opened(request).document)


def report(request: Request) -> Response:
    """The report, as `tuner report` writes it; its scripts run in an origin of their own."""
    reports: Reports = request.app.state.reports
    folder = _experiments(request).folder(request.path_params["name"])
    return HTMLResponse(reports.page(folder), headers={"Content-Security-Policy": REPORT_POLICY})


def controls(request: Request) -> Response:
    """What was asked of the search, oldest first."""
    files = _opened(request).files
    return Json([one.model_dump(mode="json") for one in control.requested(files)])


async def ask(request: Request) -> Response:
    """Ask the driver for a control: `tuner control`. Answers with the id of the request."""
    try:
        wanted = control.control_of(await request.json())
    except ValidationError as error:
        raise UsageError(_told(error)) from None
    except (ValueError, RecursionError, TypeError) as error:
        raise UsageError(f"no control: {error}") from None
    results = await run_in_threadpool(_opened, request)
    request_id = await run_in_threadpool(control.request, results.files, wanted, by=_BY)
    return Json({"id": request_id}, status_code=202)


def shown(results: Followed) -> dict[str, Any]:
    """What `show --json` shows."""
    test = known_test(results)
    shown = show_json(results)
    return {**shown, "test": with_interval(test)} if test else shown


_OF = "/api/experiments/{name}"
_ROWS = {
    "where": "an expression that chooses rows, as for --where",
    "sort": "a column to sort by",
    "reverse": "1: the other way round",
}
ENDPOINTS = (
    Endpoint(
        "/api/experiments",
        experiments,
        "Listed[]",
        {**_ROWS, "tag": "those with this tag", "strategy": "those of this search strategy"},
    ),
    Endpoint(_OF, experiment, "Shown"),
    Endpoint(
        f"{_OF}/best",
        best,
        "Best[]",
        {"top": "how many", "metric": "by this metric", "mode": "min or max"},
    ),
    Endpoint(
        f"{_OF}/trials",
        trials,
        "Row[]",
        {**_ROWS, "limit": "at most so many", "offset": "after so many"},
    ),
    Endpoint(f"{_OF}/trials/{{trial_id}}", trial, "Trial"),
    Endpoint(f"{_OF}/trials/{{trial_id}}/log", log, "text/plain"),
    Endpoint(f"{_OF}/curves", curves, "Curves", {"metric": "of the curves"}),
    Endpoint(f"{_OF}/spec", spec, "Document"),
    Endpoint(f"{_OF}/report", report, "text/html"),
    Endpoint(f"{_OF}/control", controls, "Request[]"),
    Endpoint(f"{_OF}/control", ask, "Asked", method="POST", body="Control"),
)


def routes() -> list[Route]:
    """A route for each of ENDPOINTS."""
    return [Route(one.path, one.run, methods=[one.method]) for one in ENDPOINTS]


def error_answer(request: Request, error: Exception) -> Response:
    """What a TunerError, or a storage's OSError, is answered with: its message."""
    kinds = {UnknownNameError: 404, ValueError: 400, NoUsableTrialError: 409, OSError: 503}
    status = next((code for kind, code in kinds.items() if isinstance(error, kind)), 500)
    return refusal(status, str(error))


ERRORS = {TunerError: error_answer, OSError: error_answer}


def _experiments(request: Request) -> Experiments:
    found: Experiments = request.app.state.experiments
    return found


def _opened(request: Request) -> Followed:
    return _experiments(request).opened(request.path_params["name"])


def _is_set(request: Request, name: str) -> bool:
    return request.query_params.get(name, "") not in ("", "0", "false")


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"`{name}` must be a whole number, got {text!r}")
    return int(text)


def _told(error: ValidationError) -> str:
    """The first fault of a control, in a line."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(map(str, fault["loc"])) or "the control"
    return f"{where}: {fault['msg']}"
