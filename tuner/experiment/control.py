"""Requests to a running search: each is a file control/ID.json, created once.

The driver journals a `control` event for each request before it acts, or with the reason why it
does not. So each is answered once, after any kill.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Container
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

from pydantic import BeforeValidator, Field, JsonValue, create_model

from tuner.errors import SpecError, UsageError, translate_error
from tuner.experiment import events
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import fold
from tuner.experiment.reading import read_last_event
from tuner.experiment.steered import apply_controls, collect_answers
from tuner.experiment.verbs import VERBS, Verb
from tuner.spec.code import ELSEWHERE
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.plain_values import find_value_fault
from tuner.spec.settings import MAX_COUNT, FaultsError, Settings, parse
from tuner.wording import find_program, parse_duration

FOLDER = "control"

_NAME = re.compile(rf"{FOLDER}/(\d{{19}}-[0-9a-f]{{8}})\.json")
_MOST_VALUES = 10_000  # of a request


class Control(Settings):
    """A request with one of VERBS; its value is in the field that the verb names."""

    verb: str

    @property
    def value(self) -> Any:
        """The value, or None for a verb without."""
        return getattr(self, VERBS[self.verb].field, None)


def _parse_seconds(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


_TYPES: dict[str, Any] = {  # field -> the type of its values
    "trial_id": Annotated[
        str,
        Field(pattern=r"^\d{1,100}$"),
        BeforeValidator(lambda raw: f"{raw:0>5}" if str(raw).isdecimal() else raw),
    ],
    "max_concurrent": Annotated[int | None, Field(ge=1, le=MAX_COUNT)],
    "time_budget_s": Annotated[
        float | None, Field(gt=0), BeforeValidator(_parse_seconds)
    ],
    "num_samples": Annotated[int, Field(ge=1, le=MAX_COUNT)],
    "config": dict[str, JsonValue],
}


def _build_model(verb: Verb) -> type[Control]:
    fields: dict[str, Any] = {"verb": (Literal[verb.name], verb.name)}
    if verb.field:
        fields[verb.field] = (_TYPES[verb.field], ...)
    name = verb.name.title().replace("-", "")
    return create_model(
        name, __base__=Control, __doc__=verb.does.capitalize(), **fields
    )


CONTROLS = {verb.name: _build_model(verb) for verb in VERBS.values()}
if TYPE_CHECKING:
    AnyControl = Control
else:
    AnyControl = Annotated[reduce(or_, CONTROLS.values()), Field(discriminator="verb")]


class Request(Settings):
    """A journaled or pending control. Ids sort by time; by: the requester, or ""."""

    id: str
    control: AnyControl
    by: str = ""


def build_control(verb: str, value: Any = None) -> Control:
    """The control of a verb and its value; "none" is None.

    Raises UsageError for a value of another kind.
    """
    field = VERBS[verb].field
    value = None if value == "none" else value
    control, faults = parse(CONTROLS[verb], {field: value} if field else {})
    if control is None:
        raise UsageError("; ".join(map(str, faults)))
    return control


def send_request(folder: ExperimentFolder, control: Control, *, by: str = "") -> str:
    """Write a request to the experiment's driver; returns its id, that of the `control` event.

    by: the requester, to be shown. Raises UsageError without a driver or if it cannot be written,
    and SpecError or UsageError for a control that cannot work.
    """
    if not folder.is_driven:
        raise UsageError(_describe_missing_driver(folder))
    folder.refresh()
    latest = read_last_event(folder.path) or {}
    if latest.get("event") == events.EXPERIMENT_ENDED:  # nobody would answer
        raise UsageError(
            f"{folder.name} has just ended, or is about to go on: ask while it runs"
        )
    control = validate_control(
        control, build_spec(read_current_document(folder)["spec"], recorded=True)
    )
    if control.verb == "stop-trial":
        _check_runs(folder, control.value)
    request_id = f"{time.time_ns():019}-{uuid4().hex[:8]}"
    document = {"control": control.model_dump(mode="json"), "by": by}
    with translate_error(UsageError, f"cannot ask {folder.name}", of=OSError):
        folder.create_file(f"{FOLDER}/{request_id}.json", document)
    return request_id


def read_requests(
    folder: ExperimentFolder, *, but: Container[str] = ()
) -> list[Request]:
    """The requests to the experiment, oldest first, without those of the ids `but`.

    Unreadable ones are left out. Raises OSError if the store fails for a minute.
    """
    matches = (_NAME.fullmatch(name) for name in folder.list_files(FOLDER))
    ids = (match[1] for match in matches if match)
    requests = (
        _read(folder, request_id) for request_id in ids if request_id not in but
    )
    return [request for request in requests if request is not None]


def _read(folder: ExperimentFolder, request_id: str) -> Request | None:
    try:
        raw = folder.read_latest(f"{FOLDER}/{request_id}.json")
        if find_value_fault(raw, most=_MOST_VALUES):
            return None
        return Request.model_validate({**raw, "id": request_id})
    except (OSError, ValueError, TypeError):
        return None


def read_current_document(folder: ExperimentFolder) -> dict[str, Any]:
    """experiment.json with the changes that journaled controls have made to the spec."""
    return apply_controls(folder.read_document(), collect_answers(folder.read_events()))


def validate_control(control: Control, spec: ExperimentSpec) -> Control:
    """The control, a config to try completed with the space's constants.

    Raises UsageError, or SpecError with every fault of a config, if it cannot work.
    """
    if control.verb in ("num-samples", "try") and spec.confirms:
        raise UsageError(f"a search that retrains leaders takes no {control.verb}")
    if control.verb == "time-budget" and control.value is None and spec.trials is None:
        raise UsageError(
            "only its time budget ends this search: ask for num-samples first"
        )
    if control.verb != "try":
        return control
    from tuner.spec.space.encoding import complete_config

    try:
        config = complete_config(spec.search.space, control.value, spec.search.forbid)
    except FaultsError as error:
        raise SpecError(error.faults, "the config") from None
    return build_control("try", config)


def _describe_missing_driver(folder: ExperimentFolder) -> str:
    end = read_last_event(folder.path) or {}
    go_on = f"{find_program()} resume {shlex.quote(folder.name)}"
    if folder.read_document()["spec"].get("trainable") == ELSEWHERE:
        go_on = f"`{find_program()} serve` or tuner.AskTell(FOLDER, add_samples=N)"
    is_done = (end.get("event"), end.get("status")) == (
        events.EXPERIMENT_ENDED,
        events.COMPLETED,
    )
    # After other reasons a resume has trials left
    is_done = is_done and end.get("reason") in (None, events.TARGET, events.UTILITY)
    has = "is completed" if is_done else "has no driver"
    return f"{folder.name} {has}; go on with it by: {go_on}"


def _check_runs(folder: ExperimentFolder, trial_id: str) -> None:
    trial = fold(folder.read_events()).trials.get(trial_id)
    if trial is None:
        raise UsageError(f"{folder.name} has no trial {trial_id!r} that has started")
    if trial.status not in (events.RUNNING, events.INTERRUPTED):
        raise UsageError(
            f"trial {trial_id} of {folder.name} has ended: it is {trial.status}"
        )
