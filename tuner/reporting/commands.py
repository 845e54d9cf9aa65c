"""The commands and calls that go on with an experiment, to type."""

from __future__ import annotations

import shlex
from math import ceil
from pathlib import Path

from tuner.experiment import events
from tuner.experiment.results.results import Results
from tuner.experiment.storage import resolve_storage
from tuner.places import format_path
from tuner.spec.by_value import format_python_argument, is_by_value
from tuner.spec.code import ELSEWHERE
from tuner.wording import (
    clean_text,
    find_program,
)


def explain_completion(results: Results) -> str:
    """One line: a resume has nothing to do, and which options change that."""
    resume = f"{find_program()} resume {format_experiment_name(results.folder)}"
    if results.ended_by == events.TARGET:
        status = "has reached its target"
        ways = [f"another target: {resume} stop.target=VALUE"]
    elif results.ended_by == events.UTILITY:
        status = "expects little more"
        ways = [f"smaller gains: {resume} stop.utility=VALUE"]
    else:
        status = "is completed"
        ways = [
            f"more trials: {resume} --add-samples N",
            f"longer trials: {resume} scheduler.max_t=N",
            f"failed trials: {resume} --retry-failed",
        ]
    name = clean_text(results.name)
    return "; for ".join([f"{name} {status}, nothing is left to do", *ways])


def format_experiment_name(folder: Path) -> str:
    """NAME of the experiment in `folder` for a command: its name in the storage, or its path."""
    usual = resolve_storage(None) / folder.name
    if folder.resolve() == usual.resolve() and folder.name[0] != "-":  # as of an option
        return shlex.quote(folder.name)
    return shlex.quote(format_path(folder))


def format_resume_command(
    folder: Path, trainable: str, *, searched_s: float = 0, more_s: float = 0
) -> str:
    """The command or the Python call that resumes the experiment in `folder`.

    more_s: a new time budget, or 0, for a search that used up its budget after `searched_s`.
    """
    if is_by_value(trainable):
        again = clean_text(format_python_argument(trainable))
        return f"tuner.resume_experiment({clean_text(repr(str(folder)))}, {again})"
    if trainable == ELSEWHERE:  # its budget is that of all its drivers together
        budget = f", time_budget_s={ceil(searched_s + more_s)}" if more_s else ""
        return f"tuner.AskTell({clean_text(repr(str(folder)))}{budget})"
    budget = f" --time-budget {more_s:g}s" if more_s else ""
    return f"{find_program()} resume {format_experiment_name(folder)}{budget}"
