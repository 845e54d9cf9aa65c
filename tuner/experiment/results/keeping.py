"""Renames an experiment, and lists the checkpoints that it no longer needs."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import UsageError
from tuner.experiment.events import COMPLETED, STOPPED
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.results.confirmation import confirmation_of, linked
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.spec.experiment import build_spec


@dataclass(frozen=True, slots=True)
class Pruned:
    """folders: of checkpoints to remove -> bytes. kept: ids of trials that keep theirs."""

    folders: dict[str, int]
    kept: tuple[str, ...]

    @property
    def freed(self) -> int:
        """Bytes."""
        return sum(self.folders.values())


def prunable(results: Results, *, keep: int) -> Pruned:
    """The checkpoints of ended trials that are not among the `keep` best.

    A resume's and a confirmation's are kept.
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
    """Rename the folder, and the spec in experiment.json.

    Raises SpecError for an invalid name, UsageError for a confirmed or confirming experiment, and
    as `ExperimentFolder.rename`.
    """
    spec = {**experiment.document["spec"], "name": name}
    build_spec(spec, "the new name")
    if experiment.is_confirmation or any(folder.exists() for folder in linked(experiment)):
        raise UsageError(f"{experiment.name} has a confirmation or is one: such keep their names")
    files = experiment.files.rename(name)
    files.write(EXPERIMENT, {**experiment.document, "spec": spec})
    return Described(files.path)
