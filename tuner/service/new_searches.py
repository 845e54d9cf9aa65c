"""New searches from the page: a text is checked as it is typed, and goes into the queue.

A text is the arguments of `tuner run`, as in `digits num_samples=50` or `folder:PATH`, or a spec in
YAML. It names no code: it starts what ships, and what the user has in experiments/.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Body, Request
from fastapi.responses import PlainTextResponse, Response

from tuner.errors import UsageError, translate_error
from tuner.experiment.resolve import describe
from tuner.reporting.plan_text import format_plan
from tuner.service.answers import Json
from tuner.service.commands import validate_experiment
from tuner.service.dependencies import BROWSER, Opened
from tuner.service.queue.entries import Queue, build_entry
from tuner.service.remote_specs import SETTABLE
from tuner.spec.experiment import build_spec
from tuner.spec.text import find_lines, read_value
from tuner.wording import find_program, format_time

_LINE = re.compile(r"\bline (\d+)")

router = APIRouter()
Text = Annotated[
    str, Body(embed=True, description="arguments of `tuner run`, or a spec in YAML")
]


@router.get("/api/start")
def start(request: Request) -> Response:
    """What a new search can begin with, and what is in the queue."""
    statuses = Queue(request.app.state.storage).list_statuses()
    rows = [
        [
            status.entry.name,
            status.entry.user,
            status.status,
            format_time(status.entry.added),
        ]
        for status in statuses[::-1]
    ]
    line = (
        f"In a terminal on the machine that trains, `{find_program()} queue run --stay` runs what "
        "is in the queue; this page starts nothing by itself."
    )
    queue: dict[str, Any] = {"title": "Queue", "lines": [line]}
    if rows:
        queue["rows"] = [["search", "user", "status", "added"], *rows]
    examples = describe(Path.cwd()).items()
    return Json({"examples": list(examples), "sections": [queue]})


@router.post("/api/plans")
def check(request: Request, text: Text) -> Response:
    """What `tuner validate` says of a text: its plan, or its faults with their lines."""
    try:
        plan = validate_text(text, request.app.state.storage)
    except UsageError as error:
        return Json({"plan": "", "faults": list_faults(str(error), text)})
    spec = build_spec(plan["spec"])
    return Json({"plan": format_plan(spec, plan, "this page"), "faults": []})


@router.post("/api/queue", status_code=201)
def add(request: Request, text: Text) -> Response:
    """Check a text and add its search to the queue. Answers with the name of the experiment."""
    storage = request.app.state.storage
    plan = validate_text(text, storage)
    entry = build_entry(build_spec(plan["spec"]), user=BROWSER, directory=os.getcwd())
    return Json({"name": Queue(storage).add(entry, is_named=False)}, status_code=201)


@router.get(
    "/api/experiments/{name}/trials/{trial_id}/variation",
    response_class=PlainTextResponse,
)
def variation(results: Opened, trial_id: str) -> Response:
    """A spec in YAML that trains the config of a trial once more, to be changed."""
    config = results.trial(trial_id).config
    spec = results.spec
    plain = spec.model_dump(mode="json", include=SETTABLE, exclude_defaults=True)
    plain["search"] = {
        "strategy": "random",
        "space": plain["search"]["space"],
        "points_to_evaluate": [config],
    }
    plain |= {"name": f"{spec.name}-variation", "num_samples": 1}
    return PlainTextResponse(yaml.safe_dump(plain, sort_keys=False, width=100))


def validate_text(text: str, storage: str | None) -> dict[str, Any]:
    """What `validate_experiment` answers for a text; raises UsageError as it does."""
    with translate_error(UsageError, "the spec cannot be read", of=ValueError):
        value = read_value(text)
        arguments = [] if isinstance(value, dict) else shlex.split(text)
    if isinstance(value, dict):
        return validate_experiment(value, (), storage)
    if not arguments:
        raise UsageError("the text is empty: give a name, images, or a spec")
    return validate_experiment(arguments[0], arguments[1:], storage)


def list_faults(message: str, text: str) -> list[dict[str, Any]]:
    """The faults of an error's message, each with the line of its key in the text, or None."""
    head, *faults = message.split("\n")
    try:
        lines = find_lines(text)
    except (yaml.YAMLError, ValueError):
        lines = {}
    return [
        {"line": find_line(fault, lines), "text": fault.strip()}
        for fault in faults or [head]
    ]


def find_line(fault: str, lines: Mapping[str, int]) -> int | None:
    """The line of the key that a fault begins with, or of what it stands in; or one that it names.

    >>> find_line("search.space.lr: must be a number", {"search": 3, "search.space": 4})
    4
    """
    if named := _LINE.search(fault):
        return int(named[1])
    path = fault.strip().partition(": ")[0]
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path)
