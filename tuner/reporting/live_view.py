"""The status of a search in numbers and words, and as a view of a few lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED, RUNNING, STOPPED
from tuner.experiment.history import History
from tuner.experiment.results.results import Results
from tuner.experiment.trials import Best
from tuner.reporting.control_text import format_answers, format_changes
from tuner.reporting.experiment_text import format_failures, format_gain
from tuner.spec.experiment import ExperimentSpec
from tuner.streams import create_console
from tuner.wording import (
    clean_text,
    format_config,
    format_duration,
    format_number,
    join_sections,
    shorten,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


_WIDTH = 80
_RUNNING_LINES = 8
_FAILED_LINES = 2  # at most, so that the view fits a small terminal
_STATUSES = (RUNNING, COMPLETED, STOPPED, FAILED, INTERRUPTED)


@dataclass(slots=True)
class Status:
    """The status of a search in numbers and words.

    spec: with the controls up to now. skipped: configs of its space that are left out.
    """

    history: History
    spec: ExperimentSpec
    skipped: int = 0
    _suggested: int | None = field(init=False)  # once, since a grid counts its cells

    def __post_init__(self) -> None:
        self.update_spec(self.spec, self.skipped)

    def update_spec(self, spec: ExperimentSpec, skipped: int = 0) -> None:
        self.spec = spec
        self.skipped = skipped
        self._suggested = spec.count_trials(skipped)

    @property
    def metric(self) -> str:
        return self.spec.objective.metric

    @property
    def leader(self) -> Best | None:
        """The best trial so far; of a refit None, since its value is the number of epochs."""
        return None if self.spec.refits else self.history.best

    @property
    def total(self) -> int | None:
        """How many trials there will be, or None if unknown."""
        return self.history.count_trials(self._suggested)

    def compute_elapsed_s(self, now: float) -> float:
        """Seconds of searching, over all drivers."""
        runs = self.history.runs
        return (
            self.history.duration_s + self._find_latest_time(now) - runs[-1].ended
            if runs
            else 0.0
        )

    def estimate_left_s(self, now: float) -> float | None:
        """An estimate of the seconds left, or None without a basis for it."""
        history = self.history
        budget_s = self.spec.time_budget_s
        if history.status != RUNNING or history.steered.paused:
            return None
        epochs = self._estimate_epochs_left()
        pace = history.pace
        estimates = []
        if epochs is not None and pace.first_trial is not None and pace.epochs:
            spent = max(0.0, self._find_latest_time(now) - pace.first_trial)
            estimates.append(epochs * spent / pace.epochs)
        if budget_s is not None and history.runs:
            spent = self._find_latest_time(now) - history.runs[-1].started
            estimates.append(max(0.0, budget_s - spent))
        return min(estimates, default=None)

    def _find_latest_time(self, now: float) -> float:
        """`now`, or the time of the last event if a clock is behind it."""
        runs = self.history.runs
        return max(now, runs[-1].ended) if runs else now

    def _estimate_epochs_left(self) -> float | None:
        """The epochs left, if each trial takes as many as those that have ended on average."""
        trials = list(self.history.trials.values())
        total = self.total
        ended = [
            trial.last_epoch for trial in trials if trial.status in (COMPLETED, STOPPED)
        ]
        length = sum(ended) / len(ended) if ended else self.spec.epochs
        if total is None or length is None:
            return None
        unfinished = [
            t.last_epoch for t in trials if t.status in (RUNNING, INTERRUPTED)
        ]
        waiting = max(0, total - len(trials))
        to_finish = sum(max(0.0, length - epoch) for epoch in unfinished)
        return waiting * length + to_finish

    def format_counts(self) -> str:
        """How many trials run, and how the others have ended."""
        counts = self.history.counts.copy()  # the live view has its own thread
        steered = self.history.steered
        states = {"paused": steered.paused, "ending as asked": steered.finishing}
        texts = [f"{counts[s]} {s}" for s in _STATUSES if counts[s] or s == RUNNING]
        texts += [state for state, is_so in states.items() if is_so]
        return ", ".join(texts)

    def format_times(self, now: float) -> str:
        """The elapsed time and, if it can be estimated, the time left."""
        left = self.estimate_left_s(now)
        suffix = "" if left is None else f", ~{format_duration(left)} left"
        return format_duration(self.compute_elapsed_s(now)) + suffix

    def format_best(self, best: Best) -> str:
        name = clean_text(self.metric)
        return f"best {name} {format_number(best.value)}, trial {best.trial_id}, epoch {best.epoch}"

    def format_config(self, best: Best, width: int) -> str:
        return format_config(self.history.trials[best.trial_id].config, width)

    def format_trials(self) -> str:
        total = "" if self.total is None else f"/{self.total}"
        return f"{self.history.ended_trials}{total} trials"


def build_live_view(status: Status, *, now: float, width: int) -> RenderableType:
    """The lines of the live view, each at most `width` characters, at most 80."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def build_line(text: str, style: str = "") -> Text:
        cut = Text(text, style=style, no_wrap=True)
        cut.truncate(width, overflow="ellipsis")
        return cut

    width = min(width, _WIDTH)
    history = status.history
    bar = ProgressBar(status.total, history.ended_trials, width=max(10, width - 58))
    head = Table.grid(padding=(0, 1))
    head.add_row(
        bar,
        build_line(status.format_trials()),
        build_line(status.format_times(now), style="cyan"),
    )
    lines: list[RenderableType] = [head, build_line(status.format_counts())]
    if (best := status.leader) is not None:
        lines.append(build_line(status.format_best(best), style="bold green"))
        lines.append(
            build_line(f"  {status.format_config(best, width - 2)}", style="dim")
        )
    lines += [build_line(text) for text in _format_running(status, width)]
    lines += [build_line(text, "red") for text in _format_failed(history, width)]
    return Group(*lines)


def _format_running(status: Status, width: int) -> Iterator[str]:
    running = status.history.list_by_status(RUNNING)
    if running:
        each = (
            ""
            if status.spec.is_elsewhere
            else f", each on {status.spec.resources.text}"
        )
        yield f"running{each}"
    for trial in running[:_RUNNING_LINES]:
        last = trial.results[-1].metrics.get(status.metric) if trial.results else None
        value = (
            "" if last is None else f"{clean_text(status.metric)} {format_number(last)}"
        )
        text = f"  {trial.trial_id}  epoch {trial.last_epoch:<4} {value}"
        config = format_config(trial.config, max(width - 48, 10))
        yield f"{text:<46}  {config}".rstrip()
    if len(running) > _RUNNING_LINES:
        yield f"  and {len(running) - _RUNNING_LINES} more"


def _format_failed(history: History, width: int) -> Iterator[str]:
    failed = [
        (t.trial_id, t.error)
        for t in history.list_by_status(FAILED)
        if t.error is not None
    ]
    if failed:
        kinds = Counter(error.kind for _, error in failed)
        yield "failed: " + ", ".join(
            f"{n} {clean_text(kind)}" for kind, n in kinds.most_common()
        )
    for trial_id, error in failed[-_FAILED_LINES:]:
        head = f"  {trial_id}  {clean_text(error.kind)}: "
        yield head + shorten(error.message, max(width - len(head), 10))


def format_status(results: Results, *, now: float) -> str:
    """The status of a running search: the live view, failures and controls; 80 columns."""
    history = results.history
    status = Status(history, results.spec.model_copy(update=history.steered.changes))
    console = create_console(
        sys.stdout, width=_WIDTH, color_system=None, force_terminal=False
    )
    with console.capture() as captured:
        console.print(f"{results.name}: {results.status_text}")
        console.print(build_live_view(status, now=now, width=_WIDTH))
    view = [line.rstrip() for line in captured.get().splitlines()]
    changes = format_changes(results.changes)
    controls = format_answers(history.steered.answers)
    sections = [view, format_gain(results), format_failures(results), changes, controls]
    return join_sections(sections)
