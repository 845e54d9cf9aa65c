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
from tuner.reporting.experiment_text import change_lines, control_lines, failure_lines
from tuner.reporting.plan_text import reserves
from tuner.reporting.terminal import Progress, Standing, live_view
from tuner.reporting.time_left import TimeLeft

_EVERY_S = 0.5
_WIDTH = 80


def standing(results: Results, *, now: float) -> str:
    """The status of a running search: the live view, failures and controls; 80 columns."""
    each = _each(results)
    time_left = _time_left(results, results.history)
    view = Standing(results.history, time_left, results.metric, each)
    console = process.console(sys.stdout, width=_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(f"{results.name}: {results.standing}")
        console.print(live_view(view, now=now, width=_WIDTH))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    for more in (
        failure_lines(results),
        change_lines(results.changes),
        control_lines(results.history.steered.answers),
    ):
        lines += ["", *more] if more else []
    return "\n".join(lines)


def follow(
    results: Results,
    *,
    stream: IO[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the progress of a search on `stream` (default stderr) until its driver ends."""
    files = results.files
    history = History(results.objective)
    tail = Tail(results.folder)
    for event in tail.read():
        history.apply(event)
    each = _each(results)
    time_left = _time_left(results, history)
    progress = Progress(history, time_left, metric=results.metric, each=each, stream=stream)

    def show_news() -> None:
        for event in tail.read():
            history.apply(event)
            if event["event"] == CONTROL:
                progress.expect(_time_left(results, history))
            progress(event)

    try:
        while files.is_driven:
            sleep(_EVERY_S)
            files.refresh()
            show_news()
        show_news()
    finally:
        progress.close()


def _each(results: Results) -> str:
    """The resources of a trial, or "" if trials run elsewhere."""
    return "" if results.spec.is_elsewhere else reserves(results.spec.resources)


def _time_left(results: Results, history: History) -> TimeLeft:
    """The estimate with the changes that controls made."""
    return TimeLeft.of(results.spec.model_copy(update=history.steered.changes), history)
