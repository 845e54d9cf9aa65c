"""Renames experiments, and finds checkpoints that may be pruned.

What a confirmation or a refit needs is neither renamed nor pruned.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tuner.errors import TunerError, UsageError
from tuner.experiment.events import COMPLETED, STOPPED
from tuner.experiment.files import EXPERIMENT, REFITTED
from tuner.experiment.results.confirmation import find_confirmation, find_linked_folders
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.spec.experiment import build_spec


def rename_experiment(experiment: Described, name: str) -> Described:
    """Rename the folder, and the spec in experiment.json.

    Raises SpecError for an invalid name, UsageError for an experiment that others name, and as
    `ExperimentFolder.rename`.
    """
    spec = {**experiment.document["spec"], "name": name}
    build_spec(spec, "the new name", recorded=True)
    if experiment.is_confirmation or any(
        folder.exists() for folder in find_linked_folders(experiment)
    ):
        raise UsageError(
            f"{experiment.name} has a confirmation or is one: such keep their names"
        )
    is_refitted = any(
        folder.exists() for folder in find_linked_folders(experiment, REFITTED)
    )
    if is_refitted or _is_handed_over(experiment):
        rule = (
            "has a refit that is handed over for it, or is one: such keep their names"
        )
        raise UsageError(f"{experiment.name} {rule}")
    files = experiment.files.rename(name)
    files.write(EXPERIMENT, {**experiment.document, "spec": spec})
    return Described(files.path)


def _is_handed_over(experiment: Described) -> bool:
    """Whether it is a refit that its search names."""
    search = experiment
    try:
        for key in ("refits", "confirms"):
            # Of a trial of the search, or of its confirmation
            if retrained := search.document["spec"].get(key):
                search = Described(search.folder.with_name(retrained["name"]))
    except (TunerError, ValueError, KeyError, TypeError):
        # Gone, or an edited experiment.json
        return False
    names = {folder.name for folder in find_linked_folders(search, REFITTED)}
    return search is not experiment and experiment.files.name in names


class Pruned(NamedTuple):
    """folders: of checkpoints to remove -> bytes. kept: ids of trials that keep theirs."""

    folders: dict[str, int]
    kept: tuple[str, ...]

    @property
    def freed(self) -> int:
        return sum(self.folders.values())


def find_prunable(results: Results, *, keep: int) -> Pruned:
    """The checkpoints of ended trials that are not among the `keep` best.

    A resume's and a confirmation's are kept.
    """
    leading = {trial.trial_id for trial in results.top(keep)}
    going = {
        t.trial_id
        for t in results.trials.values()
        if t.status not in (COMPLETED, STOPPED)
    }
    kept = {*leading, *going}
    if results.is_confirmation and (confirmation := find_confirmation(results)):
        kept.add(confirmation.trial.trial_id)
    removable = results.trials.keys() - kept
    folders: Counter[str] = Counter()
    for name, size in results.files.list_sizes().items():
        match name.split("/"):
            case ["trials", trial_id, "checkpoints", _, *_] if trial_id in removable:
                folders[f"trials/{trial_id}/checkpoints"] += size
    return Pruned(folders, tuple(sorted(kept, key=int)))
