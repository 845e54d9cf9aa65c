"""HTTP for searches whose trials run elsewhere: suggest, report, should-stop, complete.

An experiment is opened when it is first asked for, and from then on this process is its driver,
until it is closed or the process ends. A kill loses nothing: the next server goes on, and clients
repeat what was not answered.
"""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tuner.errors import (
    ExperimentError,
    NameTakenError,
    SearchClosedError,
    TunerError,
    UsageError,
)
from tuner.experiment.storage import find_experiment, storage_folder
from tuner.service.access import MAX_BODY_BYTES, Json, refusal
from tuner.service.watch import UnknownNameError
from tuner.spec.plain_values import parse_json

if TYPE_CHECKING:
    from tuner.search.ask_tell import AskTell

PLACE = "/api/ask-tell"  # where `tuner serve` has the routes

_RETRY_S = "2"  # after which a client may ask a search that is closed, and opens it again

_Body = Mapping[str, Any]
_Answer = tuple[int, dict[str, Any]]  # the status, and what is sent as JSON


class _TooLargeError(UsageError):
    """A body of more than MAX_BODY_BYTES bytes."""


_STATUSES: tuple[tuple[type[TunerError], int], ...] = (
    (UnknownNameError, 404),
    (_TooLargeError, 413),
    (NameTakenError, 409),
    (ExperimentError, 503),
)  # and 400 for whatever else a caller has got wrong


def routes(storage: str | None) -> list[Route]:
    """What is below PLACE, for the experiments in `storage`; those it opens are closed at exit."""
    searches = Searches(storage)
    atexit.register(searches.close_all)
    verbs = Verbs(searches)
    trial = "/{name}/trials/{trial_id}"
    return [
        Route("/", verbs.create, methods=["POST"]),
        Route("/{name}/suggest", verbs.suggest, methods=["POST"]),
        Route(f"{trial}/report", verbs.report, methods=["POST"]),
        Route(f"{trial}/should-stop", verbs.should_stop, methods=["GET", "POST"]),
        Route(f"{trial}/complete", verbs.complete, methods=["POST"]),
        Route("/{name}/close", verbs.close, methods=["POST"]),
    ]


class Searches:
    """The searches of a storage that this process drives, by their names."""

    def __init__(self, storage: str | None) -> None:
        self._storage = storage
        self._open: dict[str, AskTell] = {}
        self._opening = threading.Lock()

    def create(self, raw: _Body) -> tuple[str, bool]:
        """Begin the experiment of a spec, or go on with the one that has it; its name, and which.

        Raises NameTakenError where one of that name has another spec, and UsageError where the spec
        names code: whoever may ask this server may not run what they like on it.
        """
        from tuner.search.ask_tell import AskTell
        from tuner.spec.code import ELSEWHERE, code_named
        from tuner.spec.validation import validate

        if "storage" in raw:
            raise UsageError("storage: is the server's own; leave it out")
        storage = {} if self._storage is None else {"storage": self._storage}
        raw = {"trainable": ELSEWHERE, **raw, **storage}
        if code := code_named(raw):
            keys = ", ".join(f"{each.key} ({each.path})" for each in code)
            raise UsageError(f"a spec that comes over HTTP must not name code: {keys}")
        spec = validate(raw, source="the spec")
        if not spec.is_elsewhere:
            raise UsageError(f"trainable: must be {ELSEWHERE!r}, or left out")
        with self._opening, suppress(NameTakenError):
            if spec.name not in self._open:
                self._open[spec.name] = AskTell(spec).__enter__()
                return spec.name, True
        known = self.of(spec.name).spec
        if known.model_copy(update={"storage": spec.storage}) != spec:
            raise NameTakenError(f"experiment {spec.name!r} exists, and has another spec")
        return spec.name, False

    def of(self, name: str) -> AskTell:
        """The search of the experiment `name`. Raises UsageError where it cannot be driven here."""
        if (search := self._open.get(name)) and not search.error:
            return search
        from tuner.search.ask_tell import AskTell

        folder = storage_folder(self._storage) / name
        if name != folder.name or name.startswith((".", "~")):
            raise UnknownNameError(f"no experiment {name[:100]!r}")
        with self._opening:
            if (search := self._open.get(name)) is None or search.error:
                try:
                    found = find_experiment(name, self._storage)
                except UsageError as error:
                    raise UnknownNameError(str(error)) from error
                if found != folder:  # one of that name in the working directory
                    raise UnknownNameError(f"no experiment {name!r}")
                search = self._open[name] = AskTell(folder).__enter__()
            return search

    def close(self, name: str) -> None:
        """Let go of an experiment, for `tuner rm` and kin; whoever asks for it opens it again."""
        with self._opening:
            search = self._open.pop(name, None)
            if search is not None:
                search.__exit__(None, None, None)

    def close_all(self) -> None:
        """Let go of all of them; one whose storage fails keeps none of the others."""
        for name in list(self._open):
            with suppress(TunerError):
                self.close(name)


def _answering(
    answer: Callable[[Verbs, Request, _Body], _Answer],
) -> Callable[[Verbs, Request], Awaitable[Response]]:
    """The endpoint that answers in a thread, and says what is wrong as {"error": ...}."""

    @wraps(answer)
    async def endpoint(self: Verbs, request: Request) -> Response:
        try:
            body = await _body_of(request)
            status, content = await run_in_threadpool(answer, self, request, body)
        except TunerError as error:
            status = next((s for kind, s in _STATUSES if isinstance(error, kind)), 400)
            again = {"Retry-After": _RETRY_S} if isinstance(error, SearchClosedError) else {}
            return refusal(status, str(error), headers=again)
        return Json(content, status_code=status)

    return endpoint


class Verbs:
    """The endpoints."""

    def __init__(self, searches: Searches) -> None:
        self._searches = searches

    @_answering
    def create(self, request: Request, body: _Body) -> _Answer:
        """Begin the experiment of a spec. One that has this very spec is gone on with."""
        name, created = self._searches.create(body)
        return 201 if created else 200, {"name": name, "created": created}

    @_answering
    def suggest(self, request: Request, body: _Body) -> _Answer:
        """Ask for a trial to run. Null: ask again in a while or, once `ended`, no more. Who gives
        its own name as `client` is given the same trial again as long as it runs.
        """
        _only(body, "client")
        search = self._search(request)
        suggestion = search.suggest(_text(body, "client"))
        trial = None if suggestion is None else asdict(suggestion)
        return 200, {"trial": trial, "ended": trial is None and search.ended}

    @_answering
    def report(self, request: Request, body: _Body) -> _Answer:
        """Report the metrics of an epoch. To repeat what was not answered does no harm."""
        _only(body, "epoch", "metrics")
        search, trial_id = self._trial(request)
        if not isinstance(body.get("metrics"), dict):
            raise UsageError("metrics: must be an object of numbers")
        should_stop = search.report(trial_id, body.get("epoch"), body["metrics"])  # type: ignore[arg-type]
        return 200, _standing(search, trial_id, should_stop)

    @_answering
    def should_stop(self, request: Request, body: _Body) -> _Answer:
        """Ask whether a trial should stop now: it has ended."""
        search, trial_id = self._trial(request)
        return 200, _standing(search, trial_id, search.should_stop(trial_id))

    @_answering
    def complete(self, request: Request, body: _Body) -> _Answer:
        """End a trial: at its end, or with a failure in words, of a kind."""
        _only(body, "failure", "kind")
        search, trial_id = self._trial(request)
        kind = _text(body, "kind") or "exception"
        search.complete(trial_id, failure=_text(body, "failure"), kind=kind)
        return 200, _standing(search, trial_id, True)

    @_answering
    def close(self, request: Request, body: _Body) -> _Answer:
        """Let go of an experiment. Its trials stay with those who run them. Requests that wait are
        answered with 503 and Retry-After, and record nothing; the next request opens it again.
        """
        self._searches.close(request.path_params["name"])
        return 200, {}

    def _search(self, request: Request) -> AskTell:
        return self._searches.of(request.path_params["name"])

    def _trial(self, request: Request) -> tuple[AskTell, str]:
        search, trial_id = self._search(request), request.path_params["trial_id"]
        try:
            search.trial(trial_id)
        except UsageError as error:
            raise UnknownNameError(str(error)) from error
        return search, trial_id


def _standing(search: AskTell, trial_id: str, should_stop: bool) -> dict[str, Any]:
    return {"should_stop": should_stop, "status": search.trial(trial_id).status}


async def _body_of(request: Request) -> dict[str, Any]:
    """The JSON object that was sent, {} where nothing was. Raises UsageError for anything else."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY_BYTES:
            raise _TooLargeError(f"a body may have at most {MAX_BODY_BYTES:,} bytes")
    try:
        body = parse_json(data, decode=json.loads) if data.strip() else {}
    except ValueError as error:
        raise UsageError(f"the body: {error}") from error
    if not isinstance(body, dict):
        raise UsageError("the body must be a JSON object")
    return body


def _only(body: _Body, *known: str) -> None:
    if strangers := sorted(body.keys() - {*known}):
        raise UsageError(f"unknown: {', '.join(strangers)}; available: {', '.join(known)}")


def _text(body: _Body, key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{key}: must be text")
    return value
