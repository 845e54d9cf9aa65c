"""Progress on stderr while a search runs: a live view in a terminal, else a line now and then."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING

from tuner.record.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    FAILED,
    INTERRUPTED,
    RUNNING,
    STOPPED,
    Event,
)
from tuner.reporting.tally import Best, Tally
from tuner.wording import config_line, duration, number, printable, shorten

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LINE_EVERY_S = 30.0
_BEST_EVERY_S = 10.0  # in a fast search each of the first trials may be the best so far
_LIVE, _FAILURES, _WARNINGS = 8, 2, 3  # lines at most, so that the view fits a small terminal
_WIDTH = 80
_SHOWN = (RUNNING, COMPLETED, STOPPED, FAILED, INTERRUPTED)


class Progress:
    """An observer of events that shows how the search goes.

    each: what a trial reserves, in words. `stream` is stderr by default; `earlier` are the events
    of the runs before a resume, taken in silence. clock: that of the events, by default the
    machine's. Warnings of tuner's own logger are shown, too.
    """

    def __init__(
        self,
        tally: Tally,
        *,
        each: str = "",
        stream: IO[str] | None = None,
        earlier: Iterable[Event] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._tally = tally
        for event in earlier:
            tally.take(event)
        self._view = _view(stream or sys.stderr, tally, each, clock or time.time)
        self._warnings = _Warnings(self._view.warn)
        logging.getLogger("tuner").addHandler(self._warnings)

    def __call__(self, event: Event) -> None:
        """Take one event and show what it changes."""
        before = self._tally.best
        self._tally.take(event)
        self._view.update(event, new_best=self._tally.best != before)

    def close(self) -> None:
        """Leave the terminal as it was, the last view in place."""
        logging.getLogger("tuner").removeHandler(self._warnings)
        self._view.close()


class _Warnings(logging.Handler):
    """Hands warnings to `show`, as text."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())


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


def _view(stream: IO[str], tally: Tally, each: str, clock: Callable[[], float]) -> _Lines | _Live:
    if stream.isatty():
        from rich.console import Console

        console = Console(file=stream)
        if not console.is_dumb_terminal:
            return _Live(console, tally, each, clock)
    return _Lines(stream, tally)


class _Lines:
    """Plain lines: a new best and how it stands now and then, every warning, the end."""

    def __init__(self, stream: IO[str], tally: Tally) -> None:
        self._stream = stream
        self._tally = tally
        self._told: float | None = None  # when how it stands was last told, as was:
        self._best_told = -math.inf
        self._untold: Best | None = None

    def update(self, event: Event, *, new_best: bool) -> None:
        now = event["time"]
        if self._told is None:
            self._told = now
        if new_best:
            self._untold = self._tally.best
        over = event["event"] == EXPERIMENT_ENDED
        if self._untold and (over or now - self._best_told >= _BEST_EVERY_S):
            line = f"new {best_line(self._untold, self._tally.metric)}"
            self._print(f"{line}: {config_line(self._untold.config, _WIDTH)}")
            self._best_told, self._untold = now, None
        if over or now - self._told >= _LINE_EVERY_S:
            self._told = now
            self._print(self._standing(now))

    def warn(self, text: str) -> None:
        self._print(f"warning: {printable(text)}")

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

    def __init__(
        self, console: Console, tally: Tally, each: str, clock: Callable[[], float]
    ) -> None:
        from rich.live import Live

        self._tally = tally
        self._each = each
        self._clock = clock
        self._console = console
        self._warnings: deque[str] = deque(maxlen=_WARNINGS)
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=4,
            redirect_stdout=False,  # stdout is for data and may go elsewhere
        )
        self._live.start()

    def update(self, event: Event, *, new_best: bool) -> None:
        pass  # the view renews itself

    def warn(self, text: str) -> None:
        self._warnings.append(text)

    def close(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        return live_view(
            self._tally,
            now=self._clock(),
            each=self._each,
            warnings=tuple(self._warnings),
            width=self._console.width,
        )


def live_view(
    tally: Tally,
    *,
    now: float,
    each: str = "",
    warnings: Iterable[str] = (),
    width: int = _WIDTH,
) -> RenderableType:
    """The lines of the live view, each at most `width` characters, at most 80.

    each: what a trial reserves, in words.
    """
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        told = Text(text, style=style, no_wrap=True)
        told.truncate(width, overflow="ellipsis")
        return told

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
        lines.append(line(f"  {config_line(tally.best.config, width - 2)}", style="dim"))
    told = [(text, "") for text in _live_lines(tally, each, width)]
    told += [(text, "red") for text in _failed_lines(tally, width)]
    told += [(f"warning: {shorten(text, width - 9)}", "yellow") for text in warnings]
    return Group(*lines, *(line(text, style) for text, style in told))


def _live_lines(tally: Tally, each: str, width: int) -> Iterator[str]:
    """The trials that run: epoch, objective, config."""
    live = tally.live
    if live:
        yield f"running, each on {each}" if each else "running"
    for trial in live[:_LIVE]:
        value = "" if trial.value is None else f"{printable(tally.metric)} {number(trial.value)}"
        text = f"  {trial.trial_id}  epoch {trial.epoch:<4} {value}"
        yield f"{text:<46}  {config_line(trial.config, max(width - 48, 10))}".rstrip()
    if len(live) > _LIVE:
        yield f"  and {len(live) - _LIVE} more"


def _failed_lines(tally: Tally, width: int) -> Iterator[str]:
    """How many failed of which kind, and what the last ones said."""
    failed = tally.failed
    if failed:
        kinds = Counter(trial.kind for trial in failed)
        yield "failed: " + ", ".join(f"{n} {printable(kind)}" for kind, n in kinds.most_common())
    for trial in failed[-_FAILURES:]:
        head = f"  {trial.trial_id}  {printable(trial.kind)}: "
        yield head + shorten(trial.message, max(width - len(head), 10))
