"""The events of an experiment, as they are journaled and as observers receive them.

An event is a dict with `event`, `time` (seconds since the epoch) and, if it is about a trial,
`trial_id`. Each kind of event also has:

    experiment_started   resumed: bool, owner: {host, pid, started}
    trial_started        config: {name: value}; if known also origin: why it was chosen, seed: the
                         trial's own, and client: who runs it elsewhere, by its own word
    result               epoch: int, metrics: {name: finite number}; if the trial says with it
                         that it has come to its end also done: true
    checkpoint           epoch: int, path: POSIX, relative to the experiment's folder, sha256;
                         it may follow later results, and if its epoch was run again it has the
                         metrics that belong to it
    trial_ended          status; if that is "failed" also error: {kind, message}; if the
                         scheduler tells also forecasts: {epoch: {name: number}}; if a control
                         has ended it also control: that one's id; if it does not go on where
                         trials become longer, as it came to its own end, also done: true
    control              what was asked of the search that runs, journaled before it is done:
                         id: the request's, control: {verb, ...} as `tuner.experiment.control` has
                         it; if known also by: who asked; refused: why it is not done, if so
    experiment_ended     status, "failed" also if no trial is usable; if its trials did not end it
                         also reason: TIME_BUDGET, TARGET, PATIENCE, FINISH or SAME_FAILURE, and
                         never_started: how many more trials there were to be, if known;
                         counts: {status: trials}, best: the best trial as `best --json` gives
                         it, with the objective alone, or null, total: of trials that it was to
                         run, or null, started: when its first driver began, idle_s: seconds
                         since then in which no driver ran. Older journals lack these five
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any

from tuner.spec.plain_values import CONFIG_LEVELS

EXPERIMENT_STARTED = "experiment_started"
TRIAL_STARTED = "trial_started"
RESULT = "result"
CHECKPOINT = "checkpoint"
TRIAL_ENDED = "trial_ended"
CONTROL = "control"
EXPERIMENT_ENDED = "experiment_ended"

COMPLETED = "completed"
STOPPED = "stopped"  # by the scheduler, or a control
FAILED = "failed"
INTERRUPTED = "interrupted"
RUNNING = "running"  # never journaled: it has started and not ended

TRIAL_STATUSES = (COMPLETED, STOPPED, FAILED, INTERRUPTED)
COUNTED = (COMPLETED, STOPPED, FAILED, RUNNING, INTERRUPTED)
EXPERIMENT_STATUSES = (COMPLETED, INTERRUPTED, FAILED)

# Why an experiment ended before its trials did
TIME_BUDGET = "time_budget"
TARGET = "target"  # a trial has reached it
PATIENCE = "patience"  # no trial was better for long
FINISH = "finish"  # it was asked to end
SAME_FAILURE = "same_failure"  # its first trials failed with one cause
_EARLY = {
    TIME_BUDGET: "out of time",
    TARGET: "target reached",
    PATIENCE: "no more progress",
    FINISH: "ended as asked",
}

Event = dict[str, Any]


def standing_of(status: str, ended_by: str | None) -> str:
    """How an experiment stands, in words: its status, or why it ended before its trials did."""
    return _EARLY.get(ended_by or "", status) if status == COMPLETED else status


_HEX_64 = re.compile(r"[0-9a-f]{64}")
_LATEST = 1e11  # the year 5138: every calendar can show an earlier time
_LARGEST = int(sys.float_info.max)
_NUMBERS = {float, int}  # and not bool
_MOST_DIGITS = 100  # of a trial's number: it names a folder, and is read as an int


def fault_of(event: object) -> str | None:
    """What is wrong with the shape of an event, in words, or None. Unknown events pass."""
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "not an event: it has no `event`"
    kind = event["event"]
    for field, check, rule in _REQUIRED.get(kind, _TIMED):
        if not check(event.get(field)):
            return f"`{field}` of {kind} must be {rule}, got {shown(event.get(field))}"
    for field, check, rule in _OPTIONAL.get(kind, ()):
        if event.get(field) is not None and not check(event[field]):
            return f"`{field}` of {kind} must be {rule}, got {shown(event[field])}"
    if kind == TRIAL_ENDED and event["status"] == FAILED and not _is_error(event.get("error")):
        error = shown(event.get("error"))
        return f"`error` of a failed trial must be {{kind, message}}, got {error}"
    return None


def _is_number(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and abs(value) <= _LARGEST


def is_time(value: object) -> bool:
    """Whether it is a time in seconds since the epoch that every calendar can show."""
    return (type(value) is float or type(value) is int) and 0 <= value < _LATEST


def _is_whole_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 10**15


def _is_trial_id(value: object) -> bool:
    return (
        type(value) is str and value.isdecimal() and value.isascii() and len(value) <= _MOST_DIGITS
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_metrics(value: object) -> bool:
    if not isinstance(value, dict) or {*map(type, value.values())} - _NUMBERS:
        return False
    try:  # in bulk: a journal may have a million reports
        "".join(value)
        return all(map(math.isfinite, value.values()))
    except (TypeError, OverflowError):  # a name that is no text; a number beyond a float's range
        return False


def _is_plain(value: object, depth: int = 0) -> bool:
    if depth > CONFIG_LEVELS:
        return False
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v, depth + 1) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(inner, depth + 1) for inner in value)
    return value is None or isinstance(value, bool | str) or _is_number(value)


def _is_config(value: object) -> bool:
    return isinstance(value, dict) and _is_plain(value)


def _is_forecasts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(epoch, str) and epoch.isdecimal() and _is_metrics(metrics)
        for epoch, metrics in value.items()
    )


def _is_error(value: object) -> bool:
    return isinstance(value, dict) and all(_is_text(value.get(key)) for key in ("kind", "message"))


def _is_control(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("verb"), str) and _is_plain(value)


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and _is_whole_number(count) for name, count in value.items()
    )


def _is_best(value: object) -> bool:
    return isinstance(value, dict) and all(
        check(value.get(field)) for field, check, _ in (_TRIAL_ID, _CONFIG, _EPOCH, _METRICS)
    )


def is_owner(value: object) -> bool:
    """Whether `value` is an `owner` as `tuner.experiment.owner.this_owner` gives it."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("host"), str)
        and type(value.get("pid")) is int
        and is_time(value.get("started"))
    )


_WHOLE_NUMBER = "a whole number from 0 on"
_FieldRule = tuple[str, Callable[[object], bool], str]
_TIME: _FieldRule = ("time", is_time, "in seconds since the epoch")
_TRIAL_ID: _FieldRule = (
    "trial_id",
    _is_trial_id,
    f"a trial's number, of at most {_MOST_DIGITS} digits",
)
_CONFIG: _FieldRule = ("config", _is_config, "an object of finite plain values")
_EPOCH: _FieldRule = ("epoch", _is_whole_number, _WHOLE_NUMBER)
_METRICS: _FieldRule = ("metrics", _is_metrics, "an object of finite numbers")
_DONE: _FieldRule = ("done", lambda value: value is True, "true")
_TIMED = (_TIME,)
_OF_TRIAL = (_TIME, _TRIAL_ID)
_REQUIRED: dict[str, tuple[_FieldRule, ...]] = {
    EXPERIMENT_STARTED: (
        _TIME,
        ("resumed", lambda value: isinstance(value, bool), "true or false"),
        ("owner", is_owner, "{host, pid, started}"),
    ),
    TRIAL_STARTED: (*_OF_TRIAL, _CONFIG),
    RESULT: (*_OF_TRIAL, _EPOCH, _METRICS),
    CHECKPOINT: (
        *_OF_TRIAL,
        _EPOCH,
        ("path", lambda value: isinstance(value, str) and value != "", "a relative path"),
        (
            "sha256",
            lambda value: isinstance(value, str) and _HEX_64.fullmatch(value) is not None,
            "64 lower-case hexadecimal digits",
        ),
    ),
    TRIAL_ENDED: (
        *_OF_TRIAL,
        ("status", lambda value: value in TRIAL_STATUSES, f"one of {', '.join(TRIAL_STATUSES)}"),
    ),
    CONTROL: (
        _TIME,
        ("id", _is_text, "text"),
        ("control", _is_control, "an object of plain values with a `verb`"),
    ),
    EXPERIMENT_ENDED: (
        _TIME,
        (
            "status",
            lambda value: value in EXPERIMENT_STATUSES,
            f"one of {', '.join(EXPERIMENT_STATUSES)}",
        ),
    ),
}
_OPTIONAL: dict[str, tuple[_FieldRule, ...]] = {
    TRIAL_STARTED: (("seed", _is_whole_number, _WHOLE_NUMBER),),
    RESULT: (_DONE,),
    CHECKPOINT: (_METRICS,),  # of an epoch that was run again, whose report is journaled already
    TRIAL_ENDED: (
        ("forecasts", _is_forecasts, "an object of finite numbers for each epoch"),
        ("control", _is_text, "text"),
        _DONE,
    ),
    CONTROL: (("by", _is_text, "text"), ("refused", _is_text, "text")),
    EXPERIMENT_ENDED: (
        ("reason", _is_text, "text"),
        ("never_started", _is_whole_number, _WHOLE_NUMBER),
        ("counts", _is_counts, "a number for each status"),
        ("best", _is_best, "a trial, its epoch and metrics"),
        ("total", _is_whole_number, _WHOLE_NUMBER),
        ("started", is_time, "in seconds since the epoch"),
        ("idle_s", is_time, "in seconds"),
    ),
}
