"""tuner control."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import options
from tuner.cli.printing import json_text
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.record.control import Control
    from tuner.record.folder import ExperimentFolder
    from tuner.record.steered import Answer

_POLL_S = 0.3
_VALUES = {  # of each verb, as they are written
    "stop-trial": "ID",
    "pause": "",
    "go-on": "",
    "max-concurrent": "N|none",
    "time-budget": "DURATION|none",
    "num-samples": "N",
    "try": "KEY=VALUE ...",
    "finish": "",
}


@click.command(cls=options.Command, section="Search", place=4)
@click.argument("name")
@click.argument("verb", type=click.Choice(list(_VALUES)))
@click.argument("values", nargs=-1, metavar="[VALUE ...]")
@click.option("--like", metavar="ID", help="To try: what is not given is as in this trial.")
@click.option(
    "--wait", type=options.Duration(), default="10s", help="For the answer.  [default: 10s]"
)
@options.storage
@options.as_json
def control(
    name: str,
    verb: str,
    values: tuple[str, ...],
    like: str | None,
    wait: float,
    storage: str | None,
    as_json: bool,
) -> int:
    """Ask the running search NAME for something.

    \b
    stop-trial ID          end a trial after the epoch in flight
    pause, go-on           trials give up their places, and go on later
    max-concurrent N       trials at a time; none: as many as fit
    time-budget DURATION   of the search since its start; none: no limit
    num-samples N          trials in all
    try KEY=VALUE ...      a config to try next, in addition
    finish                 start no more trials, and end with those that run
    """
    from tuner.record.control import request
    from tuner.record.folder import ExperimentFolder
    from tuner.record.storage import find_experiment

    files = ExperimentFolder(find_experiment(name, storage))
    asked = _control(files, verb, values, like)
    request_id = request(files, asked, by=_who())
    answer = _answer(files, request_id, wait)
    if as_json:
        plain = {"id": request_id, "control": asked.model_dump(mode="json")}
        click.echo(json_text({**plain, **(answer.as_dict() if answer else {}), **_came(answer)}))
    else:
        click.echo(_told(files, asked, answer))
    return 0 if answer is None or answer.refused is None else UsageError.exit_code


def _control(
    files: ExperimentFolder, verb: str, values: Sequence[str], like: str | None
) -> Control:
    """The control that was written. Raises UsageError for what is none."""
    from pydantic import ValidationError

    from tuner.record.control import CONTROLS, TryConfig
    from tuner.settings_base import faults_of

    model = CONTROLS[verb]
    fields = [field for field in model.model_fields if field != "verb"]
    if verb != "try" and (len(values) != len(fields) or like is not None):
        raise UsageError(f"write: {verb} {_VALUES[verb]}".rstrip())
    try:
        if verb == "try":
            return TryConfig(config=_config(files, values, like))
        given = {field: _value(field, text) for field, text in zip(fields, values, strict=True)}
        asked: Control = model.model_validate(given)
        return asked
    except ValidationError as error:
        raise UsageError("; ".join(map(str, faults_of(error, model)))) from None


def _value(field: str, text: str) -> Any:
    if field == "trial_id":
        return text.zfill(5) if text.isdecimal() else text
    if text == "none":
        return None
    return options.Duration().convert(text, None, None) if field == "time_budget_s" else text


def _config(files: ExperimentFolder, values: Sequence[str], like: str | None) -> dict[str, Any]:
    from tuner.results.results import Results
    from tuner.spec.text import assign, assigned

    known = {} if like is None else Results(files.path).trial(like).config
    if not values and not known:
        raise UsageError(f"write: try {_VALUES['try']}, or --like ID")
    return assign(deepcopy(known), assigned(values))


def _answer(files: ExperimentFolder, request_id: str, wait_s: float) -> Answer | None:
    """What the driver has journaled of the request; None: nothing within `wait_s`."""
    from tuner.record.control import answers

    deadline = time.monotonic() + wait_s
    while True:
        is_driven = files.is_driven  # asked first: a driver that ends has then answered
        files.refresh()
        found = next((one for one in reversed(answers(files)) if one.id == request_id), None)
        if found or not is_driven or time.monotonic() > deadline:
            return found
        time.sleep(_POLL_S)


def _came(answer: Answer | None) -> dict[str, Any]:
    return {"answer": "none yet" if answer is None else "refused" if answer.refused else "done"}


def _told(files: ExperimentFolder, asked: Control, answer: Answer | None) -> str:
    from tuner.reporting.control_text import control_text

    text = control_text(asked.model_dump(mode="json"))
    if answer is None:
        return f"{text}: asked; the driver of {files.name} has not answered yet"
    return f"{text}: not done: {answer.refused}" if answer.refused else f"{text}: done"


def _who() -> str:
    """Who asks, to be shown: USER@HOST, as far as it is known."""
    import getpass
    import socket

    user = ""
    with suppress(KeyError, OSError):  # a container may run as a user that has no name
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"
