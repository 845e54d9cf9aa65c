"""Progress on stderr while a search runs: a live view in a terminal, else a line now and then."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tuner import process
from tuner.experiment.events import (
    COMPLETED,
    CONTROL,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    RUNNING,
    STOPPED,
    TRIAL_ENDED,
    Event,
)
from tuner.experiment.history import History
from tuner.experiment.trials import Best
from tuner.reporting.experiment_text import answer_text
from tuner.reporting.time_left import TimeLeft, done, elapsed_s
from tuner.wording import config_line, duration, number, printable, shorten

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LINE_EVERY_S = 30.0
_BEST_EVERY_S = 10.0  # in a fast search each of the first trials may be the best so far
# Lines at most, so that the view fits a small terminal
_RUNNING_LINES, _FAILURES = 8, 2
_MOST_MESSAGES = 3  # of failures, each shown whole when it first comes
_WIDTH = 80
_SHOWN = (RUNNING, COMPLETED, STOPPED, FAILED, INTERRUPTED)


class Progress:
    """An observer of events that shows how the search goes.

    history: the experiment's, up to the event that is being observed. each: what a trial reserves,
    in words. `stream` is stderr by default. clock: that of the events, by default the machine's.
    Warnings of tuner's own logger, and the first failures, are shown whole as they come.
    """

    def __init__(
        self,
        history: History,
        time_left: TimeLeft,
        *,
        metric: str,
        each: str = "",
        stream: IO[str] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._standing = Standing(history, time_left, metric, each)
        stream = stream or sys.stderr
        console = process.console(stream) if stream.isatty() else None
        self._view: _Lines | _Live
        if console is None or console.is_dumb_terminal:
            self._view = _Lines(stream, self._standing)
        else:
            self._view = _Live(console, self._standing, clock or time.time)
        self._warnings = _Warnings(self._view.show)
        self._failures: set[str] = set()
        logging.getLogger("tuner").addHandler(self._warnings)

    def __call__(self, event: Event) -> None:
        """Take one event and show what it changes."""
        self._view.update(event)
        if event["event"] == TRIAL_ENDED and event["status"] == FAILED:
            text = f"{event['error']['kind']}: {event['error']['message']}"
            if text not in self._failures and len(self._failures) < _MOST_MESSAGES:
                self._failures.add(text)
                self._view.show(f"trial {event['trial_id']} failed: {text}", "red")
        if event["event"] == CONTROL:
            self._view.show(answer_text(self._standing.history.steered.answers[-1]), "cyan")

    def expect(self, time_left: TimeLeft) -> None:
        """Estimate by this from now on."""
        self._standing.time_left = time_left

    def close(self) -> None:
        """Leave the terminal as it was, the last view in place."""
        logging.getLogger("tuner").removeHandler(self._warnings)
        self._view.close()


class _Warnings(logging.Handler):
    """Hands warnings to `show`, as text and its style."""

    def __init__(self, show: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(f"warning: {record.getMessage()}", "yellow")


@dataclass(slots=True)
class Standing:
    """How a search stands, in words. metric: the objective's. each: what a trial reserves."""

    history: History
    time_left: TimeLeft
    metric: str
    each: str = ""

    def counts(self) -> str:
        """How many trials run and how the others ended, those with none left out."""
        counts = self.history.counts.copy()  # the view renders in a thread of its own
        steered = self.history.steered
        states = {"paused": steered.paused, "ending as asked": steered.finishing}
        texts = [f"{counts[s]} {s}" for s in _SHOWN if counts[s] or s == RUNNING]
        return ", ".join([*texts, *(word for word, is_so in states.items() if is_so)])

    def times(self, now: float) -> str:
        """The time spent and, as far as it can be estimated, left."""
        left = self.time_left.seconds(self.history, now)
        rest = "" if left is None else f", ~{duration(left)} left"
        return duration(elapsed_s(self.history, now)) + rest

    def best(self, best: Best) -> str:
        """The best value, and which trial had it."""
        name = printable(self.metric)
        return f"best {name} {number(best.value)}, trial {best.trial_id}, epoch {best.epoch}"

    def config(self, best: Best, width: int) -> str:
        """The config of the best trial in at most `width` characters."""
        return config_line(self.history.trials[best.trial_id].config, width)

    def trials(self) -> str:
        """How many trials are over, and of how many."""
        total = "" if self.time_left.total is None else f"/{self.time_left.total}"
        return f"{done(self.history)}{total} trials"


class _Lines:
    """Plain lines: a new best and how it stands now and then, warnings and failures, the end."""

    def __init__(self, stream: IO[str], standing: Standing) -> None:
        self._stream = stream
        self._standing = standing
        self._printed_at: float | None = None  # when a line was last printed
        self._best_printed_at = -math.inf
        self._printed_best = standing.history.best  # of the runs before a resume: not news

    def update(self, event: Event) -> None:
        now, best = event["time"], self._standing.history.best
        if self._printed_at is None:
            self._printed_at = now
            if event["event"] == EXPERIMENT_STARTED:
                self._printed_best = best
        over = event["event"] == EXPERIMENT_ENDED
        is_news = best is not None and best != self._printed_best
        if best and is_news and (over or now - self._best_printed_at >= _BEST_EVERY_S):
            config = self._standing.config(best, _WIDTH)
            self._print(f"new {self._standing.best(best)}: {config}")
            self._best_printed_at, self._printed_best = now, best
        if over or now - self._printed_at >= _LINE_EVERY_S:
            self._printed_at = now
            standing = self._standing
            suffix = f"; {standing.best(best)}" if best else ""
            line = f"{standing.times(now)}: {standing.trials()}: {standing.counts()}{suffix}"
            self._print(line)

    def show(self, text: str, style: str) -> None:
        self._print(text)

    def close(self) -> None:
        pass

    def _print(self, line: str) -> None:
        print(printable(line), file=self._stream, flush=True)


class _Live:
    """A view of a few lines that stays at the bottom of the terminal and renews itself.

    Warnings and failures scroll away above it.
    """

    def __init__(self, console: Console, standing: Standing, clock: Callable[[], float]) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(
            console=console,
            get_renderable=lambda: live_view(standing, now=clock(), width=console.width),
            refresh_per_second=4,
            redirect_stdout=False,  # stdout is for data and may go elsewhere
        )
        self._live.start()

    def update(self, event: Event) -> None:
        pass  # the view renews itself

    def show(self, text: str, style: str) -> None:
        from rich.text import Text

        self._console.print(Text(printable(text), style))

    def close(self) -> None:
        self._live.stop()


def live_view(standing: Standing, *, now: float, width: int = _WIDTH) -> RenderableType:
    """The lines of the live view, each at most `width` characters, at most 80."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        cut = Text(text, style=style, no_wrap=True)
        cut.truncate(width, overflow="ellipsis")
        return cut

    width, history = min(width, _WIDTH), standing.history
    head = Table.grid(padding=(0, 1))
    head.add_row(
        ProgressBar(
            total=standing.time_left.total, completed=done(history), width=max(10, width - 58)
        ),
        line(standing.trials()),
        line(standing.times(now), style="cyan"),
    )
    lines: list[RenderableType] = [head, line(standing.counts())]
    if (best := history.best) is not None:
        lines.append(line(standing.best(best), style="bold green"))
        lines.append(line(f"  {standing.config(best, width - 2)}", style="dim"))
    lines += [line(text) for text in _running_lines(standing, width)]
    lines += [line(text, "red") for text in _failed_lines(history, width)]
    return Group(*lines)


def _running_lines(standing: Standing, width: int) -> Iterator[str]:
    """The trials that run: epoch, objective, config."""
    running = standing.history.of_status(RUNNING)
    if running:
        yield f"running, each on {standing.each}" if standing.each else "running"
    for trial in running[:_RUNNING_LINES]:
        last = trial.results[-1].metrics.get(standing.metric) if trial.results else None
        value = "" if last is None else f"{printable(standing.metric)} {number(last)}"
        text = f"  {trial.trial_id}  epoch {trial.last_epoch:<4} {value}"
        yield f"{text:<46}  {config_line(trial.config, max(width - 48, 10))}".rstrip()
    if len(running) > _RUNNING_LINES:
        yield f"  and {len(running) - _RUNNING_LINES} more"


def _failed_lines(history: History, width: int) -> Iterator[str]:
    """How many failed of which kind, and the last ones' messages."""
    errors = [(trial.trial_id, trial.error) for trial in history.of_status(FAILED)]
    failed = [(trial_id, error) for trial_id, error in errors if error is not None]
    if failed:
        kinds = Counter(error.kind for _, error in failed)
        yield "failed: " + ", ".join(f"{n} {printable(kind)}" for kind, n in kinds.most_common())
    for trial_id, error in failed[-_FAILURES:]:
        head = f"  {trial_id}  {printable(error.kind)}: "
        yield head + shorten(error.message, max(width - len(head), 10))
