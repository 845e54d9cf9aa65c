"""Which checkpoints of an experiment nobody needs: neither a resume nor whoever takes the best."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.experiment.events import COMPLETED, STOPPED
from tuner.experiment.results.confirmation import confirmation_of
from tuner.experiment.results.results import Results


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

    A trial that failed, or had not ended, keeps its own: a resume goes on from them. So does the
    one that a confirmation hands over. What lies below trials/ID/checkpoints counts, journaled or
    not.
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
