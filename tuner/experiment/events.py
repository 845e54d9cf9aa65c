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
from collections.abc import Callable
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any

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


_LEAST, _MOST = -math.inf, math.inf
_STR, _FLOAT = {str}, {float}
_LATEST = 1e11  # the year 5138: every calendar can show an earlier time
_LARGEST = 10**300  # a whole number beyond a float's range is no metric either
_MOST_DIGITS = 100  # of a trial's number: it names a folder, and is read as an int
DEEPEST = 20  # levels in a config: every reader recurses into it


def fault_of(event: object) -> str | None:
    """What is wrong with the shape of an event, in words, or None. Unknown events pass."""
    if type(event) is dict and is_plainly_valid(event):
        return None
    return fault_by_rules(event)


def fault_by_rules(event: object) -> str | None:
    """What `fault_of` says, rule by rule."""
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "not an event: it has no `event`"
    kind = event["event"]
    for field, check, asked in (_TIME, *_RULES.get(kind, ())):
        if not check(event.get(field)):
            return f"`{field}` of {kind} must be {asked}, got {shown(event.get(field))}"
    if kind == TRIAL_ENDED and event["status"] == FAILED and not _is_error(event.get("error")):
        return f"`error` of a failed trial must be {_ERROR}, got {shown(event.get('error'))}"
    return None


def is_plainly_valid(event: Event) -> bool:
    """Whether a trial's event is valid at a glance, as nearly all are; False says nothing.

    A journal may have a million events, and the rules one by one take three times as long.
    """
    try:
        time, trial_id, kind = event["time"], event["trial_id"], event["event"]
        if type(time) is not float or not 0 <= time < _LATEST or not _is_trial_id(trial_id):
            return False
        if kind == RESULT:
            metrics = event["metrics"]
            is_short = _is_epoch(event["epoch"]) and "done" not in event
            return is_short and (_are_plainly_metrics(metrics) or _is_metrics(metrics))
        if kind == CHECKPOINT:
            path, digest = event["path"], event["sha256"]
            is_named = type(path) is str and path != "" and "metrics" not in event
            is_digest = type(digest) is str and _HEX_64.fullmatch(digest) is not None
            return is_named and is_digest and _is_epoch(event["epoch"])
        if kind == TRIAL_STARTED:
            config = event["config"]  # flat and of numbers, as most are, it is like metrics
            return "seed" not in event and (_are_plainly_metrics(config) or _is_config(config))
        if kind != TRIAL_ENDED or event.keys() & {"forecasts", "control", "done"}:
            return False
        return event["status"] in (COMPLETED, STOPPED, INTERRUPTED)
    except KeyError:
        return False


def _is_number(value: object) -> bool:
    if type(value) is float:
        return _LEAST < value < _MOST
    return type(value) is int and abs(value) <= _LARGEST


def is_time(value: object) -> bool:
    """Whether it is a time in seconds since the epoch that every calendar can show."""
    return _is_number(value) and 0 <= value < _LATEST  # type: ignore[operator]


def _is_epoch(value: object) -> bool:
    return type(value) is int and 0 <= value < 10**15


def _is_trial_id(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.isascii()
        and value.isdecimal()
        and len(value) <= _MOST_DIGITS
    )


def _is_metrics(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and _is_number(number) for name, number in value.items()
    )


def _are_plainly_metrics(value: object) -> bool:
    """Whether they are metrics, and all floats: where one is not finite, the sum is not either."""
    if type(value) is not dict or {*map(type, value)} != _STR:
        return False
    numbers = value.values()
    return {*map(type, numbers)} == _FLOAT and _LEAST < sum(numbers) < _MOST


def _is_plain(value: object, depth: int = 0) -> bool:
    if depth > DEEPEST:
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
        isinstance(epoch, str) and epoch.isdecimal() and _is_metrics(one)
        for epoch, one in value.items()
    )


def _is_error(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(key), str) for key in ("kind", "message")
    )


def _is_control(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("verb"), str) and _is_plain(value)


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and _is_epoch(count) for name, count in value.items()
    )


def _is_best(value: object) -> bool:
    return (
        isinstance(value, dict)
        and _is_trial_id(value.get("trial_id"))
        and _is_config(value.get("config"))
        and _is_epoch(value.get("epoch"))
        and _is_metrics(value.get("metrics"))
    )


def _is_text_if_any(value: object) -> bool:
    return value is None or isinstance(value, str)


def is_owner(value: object) -> bool:
    """Whether `value` is an `owner` as `tuner.experiment.owner.this_owner` gives it."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("host"), str)
        and type(value.get("pid")) is int
        and is_time(value.get("started"))
    )


_ERROR = "{kind, message}"
_HEX_64 = re.compile(r"[0-9a-f]{64}")
_FieldRule = tuple[str, Callable[[object], bool], str]
_TIME: _FieldRule = ("time", is_time, "in seconds since the epoch")
_TRIAL: _FieldRule = (
    "trial_id",
    _is_trial_id,
    f"a trial's number, of at most {_MOST_DIGITS} digits",
)
_EPOCH: _FieldRule = ("epoch", _is_epoch, "a whole number from 0 on")
_DONE: _FieldRule = ("done", lambda value: value is None or value is True, "true")
_RULES: dict[str, tuple[_FieldRule, ...]] = {
    EXPERIMENT_STARTED: (
        ("resumed", lambda value: isinstance(value, bool), "true or false"),
        ("owner", is_owner, "{host, pid, started}"),
    ),
    TRIAL_STARTED: (
        _TRIAL,
        ("config", _is_config, "an object of finite plain values"),
        ("seed", lambda value: value is None or _is_epoch(value), "a whole number from 0 on"),
    ),
    RESULT: (_TRIAL, _EPOCH, ("metrics", _is_metrics, "an object of finite numbers"), _DONE),
    CHECKPOINT: (
        _TRIAL,
        _EPOCH,
        ("path", lambda value: isinstance(value, str) and value != "", "a relative path"),
        (
            "sha256",
            lambda value: isinstance(value, str) and _HEX_64.fullmatch(value) is not None,
            "64 lower-case hexadecimal digits",
        ),
        (
            "metrics",  # of an epoch that was run again, whose report is journaled already
            lambda value: value is None or _is_metrics(value),
            "an object of finite numbers",
        ),
    ),
    TRIAL_ENDED: (
        _TRIAL,
        ("status", lambda value: value in TRIAL_STATUSES, f"one of {', '.join(TRIAL_STATUSES)}"),
        (
            "forecasts",
            lambda value: value is None or _is_forecasts(value),
            "an object of finite numbers for each epoch",
        ),
        ("control", _is_text_if_any, "text"),
        _DONE,
    ),
    CONTROL: (
        ("id", lambda value: isinstance(value, str), "text"),
        ("control", _is_control, "an object of plain values with a `verb`"),
        ("by", _is_text_if_any, "text"),
        ("refused", _is_text_if_any, "text"),
    ),
    EXPERIMENT_ENDED: (
        (
            "status",
            lambda value: value in EXPERIMENT_STATUSES,
            f"one of {', '.join(EXPERIMENT_STATUSES)}",
        ),
        ("reason", _is_text_if_any, "text"),
        ("never_started", lambda value: value is None or _is_epoch(value), "a whole number"),
        ("counts", lambda value: value is None or _is_counts(value), "a number for each status"),
        (
            "best",
            lambda value: value is None or _is_best(value),
            "a trial, its epoch and metrics",
        ),
        ("total", lambda value: value is None or _is_epoch(value), "a whole number"),
        ("started", lambda value: value is None or is_time(value), "in seconds since the epoch"),
        ("idle_s", lambda value: value is None or is_time(value), "in seconds"),
    ),
}
