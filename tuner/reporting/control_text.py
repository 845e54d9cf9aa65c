"""Requests of users while a search runs, and changes by resumes, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any

from tuner.experiment.steered import Answer
from tuner.wording import (
    clean_text,
    format_amount,
    format_config,
    format_duration,
    format_number,
    format_time,
)

_WIDTH = 80
_CONFIG_WIDTH = 60


def format_control(control: Mapping[str, Any]) -> str:
    """A control as a user types it: `max-concurrent 4`."""
    verb = clean_text(str(control["verb"]))
    match control:
        case {"verb": "try", "config": dict(config)}:
            return f"{verb} {format_config(config, _CONFIG_WIDTH)}"
        case {"verb": "time-budget", "time_budget_s": int() | float() as seconds}:
            return f"{verb} {format_duration(seconds)}"
    values = (value for name, value in control.items() if name != "verb")
    return " ".join([verb, *map(_format_value, values)])


def format_answer(answer: Answer) -> str:
    return format_request(answer.as_dict())


def format_request(request: Mapping[str, Any]) -> str:
    """A control as a plain value, the user who requested it, and why it was refused, if so."""
    by = request.get("by")
    refused = request.get("refused")
    requester = f", asked by {clean_text(by)}" if by else ""
    not_done = f"; not done: {clean_text(refused)}" if refused else ""
    return f"{format_control(request['control'])}{requester}{not_done}"


def format_dated_request(request: Mapping[str, Any]) -> str:
    """A request as a plain value, and when the driver has answered it."""
    text = format_request(request)
    time = request.get("time")
    return (
        f"{text}: the driver has not answered yet"
        if time is None
        else f"{format_time(time)}  {text}"
    )


def format_answers(answers: Sequence[Answer]) -> list[str]:
    lines = ["Asked while it ran"] if answers else []
    for answer in answers:
        lines.append(
            f"  {datetime.fromtimestamp(answer.time):%H:%M:%S}  {format_answer(answer)}"
        )
    return lines


def format_change(change: Mapping[str, Any]) -> str:
    """The change by one resume, in the shape of `Results.changes`: `scheduler.max_t 10 -> 20`."""
    was = change["was"]
    now = change["is"]
    return ", ".join(
        f"{clean_text(key)} {_format_value(was[key])} -> {_format_value(now[key])}"
        for key in now
    )


def format_changes(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["Changed by a resume"] if changes else []
    for change in changes:
        lines += wrap(
            f"  {format_dated_change(change)}", _WIDTH, subsequent_indent=" " * 4
        )
    return lines


def format_dated_change(change: Mapping[str, Any]) -> str:
    """The change by one resume, and when it was made, if that is known."""
    if change["time"] is None:
        return format_change(change)
    reported = format_amount(change["after_epochs"], "epoch")
    return f"{format_time(change['time'])}, after {reported}: {format_change(change)}"


def _format_value(value: Any) -> str:
    return "none" if value is None else format_number(value)
