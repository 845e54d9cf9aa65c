"""tuner control."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

import click

from tuner.cli import options
from tuner.cli.printing import format_json
from tuner.errors import UsageError
from tuner.experiment.verbs import VERBS

if TYPE_CHECKING:
    from tuner.experiment.control import Control
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.steered import Answer

_POLL_S = 0.3
_VERBS = "\n".join(f"  {f'{v.name} {v.written}':<24} {v.does}" for v in VERBS.values())
_HELP = f"Steer the search NAME while it runs.\n\n\b\nVERB is one of\n{_VERBS}"


@options.command(
    "Search",
    4,
    "tuner control digits stop-trial 3",
    "tuner control digits time-budget 2h",
    "tuner control digits try --like 3 lr=0.02",
    "tuner control digits finish",
    help=_HELP,
)
@click.argument("name")
@click.argument("verb", type=click.Choice(list(VERBS)), metavar="VERB")
@click.argument("values", nargs=-1, metavar="[VALUE ...]")
@click.option(
    "--like", metavar="ID", help="For try: take what is not given from this trial."
)
@click.option(
    "--wait",
    type=options.duration,
    default="10s",
    help="How long to wait for the answer.  [default: 10s]",
)
@options.storage_and_json
def control(
    name: str,
    verb: str,
    values: tuple[str, ...],
    like: str | None,
    wait: float,
    storage: str | None,
    as_json: bool,
) -> int:
    """Request a control, and show the answer."""
    import socket

    from tuner.experiment.control import send_request
    from tuner.experiment.folder import ExperimentFolder
    from tuner.experiment.owner import find_user_name
    from tuner.experiment.storage import find_experiment
    from tuner.reporting.control_text import format_control

    files = ExperimentFolder(find_experiment(name, storage))
    control = _parse_control(files, verb, values, like)
    by = f"{find_user_name() or ''}@{socket.gethostname()}"
    request_id = send_request(files, control, by=by)
    answer = _wait_for_answer(files, request_id, wait)
    status, text, code = _describe_outcome(files, answer)
    plain = control.model_dump(mode="json")
    if as_json:
        answered = answer.as_dict() if answer else {}
        click.echo(
            format_json(
                {"id": request_id, "control": plain, **answered, "answer": status}
            )
        )
    else:
        click.echo(f"{format_control(plain)}: {text}")
    return code


def _describe_outcome(
    files: ExperimentFolder, answer: Answer | None
) -> tuple[str, str, int]:
    """What a request has come to: for --json, in words, and as an exit code."""
    refused = UsageError.exit_code
    if answer is not None:
        if answer.refused:
            return "refused", f"not done: {answer.refused}", refused
        return "done", "done", 0
    if files.is_driven:
        return (
            "none yet",
            f"requested; the driver of {files.name} has not answered yet",
            0,
        )
    gone = f"not done: the driver of {files.name} has gone; a resume will be asked"
    return "none yet", gone, refused


def _parse_control(
    files: ExperimentFolder, verb: str, values: Sequence[str], like: str | None
) -> Control:
    """The control that was written. Raises UsageError for what is none."""
    from tuner.experiment.control import build_control

    field = VERBS[verb].field
    written = VERBS[verb].written
    if verb != "try":
        if like is not None:
            raise UsageError(f"--like is for try alone, got {verb}")
        value = " ".join(values)
        if len(values) != bool(field):
            raise UsageError(
                f"{verb} takes {written or 'no value'}, got {value or 'nothing'}"
            )
        return build_control(verb, value)
    from tuner.experiment.results.results import Results
    from tuner.spec.text import parse_assignments, set_values

    config = {} if like is None else Results(files.path).trial(like).config
    if not values and not config:
        raise UsageError(f"try takes {written}, or --like ID, got nothing")
    return build_control(verb, set_values(deepcopy(config), parse_assignments(values)))


def _wait_for_answer(
    files: ExperimentFolder, request_id: str, wait_s: float
) -> Answer | None:
    """The driver's answer to the request in the journal, or None after `wait_s`."""
    from tuner.experiment.reading import Tail
    from tuner.experiment.steered import collect_answers

    deadline = time.monotonic() + wait_s
    journal = Tail(files.path)
    while True:
        is_driven = files.is_driven  # read first: a driver that ends has then answered
        files.refresh()
        for answer in collect_answers(journal.read()):
            if answer.id == request_id:
                return answer
        if not is_driven or time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)
