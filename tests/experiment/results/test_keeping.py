"""A new name is that of the folder and of all that names the experiment."""

import json

import pytest
from confirmed import retrained, searched
from synthetic import Writer, make_folder

from tuner.errors import SpecError, UsageError
from tuner.experiment.journal import Journal
from tuner.experiment.results.confirmation import confirmation_of
from tuner.experiment.results.described import Described
from tuner.experiment.results.keeping import prunable, rename
from tuner.experiment.results.results import Results


def test_rename_changes_folder_and_spec(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5])
    writer.end()
    renamed = rename(Described(writer.folder), "mine")
    assert renamed.folder == tmp_path / "mine"
    assert not writer.folder.exists()
    results = Results(tmp_path / "mine")
    assert (results.name, results.spec.name, results.show()["name"]) == ("mine", "mine", "mine")
    assert json.loads((tmp_path / "mine" / "experiment.json").read_text())["spec"]["name"] == "mine"


def test_rename_to_an_invalid_name_is_refused(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.end()
    (tmp_path / "taken").mkdir()
    experiment = Described(writer.folder)
    with pytest.raises(UsageError, match="taken exists: give another name"):
        rename(experiment, "taken")
    with pytest.raises(SpecError, match=r"must be letters, digits"):
        rename(experiment, "../up")
    with Journal.open(writer.folder), pytest.raises(UsageError, match="is held by"):
        rename(experiment, "free")
    assert Results(writer.folder).name == "digits"


@pytest.mark.parametrize("name", ["digits", "digits-confirm"])
def test_rename_confirmed_or_confirming_experiment_is_refused(tmp_path, name):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    retrained(search, [[0.9, 0.8], [0.7, 0.6]])
    with pytest.raises(UsageError, match="has a confirmation or is one"):
        rename(Described(tmp_path / name), "other")
    assert confirmation_of(Results(search.folder))


def test_prunable_keeps_leaders_and_unfinished_trials(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    ends = ("completed", "completed", "stopped", "interrupted", None)
    for number, (value, end) in enumerate(zip((0.5, 0.9, 0.4, 0.3, 0.2), ends, strict=True)):
        writer.checkpoint(writer.trial(number, [value], end=end), 1, b"x" * 100)
    writer.trial(5, [0.1], error=("oom", "m"))
    writer.checkpoint("00005", 1)
    writer.kill()
    pruned = prunable(Results(writer.folder), keep=1)
    assert pruned.folders == {"trials/00000/checkpoints": 100, "trials/00002/checkpoints": 100}
    assert (pruned.freed, pruned.kept) == (200, ("00001", "00003", "00004", "00005"))
    assert prunable(Results(writer.folder), keep=9).folders == {}


def test_prunable_keeps_the_confirmed_model(tmp_path):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    confirming = retrained(search, [[0.85, 0.84], [0.9, 0.1]])  # the best model is not the leader's
    handed = confirmation_of(confirming).trial.trial_id
    assert confirming.get_best_trial().trial_id != handed
    assert handed in prunable(confirming, keep=1).kept
