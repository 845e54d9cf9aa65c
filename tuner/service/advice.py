"""Advice on the page: the findings, also while a search runs, and what the button of each does."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response

from tuner.errors import UsageError
from tuner.experiment import control
from tuner.experiment.events import RUNNING
from tuner.experiment.results.results import Results
from tuner.service.answers import Json
from tuner.service.commands import Findings, compute_findings, run_tuner
from tuner.service.dependencies import BROWSER, Opened
from tuner.wording import find_program

_EVERY_S = 30.0  # between two computations, at least
_SHARE = 0.02  # of a core that they take, at most
# The command of `tuner queue` for one of `tuner`
_QUEUED = {"run": "add", "confirm": "confirm"}
_MORE = "--add-samples"

router = APIRouter(prefix="/api/experiments")


class _Kept(NamedTuple):
    """Findings, those before them, and when to compute them again."""

    findings: Findings
    before: Findings
    is_running: bool
    due: float


class Advice:
    """The latest findings of each experiment, computed one at a time. Thread-safe."""

    def __init__(
        self,
        storage: str | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        compute: Callable[[str, str | None], Findings] = compute_findings,
    ) -> None:
        self.storage = storage
        self._clock = clock
        self._compute = compute
        self._kept: dict[str, _Kept] = {}
        self._computing = threading.Lock()

    def update(self, results: Results) -> Findings:
        """The findings, as old as _EVERY_S and _SHARE make them."""
        name = results.name
        is_running = results.status == RUNNING
        with self._computing:
            kept = self._kept.get(name)
            began = self._clock()
            if kept is None or kept.is_running != is_running or began >= kept.due:
                findings = self._compute(name, self.storage)
                due = began + max(_EVERY_S, (self._clock() - began) / _SHARE)
                kept = _Kept(findings, kept.findings if kept else [], is_running, due)
                self._kept[name] = kept
        return kept.findings

    def is_known(self, results: Results, command: str) -> bool:
        """Whether a command is of a finding that a page may show."""
        kept = self._kept.get(results.name)
        findings = [*kept.findings, *kept.before] if kept else self.update(results)
        return any(finding["action"]["command"] == command for finding in findings)


class Offer(NamedTuple):
    """What a button does: a request to the driver, or else a command of `tuner queue`.

    title: of the button. text: what it says before. arguments: the command and its arguments.
    """

    title: str
    text: str
    request: control.Control | None = None
    arguments: tuple[str, ...] = ()


@router.get("/{name}/advice")
def advice(
    request: Request,
    results: Opened,
    ask: Annotated[
        str | None, Query(description="hyperparameters, separated by commas")
    ] = None,
) -> Response:
    """What to change: `tuner advise --json`."""
    return Json(
        {"findings": compute_findings(results.name, request.app.state.storage, ask=ask)}
    )


@router.get("/{name}/findings")
def findings(request: Request, results: Opened) -> Response:
    """The latest findings in words, each with the `offer` of its button, or None.

    While a search runs, those are left out that say how it goes on after its end.
    """
    shown = []
    for finding in request.app.state.advice.update(results):
        command = finding["action"]["command"]
        evidence = finding["evidence"]
        offer = find_offer(command, results)
        is_later = command.startswith(("tuner resume ", "tuner confirm "))
        if offer or results.status != RUNNING or not is_later:
            line = f"{finding['severity']}: {evidence['seen']} {evidence['meaning']}"
            button = offer and {"title": offer.title, "text": offer.text}
            shown.append({"line": line, "command": command, "offer": button})
    return Json(shown)


@router.post("/{name}/advice", status_code=201)
def follow(
    request: Request,
    results: Opened,
    command: Annotated[str, Body(embed=True, description="of a finding")],
) -> Response:
    """Do what the button of a finding offers. Answers with what is done, as a line."""
    latest: Advice = request.app.state.advice
    offer = find_offer(command, results) if latest.is_known(results, command) else None
    if offer is None:
        rule = "must be of a finding of this experiment, and one that a button runs"
        raise UsageError(f"command: {rule}, got {command!r}")
    if offer.request:
        control.send_request(results.files, offer.request, by=BROWSER)
        return Json({"done": f"asked for: {offer.title}"}, status_code=201)
    options = ["--storage", latest.storage] if latest.storage else []
    command, *arguments = offer.arguments
    name = run_tuner("queue", command, "--user", BROWSER, *options, *arguments).strip()
    return Json({"name": name, "done": f"{name} is in the queue"}, status_code=201)


def find_offer(command: str, results: Results) -> Offer | None:
    """What a button can do of a finding's command now; None: it only shows or measures."""
    tool, verb, *arguments = shlex.split(command)
    if results.status == RUNNING and verb != "run":
        return _offer_trials(arguments, results)
    if tool != "tuner" or verb not in _QUEUED or "--dry-run" in arguments:
        return None
    text = f"The queue gets: {command}. It runs as soon as `{find_program()} queue run` has room."
    return Offer("Add to the queue", text, arguments=(_QUEUED[verb], *arguments))


def _offer_trials(arguments: Sequence[str], results: Results) -> Offer | None:
    """More trials for a search that runs, unless it will have as many without."""
    planned = results.spec.num_samples
    if _MORE not in arguments or planned is None:
        return None
    total = len(results.trials) + int(arguments[-1])
    if total <= planned:
        return None
    text = f"This search runs {total} trials in all, in place of {planned}."
    request = control.build_control("num-samples", total)
    return Offer(f"Run {total} trials", text, request)
