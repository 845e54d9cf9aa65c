"""Progress on stderr while a search runs: a live view in a terminal, else a line now and then."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

from tuner.experiment import events
from tuner.experiment.events import FAILED, Event
from tuner.experiment.history import History
from tuner.experiment.reading import Tail
from tuner.experiment.results.accuracy import VALIDATION
from tuner.experiment.results.results import Results
from tuner.reporting.control_text import format_answer
from tuner.reporting.live_view import Status, build_live_view
from tuner.spec.experiment import ExperimentSpec
from tuner.streams import create_console
from tuner.wording import (
    clean_text,
)

if TYPE_CHECKING:
    from rich.live import Live

_LINE_EVERY_S = 30.0
_BEST_EVERY_S = 10.0  # in a fast search each of the first trials may be the best so far
_MOST_MESSAGES = 3  # of failures, that are printed
_WIDTH = 80
_LOOK_EVERY_S = 0.5  # at the journal of another process's search


class Progress(logging.Handler):
    """An observer of events that shows the progress of a search on `stream`, by default stderr.

    In a terminal a view of a few lines renews itself at the bottom. Elsewhere a line tells of new
    bests and the status now and then. Both show warnings of tuner's loggers and the first failures.
    history: that of the experiment, up to the observed event. skipped: configs that are left out.
    clock: that of the events.
    """

    def __init__(
        self,
        spec: ExperimentSpec,
        history: History,
        *,
        skipped: int = 0,
        stream: IO[str] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(logging.WARNING)
        self._status = Status(history, spec, skipped)
        self._stream = stream or sys.stderr
        self._live = _start_live_view(self._stream, self._status, clock or time.time)
        self._failures: set[str] = set()
        self._printed_at: float | None = None  # when the status was last printed
        self._best_printed_at = -math.inf
        self._printed_best = self._status.leader  # that of an earlier run is no news
        logging.getLogger("tuner").addHandler(self)

    def __call__(self, event: Event) -> None:
        if self._live is None:
            self._print_progress(event)
        if event["event"] == events.TRIAL_ENDED and event["status"] == FAILED:
            text = f"{event['error']['kind']}: {event['error']['message']}"
            if text not in self._failures and len(self._failures) < _MOST_MESSAGES:
                self._failures.add(text)
                self._show(f"trial {event['trial_id']} failed: {text}", "red")
        if event["event"] == events.CONTROL:
            self._show(format_answer(self._status.history.steered.answers[-1]), "cyan")

    def emit(self, record: logging.LogRecord) -> None:
        self._show(f"warning: {record.getMessage()}", "yellow")

    def update_spec(self, spec: ExperimentSpec, skipped: int = 0) -> None:
        """Show the status of a changed spec from now on."""
        self._status.update_spec(spec, skipped)

    def show(self, text: str) -> None:
        """Show a line above the view."""
        self._show(text, "dim")

    def close(self) -> None:
        logging.getLogger("tuner").removeHandler(self)
        if self._live is not None:
            self._live.stop()  # the last view stays in the terminal
        super().close()

    def _print_progress(self, event: Event) -> None:
        now = event["time"]
        status = self._status
        best = self._status.leader
        if self._printed_at is None:
            self._printed_at = now
            if event["event"] == events.EXPERIMENT_STARTED:
                self._printed_best = best
        is_over = event["event"] == events.EXPERIMENT_ENDED
        is_due = is_over or now - self._best_printed_at >= _BEST_EVERY_S
        if best and best != self._printed_best and is_due:
            self._show(
                f"new {status.format_best(best)}: {status.format_config(best, _WIDTH)}"
            )
            self._best_printed_at = now
            self._printed_best = best
        if is_over or now - self._printed_at >= _LINE_EVERY_S:
            self._printed_at = now
            suffix = f"; {status.format_best(best)}" if best else ""
            self._show(
                f"{status.format_times(now)}: {status.format_trials()}: "
                f"{status.format_counts()}{suffix}"
            )

    def _show(self, text: str, style: str = "") -> None:
        if self._live is None:
            print(clean_text(text), file=self._stream, flush=True)
        else:
            from rich.text import Text

            self._live.console.print(Text(clean_text(text), style))


def _start_live_view(
    stream: IO[str], status: Status, clock: Callable[[], float]
) -> Live | None:
    """The view in a terminal, started; None elsewhere."""
    if not stream.isatty() or (console := create_console(stream)).is_dumb_terminal:
        return None
    from rich.live import Live

    live = Live(
        console=console,
        get_renderable=lambda: build_live_view(
            status, now=clock(), width=console.width
        ),
        refresh_per_second=4,
        redirect_stdout=False,  # stdout is for data and may go elsewhere
    )
    live.start()
    return live


def follow_search(
    results: Results,
    *,
    stream: IO[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the progress of a search on `stream` (default stderr) until its driver ends."""
    history = History(results.objective, images=results.document.get(VALIDATION))
    tail = Tail(results.folder)
    for event in tail.read():
        history.apply(event)
    progress = Progress(_apply_controls(results, history), history, stream=stream)
    try:
        is_driven = True
        while is_driven:
            # Read once more after the driver has ended
            is_driven = results.files.is_driven
            if is_driven:
                sleep(_LOOK_EVERY_S)
                results.files.refresh()
            for event in tail.read():
                history.apply(event)
                if event["event"] == events.CONTROL:
                    progress.update_spec(_apply_controls(results, history))
                progress(event)
    finally:
        progress.close()


def _apply_controls(results: Results, history: History) -> ExperimentSpec:
    """The spec with the changes that controls made."""
    return results.spec.model_copy(update=history.steered.changes)
