"""The events of an experiment, as journaled. Readers accept further fields and unknown kinds.

The `owner` of a start is the process that drives the experiment: {host, pid, started}.
"""

from __future__ import annotations

import sys
from functools import cache
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Annotated, Any, Literal, NotRequired

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict  # pydantic needs it below Python 3.12

from tuner.spec.plain_values import CONFIG_LEVELS

EXPERIMENT_STARTED = "experiment_started"
TRIAL_STARTED = "trial_started"
RESULT = "result"
CHECKPOINT = "checkpoint"
TRIAL_ENDED = "trial_ended"
CONTROL = "control"
EXPERIMENT_ENDED = "experiment_ended"
OF_TRIALS = frozenset((TRIAL_STARTED, RESULT, CHECKPOINT, TRIAL_ENDED))

COMPLETED = "completed"
STOPPED = "stopped"  # by the scheduler, or a control
FAILED = "failed"
INTERRUPTED = "interrupted"
RUNNING = "running"  # never journaled: it has started and not ended

ENDED = (COMPLETED, STOPPED, FAILED)
TRIAL_STATUSES = (*ENDED, INTERRUPTED)
COUNTED = (COMPLETED, STOPPED, FAILED, RUNNING, INTERRUPTED)

# Why an experiment ended before its trials did
TIME_BUDGET = "time_budget"
TARGET = "target"  # a trial has reached it
PATIENCE = "patience"  # no trial was better for long
UTILITY = "utility"  # little gain is expected of more hours
FINISH = "finish"  # it was asked to end
SAME_FAILURE = "same_failure"  # its first trials failed with one cause
_EARLY = {
    TIME_BUDGET: "out of time",
    TARGET: "target reached",
    PATIENCE: "no more progress",
    UTILITY: "little more expected",
    FINISH: "ended as asked",
}

Event = dict[str, Any]


def format_status(status: str, ended_by: str | None) -> str:
    """An experiment's status, or why it ended before its trials did."""
    return _EARLY.get(ended_by or "", status) if status == COMPLETED else status


def find_fault(event: object) -> str | None:
    """What is wrong with the shape of an event, in words, or None. Unknown events pass."""
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "not an event: it has no `event`"
    kind = event["event"]
    adapter = _build_adapter(_KINDS.get(kind, _Timed))
    if not adapter.validator.isinstance_python(event):  # fast, but gives no reason
        try:
            adapter.validate_python(event)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            field = fault["loc"][0]
            rule = (
                fault["msg"]
                .removeprefix("Value error, ")
                .replace("Input should", "must")
            )
            return f"`{field}` of {kind}: {rule}, got {shown(event.get(field))}"
    if kind == TRIAL_ENDED and event["status"] == FAILED and event.get("error") is None:
        return "`error` of a failed trial is missing"
    return None


@cache
def _build_adapter(shape: type) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def is_owner(value: object) -> bool:
    """Whether `value` is an `owner` as `build_owner` gives it."""
    return _build_adapter(_Owner).validator.isinstance_python(value)


def _check_plain(values: dict[str, Any]) -> dict[str, Any]:
    if not _is_plain(values):
        raise ValueError("must hold finite plain values")
    return values


def _check_verb(control: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(control.get("verb"), str):
        raise ValueError("must have a `verb`")
    return control


def _is_plain(value: object, depth: int = 0) -> bool:
    if depth > CONFIG_LEVELS:
        return False
    if isinstance(value, dict):
        return all(
            isinstance(k, str) and _is_plain(v, depth + 1) for k, v in value.items()
        )
    if isinstance(value, list | tuple):
        return all(_is_plain(inner, depth + 1) for inner in value)
    if isinstance(value, int | float):
        return abs(value) <= sys.float_info.max
    return value is None or isinstance(value, str)


_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
# Before the year 5138, for every calendar
Time = Annotated[float, Field(ge=0, lt=1e11)]
_Count = Annotated[int, Field(ge=0, lt=10**15)]
# The number names a folder, and is read as an int
_TrialId = Annotated[str, Field(pattern="^[0-9]{1,100}$")]
_Plain = Annotated[dict[str, Any], AfterValidator(_check_plain)]
_Metrics = dict[str, float]


@with_config(_STRICT)
class _Owner(TypedDict):
    host: str
    pid: int
    started: Time


@with_config(_STRICT)
class _Timed(TypedDict):
    time: Time


class _OfTrial(_Timed):
    trial_id: _TrialId


class _ExperimentStarted(_Timed):
    resumed: bool
    owner: _Owner


class _TrialStarted(_OfTrial):
    # And, unchecked: `origin`, why its config was chosen, and `client`
    config: _Plain
    seed: NotRequired[_Count | None]  # the trial's own


class _Result(_OfTrial):
    epoch: _Count
    metrics: _Metrics
    # The trial says that it has come to its end
    done: NotRequired[Literal[True] | None]


class _Checkpoint(_OfTrial):  # it may follow later results
    epoch: _Count
    # POSIX, relative to the experiment's folder
    path: Annotated[str, Field(min_length=1)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    metrics: NotRequired[_Metrics | None]  # of an epoch that was run again


@with_config(_STRICT)
class _Failure(TypedDict):
    kind: str
    message: str


class _TrialEnded(_OfTrial):
    status: Literal["completed", "stopped", "failed", "interrupted"]
    error: NotRequired[_Failure | None]  # required of a failed trial
    # The scheduler's, by epoch
    forecasts: NotRequired[
        dict[Annotated[str, Field(pattern="^[0-9]+$")], _Metrics] | None
    ]
    control: NotRequired[str | None]  # the id of the control that ended it
    # It does not go on where trials become longer
    done: NotRequired[Literal[True] | None]


class _Control(_Timed):  # journaled before it is done
    id: str
    control: Annotated[_Plain, AfterValidator(_check_verb)]
    by: NotRequired[str | None]  # who asked
    refused: NotRequired[str | None]  # why it is not done
    trial_id: NotRequired[_TrialId | None]  # of the trial that will have the config


@with_config(_STRICT)
class _Best(TypedDict):
    trial_id: _TrialId
    config: _Plain
    epoch: _Count
    metrics: _Metrics  # the objective alone


class _ExperimentEnded(_Timed):  # older journals have the first three fields alone
    # Failed also without a usable trial
    status: Literal["completed", "interrupted", "failed"]
    reason: NotRequired[str | None]  # why it ended before its trials did
    never_started: NotRequired[_Count | None]  # trials
    counts: NotRequired[dict[str, _Count] | None]
    best: NotRequired[_Best | None]
    total: NotRequired[_Count | None]  # trials that it was to run
    started: NotRequired[Time | None]  # when its first driver began
    idle_s: NotRequired[Time | None]  # seconds since then in which no driver ran


_KINDS: dict[str, type] = {
    EXPERIMENT_STARTED: _ExperimentStarted,
    TRIAL_STARTED: _TrialStarted,
    RESULT: _Result,
    CHECKPOINT: _Checkpoint,
    TRIAL_ENDED: _TrialEnded,
    CONTROL: _Control,
    EXPERIMENT_ENDED: _ExperimentEnded,
}
