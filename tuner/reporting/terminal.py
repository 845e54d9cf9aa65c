"""Progress on stderr while a search runs: a live view in a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING

from tuner.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    FAILED,
    INTERRUPTED,
    RUNNING,
    STOPPED,
    Event,
)
from tuner.reporting.tally import Best, Tally
from tuner.reporting.wording import config_line, duration, number, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LINE_EVERY_S = 30.0
_WIDTH = 80
_SHOWN = (RUNNING, COMPLETED, STOPPED, FAILED, INTERRUPTED)


class Progress:
    """An observer of events that shows how the search goes.

    `stream` is stderr by default; `earlier` are the events of the runs before a resume, taken in
    silence.
    """

    def __init__(
        self, tally: Tally, *, stream: IO[str] | None = None, earlier: Iterable[Event] = ()
    ) -> None:
        self._tally = tally
        for event in earlier:
            tally.take(event)
        self._view = _view(stream or sys.stderr, tally)

    def __call__(self, event: Event) -> None:
        """Take one event and show what it changes."""
        before = self._tally.best
        self._tally.take(event)
        self._view.update(event, new_best=self._tally.best != before)

    def close(self) -> None:
        """Leave the terminal as it was, the last view in place."""
        self._view.close()


def counts_line(tally: Tally) -> str:
    """How many trials run and how the others ended, those with none left out."""
    counts = tally.counts
    return ", ".join(f"{counts[s]} {s}" for s in _SHOWN if counts[s] or s == RUNNING)


def times_line(tally: Tally, now: float) -> str:
    """Time spent and, as far as it can be guessed, left."""
    left = tally.left_s(now)
    rest = "" if left is None else f", ~{duration(left)} left"
    return duration(tally.elapsed_s(now)) + rest


def best_line(best: Best, metric: str) -> str:
    """The best value, and whose it is."""
    name = printable(metric)
    return f"best {name} {number(best.value)}, trial {best.trial_id}, epoch {best.epoch}"


def _trials(tally: Tally) -> str:
    return f"{tally.done} trials" if tally.total is None else f"{tally.done}/{tally.total} trials"


def _view(stream: IO[str], tally: Tally) -> _Lines | _Live:
    if stream.isatty():
        from rich.console import Console

        console = Console(file=stream)
        if not console.is_dumb_terminal:
            return _Live(console, tally)
    return _Lines(stream, tally)


class _Lines:
    """Plain lines: every new best, the end, and how it stands at most every 30 s."""

    def __init__(self, stream: IO[str], tally: Tally) -> None:
        self._stream = stream
        self._tally = tally
        self._told: float | None = None

    def update(self, event: Event, *, new_best: bool) -> None:
        now = event["time"]
        if self._told is None:
            self._told = now
        best = self._tally.best
        if new_best and best is not None:
            line = f"new {best_line(best, self._tally.metric)}"
            self._print(f"{line}: {config_line(best.config, _WIDTH)}")
        if event["event"] == EXPERIMENT_ENDED or now - self._told >= _LINE_EVERY_S:
            self._told = now
            self._print(self._standing(now))

    def close(self) -> None:
        pass

    def _standing(self, now: float) -> str:
        tally = self._tally
        best = f"; {best_line(tally.best, tally.metric)}" if tally.best else ""
        return f"{times_line(tally, now)}: {_trials(tally)}: {counts_line(tally)}{best}"

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class _Live:
    """A view of a few lines that stays at the bottom of the terminal and renews itself."""

    def __init__(self, console: Console, tally: Tally) -> None:
        from rich.live import Live

        self._tally = tally
        self._console = console
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=4,
            redirect_stdout=False,  # stdout is for data and may go elsewhere
        )
        self._live.start()

    def update(self, event: Event, *, new_best: bool) -> None:
        pass  # the view renews itself

    def close(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        return live_view(self._tally, now=time.time(), width=self._console.width)


def live_view(tally: Tally, *, now: float, width: int = _WIDTH) -> RenderableType:
    """The lines of the live view, each at most `width` characters."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        return Text(text, style=style, no_wrap=True, overflow="ellipsis")

    width = min(width, _WIDTH)
    head = Table.grid(padding=(0, 1))
    head.add_row(
        ProgressBar(total=tally.total, completed=tally.done, width=max(10, width - 50)),
        line(_trials(tally)),
        line(times_line(tally, now), style="cyan"),
    )
    lines: list[RenderableType] = [head, line(counts_line(tally))]
    if tally.best is not None:
        lines.append(line(best_line(tally.best, tally.metric), style="bold green"))
        lines.append(line(config_line(tally.best.config, width), style="dim"))
    return Group(*lines)
