"""What was asked of a search that ran, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tuner.record.steered import Answer
from tuner.wording import config_line, duration, number, printable

_WIDTH = 60  # of a config


def control_text(control: Mapping[str, Any]) -> str:
    """A control, as one would ask for it: `max-concurrent 4`."""
    verb = printable(str(control["verb"]))
    match control:
        case {"verb": "try", "config": dict(config)}:
            return f"{verb} {config_line(config, _WIDTH)}"
        case {"verb": "time-budget", "time_budget_s": int() | float() as seconds}:
            return f"{verb} {duration(seconds)}"
    values = (value for name, value in control.items() if name != "verb")
    return " ".join([verb, *("none" if value is None else number(value) for value in values)])


def answer_text(answer: Answer) -> str:
    """What was asked, by whom, and why it was not done, if so."""
    by = f", asked by {printable(answer.by)}" if answer.by else ""
    not_done = f"; not done: {printable(answer.refused)}" if answer.refused else ""
    return f"{control_text(answer.control)}{by}{not_done}"


def control_lines(answers: Sequence[Answer]) -> list[str]:
    """What was asked of a search as it ran, a line each under a head; nothing if nothing was."""
    head = ["Asked while it ran"] if answers else []
    return [*head, *(f"  {_when(answer)}  {answer_text(answer)}" for answer in answers)]


def _when(answer: Answer) -> str:
    return f"{datetime.fromtimestamp(answer.time):%H:%M:%S}"
