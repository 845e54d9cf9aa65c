"""The progress of a search in another process, read from its journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import IO

from tuner import process
from tuner.experiment.events import CONTROL
from tuner.experiment.history import History
from tuner.experiment.reading import Tail
from tuner.experiment.results.results import Results
from tuner.reporting.experiment_text import change_lines, control_lines, failure_lines, gain_lines
from tuner.reporting.plan_text import reserves
from tuner.reporting.terminal import Progress, Status, TimeLeft, live_view

_EVERY_S = 0.5
_WIDTH = 80


def status_text(results: Results, *, now: float) -> str:
    """The status of a running search: the live view, failures and controls; 80 columns."""
    history, time_left = results.history, _time_left(results, results.history)
    status = Status(history, time_left, results.metric, _each(results))
    console = process.console(sys.stdout, width=_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(f"{results.name}: {results.status_text}")
        console.print(live_view(status, now=now, width=_WIDTH))
    view = [line.rstrip() for line in captured.get().splitlines()]
    changes, controls = change_lines(results.changes), control_lines(history.steered.answers)
    sections = [view, gain_lines(results), failure_lines(results), changes, controls]
    return "\n\n".join("\n".join(section) for section in sections if section)


def follow(
    results: Results, *, stream: IO[str] | None = None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Show the progress of a search on `stream` (default stderr) until its driver ends."""
    history = History(results.objective)
    tail = Tail(results.folder)
    for event in tail.read():
        history.apply(event)
    time_left, each = _time_left(results, history), _each(results)
    progress = Progress(history, time_left, metric=results.metric, each=each, stream=stream)
    try:
        is_driven = True
        while is_driven:
            is_driven = results.files.is_driven  # read once more after the driver has ended
            if is_driven:
                sleep(_EVERY_S)
                results.files.refresh()
            for event in tail.read():
                history.apply(event)
                if event["event"] == CONTROL:
                    progress.expect(_time_left(results, history))
                progress(event)
    finally:
        progress.close()


def _each(results: Results) -> str:
    """The resources of a trial, or "" if trials run elsewhere."""
    return "" if results.spec.is_elsewhere else reserves(results.spec.resources)


def _time_left(results: Results, history: History) -> TimeLeft:
    """The estimate with the changes that controls made."""
    return TimeLeft.of(results.spec.model_copy(update=history.steered.changes), history)
