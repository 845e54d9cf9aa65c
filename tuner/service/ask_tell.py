"""HTTP for searches whose trials run elsewhere: suggest, report, should-stop, complete.

The first request opens an experiment. This process is then its driver until it is closed or the
process ends. A kill loses nothing: the next server continues, and clients repeat requests that were
not answered.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Depends, Request, Response
from pydantic import Field

from tuner.errors import (
    FAILURE_KINDS,
    NameTakenError,
    SearchClosedError,
    TunerError,
    UsageError,
)
from tuner.experiment.storage import find_experiment, resolve_storage
from tuner.service.answers import Json
from tuner.service.remote_specs import check_remote
from tuner.service.watch import UnknownNameError
from tuner.spec.code import ELSEWHERE
from tuner.spec.settings import Settings

if TYPE_CHECKING:
    from tuner.search.ask_tell import AskTell

PATH = "/api/ask-tell"

_CLOSED = {"description": "nothing was recorded; ask again after Retry-After seconds"}
router = APIRouter(prefix=PATH, responses={503: _CLOSED})


class Searches:
    """The searches that this process drives, by name; they are closed at its exit."""

    def __init__(self, storage: str) -> None:
        self._storage = storage
        self._open: dict[str, AskTell] = {}
        self._opening = threading.Lock()
        self._is_ending = False
        atexit.register(self.close_all)

    def create(self, raw: dict[str, Any]) -> tuple[str, bool]:
        """Create or open the experiment of a spec; returns its name, and whether it is new.

        Raises NameTakenError if it exists with another spec, and UsageError for a spec that names
        code: a client may not run its own code on the server.
        """
        from tuner.experiment.folder import ExperimentFolder
        from tuner.search.ask_tell import AskTell
        from tuner.spec.validation import validate

        raw = {"trainable": ELSEWHERE, **raw}
        check_remote(raw)
        spec = validate({**raw, "storage": self._storage}, source="the spec")
        if not spec.is_elsewhere:
            raise UsageError(f"trainable: must be {ELSEWHERE!r}, or left out")
        with self._opening, suppress(NameTakenError):
            self._check_not_ending(spec.name)
            if (
                spec.name not in self._open
                and not ExperimentFolder(spec.folder).is_taken
            ):
                self._open[spec.name] = AskTell(spec).__enter__()
                return spec.name, True
        existing = self.open_search(spec.name).spec
        if existing.model_copy(update={"storage": spec.storage}) != spec:
            raise NameTakenError(
                f"experiment {spec.name!r} exists, and has another spec"
            )
        return spec.name, False

    def open_search(self, name: str) -> AskTell:
        """The search of an experiment. Raises UsageError if it cannot be driven here."""
        if (search := self._open.get(name)) and not search.error:
            return search
        from tuner.search.ask_tell import AskTell

        folder = resolve_storage(self._storage) / name
        if name != folder.name or name.startswith((".", "~")):
            raise UnknownNameError(f"no experiment {name[:100]!r}")
        with self._opening:
            self._check_not_ending(name)
            if (search := self._open.get(name)) is None or search.error:
                try:
                    existing = find_experiment(name, self._storage)
                except UsageError as error:
                    raise UnknownNameError(str(error)) from error
                if existing != folder:  # one of that name in the working directory
                    raise UnknownNameError(f"no experiment {name!r}")
                search = self._open[name] = AskTell(folder).__enter__()
            return search

    def open_trial_search(self, name: str, trial_id: str) -> AskTell:
        """The search of `name`. Raises UnknownNameError if it has no such trial."""
        search = self.open_search(name)
        try:
            search.trial(trial_id)
        except UsageError as error:
            raise UnknownNameError(str(error)) from error
        return search

    def close(self, name: str) -> None:
        """Close an experiment, for `tuner rm` and others; the next request opens it again."""
        with self._opening:
            search = self._open.pop(name, None)
            if search is not None:
                search.__exit__(None, None, None)

    def _check_not_ending(self, name: str) -> None:
        """Raise SearchClosedError if no search is opened any more. Within `_opening`."""
        if self._is_ending:
            raise SearchClosedError(
                f"{name} is closed, as the server ends: ask again in a while"
            )

    def close_all(self) -> None:
        """Close all, also those after one whose storage fails, and open no other."""
        with self._opening:
            self._is_ending = True
        for name in list(self._open):
            with suppress(TunerError):
                self.close(name)


class Client(Settings):
    """client: a name of the caller's choice, which gets the same trial as long as it runs."""

    client: str | None = None


class Report(Settings, defer_build=False):
    # FastAPI warns of fields of models not built
    """The metrics of an epoch."""

    epoch: int = Field(ge=1, strict=True)
    metrics: dict[str, Any]


class Failure(Settings):
    """Why a trial failed, if it did, and the kind of its failure."""

    failure: str | None = None
    kind: str | None = Field(
        "exception", json_schema_extra={"enum": list(FAILURE_KINDS)}
    )


async def _find_searches(request: Request) -> Searches:
    searches: Searches = request.app.state.searches
    return searches


All = Annotated[Searches, Depends(_find_searches)]


@router.post("/")
def create(searches: All, spec: Annotated[dict[str, Any], Body()]) -> Response:
    """Create the experiment of a spec, or continue the one that has this very spec."""
    name, created = searches.create(spec)
    return Json({"name": name, "created": created}, status_code=201 if created else 200)


@router.post("/{name}/suggest")
def suggest(searches: All, name: str, body: Client | None = None) -> Response:
    """Ask for a trial to run. If `trial` is null, ask again in a while, unless it has `ended`."""
    search = searches.open_search(name)
    suggestion = search.suggest(body.client if body else None)
    trial = suggestion and asdict(suggestion)
    return Json({"trial": trial, "ended": trial is None and search.ended})


@router.post("/{name}/trials/{trial_id}/report")
def report(searches: All, name: str, trial_id: str, body: Report) -> Response:
    """Report the metrics of an epoch. Repeating a report does no harm."""
    search = searches.open_trial_search(name, trial_id)
    return _render_state(
        search, trial_id, search.report(trial_id, body.epoch, body.metrics)
    )


@router.get("/{name}/trials/{trial_id}/should-stop")
@router.post("/{name}/trials/{trial_id}/should-stop")
def should_stop(searches: All, name: str, trial_id: str) -> Response:
    """Ask whether a trial has ended and should stop."""
    search = searches.open_trial_search(name, trial_id)
    return _render_state(search, trial_id, search.should_stop(trial_id))


@router.post("/{name}/trials/{trial_id}/complete")
def complete(
    searches: All, name: str, trial_id: str, body: Failure | None = None
) -> Response:
    """End a trial: at its end, or with a failure in words, of a kind."""
    search = searches.open_trial_search(name, trial_id)
    how = body or Failure()
    search.complete(trial_id, failure=how.failure, kind=how.kind or "exception")
    return _render_state(search, trial_id, True)


@router.post("/{name}/close")
def close(searches: All, name: str) -> Response:
    """Release an experiment. Its trials stay with their clients. Requests that wait get 503 with
    Retry-After, and record nothing; the next request opens it again.
    """
    searches.close(name)
    return Json({})


def _render_state(search: AskTell, trial_id: str, should_stop: bool) -> Response:
    return Json({"should_stop": should_stop, "status": search.trial(trial_id).status})
