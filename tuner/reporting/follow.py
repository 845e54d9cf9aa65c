"""A search that runs elsewhere, seen through its journal: once, or until it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import IO

from tuner import streams
from tuner.record.history import History
from tuner.record.reading import Tail
from tuner.reporting.experiment_text import failure_lines
from tuner.reporting.plan_text import reserves
from tuner.reporting.terminal import Progress, Standing, live_view
from tuner.reporting.time_left import TimeLeft
from tuner.results.results import Results

_EVERY_S = 0.5
_WIDTH = 80


def standing(results: Results, *, now: float) -> str:
    """How a running search stands, in the lines of the live view, and what has failed: 80 columns,
    no colour.
    """
    spec = results.spec
    each = reserves(spec.resources)
    view = Standing(results.history, TimeLeft.of(spec), results.metric, each)
    console = streams.console(sys.stdout, width=_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(f"{results.name}: running")
        console.print(live_view(view, now=now, width=_WIDTH))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    failed = failure_lines(results)
    return "\n".join([*lines, *(["", *failed] if failed else [])])


def follow(
    results: Results,
    *,
    stream: IO[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show on `stream` (None: stderr) how a search goes until its driver has ended."""
    spec, files = results.spec, results.files
    history = History(results.objective)
    tail = Tail(results.folder)
    for event in tail.read():
        history.apply(event)
    each = reserves(spec.resources)
    progress = Progress(history, TimeLeft.of(spec), metric=results.metric, each=each, stream=stream)

    def show_news() -> None:
        for event in tail.read():
            history.apply(event)
            progress(event)

    try:
        while files.is_driven:
            sleep(_EVERY_S)
            files.refresh()
            show_news()
        show_news()
    finally:
        progress.close()
