"""Which checkpoints stay: of each trial the newest and the best; the rest is removed.

An observer of events, so it removes only what the journal has outlived: a checkpoint that is
written but not yet journaled is never touched, whenever the search is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tuner.errors import CheckpointError
from tuner.record.checkpoints import inside
from tuner.record.events import CHECKPOINT, RESULT, Event
from tuner.record.history import TrialRecord
from tuner.record.remote.sync import InPlace
from tuner.results.selection import best_epoch


class Retention:
    """Removes checkpoints in `folder` as newer and better ones are journaled.

    metric, mode: the objective that decides which is the best. `earlier` are the trials of the
    runs before a resume. remove: removes a checkpoint's folder for good.
    """

    def __init__(
        self,
        folder: Path,
        *,
        metric: str,
        mode: str,
        earlier: Mapping[str, TrialRecord],
        remove: Callable[[Path], object] = InPlace.remove,
    ) -> None:
        self._folder = folder
        self._metric = metric
        self._mode = mode
        self._remove_folder = remove
        self._values: dict[str, dict[int, float]] = {}
        self._kept: dict[str, dict[int, str]] = {}  # trial_id -> epoch -> path
        for trial in earlier.values():
            self._values[trial.trial_id] = dict(trial.values(metric))
            self._kept[trial.trial_id] = {c.epoch: c.path for c in trial.checkpoints}

    def __call__(self, event: Event) -> None:
        """Take one event; a checkpoint's makes older ones of its trial go."""
        if event["event"] == RESULT:
            values = self._values.setdefault(event["trial_id"], {})
            values[event["epoch"]] = event["metrics"][self._metric]
        elif event["event"] == CHECKPOINT:
            kept = self._kept.setdefault(event["trial_id"], {})
            kept[event["epoch"]] = event["path"]
            self._prune(kept, event["epoch"], self._values.get(event["trial_id"], {}))

    def _prune(self, kept: dict[int, str], newest: int, values: Mapping[int, float]) -> None:
        best = best_epoch(((e, v) for e, v in values.items() if e in kept), mode=self._mode)
        for epoch in kept.keys() - {newest, best}:
            self._remove(kept.pop(epoch), epoch)

    def _remove(self, path: str, epoch: int) -> None:
        try:
            target = inside(self._folder, path)
        except CheckpointError:
            return  # a journal that someone has edited: nothing outside is touched
        # trials/ID/checkpoints/EPOCH, whether the path names it or the file in it
        names = target.relative_to(self._folder).parts
        if names[0] == "trials" and names[2:4] == ("checkpoints", str(epoch)):
            self._remove_folder(self._folder.joinpath(*names[:4]))
