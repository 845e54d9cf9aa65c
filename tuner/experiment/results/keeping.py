"""Renames an experiment, and lists the checkpoints that it no longer needs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from tuner.errors import TunerError
from tuner.experiment.events import COMPLETED, STOPPED
from tuner.experiment.files import CONFIRMED, EXPERIMENT
from tuner.experiment.results.confirmation import confirmation_of, linked
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.spec.experiment import build_spec

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pruned:
    """folders: those of checkpoints to remove, relative to the experiment's, each with its bytes.

    kept: the ids of the trials that keep theirs.
    """

    folders: dict[str, int]
    kept: tuple[str, ...]

    @property
    def freed(self) -> int:
        """Bytes."""
        return sum(self.folders.values())


def prunable(results: Results, *, keep: int) -> Pruned:
    """The checkpoints of trials that have ended and are not among the `keep` best.

    Kept as well are those of trials that failed or had not ended, from which a resume goes on, and
    of the trial that a confirmation hands over.
    """
    leading = {trial.trial_id for trial in results.top(keep)}
    going = {t.trial_id for t in results.trials.values() if t.status not in (COMPLETED, STOPPED)}
    kept = {*leading, *going}
    if results.is_confirmation and (confirmation := confirmation_of(results)):
        kept.add(confirmation.trial.trial_id)
    folders: dict[str, int] = {}
    for name, size in results.files.sizes().items():
        top, trial_id, kind, *inner = [*name.split("/"), "", "", ""]
        is_known = trial_id in results.trials and trial_id not in kept
        if (top, kind) == ("trials", "checkpoints") and inner[0] and is_known:
            folder = f"trials/{trial_id}/checkpoints"
            folders[folder] = folders.get(folder, 0) + size
    return Pruned(folders, tuple(sorted(kept, key=int)))


def rename(experiment: Described, name: str) -> Described:
    """Rename an experiment that no driver has: its folder, its experiment.json, and the link
    between a search and what confirms it.

    Raises SpecError for an invalid name, and as `ExperimentFolder.rename` does.
    """
    old = experiment.files.name
    build_spec({**experiment.document["spec"], "name": name}, "the new name")
    confirming = linked(experiment)
    renamed = Described(experiment.files.rename(name, warn=_log.warning).path)
    _write(renamed, name=name)
    for folder in confirming:
        try:
            other = Described(folder)
        except TunerError:  # it is gone, and confirms nothing
            continue
        confirms = other.document["spec"].get("confirms")
        if isinstance(confirms, dict) and confirms.get("name") == old:
            _write(other, confirms={**confirms, "name": name})
    if renamed.is_confirmation:
        _follow(renamed, old, name)
    return Described(renamed.folder)


def _write(experiment: Described, **changes: Any) -> None:
    """Write experiment.json anew with some fields of its spec changed."""
    document = experiment.document
    changed = {**document, "spec": {**document["spec"], **changes}}
    experiment.files.write(EXPERIMENT, changed)


def _follow(confirmation: Described, old: str, name: str) -> None:
    """Let the search that a renamed experiment confirms name it."""
    searched = str(confirmation.document["spec"]["confirms"].get("name", ""))
    try:
        search = Described(confirmation.folder.with_name(searched))
    except (TunerError, ValueError):
        return
    names = [folder.name for folder in linked(search)]
    if old in names:
        new = [name if one == old else one for one in names]
        search.files.write(CONFIRMED, {"experiments": new})
