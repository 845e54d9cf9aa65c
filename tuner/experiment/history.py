"""The state of an experiment, folded from its journal one event at a time. Pure: no files, no
clock.
"""

from __future__ import annotations

import copy
import gc
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import fsum
from sys import intern
from typing import Any

from tuner.experiment.estimate import Curve, beats_default, build_curve
from tuner.experiment.events import (
    CHECKPOINT,
    COMPLETED,
    CONTROL,
    COUNTED,
    ENDED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    OF_TRIALS,
    RESULT,
    RUNNING,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.experiment.steered import REQUESTED, Steered
from tuner.experiment.trials import (
    Best,
    CheckpointRecord,
    Report,
    Run,
    TrialError,
    TrialRecord,
)
from tuner.spec.sections import Objective

DEFAULT_ID = "00000"  # the trial of the first of `points_to_evaluate`


@dataclass(slots=True)
class Pace:
    """Events since the driver's last start, for estimates of the time left.

    first_trial: when the first trial started. epochs: reported. side_by_side: most concurrent
    trials.
    """

    first_trial: float | None = None
    epochs: int = 0
    side_by_side: int = 0


class History:
    """An experiment's status, trials and times, up to the last applied event.

    objective: keeps `best` up to date; failed trials are left out, and reports beyond its limits.
    metrics: the only ones to keep, to save memory. images: how many the objective is measured on,
    as experiment.json has it under "validation".

    A trial without an end is "running" until a later `experiment_started`, then "interrupted". The
    last of several ends counts. runs: of each driver. ended_by, never_started: as in
    `experiment_ended`.
    """

    def __init__(
        self,
        objective: Objective | None = None,
        *,
        metrics: Collection[str] | None = None,
        images: object = None,
    ) -> None:
        self.status = RUNNING
        self.trials: dict[str, TrialRecord] = {}
        self.counts: Counter[str] = Counter()
        self.started: float | None = None
        self.ended: float | None = None
        self.ended_by: str | None = None
        self.never_started: int | None = None
        self.resumed = 0
        self.runs: list[Run] = []
        self.pace = Pace()
        self.leader: Best | None = None
        self.steered = Steered()
        self._objective = objective
        self._images = images
        self._sign = objective.sign if objective else 0
        self._metrics = None if metrics is None else frozenset(metrics)
        # Their journaled statuses, until they start again
        self._reopened: dict[str, str] = {}
        self._unshared: set[str] | None = None  # trials that no copy has; None: all

    @property
    def best(self) -> Best | None:
        """The best epoch of all trials: the leader's, or that of the default config.

        The default config is the best one unless the leader beats it. With several goals the leader
        is the best one, since the default config may be off the front.
        """
        leader = self.leader
        default = self.default
        objective = self._objective
        if (
            leader is None
            or default is None
            or default.best is None
            or objective is None
        ):
            return leader
        if objective.choose != "estimate" or objective.others:
            return leader
        estimates = leader.estimate, default.best.estimate
        is_beaten = beats_default(*estimates, objective.metric, self._images)
        return leader if is_beaten else default.best

    @property
    def default(self) -> TrialRecord | None:
        """The trial of the default config, the first of `points_to_evaluate`.

        None if there is none, or if it has failed or has no report that counts.
        """
        first = self.trials.get(DEFAULT_ID)
        if first is None or first.origin != "initial" or first.status == FAILED:
            return None
        return first if first.best else None

    @property
    def duration_s(self) -> float:
        """Seconds that a driver searched, without the gaps between an end and its resume."""
        return fsum(run.duration_s for run in self.runs)

    def find_searched_s(self, times: Iterable[float]) -> list[float]:
        """The seconds that a driver had searched by each of `times`, in seconds since the epoch."""
        starts = [run.started for run in self.runs]
        before = [0.0, *accumulate(run.duration_s for run in self.runs)]
        searched = []
        for time in times:
            number = bisect_right(starts, time) - 1
            within = (
                min(time - starts[number], self.runs[number].duration_s)
                if number >= 0
                else 0
            )
            searched.append(before[max(number, 0)] + within)
        return searched

    @property
    def ended_trials(self) -> int:
        return sum(self.counts[status] for status in ENDED)

    def count_trials(self, suggested: int | None) -> int | None:
        """All trials: the searcher's, at least `suggested`, and the users'. None if time alone ends
        it.
        """
        if suggested is None:
            return None
        begun = sum(trial.origin != REQUESTED for trial in list(self.trials.values()))
        return max(suggested, begun) + len(self.steered.tries)

    def summarize(self, suggested: int | None) -> dict[str, Any]:
        """The fields of `experiment_ended` beside its status. suggested: as for `total`."""
        gaps = (
            max(0.0, after.started - before.ended)
            for before, after in pairwise(self.runs)
        )
        counts = self.counts + Counter(self._reopened.values())
        counts[INTERRUPTED] -= len(self._reopened)
        best = None
        if self.best is not None and self._objective is not None:
            best = {
                "trial_id": self.best.trial_id,
                "config": self.trials[self.best.trial_id].config,
                "epoch": self.best.epoch,
                "metrics": {self._objective.metric: self.best.value},
            }
        return {
            "counts": {status: counts[status] for status in COUNTED},
            "best": best,
            "total": self.count_trials(suggested),
            "started": self.started,
            "idle_s": round(fsum(gaps), 6),
        }

    def sort_trials(self) -> None:
        """Bring the trials into the order of their ids."""
        self.trials = dict(sorted(self.trials.items(), key=lambda item: int(item[0])))

    def list_by_status(self, *statuses: str) -> list[TrialRecord]:
        """The trials of these statuses. Safe to call while another thread applies events."""
        return [
            trial for trial in list(self.trials.values()) if trial.status in statuses
        ]

    def copy(self) -> History:
        """The history up to now, which later events do not change.

        The two share each trial until one of them applies an event to it.
        """
        other = copy.copy(self)
        other.trials = dict(self.trials)
        for name in ("counts", "runs", "pace", "steered", "_reopened"):
            setattr(other, name, copy.deepcopy(getattr(self, name)))
        self._unshared = set()
        other._unshared = set()
        return other

    def apply(self, event: Event) -> None:
        """Take one event into account, oldest first. An unknown event changes nothing."""
        kind = event["event"]
        time = event["time"]
        if kind in OF_TRIALS:
            self._apply_to_trial(event, kind, time)
        elif kind == EXPERIMENT_STARTED:
            self.interrupt()
            self.runs.append(Run(time, time))
            self.pace = Pace()
            self.started = time if self.started is None else self.started
            self.resumed += event["resumed"]
            self.status = RUNNING
            self.ended = None
            self.ended_by = self.never_started = None
            self.steered.changes = {}
            self.steered.paused = None
        elif kind == CONTROL:
            self.steered.apply(event)
        elif kind == EXPERIMENT_ENDED:
            self.status = event["status"]
            self.ended = time
            self.ended_by = event.get("reason")
            self.never_started = event.get("never_started")
            unfinished = self.list_by_status(RUNNING, INTERRUPTED)
            if self.status == COMPLETED or (self.status == FAILED and not unfinished):
                self.steered.finishing = False
        else:
            return
        if self.runs:
            self.runs[-1].ended = time

    def _apply_to_trial(self, event: Event, kind: str, time: float) -> None:
        trial_id = event["trial_id"]
        trial = self.trials.get(trial_id)
        is_new = trial is None
        if trial is None:
            trial = self.trials[trial_id] = TrialRecord(trial_id, time)
            self.counts[RUNNING] += 1
        trial = self._unshare(trial)
        if kind == TRIAL_STARTED:
            self._start(trial, event, is_new=is_new)
        if trial.status == RUNNING and trial.runs:
            trial.runs[-1].ended = time
        if kind == RESULT:
            self._report(trial, event)
        elif kind == CHECKPOINT:
            record = CheckpointRecord(event["epoch"], event["path"], event["sha256"])
            trial.checkpoints.append(record)
            if event.get("metrics") is not None:
                self._replace_metrics(trial, event)
        elif kind == TRIAL_ENDED:
            self._end(trial, event)

    def drop_checkpoint(self, trial_id: str, epoch: int) -> None:
        """Forget the checkpoint of `epoch`: it was removed, as a newer or better one is kept."""
        trial = self.trials[trial_id]
        trial.checkpoints = [
            record for record in trial.checkpoints if record.epoch != epoch
        ]

    def reopen(self, trial_id: str) -> None:
        """Mark a completed trial as interrupted; `summarize` counts its journaled status."""
        journaled = self.trials[trial_id].status
        self._set_status(self.trials[trial_id], INTERRUPTED)
        self._reopened[trial_id] = journaled

    def compact_trial(self, trial_id: str) -> None:
        """Forget all but the best and the last report of a trial that does not go on."""
        trial = self.trials[trial_id]
        trial.checkpoints.clear()
        trial.curve = None
        if len(trial.results) > 1:
            best = trial.best and trial.best.epoch
            *earlier, last = trial.results
            trial.results = [
                *(report for report in earlier if report.epoch == best),
                last,
            ]

    def interrupt(self) -> None:
        """Mark what still counts as running as interrupted: the driver is gone."""
        if self.status == RUNNING:
            self.status = INTERRUPTED
        for trial in self.list_by_status(RUNNING):
            self._set_status(self._unshare(trial), INTERRUPTED)

    def _unshare(self, trial: TrialRecord) -> TrialRecord:
        """The trial, or in its place a copy if another history may have it."""
        if self._unshared is None or trial.trial_id in self._unshared:
            return trial
        self._unshared.add(trial.trial_id)
        self.trials[trial.trial_id] = trial.copy()
        return self.trials[trial.trial_id]

    def _start(self, trial: TrialRecord, event: Event, *, is_new: bool) -> None:
        time = event["time"]
        trial.runs.append(Run(time, time))
        trial.error = trial.ended = trial.ended_by = None
        trial.client = event.get("client")
        trial.client_left = False
        self._set_status(trial, RUNNING)
        if is_new:
            origin = event.get("origin")
            trial.config = event["config"]
            trial.origin = intern(origin) if isinstance(origin, str) else None
            trial.seed = event.get("seed")
        if self.pace.first_trial is None:
            self.pace.first_trial = time
        if self.counts[RUNNING] > self.pace.side_by_side:
            self.pace.side_by_side = self.counts[RUNNING]

    def _select_metrics(self, event: Event) -> dict[str, float]:
        reported: dict[str, float] = event["metrics"]
        if self._metrics is not None:
            return {name: reported[name] for name in self._metrics if name in reported}
        return reported

    def _replace_metrics(self, trial: TrialRecord, event: Event) -> None:
        """Give the report of an epoch that was run again the metrics of its new weights."""
        metrics = self._select_metrics(event)
        for index, report in enumerate(trial.results):
            if report.epoch == event["epoch"] and report.metrics != metrics:
                trial.results[index] = report._replace(metrics=metrics)
                self._find_best(trial)

    def _find_best(self, trial: TrialRecord) -> None:
        if self._objective is None:
            return
        trial.best = None
        trial.curve = build_curve(
            trial.list_counted_values(self._objective), self._objective
        )
        self._set_best(trial, trial.curve)
        self._find_best_of_all()

    def _find_best_of_all(self) -> None:
        self.leader = None
        for trial in self.trials.values():
            if trial.best is not None and trial.status != FAILED:
                self.leader = self._choose_better(self.leader, trial.best)

    def _report(self, trial: TrialRecord, event: Event) -> None:
        metrics = self._select_metrics(event)
        epoch = event["epoch"]
        trial.results.append(Report(epoch, event["time"], metrics))
        trial.done = event.get("done") is True
        self.pace.epochs += 1
        if self._objective is None or self._objective.metric not in metrics:
            return
        if not self._objective.can_be_best(epoch, metrics):
            return
        if trial.curve is None:
            trial.curve = Curve(self._objective)
        trial.curve.add(epoch, self._sign * metrics[self._objective.metric])
        self._set_best(trial, trial.curve)
        if trial.best is None or trial.status == FAILED:
            return
        was = self.leader
        if (
            was
            and was.trial_id == trial.trial_id
            and self._may_be_beaten(trial.best, was)
        ):
            self._find_best_of_all()
        else:
            self.leader = self._choose_better(was, trial.best)

    def _set_best(self, trial: TrialRecord, curve: Curve) -> None:
        """Set the trial's best epoch and what it is worth by its curve."""
        if curve.epoch is None or curve.loss is None or curve.estimate is None:
            return
        sign = self._sign
        value = sign * curve.loss
        estimate = sign * curve.estimate
        trial.best = Best(value, trial.trial_id, curve.epoch, estimate)

    def _end(self, trial: TrialRecord, event: Event) -> None:
        self._set_status(trial, event["status"])
        trial.ended = event["time"]
        trial.error = None
        trial.ended_by = event.get("control")
        trial.done = trial.done or event.get("done") is True
        trial.client_left |= trial.status == FAILED or trial.ended_by is not None
        if trial.status == FAILED:
            trial.error = TrialError(event["error"]["kind"], event["error"]["message"])

    def _is_better(self, new: Best, old: Best) -> bool:
        """The order of `Results.ranked`, without asking the objective a million times."""
        if new.estimate != old.estimate or self._objective is None:
            return self._sign * new.estimate < self._sign * old.estimate
        objective = self._objective
        ties = [self.trials[best.trial_id].break_tie(objective) for best in (new, old)]
        return ties[0] < ties[1]

    def _may_be_beaten(self, now: Best, was: Best) -> bool:
        """Whether the leader is worth less by its latest report, or has other goals' values now."""
        has_moved = (
            self._objective is not None
            and self._objective.others
            and now.epoch != was.epoch
        )
        return bool(has_moved) or self._is_better(was, now)

    def _choose_better(self, old: Best | None, new: Best) -> Best:
        """The better one; of one trial the newer one."""
        if old is None or old.trial_id == new.trial_id or self._is_better(new, old):
            return new
        return old

    def _set_status(self, trial: TrialRecord, status: str) -> None:
        if status == trial.status:
            return
        self._reopened.pop(trial.trial_id, None)
        self.counts[trial.status] -= 1
        self.counts[status] += 1
        had_failed = trial.status == FAILED
        trial.status = status
        if (
            status == FAILED
            and self.leader is not None
            and self.leader.trial_id == trial.trial_id
        ):
            self._find_best_of_all()
        elif had_failed and status != FAILED and trial.best is not None:
            # It counts again
            self.leader = self._choose_better(self.leader, trial.best)


@contextmanager
def pause_collector() -> Iterator[None]:
    """Pause the garbage collector, which takes a third of the time to fold 100,000 trials."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # What was made counts as old: else the next collection would look through all of it at once
        gc.freeze()
        gc.unfreeze()
        if enabled:
            gc.enable()


def fold(
    events: Iterable[Event],
    objective: Objective | None = None,
    *,
    images: object = None,
) -> History:
    """The history that `events`, oldest first, lead to; its trials in the order of their ids."""
    history = History(objective, images=images)
    with pause_collector():
        for event in events:
            history.apply(event)
        history.sort_trials()
    return history
