"""What is pruned: checkpoints that neither a resume nor whoever takes the best needs."""

from confirmed import retrained, searched
from synthetic import Writer, make_folder

from tuner.experiment.results.confirmation import confirmation_of
from tuner.experiment.results.pruning import prunable
from tuner.experiment.results.results import Results


def test_leaders_and_what_a_resume_needs_keep_theirs(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    for number, (value, end) in enumerate(
        [
            (0.5, "completed"),
            (0.9, "completed"),
            (0.4, "stopped"),
            (0.3, "interrupted"),
            (0.2, None),
        ]
    ):
        writer.checkpoint(writer.trial(number, [value], end=end), 1, b"x" * 100)
    writer.trial(5, [0.1], error=("oom", "m"))
    writer.checkpoint("00005", 1)
    writer.kill()
    pruned = prunable(Results(writer.folder), keep=1)
    assert pruned.folders == {"trials/00000/checkpoints": 100, "trials/00002/checkpoints": 100}
    assert (pruned.freed, pruned.kept) == (200, ("00001", "00003", "00004", "00005"))
    assert prunable(Results(writer.folder), keep=9).folders == {}


def test_what_a_confirmation_hands_over_stays(tmp_path):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    confirming = retrained(search, [[0.85, 0.84], [0.9, 0.1]])  # the best model is not the leader's
    handed = confirmation_of(confirming).trial.trial_id
    assert confirming.get_best_trial().trial_id != handed
    assert handed in prunable(confirming, keep=1).kept
