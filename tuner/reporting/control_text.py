"""What was asked of a search that ran, and what resumes changed of it, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any

from tuner.experiment.steered import Answer
from tuner.wording import amount_of, config_line, duration, moment, number, printable

_WIDTH = 60  # of a config
_COLUMNS = 80


def control_text(control: Mapping[str, Any]) -> str:
    """A control, as one would ask for it: `max-concurrent 4`."""
    verb = printable(str(control["verb"]))
    match control:
        case {"verb": "try", "config": dict(config)}:
            return f"{verb} {config_line(config, _WIDTH)}"
        case {"verb": "time-budget", "time_budget_s": int() | float() as seconds}:
            return f"{verb} {duration(seconds)}"
    values = (value for name, value in control.items() if name != "verb")
    return " ".join([verb, *map(_value, values)])


def answer_text(answer: Answer) -> str:
    """What was asked, by whom, and why it was not done, if so."""
    by = f", asked by {printable(answer.by)}" if answer.by else ""
    not_done = f"; not done: {printable(answer.refused)}" if answer.refused else ""
    return f"{control_text(answer.control)}{by}{not_done}"


def control_lines(answers: Sequence[Answer]) -> list[str]:
    """What was asked of a search as it ran, a line each under a head; nothing if nothing was."""
    head = ["Asked while it ran"] if answers else []
    return [*head, *(f"  {_when(answer)}  {answer_text(answer)}" for answer in answers)]


def change_text(change: Mapping[str, Any]) -> str:
    """What one resume changed, in the shape of `Results.changes`: `scheduler.max_t 10 -> 20`."""
    was, now = change["was"], change["is"]
    return ", ".join(f"{printable(key)} {_value(was[key])} -> {_value(now[key])}" for key in now)


def change_lines(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What resumes changed, oldest first, under a head; nothing if nothing was changed."""
    lines = ["Changed by a resume"] if changes else []
    for change in changes:
        when = ""
        if change["time"] is not None:
            reported = amount_of(change["after_epochs"], "epoch")
            when = f"{moment(change['time'])}, after {reported}: "
        text = f"  {when}{change_text(change)}"
        lines += wrap(text, _COLUMNS, subsequent_indent=" " * 4)
    return lines


def _value(value: Any) -> str:
    return "none" if value is None else number(value)


def _when(answer: Answer) -> str:
    return f"{datetime.fromtimestamp(answer.time):%H:%M:%S}"
