"""A read-only view of an experiment's folder: status, best trial, checkpoints, data frames.

Reads experiment.json as plain JSON and the journal, and runs nothing that it finds there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import CheckpointError, NoUsableTrialError, UsageError
from tuner.places import shown, url_of
from tuner.record.checkpoints import Checkpoint, inside, verified
from tuner.record.events import FAILED, INTERRUPTED, RUNNING, TRIAL_STATUSES
from tuner.record.folder import EXPERIMENT, find_experiment, read_document
from tuner.record.history import TrialRecord, fold
from tuner.record.journal import is_driven, read, renew
from tuner.record.remote import mirror
from tuner.results.selection import MODES, best_epoch, check, mode_of, ranked
from tuner.wording import amount_of

if TYPE_CHECKING:
    import pandas as pd

COUNTED = ("completed", "stopped", "failed", "running", "interrupted")
assert set(COUNTED) == {*TRIAL_STATUSES, RUNNING}


class Results:
    """An experiment as its folder tells it, at the time of construction.

    `metric` and `mode` are the experiment's objective; wherever a method takes them, None means
    these. For another metric, mode None means what its name says (`selection.mode_of`). A trial
    or experiment that has not ended is "running" while a live driver holds the journal, else
    "interrupted".

    Raises UsageError for a folder that is no experiment, JournalError for a damaged journal.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        # Looked up first: a driver that ends meanwhile has then journaled its end.
        live = is_driven(self.folder)
        renew(self.folder)
        self.document = read_document(self.folder / EXPERIMENT)
        self.spec: dict[str, Any] = self.document["spec"]
        self.metric: str = self.spec["objective"]["metric"]
        self.mode: str = self.spec["objective"]["mode"]
        self.name = str(self.spec.get("name", self.folder.resolve().name))
        history = fold(read(self.folder))
        if not live:
            ended = {
                trial_id: replace(trial, status=INTERRUPTED)
                for trial_id, trial in history.trials.items()
                if trial.status == RUNNING
            }
            status = INTERRUPTED if history.status == RUNNING else history.status
            history = replace(history, status=status, trials=history.trials | ended)
        self.history = history

    def __repr__(self) -> str:
        return f"<Results of {self.name}: {self.status}, {amount_of(len(self.trials), 'trial')}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tuner.results.notebook import results_html

        return results_html(self)

    @property
    def status(self) -> str:
        """running, completed, interrupted or failed."""
        return self.history.status

    @property
    def seed(self) -> int | None:
        """What the trials trained with that have no seed of their own."""
        training = self.spec.get("training")
        own = training.get("seed") if isinstance(training, dict) else None
        found: int | None = self.spec.get("seed") if own is None else own
        return found

    @property
    def trials(self) -> dict[str, TrialRecord]:
        """Every trial by its id, in order of the ids."""
        return self.history.trials

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are completed, stopped, failed, running and interrupted."""
        found = Counter(trial.status for trial in self.trials.values())
        return {status: found[status] for status in COUNTED}

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics that any trial reported, sorted."""
        reports = (report for trial in self.trials.values() for report in trial.results)
        return sorted({name for report in reports for name in report.metrics})

    def trial(self, trial_id: str) -> TrialRecord:
        """The trial of this id, leading zeros optional; UsageError where there is none."""
        found = self.trials.get(trial_id)
        if found is None and trial_id.isascii() and trial_id.isdecimal():
            same = (t for t in self.trials.values() if int(t.trial_id) == int(trial_id))
            found = next(same, None)
        if found is None:
            ids = list(self.trials)
            has = f"its trials are {ids[0]} to {ids[-1]}" if ids else "it has no trials"
            raise UsageError(f"{self.name} has no trial {trial_id!r}; {has}")
        return found

    def log_path(self, trial: TrialRecord) -> Path:
        """Where the trial's own output is kept; it may be missing."""
        path = self.folder / "trials" / trial.trial_id / "log.txt"
        with suppress(OSError):  # as good as missing
            mirror.bring(path)
        return path

    def top(
        self,
        k: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "best",
    ) -> list[TrialRecord]:
        """The `k` best usable trials (None: all of them), best first; see `tuner.results.selection`.

        Raises UsageError for a metric that no trial reported, or an unknown mode or scope.
        """
        metric, mode = self._objective(metric, mode)
        return [t for _, t in ranked(self.trials.values(), metric, mode=mode, scope=scope)][:k]

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "best"
    ) -> TrialRecord:
        """The best usable trial: not failed, with a finite value; of equals the lower trial_id.

        `scope` is one of `tuner.results.selection.SCOPES`. Raises as `top` does, and NoUsableTrialError
        where no trial qualifies.
        """
        best = self.top(1, metric, mode, scope)
        if not best:
            raise NoUsableTrialError(
                f"{self.name} has no usable trial: {self._why_unusable(metric or self.metric)}"
            )
        return best[0]

    def best_epoch(
        self,
        trial: TrialRecord | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
    ) -> int:
        """The first epoch at which `trial` (None: the best one) had its best value of the metric.

        Raises NoUsableTrialError where the trial has no value of it.
        """
        metric, mode = self._objective(metric, mode)
        trial = trial or self.get_best_trial(metric, mode)
        epoch = best_epoch(trial.values(metric), mode=mode)
        if epoch is None:
            raise NoUsableTrialError(f"trial {trial.trial_id} never reported {metric!r}")
        return epoch

    def best_checkpoint(
        self,
        trial: TrialRecord | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
    ) -> Checkpoint:
        """The checkpoint of `trial` (None: the best one) at the best epoch that has one.

        Its bytes are read once, to compare their digest. Raises NoUsableTrialError where the
        trial kept no checkpoint, CheckpointError where the chosen one is missing, does not match
        its digest, or lies outside the experiment's folder.
        """
        metric, mode = self._objective(metric, mode)
        trial = trial or self.get_best_trial(metric, mode)
        kept = {record.epoch: record for record in trial.checkpoints}
        if not kept:
            raise NoUsableTrialError(f"trial {trial.trial_id} of {self.name} kept no checkpoint")
        values = ((epoch, value) for epoch, value in trial.values(metric) if epoch in kept)
        epoch = best_epoch(values, mode=mode)
        record = kept[max(kept) if epoch is None else epoch]
        return verified(self.folder, record, trial.trial_id)

    def best_json(
        self,
        trial: TrialRecord | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
    ) -> dict[str, Any]:
        """What `best --json` says of `trial` (None: the best one), at its best epoch.

        `checkpoint` is the path of that epoch's checkpoint, None where there is none.
        """
        metric, mode = self._objective(metric, mode)
        trial = trial or self.get_best_trial(metric, mode)
        epoch = self.best_epoch(trial, metric=metric, mode=mode)
        report = trial.report_at(epoch)
        return {
            "trial_id": trial.trial_id,
            "config": trial.config,
            "epoch": epoch,
            "metrics": report.metrics if report else {},
            "checkpoint": self._path_at(trial, epoch),
            "shown": "searched",
        }

    def show(self) -> dict[str, Any]:
        """What `show --json` says: name, status, counts, and the best trial or None."""
        best = self.best_json() if self._has_best() else None
        return {"name": self.name, "status": self.status, "counts": self.counts, "best": best}

    def dataframe(self, *, reports: bool = False) -> pd.DataFrame:
        """One row a trial; with `reports` one row a report, as `reports()` gives them.

        Columns: trial_id, status, seed (which it trained with), config/NAME (nested names joined
        by /), last/METRIC, and at the trial's best epoch by the objective best_epoch and
        best/METRIC; then epochs (the last one), started (UTC), duration_s (seconds it ran), error
        (the failure's kind).
        """
        if reports:
            return self.reports()
        from tuner.results.frames import trials_frame

        return trials_frame(
            self.trials.values(), metric=self.metric, mode=self.mode, seed=self.seed
        )

    def reports(self) -> pd.DataFrame:
        """One row a report: trial_id, epoch, time (UTC) and every metric."""
        from tuner.results.frames import reports_frame

        return reports_frame(self.trials.values())

    def export(
        self, to: Path | str, *, trial_id: str | None = None, formats: Collection[str] = ()
    ) -> Path:
        """Hand over a trial's best checkpoint (None: the best trial's); see `tuner.export`."""
        import tuner  # its face: the room that writes exports stands above this one

        folder: Path = tuner.export_model(self, to, trial_id=trial_id, formats=formats)
        return folder

    def _objective(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        """Metric and mode, with the objective's where they are None; UsageError if not served."""
        if mode is not None:
            check("mode", mode, MODES)
        if metric is None or metric == self.metric:
            return self.metric, mode or self.mode
        if self.metrics:
            check("metric", metric, self.metrics)
        return metric, mode or mode_of(metric)

    def _has_best(self) -> bool:
        return bool(ranked(self.trials.values(), self.metric, mode=self.mode, scope="best"))

    def _why_unusable(self, metric: str) -> str:
        if not self.trials:
            return "no trial has started"
        kinds = Counter(t.error.kind for t in self.trials.values() if t.error)
        reasons = [f"{count} failed ({kind})" for kind, count in kinds.most_common()]
        silent = sum(t.status != FAILED and not t.values(metric) for t in self.trials.values())
        if silent:
            reasons.append(f"{silent} without a value of {metric!r}")
        told = "" if metric in self.metrics else f"; metrics reported: {', '.join(self.metrics)}"
        return ", ".join(reasons) + (told if self.metrics else "")

    def _path_at(self, trial: TrialRecord, epoch: int) -> str | None:
        for record in reversed(trial.checkpoints):
            if record.epoch == epoch:
                try:
                    path = inside(self.folder, record.path)
                except CheckpointError:
                    return None
                return shown(path) if os.path.exists(path) or url_of(path) else None
        return None


def load_results(name: str | Path, storage: Path | str | None = None) -> Results:
    """The results of the experiment `name` under `storage`, or of a folder of that path.

    `storage` defaults to $TUNER_STORAGE, else ./results. Raises UsageError, with the nearest
    names that there are, for one that is not there.
    """
    return Results(find_experiment(name, storage))
